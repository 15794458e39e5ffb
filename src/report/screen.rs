//! The device that output goes to: a terminal of some width, with or without colours, or a program.

use std::env;
use std::io::{IsTerminal, stdout};

/// The device that stdout leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    /// The terminal's width in columns; `None` without a terminal, where lines are never cut.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
}

/// The meaning of a text, shown as a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Heading,
    Good,
    Bad,
    /// Failed, or needs attention.
    Warning,
    /// In progress.
    Live,
    /// Unimportant.
    Faint,
}

/// The width of a terminal that does not report one.
const DEFAULT_WIDTH: usize = 80;

impl Screen {
    /// Returns the device that stdout leads to.
    pub(crate) fn for_stdout() -> Self {
        let terminal = stdout().is_terminal();
        let size = terminal_size::terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0));
        let variable = |name| env::var_os(name).unwrap_or_default().into_string().unwrap_or_default();
        Self {
            width: terminal.then(|| size.filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)),
            colour: terminal && has_colours(&variable("NO_COLOR"), &variable("TERM")),
        }
    }

    /// Returns the number of lines of the terminal on stdout.
    pub(crate) fn height() -> Option<usize> {
        let height = terminal_size::terminal_size_of(stdout()).map(|(_, height)| usize::from(height.0));
        height.filter(|height| *height > 0)
    }

    /// Returns the text in the colour of its meaning.
    pub(crate) fn painted(&self, text: &str, paint: Paint) -> String {
        match paint.code().filter(|_| self.colour && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

/// Returns whether to use colours on a terminal of this kind.
fn has_colours(no_color: &str, term: &str) -> bool {
    no_color.is_empty() && !matches!(term, "" | "dumb")
}

impl Paint {
    /// Returns the escape sequence of the colour. The colours are of the 256 that can be read on black and on white.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Heading => Some("1"),
            Self::Good => Some("38;5;28"),
            Self::Bad => Some("1;38;5;160"),
            Self::Warning => Some("38;5;130"),
            Self::Live => Some("38;5;31"),
            Self::Faint => Some("2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them_and_people_who_want_them() {
        assert!(has_colours("", "xterm-256color"));
        assert!(!has_colours("1", "xterm"));
        assert!(!has_colours("", "dumb"));
        assert!(!has_colours("", ""));
        let plain = Screen { width: Some(80), colour: false };
        assert_eq!(plain.painted("a", Paint::Bad), "a");
        assert_eq!(Screen { colour: true, ..plain }.painted("a", Paint::Bad), "\x1b[1;38;5;160ma\x1b[0m");
        assert_eq!(Screen { colour: true, ..plain }.painted("a", Paint::Plain), "a");
    }

    /// Returns the contrast of WCAG between a colour of xterm's cube and a background.
    fn contrast(colour: u32, background: f64) -> f64 {
        let level = |digit: u32| if digit == 0 { 0.0 } else { f64::from(55 + 40 * digit) / 255.0 };
        let linear = |level: f64| if level <= 0.03928 { level / 12.92 } else { ((level + 0.055) / 1.055).powf(2.4) };
        let index = colour - 16;
        let [red, green, blue] = [index / 36, index / 6 % 6, index % 6].map(|digit| linear(level(digit)));
        let luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        (luminance.max(background) + 0.05) / (luminance.min(background) + 0.05)
    }

    #[test]
    fn every_colour_can_be_read_on_black_and_on_white() {
        for paint in [Paint::Good, Paint::Bad, Paint::Warning, Paint::Live] {
            let colour = paint.code().unwrap().rsplit(';').next().unwrap().parse().unwrap();
            // Large text needs 3, and bold text counts as large.
            assert!(contrast(colour, 0.0) > 3.5 && contrast(colour, 1.0) > 3.5, "{paint:?}");
        }
    }
}
