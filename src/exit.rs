//! The ends of a run and their exit codes: the only place with the numbers, and with their text for `--help`, the man pages and
//! docs/reference.md.

use crate::system::Signal;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The job exited with this code.
    Exited(u8),
    /// This signal killed the job.
    Killed(Signal),
    /// Another owner holds the lock, or the backend cannot be asked and that counts as held.
    Skipped,
    /// This signal stopped shedlock before the job ran.
    Stopped(Signal),
    /// The lock was lost while the job ran, and the job was stopped.
    Lost,
    /// The job was stopped because at-most was reached.
    Expired,
    /// Shedlock failed before the job ran.
    Failed,
    /// The command cannot be executed.
    CannotExecute,
    /// The command was not found.
    NotFound,
}

/// The exit of shedlock's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// The signal to raise instead of exiting, where possible, so that a shell's loop stops at ^C.
    pub(crate) raise: Option<Signal>,
}

/// The answer is no, or the request is refused.
pub(crate) const NO: u8 = 1;
const LOST: u8 = 123;
const EXPIRED: u8 = 124;
/// The code of an error in usage, configuration or backend.
pub(crate) const FAILED: u8 = 125;
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

impl ExitReason {
    /// Returns the exit of the process; `conflict` is the code for a held lock.
    pub(crate) fn exit(self, conflict: u8) -> Exit {
        let code = match self {
            Self::Exited(code) => code,
            Self::Killed(signal) | Self::Stopped(signal) => u8::try_from(128 + signal.number()).unwrap_or(FAILED),
            Self::Skipped => conflict,
            Self::Lost => LOST,
            Self::Expired => EXPIRED,
            Self::Failed => FAILED,
            Self::CannotExecute => CANNOT_EXECUTE,
            Self::NotFound => NOT_FOUND,
        };
        let raise = match self {
            Self::Killed(signal) | Self::Stopped(signal) if matches!(signal, Signal::INT | Signal::QUIT) => {
                Some(signal)
            }
            _ => None,
        };
        Exit { code, raise }
    }
}

/// A row of the table of exit codes.
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) when: &'static str,
}

/// The exit codes of `shedlock run`.
pub(crate) const TABLE: [Row; 7] = [
    Row { code: "the job's own", when: "the job ran and exited" },
    Row {
        code: "128+n",
        when: "signal n killed the job, or stopped shedlock while it waited; for INT and QUIT shedlock raises the signal on itself, so that an interactive loop stops",
    },
    Row {
        code: "0, or -E N",
        when: "another owner holds the lock, and the job was not run; 75 is a good N for scripts",
    },
    Row { code: "123", when: "the lock was lost while the job ran, and shedlock stopped the job" },
    Row { code: "124", when: "--at-most was reached, and shedlock stopped the job" },
    Row { code: "125", when: "shedlock itself failed before the job ran: usage, configuration or backend" },
    Row { code: "126, 127", when: "the command cannot be executed (126), or was not found (127)" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_the_code_of_the_manual() {
        for (outcome, code) in [
            (ExitReason::Exited(0), 0),
            (ExitReason::Exited(255), 255),
            (ExitReason::Killed(Signal::KILL), 137),
            (ExitReason::Stopped(Signal::TERM), 143),
            (ExitReason::Killed(Signal::from_number(64)), 192),
            (ExitReason::Skipped, 75),
            (ExitReason::Lost, 123),
            (ExitReason::Expired, 124),
            (ExitReason::Failed, 125),
            (ExitReason::CannotExecute, 126),
            (ExitReason::NotFound, 127),
        ] {
            assert_eq!(outcome.exit(75).code, code, "{outcome:?}");
        }
    }

    #[test]
    fn only_int_and_quit_are_raised() {
        assert_eq!(ExitReason::Killed(Signal::INT).exit(0).raise, Some(Signal::INT));
        assert_eq!(ExitReason::Stopped(Signal::QUIT).exit(0).raise, Some(Signal::QUIT));
        assert_eq!(ExitReason::Killed(Signal::TERM).exit(0).raise, None);
        assert_eq!(ExitReason::Exited(130).exit(0).raise, None);
    }

    #[test]
    fn the_table_names_every_number() {
        let codes = TABLE.map(|row| row.code).join(" ");
        for number in [LOST, EXPIRED, FAILED, CANNOT_EXECUTE, NOT_FOUND] {
            assert!(codes.contains(&number.to_string()), "{number}");
        }
    }
}
