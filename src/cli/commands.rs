//! The table of the commands beside `run`: what each takes. What they share with `run` is what they name of its options.

use super::meant::TO_ACQUIRE;
use super::options::{Kind, Opt, Place};

/// A command beside `run`.
pub(crate) struct Sub {
    pub(crate) name: &'static str,
    /// What it does, in one line without a full stop.
    pub(crate) about: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) words: &'static [Word],
    /// Its own options. They have no variables, and no keys in the files.
    pub(crate) own: &'static [Opt],
    /// What it has of the options of `run`, by their long names, variables and keys included.
    pub(crate) shared: &'static [&'static str],
    /// Those of them that have another meaning or default here.
    pub(crate) meant: &'static [Opt],
    /// A command line that shows it.
    pub(crate) example: &'static str,
    /// Its exit codes and what they mean.
    pub(crate) codes: &'static [(&'static str, &'static str)],
}

/// A word on the command line that is no option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    pub(crate) count: Count,
    pub(crate) help: &'static str,
}

/// How many there are of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    AtMostOne,
    Any,
}

const SHOW: &str = "What is shown";
const DO: &str = "What is done";

/// How the backend is reached.
const BACKEND: &[&str] = &["backend", "backend-file", "backend-timeout", "config"];

const fn own(long: &'static str, kind: Kind, default: &'static str, heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind, default, place: Place::Nowhere, heading, help }
}

const JSON: Opt = own(
    "json",
    Kind::Flag,
    "",
    SHOW,
    "Print JSON with the fields that shedlock-json(5) describes instead of a table; times in it are UTC",
);
const LOCAL: Opt = own(
    "local",
    Kind::Flag,
    "",
    SHOW,
    "Show times in the time zone of this process (TZ, or the system's) instead of UTC",
);

const NAME: Word = Word { name: "NAME", count: Count::One, help: "The lock" };

const COULD_NOT: (&str, &str) = ("125", "the backend could not be asked, or the usage was wrong");

