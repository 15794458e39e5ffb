//! The table of the commands beside `run`, with their arguments and options. They share options of `run` by naming them.

use super::options::{Opt, OptionKind, Scope};
use super::overrides::FOR_ACQUIRE;

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
    pub(crate) overrides: &'static [Opt],
    /// An example command line.
    pub(crate) example: &'static str,
    /// Its exit codes and what they mean.
    pub(crate) codes: &'static [(&'static str, &'static str)],
}

/// A positional argument of a command.
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

/// The heading of a command's own options.
pub(super) const OWN: &str = "Options";

/// The options that name the backend.
const BACKEND: &[&str] = &["backend", "backend-file", "backend-timeout", "config"];

const fn own(long: &'static str, kind: OptionKind, default: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind, default, scope: Scope::CommandLine, heading: OWN, help }
}

const JSON: Opt = own(
    "json",
    OptionKind::Flag,
    "",
    "Print JSON instead of a table. Times are in UTC; shedlock-json(5) describes the fields",
);
const LOCAL: Opt = own(
    "local",
    OptionKind::Flag,
    "",
    "Show times in local time instead of UTC. The time zone is TZ's or the system's",
);

const NAME: Word = Word { name: "NAME", count: Count::One, help: "The lock" };

const COULD_NOT: (&str, &str) = ("125", "the backend could not be asked, or the usage is wrong");

