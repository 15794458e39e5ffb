//! The table of the commands beside `run`, with their arguments and options. They share options of `run` by naming them.

use super::meant::TO_ACQUIRE;
use super::options::{Kind, Opt, Place};

/// A command beside `run`.
pub(crate) struct Sub {
    pub(crate) name: &'static str,
    /// The purpose, in one line without a full stop.
    pub(crate) about: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) words: &'static [Word],
    /// Its own options, which have no variables and no keys in the files.
    pub(crate) own: &'static [Opt],
    /// The options shared with `run`, by their long names, with their variables and keys.
    pub(crate) shared: &'static [&'static str],
    /// Shared options that have another meaning or default here.
    pub(crate) meant: &'static [Opt],
    /// An example command line.
    pub(crate) example: &'static str,
    /// Its exit codes and what they mean.
    pub(crate) codes: &'static [(&'static str, &'static str)],
}

/// A positional argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    pub(crate) count: Count,
    pub(crate) help: &'static str,
}

/// The number of values of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    AtMostOne,
    AtLeastOne,
    Any,
}

const SHOW: &str = "Output";
const DO: &str = "Action";

/// The options that name the backend.
const BACKEND: &[&str] = &["backend", "backend-file", "backend-timeout", "config"];

const fn own(long: &'static str, kind: Kind, default: &'static str, heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind, default, place: Place::Nowhere, heading, help }
}

const JSON: Opt = own(
    "json",
    Kind::Flag,
    "",
    SHOW,
    "Print JSON instead of a table, with the fields described in shedlock-json(5) and times in UTC",
);
const LOCAL: Opt =
    own("local", Kind::Flag, "", SHOW, "Show times in this process's time zone (TZ, or the system's) instead of UTC");

const NAME: Word = Word { name: "NAME", count: Count::One, help: "The lock" };

const COULD_NOT: (&str, &str) = ("125", "the backend could not be asked, or the usage was wrong");

