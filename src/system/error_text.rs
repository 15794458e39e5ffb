//! The text of an operating system error, as part of a sentence.

use std::io;

/// Returns the error's text in lower case, without the number that Rust adds.
pub(crate) fn error_text(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(error_text(&io::Error::from_raw_os_error(libc::ENOSPC)), "no space left on device");
        assert_eq!(error_text(&io::Error::other("Some words")), "some words");
    }
}
