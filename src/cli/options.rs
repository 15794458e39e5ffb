//! The table of options: every option of `shedlock run` once, with its help and its default.

/// An option of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opt {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: OptionKind,
    /// The default as shown; `config` has the value.
    pub(crate) default: &'static str,
    pub(crate) scope: Scope,
    pub(crate) heading: &'static str,
    /// The help, without a full stop at its end. Its first sentence is all that `-h` shows, in 36 columns.
    pub(crate) help: &'static str,
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionKind {
    /// A value of this name.
    Value(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// No value: given or not.
    Flag,
    /// No value: counts how often it is given.
    Count,
}

/// The places where an option can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everywhere: on the command line, in a variable and in a file.
    Files,
    /// Not in a file: the option selects the file, or a part of it.
    Variables,
    CommandLine,
}

impl Opt {
    /// Returns the environment variable that sets the option.
    pub(crate) fn variable(&self) -> String {
        format!("SHEDLOCK_{}", self.long.replace('-', "_").to_ascii_uppercase())
    }
}

pub(super) const LOCK: &str = "The lock";
pub(super) const TIME: &str = "Time";
const END: &str = "The job's end";
pub(super) const TROUBLE: &str = "Trouble";
pub(super) const REPORTS: &str = "Reports and settings";

const fn value(
    long: &'static str,
    name: &'static str,
    default: &'static str,
    heading: &'static str,
    help: &'static str,
) -> Opt {
    Opt { long, short: None, kind: OptionKind::Value(name), default, scope: Scope::Files, heading, help }
}