pub(crate) const SUBS: &[Sub] = &[
    Sub {
        name: "status",
        about: "Show locks: who holds them, since when and until when, and how the last run ended",
        usage: "shedlock status [OPTIONS] [NAME]...",
        words: &[Word {
            name: "NAME",
            count: Count::Any,
            help: "The locks; all that the backend has if none is named",
        }],
        own: &[
            JSON,
            LOCAL,
            own("exit-code", Kind::Flag, "", SHOW, "Exit with 1 if any of the locks is held, kept, paused or unknown"),
            own("watch", Kind::Flag, "", SHOW, "Show it again every two seconds, until interrupted"),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock status --local",
        codes: &[
            ("0", "done; with --exit-code: all of the locks are free"),
            ("1", "with --exit-code: one is held, kept or paused, or a NAME is unknown to the backend"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "history",
        about: "Show past runs, newest first, and those that never came back",
        usage: "shedlock history [OPTIONS] [NAME]",
        words: &[Word {
            name: "NAME",
            count: Count::AtMostOne,
            help: "The lock; the runs of all locks if none is named",
        }],
        own: &[
            JSON,
            LOCAL,
            own(
                "limit",
                Kind::Value("N"),
                "50; with --since, --timeline or --svg all that are kept",
                SHOW,
                "Show the newest N runs",
            ),
            own(
                "since",
                Kind::Value("TIME"),
                "",
                SHOW,
                "Show the runs that had not ended before TIME: a duration before now (2h, 7d) or a time such as 2026-01-31T18:00:00Z, 2026-01-31 18:00 or 2026-01-31. One that never came back had ended when a later run began or, where the backend still has it, its lock's time was up",
            ),
            own("timeline", Kind::Flag, "", SHOW, "Draw the runs as bars over time, a line for each job or host"),
            own("svg", Kind::Value("FILE"), "", SHOW, "Write that picture to FILE as SVG; `-` is stdout"),
            own(
                "by",
                Kind::Choice(&["job", "host"]),
                "job; host if a NAME is given",
                SHOW,
                "What a line of the picture stands for",
            ),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock history report --since 7d",
        codes: &[("0", "done"), ("1", "no run of NAME is known"), COULD_NOT],
    },
    Sub {
        name: "unlock",
        about: "Free a lock that somebody holds",
        usage: "shedlock unlock [OPTIONS] NAME",
        words: &[NAME],
        own: &[own("force", Kind::Flag, "", DO, "Do not ask. Required where there is no terminal to ask on")],
        shared: BACKEND,
        meant: &[],
        example: "shedlock unlock report --force",
        codes: &[("0", "it is free now"), ("1", "it was not held, or it is to stay held"), COULD_NOT],
    },
    Sub {
        name: "pause",
        about: "Keep every host from running a job until it is resumed",
        usage: "shedlock pause [OPTIONS] NAME",
        words: &[NAME],
        own: &[
            own("for", Kind::Value("DURATION"), "until resumed", DO, "End the pause by itself after DURATION"),
            own("reason", Kind::Value("TEXT"), "", DO, "Why, for those who wonder: up to 100 characters in one line"),
            own(
                "wait",
                Kind::Value("DURATION"),
                "0",
                DO,
                "If the job is running, wait up to DURATION, or `forever`, for its end. Without this nothing is paused then",
            ),
        ],
        shared: BACKEND,
        meant: &[],
        example: "shedlock pause report --for 2h --reason 'new disk'",
        codes: &[("0", "it is paused"), ("1", "the job is running, or it is paused already"), COULD_NOT],
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
        codes: &[("0", "the pause is over"), ("1", "it was not paused"), COULD_NOT],
    },
    Sub {
        name: "acquire",
        about: "Take a lock for a script that cannot be wrapped, and print the handle for its release",
        usage: "shedlock acquire --name NAME --at-most DURATION [OPTIONS]",
        words: &[],
        own: &[],
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
            ("0", "the lock is ours and its handle is printed"),
            ("1, or -E N", "the lock is held by another"),
            ("128+n", "shedlock was stopped by signal n while waiting"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "release",
        about: "Give back a lock that `acquire` took",
        usage: "shedlock release [OPTIONS] HANDLE",
        words: &[Word { name: "HANDLE", count: Count::One, help: "What `acquire` printed: NAME@OWNER" }],
        own: &[own(
            "exit-code",
            Kind::Value("N"),
            "success without a code",
            DO,
            "How the work under the lock ended, for the history: N other than 0 is a failure",
        )],
        shared: &["history-keep", "backend", "backend-file", "backend-timeout", "config"],
        meant: &[],
        example: r#"shedlock release "$handle""#,
        codes: &[("0", "it is given back"), ("1", "it was no longer ours"), COULD_NOT],
    },
    Sub {
        name: "extend",
        about: "Keep a lock for longer: at-most counts from now on",
        usage: "shedlock extend [OPTIONS] DURATION [HANDLE]",
        words: &[
            Word {
                name: "DURATION",
                count: Count::One,
                help: "The longest the lock may be held from now on, at least 1s",
            },
            Word {
                name: "HANDLE",
                count: Count::AtMostOne,
                help: "What `acquire` printed; inside a job its own lock if left out",
            },
        ],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: r#"shedlock extend 30m "$handle""#,
        codes: &[("0", "the lock is ours for that long"), ("1", "it is no longer ours"), COULD_NOT],
    },
    Sub {
        name: "verify",
        about: "Ask whether a lock is still ours, before a dangerous step",
        usage: "shedlock verify [OPTIONS] [HANDLE]",
        words: &[Word {
            name: "HANDLE",
            count: Count::AtMostOne,
            help: "What `acquire` printed; inside a job its own lock if left out",
        }],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: r#"shedlock verify "$handle""#,
        codes: &[("0", "it is ours"), ("1", "it is not"), COULD_NOT],
    },
    Sub {
        name: "check",
        about: "Find out whether this host can lock here, and what is in the way",
        usage: "shedlock check [OPTIONS]",
        words: &[],
        own: &[own("json", Kind::Flag, "", SHOW, "Print JSON, an array with an object for each line")],
        shared: BACKEND,
        meant: &[],
        example: "shedlock check",
        codes: &[("0", "it can"), ("1", "something is in the way: a line with ✗"), COULD_NOT],
    },
    Sub {
        name: "init",
        about: "Make what the backend needs, such as its tables; doing it again does no harm",
        usage: "shedlock init [OPTIONS]",
        words: &[],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: "shedlock init",
        codes: &[("0", "all is there"), COULD_NOT],
    },
    Sub {
        name: "schema",
        about: "Print the statements that make what a backend needs, without reaching for it",
        usage: "shedlock schema [OPTIONS] [BACKEND]",
        words: &[Word {
            name: "BACKEND",
            count: Count::AtMostOne,
            help: "sqlite, postgres, mysql, redis, or a URL; the configured one if left out",
        }],
        own: &[],
        shared: BACKEND,
        meant: &[],
        example: "shedlock schema",
        codes: &[("0", "done"), COULD_NOT],
    },
];
