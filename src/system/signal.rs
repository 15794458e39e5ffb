//! A signal as a value: its number, its names, and its default action.

use std::fmt;

use nix::libc;

/// A signal's number, including real-time signals, which most libraries have no variant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal(i32);

/// The largest signal number on Linux.
const LAST: i32 = 64;
/// The first real-time signal that programs may use; the C library keeps 32 and 33.
const FIRST_REAL_TIME: i32 = 34;

impl Signal {
    pub(crate) const HUP: Self = Self(libc::SIGHUP);
    pub(crate) const INT: Self = Self(libc::SIGINT);
    pub(crate) const QUIT: Self = Self(libc::SIGQUIT);
    pub(crate) const KILL: Self = Self(libc::SIGKILL);
    pub(crate) const PIPE: Self = Self(libc::SIGPIPE);
    pub(crate) const TERM: Self = Self(libc::SIGTERM);
    pub(crate) const CHLD: Self = Self(libc::SIGCHLD);
    pub(crate) const CONT: Self = Self(libc::SIGCONT);
    pub(crate) const STOP: Self = Self(libc::SIGSTOP);
    pub(crate) const TSTP: Self = Self(libc::SIGTSTP);
    pub(crate) const TTIN: Self = Self(libc::SIGTTIN);
    pub(crate) const TTOU: Self = Self(libc::SIGTTOU);
    #[cfg(test)]
    pub(crate) const USR1: Self = Self(libc::SIGUSR1);
    pub(crate) const XFSZ: Self = Self(libc::SIGXFSZ);
    pub(crate) const WINCH: Self = Self(libc::SIGWINCH);

    /// Creates a signal from a number that the kernel returned.
    pub(crate) const fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// Parses `TERM`, `SIGTERM`, `term`, `15`, `RTMIN+1`; the error is the end of a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let number = if let Ok(number) = name.parse::<i32>() {
            number
        } else if let Some(offset) = name.strip_prefix("RTMIN") {
            FIRST_REAL_TIME + offset_of(offset)
        } else if let Some(offset) = name.strip_prefix("RTMAX") {
            LAST + offset_of(offset)
        } else {
            NAMES.iter().find(|(known, _)| *known == name).map_or(0, |(_, number)| *number)
        };
        if matches!(number, 1..32 | FIRST_REAL_TIME..=LAST) {
            Ok(Self(number))
        } else {
            Err(format!("`{text}` is not a signal; write a name such as TERM, INT or USR1, or its number"))
        }
    }

    pub(crate) const fn number(self) -> i32 {
        self.0
    }

    /// Returns whether the default action is to end the process, with or without a core dump.
    pub(crate) const fn terminates(self) -> bool {
        !matches!(
            self.0,
            libc::SIGCHLD
                | libc::SIGCONT
                | libc::SIGSTOP
                | libc::SIGTSTP
                | libc::SIGTTIN
                | libc::SIGTTOU
                | libc::SIGURG
                | libc::SIGWINCH
        )
    }

    /// Returns whether the default action is to stop the process.
    pub(crate) const fn stops(self) -> bool {
        matches!(self.0, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
    }

    /// Returns whether people and service managers send it for an orderly stop.
    pub(crate) const fn asks_to_stop(self) -> bool {
        matches!(self.0, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM)
    }

    /// Returns every signal that can be blocked and waited for.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (1..32).chain(FIRST_REAL_TIME..=LAST).filter(|n| !matches!(*n, libc::SIGKILL | libc::SIGSTOP)).map(Self)
    }
}

/// Parses the `+1` of `RTMIN+1`; for invalid text returns a number outside the range of signals.
fn offset_of(text: &str) -> i32 {
    if text.is_empty() { 0 } else { text.parse::<i8>().map_or(1000, i32::from) }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => write!(f, "SIG{name}"),
            None if self.0 >= FIRST_REAL_TIME => write!(f, "SIGRTMIN+{}", self.0 - FIRST_REAL_TIME),
            None => write!(f, "signal {}", self.0),
        }
    }
}

const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_named_with_or_without_sig_or_by_number() {
        for text in ["TERM", "SIGTERM", "term", "SigTerm", "15", " 15 "] {
            assert_eq!(Signal::parse(text), Ok(Signal::TERM), "{text}");
        }
        assert_eq!(Signal::parse("RTMIN+1").unwrap().number(), 35);
        assert_eq!(Signal::parse("SIGRTMAX-2").unwrap().number(), 62);
        assert_eq!(Signal::parse("RTMIN").unwrap().to_string(), "SIGRTMIN+0");
        assert_eq!(Signal::parse("11").unwrap().to_string(), "SIGSEGV");
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in ["", "0", "-9", "32", "65", "TERMINATE", "SIG", "RTMIN+99", "RTMINx", "RTMAX+1"] {
            assert!(Signal::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_signal_but_two_can_be_waited_for() {
        assert_eq!(Signal::all().count(), 31 - 2 + 31);
    }
}
