//! The table of options: every option of `shedlock run` once, with its help and its default.

/// One option.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opt {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: Kind,
    /// The default as shown; `config` has the value.
    pub(crate) default: &'static str,
    pub(crate) place: Place,
    pub(crate) heading: &'static str,
    pub(crate) help: &'static str,
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value of this name.
    Value(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// No value: given or not.
    Flag,
    /// No value: counts how often it is given.
    Count,
}

/// The places, besides the command line, where an option can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Not in a file: the option selects the file, or a part of it.
    Environment,
    /// Only on the command line.
    Nowhere,
}

impl Opt {
    /// Returns the environment variable that sets the option.
    pub(crate) fn variable(&self) -> String {
        format!("SHEDLOCK_{}", self.long.replace('-', "_").to_ascii_uppercase())
    }
}

pub(super) const LOCK: &str = "The lock";
pub(super) const WAITING: &str = "Waiting";
const JOB: &str = "The job";
const NOTIFYING: &str = "Notifications";
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

/// All options of `run`. The first word of a choice is the default.
pub(crate) const OPTIONS: &[Opt] = &[
    not_in_files(value(
        "name",
        "NAME",
        "",
        LOCK,
        "The name of the lock: 1 to 64 characters, no control characters, no space at either end. Required",
    )),
    value(
        "at-most",
        "DURATION",
        "",
        LOCK,
        "The longest time that the lock may be held, at least 1s. It is also the longest time that the job may run, see --on-expiry. Required, here or in a file",
    ),
    value(
        "at-least",
        "DURATION",
        "0",
        LOCK,
        "Keep the lock for at least DURATION after it was taken, even if the job ends sooner, so that another start for the same firing finds it held. No more than --at-most",
    ),
    value(
        "lease",
        "DURATION",
        "off",
        LOCK,
        "Take the lock only for DURATION, at least 1s, and renew it every third of that while the job lives, never past --at-most: if this host dies, the lock is free after DURATION instead of --at-most, but not before --at-least",
    ),
    value(
        "every",
        "DURATION",
        "off",
        LOCK,
        "Run at most once per DURATION, give or take a tenth: after the job has ended, the lock stays held until nine tenths of DURATION after the firing, which is when shedlock was started, before --splay and --wait. Give the interval of the crontab",
    ),
    choice(
        "on-failure",
        &["at-least", "release", "hold"],
        LOCK,
        "What to do with the lock when the job failed: keep the lock as after a success, free it at once so that another host can retry, or hold it until --at-most (or --every, if later). If the command could not be started, the lock is always freed at once",
    ),
    value(
        "history-keep",
        "N",
        "1000",
        LOCK,
        "Keep the last N runs of the lock in the backend's history; with 0 only what the next token needs",
    ),
    value(
        "success-codes",
        "N[,N...]",
        "0",
        LOCK,
        "The job's exit codes that count as success; 0 counts only if listed",
    ),
    short(
        value(
            "wait",
            "DURATION",
            "0",
            WAITING,
            "Wait up to DURATION, or `forever`, for a held lock. Once the lock is free, a waiter takes it within a second, or within five after it has waited for a minute; the order of waiters is not defined",
        ),
        'w',
    ),
    value("splay", "DURATION", "0", WAITING, "Sleep first, for a random time up to DURATION"),
    short(
        value(
            "conflict-exit-code",
            "N",
            "0",
            WAITING,
            "Exit with N when another owner holds the lock and the job is not run; 75 is a good choice for scripts",
        ),
        'E',
    ),
    choice(
        "on-expiry",
        &["kill", "extend", "ignore"],
        JOB,
        "What to do when --at-most is used up while the job runs: stop the job so early that it is dead before the lock frees, renew the lock for as long as the job lives, or warn and let the lock free while the job runs on",
    ),
    choice(
        "on-lost",
        &["kill", "ignore"],
        JOB,
        "What to do when the lock is lost, or could not be renewed in time: stop the job so early that it is dead before the lease ends, or warn and let it run on",
    ),
    choice(
        "wait-for",
        &["child", "group", "tree"],
        JOB,
        "Treat the job as ended when the command has ended, when its whole process group has, or when all its descendants have, daemons included",
    ),
    short(
        value(
            "signal",
            "SIGNAL",
            "TERM",
            JOB,
            "Send SIGNAL first when stopping the job: a name with or without SIG, or a number",
        ),
        's',
    ),
    short(
        value(
            "kill-after",
            "DURATION",
            "10s",
            JOB,
            "Send SIGKILL this long after the first signal. Counts for at most a fifth of --at-most, or of --lease when a lock is lost",
        ),
        'k',
    ),
    value(
        "stop-timeout",
        "DURATION",
        "wait for the job",
        JOB,
        "Kill the job if it is still running DURATION after shedlock got a HUP, INT, QUIT or TERM and passed it on",
    ),
    value(
        "notify",
        "COMMAND",
        "off",
        NOTIFYING,
        "Run COMMAND with `/bin/sh -c` after a run that --notify-on names, when the lock has been given back. Variables tell it what happened, such as SHEDLOCK_EVENT and SHEDLOCK_MESSAGE; its output goes to stderr. If it fails, shedlock only warns. An empty COMMAND is none",
    ),
    value(
        "notify-on",
        "EVENT[,EVENT...]",
        "failure,expired,lost,error",
        NOTIFYING,
        "The events that --notify tells of: start (of the job, beside which COMMAND runs), success, failure, expired, lost, error, skipped, or all",
    ),
    value(
        "notify-timeout",
        "DURATION",
        "10s",
        NOTIFYING,
        "Kill COMMAND and its process group if it is still running after DURATION, at least 1s",
    ),
    flag("foreground", JOB, "Run the job in shedlock's process group; the default with a controlling terminal"),
    flag("new-group", JOB, "Run the job in its own process group; the default without a controlling terminal"),
    flag(
        "no-die-with-shedlock",
        JOB,
        "Let the command live on when shedlock is killed with SIGKILL; by default it is killed too, with --lease together with everything it has started",
    ),
    value(
        "backend",
        "URL",
        "",
        BACKEND,
        "Where locks live: sqlite:PATH for one host; postgres://, mysql://, redis://, etcd:// or zookeeper://USER@HOST/... for many; kubernetes: in a pod; see shedlock-backends(7). The default is the file /var/lib/shedlock/shedlock.db for root, and shedlock/shedlock.db in $XDG_STATE_HOME (~/.local/state) for other users",
    ),
    value(
        "backend-file",
        "FILE",
        "",
        BACKEND,
        "Read the backend's URL from FILE, for example a mounted secret. If the server refuses the login, the file is read again: the password may have been changed",
    ),
    value(
        "backend-timeout",
        "DURATION",
        "10s",
        BACKEND,
        "Give up if the backend cannot be reached within DURATION. shedlock retries a server that is down, starting, full or failing over; a wrong password, a missing database or a missing right is an error at once. After the job, the release is retried for as long, whatever the error",
    ),
    choice(
        "on-backend-error",
        &["fail", "skip", "run"],
        BACKEND,
        "What to do when the backend cannot be asked: fail with 125, exit as if the lock were held, or run the job without a lock; the last two with a warning",
    ),
    not_in_files(value(
        "config",
        "FILE",
        "/etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml",
        REPORT,
        "Read only this configuration file",
    )),
    not_in_files(flag(
        "dry-run",
        REPORT,
        "Print every setting and where it comes from, the backend, and what a run would do and when, and exit. Takes no lock, starts nothing, and does not contact the backend",
    )),
    Opt {
        kind: Kind::Count,
        ..short(
            flag(
                "verbose",
                REPORT,
                "Print more on stderr: -v the holder of a held lock and how the job ended, -vv everything",
            ),
            'v',
        )
    },
    short(flag("quiet", REPORT, "Print only errors"), 'q'),
    choice("log-format", &["text", "json"], REPORT, "Print one line of text, or one JSON object, for each event"),
    value(
        "metrics-dir",
        "DIR",
        "off",
        REPORT,
        "Write metrics about the last runs of the job on this host to shedlock-NAME.prom in the directory DIR, for the textfile collector of Prometheus' node_exporter. DIR must exist. If the metrics cannot be written, shedlock only warns",
    ),
];
