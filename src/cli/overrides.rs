//! Options of `run` that have another meaning or default with another command.

use super::options::{LOCK, Opt, OptionKind, Scope, TIME, TROUBLE};

const fn option(
    long: &'static str,
    kind: OptionKind,
    default: &'static str,
    heading: &'static str,
    help: &'static str,
) -> Opt {
    Opt { long, short: None, kind, default, scope: Scope::Files, heading, help }
}

/// Options of `acquire`: it has no job, and its exit code must tell the script whether it got the lock.
pub(super) const FOR_ACQUIRE: &[Opt] = &[
    option(
        "at-most",
        OptionKind::Value("DURATION"),
        "",
        TIME,
        "Time limit of the lock (required). At least 1s. Can be set in a file",
    ),
    option(
        "at-least",
        OptionKind::Value("DURATION"),
        "0",
        TIME,
        "Keep the lock this long even if released sooner. It counts from when the lock was taken. No more than --at-most",
    ),
    Opt {
        short: Some('E'),
        ..option(
            "conflict-exit-code",
            OptionKind::Value("N"),
            "1",
            LOCK,
            "Exit code if the lock is held. It cannot be 0",
        )
    },
    option(
        "on-backend-error",
        OptionKind::Choice(&["fail", "skip"]),
        "fail",
        TROUBLE,
        "When the backend does not answer. `fail` exits with 125; `skip` exits as if the lock were held, with a warning",
    ),
];
