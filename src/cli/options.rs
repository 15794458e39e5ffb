//! The table of options: every option of `shedlock run` once, with its help and its default.

/// One option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opt {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: Kind,
    /// As shown; the value itself stands in `config`.
    pub(crate) default: &'static str,
    pub(crate) place: Place,
    pub(crate) heading: &'static str,
    pub(crate) help: &'static str,
}

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value of this name.
    Value(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Nothing; it is given or not.
    Flag,
    /// Nothing; it counts how often it is given.
    Count,
}

/// Where an option can be set, apart from the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Not in a file: it says which part of the files is meant, or which file.
    Environment,
    /// Nowhere else.
    Nowhere,
}

impl Opt {
    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("SHEDLOCK_{}", self.long.replace('-', "_").to_ascii_uppercase())
    }
}

pub(super) const LOCK: &str = "The lock";
pub(super) const WAITING: &str = "Waiting";
const JOB: &str = "The job";
pub(super) const BACKEND: &str = "The backend";
const REPORT: &str = "Configuration and messages";

const fn value(
    long: &'static str,
    name: &'static str,
    default: &'static str,
    heading: &'static str,
    help: &'static str,
) -> Opt {
    Opt { long, short: None, kind: Kind::Value(name), default, place: Place::Anywhere, heading, help }
}

