//! The text of an operating system error, as part of a sentence.

use std::io;

use crate::text::begin_lowercase;

/// Returns the error's text, which begins in lower case, without the number that Rust adds.
pub(crate) fn error_text(error: &io::Error) -> String {
    begin_lowercase(error.to_string().split(" (os error").next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(error_text(&io::Error::from_raw_os_error(libc::ENOSPC)), "no space left on device");
        assert_eq!(error_text(&io::Error::other("Some words of TLS")), "some words of TLS");
    }
}
