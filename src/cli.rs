//! What can be typed: every option once, with its help and its default. From this one table come the parser, `--help`,
//! the man pages, the completions, the environment variables and the keys of the configuration files.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, Error, value_parser};

use crate::exit;

/// One option of `shedlock run`.
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
}

impl Opt {
    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("SHEDLOCK_{}", self.long.replace('-', "_").to_ascii_uppercase())
    }
}

const LOCK: &str = "The lock";
const WAITING: &str = "Waiting";
const JOB: &str = "The job";
const BACKEND: &str = "The backend";
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
];

/// Reads a command line. The parser that does it first knows no help, since to lay that out takes longer than the
/// reading, and it is seldom wanted: a mistake and a call for help are read once more by one that does.
pub(crate) fn parse(arguments: &[OsString]) -> Result<ArgMatches, Error> {
    let silent = Command::new("shedlock").subcommand_required(true).subcommand(bare_run()).disable_help_flag(true);
    silent.try_get_matches_from(arguments).or_else(|_| command().try_get_matches_from(arguments))
}

/// The command line of the whole program.
pub(crate) fn command() -> Command {
    Command::new("shedlock")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Run a command under a named lock, so that it never runs twice at once")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(run())
        .subcommand(completions())
        .subcommand(man())
}

/// `shedlock run`.
fn run() -> Command {
    let explain = |argument: Arg| {
        let option = OPTIONS.iter().find(|option| argument.get_id() == option.long);
        match option {
            Some(option) if !option.default.is_empty() => {
                argument.help(format!("{} [default: {}]", option.help, option.default))
            }
            Some(option) => argument.help(option.help),
            None => {
                argument.help("The command and its arguments, executed without a shell. Options after it are its own")
            }
        }
    };
    bare_run()
        .about("Run a command under a lock")
        .override_usage("shedlock run --name NAME --at-most DURATION [OPTIONS] [--] COMMAND [ARG]...")
        .disable_help_flag(false)
        .mut_args(explain)
        .after_help(after_help())
}

/// `shedlock run` without its help.
fn bare_run() -> Command {
    Command::new("run").disable_help_flag(true).args(OPTIONS.iter().map(argument)).arg(
        Arg::new("command")
            .value_names(["COMMAND", "ARG"])
            .num_args(1..)
            .trailing_var_arg(true)
            .value_parser(value_parser!(OsString)),
    )
}

fn completions() -> Command {
    Command::new("completions").about("Print the completions for a shell").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(["bash", "elvish", "fish", "powershell", "zsh"])
            .help("The shell"),
    )
}

fn man() -> Command {
    Command::new("man").about("Print a manual page, in the form that man(1) reads").arg(
        Arg::new("page")
            .value_name("PAGE")
            .default_value("shedlock")
            .value_parser(["shedlock", "shedlock-run", "shedlock.toml", "shedlock-backends", "shedlock-fencing"])
            .help("The page"),
    )
}

fn argument(option: &'static Opt) -> Arg {
    let argument = Arg::new(option.long).long(option.long).help_heading(option.heading);
    let argument = match option.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    match option.kind {
        Kind::Value(name) => argument.value_name(name).allow_hyphen_values(true),
        Kind::Choice(words) => argument.value_name(words.join("|")),
        Kind::Flag => argument.action(ArgAction::SetTrue),
        Kind::Count => argument.action(ArgAction::Count),
    }
}

/// What stands below the options in `--help`.
fn after_help() -> String {
    let mut text = String::from(
        "DURATION is 90, 90s, 1.5h, 1h30m, 500ms, 2days, 1w or PT1H30M; a bare number is seconds and m is minutes.\n\
         Every option can be set by a variable (--at-most by SHEDLOCK_AT_MOST) and in a file, see shedlock.toml(5).\n\n\
         Exit codes:\n",
    );
    for row in &exit::TABLE {
        text += &format!("  {}\n          {}\n", row.code, row.when);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Vec<String> {
        let words = ["shedlock", "run"].iter().chain(words);
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let matches = parse(&words).unwrap();
        let run = matches.subcommand_matches("run").unwrap();
        run.get_many::<OsString>("command")
            .into_iter()
            .flatten()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_table_makes_a_valid_parser() {
        command().debug_assert();
    }

    #[test]
    fn parsing_stops_at_the_first_word_that_is_no_option() {
        assert_eq!(parsed(&["--name", "a", "--at-most", "1h", "sh", "-c", "echo -v"]), ["sh", "-c", "echo -v"]);
        assert_eq!(parsed(&["--name", "a", "--", "-x", "--name", "b"]), ["-x", "--name", "b"]);
        assert_eq!(parsed(&["--name", "a", "env", "--", "x", "--"]), ["env", "--", "x", "--"]);
        assert_eq!(parsed(&["--name", "a", "--", "--", "x"]), ["--", "x"]);
        assert_eq!(parsed(&["-v", "cmd", "-v", "--help", "--version"]), ["cmd", "-v", "--help", "--version"]);
    }

    #[test]
    fn an_unknown_option_before_the_command_is_not_the_command() {
        assert!(command().try_get_matches_from(["shedlock", "run", "--nmae", "a", "cmd"]).is_err());
    }
}
