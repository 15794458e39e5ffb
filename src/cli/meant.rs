//! Options of `run` that have another meaning or default with another command.

use super::options::{BACKEND, Kind, LOCK, Opt, Place, WAITING};

const fn of_run(
    long: &'static str,
    kind: Kind,
    default: &'static str,
    heading: &'static str,
    help: &'static str,
) -> Opt {
    Opt { long, short: None, kind, default, place: Place::Anywhere, heading, help }
}

/// `acquire` has no job, and whoever asks it has to see from the exit code whether the lock is theirs.
pub(super) const TO_ACQUIRE: &[Opt] = &[
    of_run(
        "at-most",
        Kind::Value("DURATION"),
        "",
        LOCK,
        "The longest the lock is held, at least 1s. Required, here or in a file",
    ),
    of_run(
        "at-least",
        Kind::Value("DURATION"),
        "0",
        LOCK,
        "The shortest the lock stays held, counted from when it was taken, even if it is given back sooner. No more than --at-most",
    ),
    Opt {
        short: Some('E'),
        ..of_run(
            "conflict-exit-code",
            Kind::Value("N"),
            "1",
            WAITING,
            "The exit code when the lock is held by another; not 0",
        )
    },
    of_run(
        "on-backend-error",
        Kind::Choice(&["fail", "skip"]),
        "fail",
        BACKEND,
        "When the backend cannot be asked: fail with 125, or exit as if the lock was held, with a warning",
    ),
];