pub(crate) const SUBS: &[Sub] = &[
    Sub {
        name: "status",
        about: "Show locks: who holds them, since when and until when, and how the last run ended",
        usage: "shedlock status [OPTIONS] [NAME]...",
        words: &[Word { name: "NAME", count: Count::Any, help: "The locks; all locks in the backend if omitted" }],
        own: &[
            JSON,
            LOCAL,
            own(
                "exit-code",
                Kind::Flag,
                "",
                SHOW,
                "Exit with 1 if any of the locks is held, kept, paused or unknown to the backend",
            ),
            own(
                "max-age",
                Kind::Value("DURATION"),
                "off",
                SHOW,
                "For a monitor: print a line for each NAME, and exit with 1 unless the last success of each ended no longer than DURATION ago, on any host",
            ),
            own(
                "prometheus",
                Kind::Flag,
                "",
                SHOW,
                "Print the locks and their last runs as metrics in the text format of Prometheus",
            ),
            own("watch", Kind::Flag, "", SHOW, "Refresh the table every two seconds, until interrupted"),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock status --local",
        codes: &[
            ("0", "done; with --exit-code: all the locks are free; with --max-age: all have succeeded lately"),
            (
                "1",
                "with --exit-code: a lock is held, kept or paused, or a NAME is unknown to the backend; with --max-age: a lock has not succeeded lately",
            ),
            COULD_NOT,
        ],
    },
    Sub {
        name: "history",
        about: "Show past runs, newest first, and those that never came back",
        usage: "shedlock history [OPTIONS] [NAME]",
        words: &[Word { name: "NAME", count: Count::AtMostOne, help: "The lock; all locks if omitted" }],
        own: &[
            JSON,
            LOCAL,
            own("limit", Kind::Value("N"), "50; all with --since and in pictures", SHOW, "Show the newest N runs"),
            own(
                "since",
                Kind::Value("TIME"),
                "",
                SHOW,
                "Show runs that had not ended before TIME: a duration before now (2h, 7d) or a time such as 2026-01-31T18:00:00Z, 2026-01-31 18:00 or 2026-01-31. A run that never came back counts as ended when a later run began or, if the backend still knows, when its lock expired",
            ),
            own("timeline", Kind::Flag, "", SHOW, "Draw the runs as bars over time, one line for each job or host"),
            own("svg", Kind::Value("FILE"), "", SHOW, "Write that picture to FILE as SVG; `-` is stdout"),
            own(
                "html",
                Kind::Value("FILE"),
                "",
                SHOW,
                "Write a page to FILE: the locks now, that picture, and the runs that went wrong; `-` is stdout",
            ),
            own(
                "by",
                Kind::Choice(&["job", "host"]),
                "job; host if a NAME is given",
                SHOW,
                "Draw one line for each job, or for each host",
            ),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock history report --since 7d",
        codes: &[("0", "done"), ("1", "no run of NAME is known"), COULD_NOT],
    },
    Sub {
        name: "unlock",
        about: "Free a held lock",
        usage: "shedlock unlock [OPTIONS] NAME",
        words: &[NAME],
        own: &[own("force", Kind::Flag, "", DO, "Do not ask. Required without a terminal")],
        shared: BACKEND,
        meant: &[],
        example: "shedlock unlock report --force",
        codes: &[
            ("0", "the lock is free now"),
            ("1", "the lock was not held, or you chose to leave it held"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "pause",
        about: "Keep every host from running a job until it is resumed",
        usage: "shedlock pause [OPTIONS] NAME",
        words: &[NAME],
        own: &[
            own("for", Kind::Value("DURATION"), "until resumed", DO, "End the pause after DURATION"),
            own("reason", Kind::Value("TEXT"), "", DO, "The reason that others see: one line of up to 100 characters"),
            own(
                "wait",
                Kind::Value("DURATION"),
                "0",
                DO,
                "If the job is running, wait up to DURATION, or `forever`, for its end. Without --wait, nothing is paused while the job runs",
            ),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock pause report --for 2h --reason 'new disk'",
        codes: &[("0", "the lock is paused"), ("1", "the job is running, or the lock is paused already"), COULD_NOT],
    },
    Sub {
        name: "resume",
        about: "End a pause",
        usage: "shedlock resume [OPTIONS] NAME",
        words: &[NAME],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: "shedlock resume report",
        codes: &[("0", "the pause is over"), ("1", "the lock was not paused"), COULD_NOT],
    },
    Sub {
        name: "forget",
        about: "Remove locks that are no longer used, with their history",
        usage: "shedlock forget [OPTIONS] NAME...",
        words: &[Word { name: "NAME", count: Count::AtLeastOne, help: "The locks" }],
        own: &[own(
            "force",
            Kind::Flag,
            "",
            DO,
            "Remove also a lock whose last holder was not shedlock, such as a Java application, which must not be running. A held lock is never removed",
        )],
        shared: BACKEND,
        meant: &[],
        example: "shedlock forget report",
        codes: &[
            ("0", "all the locks are removed"),
            ("1", "a lock is held, kept or paused, was last held by another program, or is unknown to the backend"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "acquire",
        about: "Take a lock for a script that cannot be wrapped, and print the handle to release it",
        usage: "shedlock acquire --name NAME --at-most DURATION [OPTIONS]",
        words: &[],
        own: &[own(
            "json",
            Kind::Flag,
            "",
            SHOW,
            "Print a JSON object with the handle, the token and the times, described in shedlock-json(5)",
        )],
        shared: &[
            "name",
            "at-most",
            "at-least",
            "history-keep",
            "wait",
            "conflict-exit-code",
            "backend",
            "backend-file",
            "backend-timeout",
            "on-backend-error",
            "config",
            "verbose",
            "quiet",
            "log-format",
        ],
        meant: TO_ACQUIRE,
        example: "handle=$(shedlock acquire --name deploy --at-most 20m)",
        codes: &[
            ("0", "the lock is taken and its handle printed"),
            ("1, or -E N", "another owner holds the lock"),
            ("128+n", "signal n stopped shedlock while it waited"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "release",
        about: "Release a lock that `acquire` took",
        usage: "shedlock release [OPTIONS] HANDLE",
        words: &[Word { name: "HANDLE", count: Count::One, help: "The handle that `acquire` printed: NAME@OWNER" }],
        own: &[own(
            "exit-code",
            Kind::Value("N"),
            "a success without a code",
            DO,
            "The exit code of the work under the lock, for the history: any other than 0 is a failure",
        )],
        shared: &["history-keep", "backend", "backend-file", "backend-timeout", "config"],
        meant: &[],
        example: r#"shedlock release "$handle""#,
        codes: &[("0", "the lock is released"), ("1", "the lock was no longer ours"), COULD_NOT],
    },
    Sub {
        name: "extend",
        about: "Keep a lock longer: restart its at-most",
        usage: "shedlock extend [OPTIONS] DURATION [HANDLE]",
        words: &[
            Word {
                name: "DURATION",
                count: Count::One,
                help: "The longest time that the lock may be held from now on, at least 1s",
            },
            Word {
                name: "HANDLE",
                count: Count::AtMostOne,
                help: "The handle that `acquire` printed; inside a job, the job's own lock if omitted",
            },
        ],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: r#"shedlock extend 30m "$handle""#,
        codes: &[("0", "the lock is ours for that long"), ("1", "the lock is no longer ours"), COULD_NOT],
    },
    Sub {
        name: "verify",
        about: "Check before a dangerous step that a lock is still ours",
        usage: "shedlock verify [OPTIONS] [HANDLE]",
        words: &[Word {
            name: "HANDLE",
            count: Count::AtMostOne,
            help: "The handle that `acquire` printed; inside a job, the job's own lock if omitted",
        }],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: r#"shedlock verify "$handle""#,
        codes: &[("0", "the lock is ours"), ("1", "the lock is not ours"), COULD_NOT],
    },
    Sub {
        name: "check",
        about: "Test whether this host can use the backend, and show what is in the way",
        usage: "shedlock check [OPTIONS]",
        words: &[],
        own: &[own("json", Kind::Flag, "", SHOW, "Print JSON: an array with an object for each line")],
        shared: BACKEND,
        meant: &[],
        example: "shedlock check",
        codes: &[("0", "this host can lock here"), ("1", "something is in the way: a line with ✗"), COULD_NOT],
    },
    Sub {
        name: "init",
        about: "Create the tables or the file that the backend needs; running it again does no harm",
        usage: "shedlock init [OPTIONS]",
        words: &[],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: "shedlock init",
        codes: &[("0", "everything is there"), COULD_NOT],
    },
    Sub {
        name: "schema",
        about: "Print the statements that create what a backend needs, without contacting it",
        usage: "shedlock schema [OPTIONS] [BACKEND]",
        words: &[Word {
            name: "BACKEND",
            count: Count::AtMostOne,
            help: "sqlite, postgres, mysql, redis, etcd, kubernetes, zookeeper, mongodb, or a URL; the configured backend if omitted",
        }],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: "shedlock schema",
        codes: &[("0", "done"), COULD_NOT],
    },
];