const fn choice(long: &'static str, words: &'static [&'static str], heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind: OptionKind::Choice(words), default: words[0], scope: Scope::Files, heading, help }
}

const fn flag(long: &'static str, heading: &'static str, help: &'static str) -> Opt {
    Opt { long, short: None, kind: OptionKind::Flag, default: "", scope: Scope::Files, heading, help }
}

const fn short(opt: Opt, letter: char) -> Opt {
    Opt { short: Some(letter), ..opt }
}

const fn not_in_files(opt: Opt) -> Opt {
    Opt { scope: Scope::Variables, ..opt }
}

/// The options of `run` that `-h` leaves out, because few jobs need them.
pub(super) const RARE: &[&str] = &[
    "history-keep",
    "stop-timeout",
    "wait-for",
    "success-codes",
    "foreground",
    "new-group",
    "no-die-with-shedlock",
    "notify-on",
    "notify-timeout",
    "config",
];

/// All options of `run`. The first word of a choice is the default.
pub(crate) const OPTIONS: &[Opt] = &[
    not_in_files(value(
        "name",
        "NAME",
        "",
        LOCK,
        "Name of the lock (required). 1 to 64 characters, no control characters, no space at either end",
    )),
    value(
        "backend",
        "URL",
        "",
        LOCK,
        "Database or file with the locks. The URL of a server for many hosts, such as postgres://USER@HOST/DATABASE, or of a file for one, sqlite:PATH; see shedlock-backends(7). The default is the file /var/lib/shedlock/shedlock.db for root, and shedlock/shedlock.db in $XDG_STATE_HOME (~/.local/state) for other users",
    ),
    value(
        "backend-file",
        "FILE",
        "",
        LOCK,
        "Read that URL from FILE. It can be a mounted secret: if the server refuses the login, shedlock reads FILE again, because the password may have been changed",
    ),
    short(
        value(
            "conflict-exit-code",
            "N",
            "0",
            LOCK,
            "Exit code if the lock is held. The job is not run then; 75 is a good choice for scripts",
        ),
        'E',
    ),
    value(
        "history-keep",
        "N",
        "1000",
        LOCK,
        "Number of runs to keep. The backend's history has the last N runs of the lock, with 0 only what the next token needs",
    ),
    value(
        "at-most",
        "DURATION",
        "",
        TIME,
        "Time limit of lock and job (required). At least 1s. When it is used up, the job is stopped and the lock is free; see --on-expiry. Can be set in a file",
    ),
    value(
        "every",
        "DURATION",
        "off",
        TIME,
        "Run at most once per DURATION. After the job has ended, the lock stays held until nine tenths of DURATION after shedlock was started, before --splay and --wait. Give the interval of the crontab",
    ),
    value(
        "at-least",
        "DURATION",
        "0",
        TIME,
        "Keep the lock this long even after a short job. It counts from when the lock was taken, so that another start for the same firing still finds it held. No more than --at-most",
    ),
    value(
        "lease",
        "DURATION",
        "off",
        TIME,
        "If the host dies, free the lock after DURATION. The lock is taken for DURATION, at least 1s, and renewed every third of that while the job lives, never past --at-most. A dead host's lock is not free before --at-least",
    ),
    short(
        value(
            "wait",
            "DURATION",
            "0",
            TIME,
            "Wait up to DURATION for a held lock. DURATION can be `forever`. A waiter takes a freed lock within a second, or within five after it has waited for a minute; the order of waiters is not defined",
        ),
        'w',
    ),
    value(
        "splay",
        "DURATION",
        "0",
        TIME,
        "First sleep for a random time up to DURATION. This keeps many hosts from asking at once",
    ),
    choice(
        "on-expiry",
        &["kill", "extend", "ignore"],
        END,
        "When --at-most is used up. `kill` stops the job so early that it is dead before the lock frees; `extend` renews the lock for as long as the job lives; `ignore` warns, and lets the lock free while the job runs on",
    ),
    choice(
        "on-lost",
        &["kill", "ignore"],
        END,
        "When the lock is lost. Or when it could not be renewed in time: `kill` stops the job so early that it is dead before the lease ends; `ignore` warns, and lets the job run on",
    ),
    choice(
        "on-failure",
        &["at-least", "release", "hold"],
        END,
        "What happens to a failed job's lock. `at-least` keeps the lock as after a success; `release` frees it at once, so that another host can retry; `hold` keeps it until --at-most (or --every, if later). If the command could not be started, the lock is always freed at once",
    ),
    short(
        value("signal", "SIGNAL", "TERM", END, "First signal to stop the job. A name with or without SIG, or a number"),
        's',
    ),
    short(
        value(
            "kill-after",
            "DURATION",
            "10s",
            END,
            "Send SIGKILL this much later. Counts for at most a fifth of --at-most, or of --lease when a lock is lost",
        ),
        'k',
    ),
    value(
        "stop-timeout",
        "DURATION",
        "wait for the job",
        END,
        "Kill a job that does not stop. If shedlock gets HUP, INT, QUIT or TERM, it passes the signal on, and kills a job that is still running DURATION later",
    ),
    choice(
        "wait-for",
        &["child", "group", "tree"],
        END,
        "What has to end before the lock is released. `child`: the command; `group`: its whole process group; `tree`: all its descendants, daemons included",
    ),
    value(
        "success-codes",
        "N[,N...]",
        "0",
        END,
        "Exit codes of a success. With any other code the job has failed. If you set it, include 0",
    ),
    flag("foreground", END, "Run the job in shedlock's process group. This is the default with a controlling terminal"),
    flag("new-group", END, "Run the job in its own process group. This is the default without a controlling terminal"),
    flag(
        "no-die-with-shedlock",
        END,
        "Let the command outlive shedlock. By default SIGKILL to shedlock kills the command too, with --lease together with everything it has started",
    ),
    value(
        "backend-timeout",
        "DURATION",
        "10s",
        TROUBLE,
        "How long to try the backend. shedlock retries a server that is down, starting, full or failing over; a wrong password, a missing database or a missing right is an error at once. After the job, the release is retried for as long, whatever the error",
    ),
    choice(
        "on-backend-error",
        &["fail", "skip", "run"],
        TROUBLE,
        "When the backend does not answer. `fail` exits with 125; `skip` exits as if the lock were held; `run` runs the job without a lock. The last two warn",
    ),
    Opt {
        kind: OptionKind::Count,
        ..short(
            flag(
                "verbose",
                REPORTS,
                "Say why a job did not start; -vv: everything. -v names the holder of a held lock, and says how the job ended. On stderr",
            ),
            'v',
        )
    },
    short(flag("quiet", REPORTS, "Print only errors"), 'q'),
    choice("log-format", &["text", "json"], REPORTS, "Print each event as a line of text or JSON"),
    not_in_files(flag(
        "dry-run",
        REPORTS,
        "Show what would happen and when, and exit. Prints every setting and where it comes from, the backend, and what a run would do and when. Takes no lock, starts nothing, and does not contact the backend",
    )),
    value(
        "notify",
        "COMMAND",
        "off",
        REPORTS,
        "Run COMMAND when a run has failed. Or after another event that --notify-on names, by `/bin/sh -c`, when the lock was released. Variables describe the event, such as SHEDLOCK_EVENT and SHEDLOCK_MESSAGE. An empty COMMAND is none",
    ),
    value(
        "notify-on",
        "EVENT[,EVENT...]",
        "failure,expired,lost,error",
        REPORTS,
        "Events that --notify reports. They are start (of the job, beside which COMMAND runs), success, failure, expired, lost, error, skipped, or all",
    ),
    value(
        "notify-timeout",
        "DURATION",
        "10s",
        REPORTS,
        "Kill that COMMAND after DURATION. Its whole process group is killed; at least 1s",
    ),
    value(
        "metrics-dir",
        "DIR",
        "off",
        REPORTS,
        "Write metrics for Prometheus. They describe the last runs of the job on this host, in the file shedlock-NAME.prom in DIR, which must exist, for the textfile collector of node_exporter. A failure to write only warns",
    ),
    not_in_files(value(
        "config",
        "FILE",
        "/etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml",
        REPORTS,
        "Read only this configuration file",
    )),
];