pub(crate) const SUBS: &[Sub] = &[
    Sub {
        name: "status",
        about: "Show who holds which lock, and how the last runs ended",
        usage: "shedlock status [OPTIONS] [NAME]...",
        words: &[Word { name: "NAME", count: Count::Any, help: "The locks; all if omitted" }],
        own: &[
            JSON,
            LOCAL,
            own(
                "exit-code",
                OptionKind::Flag,
                "",
                "Exit with 1 unless all are free. A NAME that the backend does not know is not free",
            ),
            own(
                "max-age",
                OptionKind::Value("DURATION"),
                "off",
                "Exit with 1 if a success is too old. For a monitor: print a line for each NAME, and exit with 1 unless the last success of each, on any host, ended no longer than DURATION ago",
            ),
            own(
                "prometheus",
                OptionKind::Flag,
                "",
                "Print metrics for Prometheus. They describe the locks and their last runs, in its text format",
            ),
            own("watch", OptionKind::Flag, "", "Refresh every two seconds until interrupted"),
        ],
        shared: BACKEND,
        overrides: &[],
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
        about: "Show past runs, as a table or a picture",
        usage: "shedlock history [OPTIONS] [NAME]",
        words: &[Word { name: "NAME", count: Count::AtMostOne, help: "The lock; all if omitted" }],
        own: &[
            JSON,
            LOCAL,
            own("limit", OptionKind::Value("N"), "50; all with --since and in pictures", "Show the newest N runs"),
            own(
                "since",
                OptionKind::Value("TIME"),
                "",
                "Show runs that ended later than TIME. Those that have not ended are shown too. TIME is a duration before now (2h, 7d) or a time such as 2026-01-31T18:00:00Z, 2026-01-31 18:00 or 2026-01-31",
            ),
            own("timeline", OptionKind::Flag, "", "Draw the runs as bars over time"),
            own("svg", OptionKind::Value("FILE"), "", "Write that picture as SVG to FILE. `-` is stdout"),
            own(
                "html",
                OptionKind::Value("FILE"),
                "",
                "Write an HTML page to FILE. It shows the locks now, that picture, and the runs that went wrong; `-` is stdout",
            ),
            own(
                "by",
                OptionKind::Choice(&["job", "host"]),
                "job; host if a NAME is given",
                "Draw one line per job or host",
            ),
        ],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock history report --since 7d",
        codes: &[("0", "done"), ("1", "no run of NAME is known"), COULD_NOT],
    },
    Sub {
        name: "unlock",
        about: "Free a held lock",
        usage: "shedlock unlock [OPTIONS] NAME",
        words: &[NAME],
        own: &[own("force", OptionKind::Flag, "", "Do not ask. Required without a terminal")],
        shared: BACKEND,
        overrides: &[],
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
            own("for", OptionKind::Value("DURATION"), "until resumed", "End the pause after DURATION"),
            own("reason", OptionKind::Value("TEXT"), "", "Say why. Others see this line of up to 100 characters"),
            own(
                "wait",
                OptionKind::Value("DURATION"),
                "0",
                "Wait this long for a running job. DURATION can be `forever`. Without --wait, a job that is running is not paused",
            ),
        ],
        shared: BACKEND,
        overrides: &[],
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
        overrides: &[],
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
            OptionKind::Flag,
            "",
            "Remove locks of other programs too. A Java application must not be running. A held lock is never removed",
        )],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock forget report",
        codes: &[
            ("0", "all the locks are removed"),
            ("1", "a lock is held, kept or paused, was last held by another program, or is unknown to the backend"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "acquire",
        about: "Take a lock for a script, and print the handle to release it",
        usage: "shedlock acquire --name NAME --at-most DURATION [OPTIONS]",
        words: &[],
        own: &[own(
            "json",
            OptionKind::Flag,
            "",
            "Print JSON: handle, token and times. shedlock-json(5) describes the fields",
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
        overrides: FOR_ACQUIRE,
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
        words: &[Word { name: "HANDLE", count: Count::One, help: "The handle that `acquire` printed" }],
        own: &[own(
            "exit-code",
            OptionKind::Value("N"),
            "a success without a code",
            "Exit code for the history. That of the work under the lock: any other than 0 is a failure",
        )],
        shared: &["history-keep", "backend", "backend-file", "backend-timeout", "config"],
        overrides: &[],
        example: r#"shedlock release "$handle""#,
        codes: &[("0", "the lock is released"), ("1", "the lock was no longer held by this owner"), COULD_NOT],
    },
    Sub {
        name: "extend",
        about: "Give a lock and its job more time",
        usage: "shedlock extend [OPTIONS] DURATION [HANDLE | NAME]",
        words: &[
            Word { name: "DURATION", count: Count::One, help: "The new time limit from now on, at least 1s" },
            Word {
                name: "HANDLE",
                count: Count::AtMostOne,
                help: "The handle that `acquire` printed, or for an operator the name of a lock that a run holds; not needed in a job",
            },
        ],
        own: &[own("force", OptionKind::Flag, "", "Do not ask about a NAME. Required without a terminal")],
        shared: BACKEND,
        overrides: &[],
        example: r#"shedlock extend 30m "$handle""#,
        codes: &[
            ("0", "the lock is held for that long"),
            ("1", "the lock is no longer held by this owner, or by no run, or you chose to leave it as it is"),
            COULD_NOT,
        ],
    },
    Sub {
        name: "verify",
        about: "Check before a dangerous step that the lock is still held",
        usage: "shedlock verify [OPTIONS] [HANDLE]",
        words: &[Word {
            name: "HANDLE",
            count: Count::AtMostOne,
            help: "The handle that `acquire` printed; not needed in a job",
        }],
        own: &[],
        shared: BACKEND,
        overrides: &[],
        example: r#"shedlock verify "$handle""#,
        codes: &[("0", "the lock is still held by this owner"), ("1", "it is not"), COULD_NOT],
    },
    Sub {
        name: "check",
        about: "Test whether this host can lock, and show what is in the way",
        usage: "shedlock check [OPTIONS]",
        words: &[],
        own: &[own("json", OptionKind::Flag, "", "Print JSON. An array with an object for each line")],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock check",
        codes: &[("0", "this host can lock here"), ("1", "something is in the way: a line with ✗"), COULD_NOT],
    },
    Sub {
        name: "prove",
        about: "Try whether this backend keeps the rules of a lock",
        usage: "shedlock prove [OPTIONS]",
        words: &[],
        own: &[
            own("for", OptionKind::Value("DURATION"), "10s", "Try for DURATION. At least 1s"),
            own(
                "clients",
                OptionKind::Value("N"),
                "8",
                "Have N connections at most, from 2 to 64. Each client has one, and one is spared for cuts",
            ),
            own("seed", OptionKind::Value("N"), "random", "Decide as the report with this seed did"),
            own("json", OptionKind::Flag, "", "Print JSON. An object with the findings and the figures"),
        ],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock prove --clients 4",
        codes: &[("0", "every rule was kept"), ("1", "a rule was broken: a line with ✗"), COULD_NOT],
    },
    Sub {
        name: "init",
        about: "Create the tables or the file that the backend needs",
        usage: "shedlock init [OPTIONS]",
        words: &[],
        own: &[],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock init",
        codes: &[("0", "everything is there"), COULD_NOT],
    },
    Sub {
        name: "schema",
        about: "Print the statements that create what a backend needs",
        usage: "shedlock schema [OPTIONS] [BACKEND]",
        words: &[Word {
            name: "BACKEND",
            count: Count::AtMostOne,
            help: "A kind of backend, such as postgres, or a URL; the configured backend if omitted",
        }],
        own: &[],
        shared: BACKEND,
        overrides: &[],
        example: "shedlock schema",
        codes: &[("0", "done"), COULD_NOT],
    },
];