const fn choice(long: &'static str, words: &'static [&'static str], heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind: Kind::Choice(words), default: words[0], place: Place::Anywhere, heading, help }
}

const fn flag(long: &'static str, heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind: Kind::Flag, default: "", place: Place::Anywhere, heading, help }
}

const fn short(opt: Opt, letter: char) -> Opt {
    Opt { short: Some(letter), ..opt }
}

const fn not_in_files(opt: Opt) -> Opt {
    Opt { place: Place::Environment, ..opt }
}

/// The words of a choice stand with the default first.
pub(crate) const OPTIONS: &[Opt] = &[
    not_in_files(value(
        "name",
        "NAME",
        "",
        LOCK,
        "The lock to run under: 1 to 64 characters, no control characters, no blank at either end. Required",
    )),
    value(
        "at-most",
        "DURATION",
        "",
        LOCK,
        "The longest the lock may be held, at least 1s. It is also the longest the job may run, see --on-expiry. Required, here or in a file",
    ),
    value(
        "at-least",
        "DURATION",
        "0",
        LOCK,
        "The shortest the lock stays held, counted from when it was taken, even if the job ends sooner, so that another start for the same firing finds it held. No more than --at-most",
    ),
    value(
        "lease",
        "DURATION",
        "off",
        LOCK,
        "Take the lock only for DURATION, at least 1s, and renew it every third of that while the job lives, never past --at-most: if this host dies the lock is free after DURATION instead of at the end of --at-most (no sooner than --at-least says)",
    ),
    value(
        "every",
        "DURATION",
        "off",
        LOCK,
        "Run at most once per DURATION: when the job has ended, the lock stays held until DURATION after the firing. The firing is when shedlock was started, by the backend's clock, cut to the whole minute (to the whole second if DURATION is not whole minutes)",
    ),
    choice(
        "on-failure",
        &["at-least", "release", "hold"],
        LOCK,
        "When the job failed: keep the lock as after success, free it at once so that another may retry, or hold it until --at-most (or --every, if later). A command that could not be started always frees it at once",
    ),
    value(
        "history-keep",
        "N",
        "100",
        LOCK,
        "How many of the last runs of the lock are kept in the backend's history; with 0 only what the next token needs",
    ),
    value("success-codes", "N[,N...]", "0", LOCK, "The exit codes of the job that count as success; 0 only if named"),
    short(
        value(
            "wait",
            "DURATION",
            "0",
            WAITING,
            "Wait up to DURATION for a held lock, or `forever`. A waiter gets in within a second of the lock becoming free, after a minute within five; no order is promised",
        ),
        'w',
    ),
    value("splay", "DURATION", "0", WAITING, "First sleep for a random time of up to DURATION"),
    short(
        value(
            "conflict-exit-code",
            "N",
            "0",
            WAITING,
            "The exit code when the lock is held by another and the job is not run; 75 is a good one for scripts",
        ),
        'E',
    ),
    choice(
        "on-expiry",
        &["kill", "extend", "ignore"],
        JOB,
        "When the job still runs and --at-most is used up: stop it so early that it is dead before the lock frees, renew the lock for as long as the job lives, or warn and let the lock free while the job runs on",
    ),
    choice(
        "on-lost",
        &["kill", "ignore"],
        JOB,
        "When the backend says that the lock is no longer ours, or it could not be renewed in time: stop the job so early that it is dead before the lease ends, or warn and let it run on",
    ),
    choice(
        "wait-for",
        &["child", "group", "tree"],
        JOB,
        "The job has ended when the command has, when nothing is left of its process group, or when nothing is left of all that it started, daemons too",
    ),
    short(
        value(
            "signal",
            "SIGNAL",
            "TERM",
            JOB,
            "What to send first when the job is stopped: a name with or without SIG, or a number",
        ),
        's',
    ),
    short(
        value(
            "kill-after",
            "DURATION",
            "10s",
            JOB,
            "Send SIGKILL so long after the first signal. At most a fifth of --at-most, or of --lease when a lock is lost, is used",
        ),
        'k',
    ),
    value(
        "stop-timeout",
        "DURATION",
        "wait for the job",
        JOB,
        "After a HUP, INT, QUIT or TERM that was sent to shedlock was passed on, kill the job after DURATION",
    ),
    flag(
        "foreground",
        JOB,
        "Run the job in shedlock's own process group; the default where there is a controlling terminal",
    ),
    flag(
        "new-group",
        JOB,
        "Run the job in a process group of its own; the default where there is no controlling terminal",
    ),
    flag(
        "no-die-with-shedlock",
        JOB,
        "Let the command live on when shedlock itself is killed with SIGKILL; without this it is killed too, and with --lease all that it has started",
    ),
    value(
        "backend",
        "URL",
        "",
        BACKEND,
        "Where locks live: sqlite:PATH for one host; postgres://, mysql:// or redis://USER@HOST/... for many, see shedlock-backends(7). The default is the file /var/lib/shedlock/shedlock.db for root and shedlock/shedlock.db in $XDG_STATE_HOME (~/.local/state) for others",
    ),
    value("backend-file", "FILE", "", BACKEND, "Read the backend's URL from FILE, such as a mounted secret"),
    value(
        "backend-timeout",
        "DURATION",
        "10s",
        BACKEND,
        "The longest to try to reach the backend before that is an error. A server that is down, starting, full or failing over is tried again; a wrong password, a missing database or a missing right is an error at once",
    ),
    choice(
        "on-backend-error",
        &["fail", "skip", "run"],
        BACKEND,
        "When the backend cannot be asked: fail with 125, exit as if the lock was held, or run the job without a lock; the last two with a warning",
    ),
    not_in_files(value(
        "config",
        "FILE",
        "/etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml",
        REPORT,
        "Read only this configuration file",
    )),
    Opt {
        kind: Kind::Count,
        ..short(
            flag(
                "verbose",
                REPORT,
                "Tell more on stderr: -v says who holds a lock and how the job ended, -vv everything",
            ),
            'v',
        )
    },
    short(flag("quiet", REPORT, "Tell errors only"), 'q'),
    choice("log-format", &["text", "json"], REPORT, "One line, or one JSON object, per event"),
    value(
        "metrics-dir",
        "DIR",
        "off",
        REPORT,
        "Write what became of the last runs of the job on this host to shedlock-NAME.prom in the directory DIR, for the textfile collector of Prometheus' node_exporter. DIR has to be there. A problem with it is a warning",
    ),
];
