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

/// Options of `acquire`: it has no job, and its exit code must tell the script whether it got the lock.
pub(super) const TO_ACQUIRE: &[Opt] = &[
    of_run(
        "at-most",
        Kind::Value("DURATION"),
        "",
        LOCK,
        "The longest time that the lock is held, at least 1s. Required, here or in a file",
    ),
    of_run(
        "at-least",
        Kind::Value("DURATION"),
        "0",
        LOCK,
        "Keep the lock for at least DURATION after it was taken, even if it is released sooner. No more than --at-most",
    ),
    Opt {
        short: Some('E'),
        ..of_run(
            "conflict-exit-code",
            Kind::Value("N"),
            "1",
            WAITING,
            "Exit with N when another owner holds the lock; not 0",
        )
    },
    of_run(
        "on-backend-error",
        Kind::Choice(&["fail", "skip"]),
        "fail",
        BACKEND,
        "What to do when the backend cannot be asked: fail with 125, or exit as if the lock were held, with a warning",
    ),
];
