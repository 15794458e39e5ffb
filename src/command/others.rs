//! Words that people bring along from other programs: flock, timeout, chronic, consul, etcdctl, kubectl, docker and the Java library.

use crate::suggest::did_you_mean;

/// Commands, and what is meant by them: a command of shedlock, or a hint.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["list", "ls", "ps", "top", "show", "locks", "stat", "info", "inspect", "describe", "get", "holders"], "status"),
    (&["log", "logs", "events", "runs", "last"], "history"),
    (&["exec", "start", "wrap", "once", "with", "flock", "timeout", "cronlock", "solo", "setlock", "chronic"], "run"),
    (
        &["lock", "try", "trylock", "take", "obtain"],
        "`shedlock run` runs a command under a lock, and `shedlock acquire` only acquires it",
    ),
    (&["free", "break", "steal", "force-unlock"], "unlock"),
    (&["drop", "give-back", "return"], "release"),
    (&["delete", "del", "remove", "rm", "clear", "clean", "prune", "purge"], "forget"),
    (&["renew", "refresh", "touch", "keepalive", "keep-alive", "prolong"], "extend"),
    (&["disable", "suspend", "freeze", "maintenance"], "pause"),
    (&["enable", "unpause", "unsuspend", "continue", "thaw"], "resume"),
    (&["ping", "doctor", "diagnose", "health", "test", "validate"], "check"),
    (&["is-locked", "locked", "still-held"], "verify"),
    (&["setup", "install", "create", "migrate", "bootstrap"], "init"),
    (&["ddl", "sql", "tables"], "schema"),
    (&["jepsen", "torture", "bench"], "prove"),
    (&["kill", "cancel", "stop"], "shedlock stops no job on another host; `shedlock unlock` frees its lock"),
    (&["watch", "monitor"], "shedlock status --watch"),
    (&["page", "docs", "manual"], "man"),
    (&["completion", "autocomplete"], "completions"),
    (&["version"], "--version"),
];

/// Options, without their dashes and in small letters, and what is meant by them: an option of shedlock, or a hint that names
/// one.
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["timeout", "t", "time-limit", "limit"],
        "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock",
    ),
    (
        &["ttl", "expire", "expiry", "expires", "px", "ex", "lock-ttl", "session-ttl"],
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    // `acquire` has no lease.
    (&["ttl", "expire", "expiry", "px", "ex", "session-ttl"], "--at-most"),
    (
        &[
            "lock-at-most",
            "lock-at-most-for",
            "default-lock-at-most-for",
            "at-most-for",
            "max",
            "max-time",
            "max-runtime",
            "max-duration",
            "max-age-of-lock",
            "runtime",
            "deadline",
            "active-deadline-seconds",
            "expire-after",
        ],
        "--at-most",
    ),
    (
        &["lock-at-least", "lock-at-least-for", "default-lock-at-least-for", "at-least-for", "min", "min-time"],
        "--at-least",
    ),
    (&["interval", "period", "frequency", "each"], "--every"),
    (&["n"], "--name NAME gives the name; a held lock is not waited for unless --wait DURATION is given"),
    (
        &["nb", "nonblock", "nonblocking", "non-blocking", "no-wait", "nowait", "fail-fast"],
        "a held lock is not waited for unless --wait DURATION is given",
    ),
    (&["block", "blocking", "try", "wait-timeout", "acquire-timeout", "lock-timeout", "retry-for"], "--wait"),
    (
        &[
            "key",
            "lock",
            "lock-name",
            "lock-key",
            "lock-file",
            "lockfile",
            "id",
            "job",
            "task",
            "resource",
            "mutex",
            "label",
        ],
        "--name",
    ),
    (
        &[
            "url",
            "uri",
            "dsn",
            "db",
            "database",
            "store",
            "server",
            "host",
            "endpoint",
            "endpoints",
            "address",
            "addr",
            "http-addr",
            "redis",
            "postgres",
            "mysql",
            "etcd",
            "connection",
            "provider",
        ],
        "--backend",
    ),
    (&["url-file", "dsn-file", "secret", "password-file", "credentials"], "--backend-file"),
    (
        &[
            "heartbeat",
            "renew",
            "renewal",
            "keepalive",
            "keep-alive",
            "keep-alive-interval",
            "auto-extend",
            "lock-delay",
        ],
        "--lease",
    ),
    (&["jitter", "random-delay", "randomized-delay-sec", "delay", "random-sleep", "spread"], "--splay"),
    (
        &["exit-code", "conflict-code", "exit-code-on-conflict", "busy-exit-code", "skip-exit-code"],
        "--conflict-exit-code",
    ),
    (&["preserve-status", "child-exit-code"], "leave it out: the exit code is the job's own"),
    (&["pass-stdin", "stdin", "interactive"], "leave it out: the job has shedlock's stdin"),
    (&["exclusive", "x", "shared"], "leave it out: every lock has one holder"),
    (&["no-fork", "close", "o"], "leave it out: shedlock stays beside the job, and passes no descriptor of its own on"),
    (&["command", "c", "shell", "cmd"], "a line for a shell comes last: -- sh -c 'COMMAND'"),
    (&["chdir", "cwd", "workdir", "directory"], "let a shell do it: -- sh -c 'cd DIRECTORY && exec COMMAND'"),
    (&["env", "environment", "set-env"], "put it before the command: -- env VARIABLE=VALUE COMMAND"),
    (&["user", "u", "uid", "run-as"], "put it before the command, for example: -- runuser -u USER -- COMMAND"),
    (
        &[
            "mail",
            "mailto",
            "email",
            "webhook",
            "ping",
            "healthcheck",
            "slack",
            "on-fail",
            "on-error",
            "on-success",
            "alert",
        ],
        "--notify",
    ),
    (&["dry", "dryrun", "noop", "no-op", "simulate", "check", "print-only", "what-if"], "--dry-run"),
    (
        &["background", "daemon", "detach", "d"],
        "shedlock stays for as long as the job; a shell's & puts both into the background",
    ),
    (&["log", "log-file", "logfile"], "shedlock writes to stderr: redirect it, as in 2>>FILE"),
    (&["json", "log-json", "structured"], "--log-format"),
    (&["prometheus", "textfile", "metrics", "metrics-file"], "--metrics-dir"),
    (&["sigkill-after", "grace", "grace-period", "termination-grace-period-seconds"], "--kill-after"),
    (&["stop-signal", "kill-signal"], "--signal"),
    (&["configuration", "conf", "settings"], "--config"),
    (&["debug", "trace"], "--verbose"),
    (&["silent"], "--quiet"),
];

/// Returns the hint for a command that shedlock does not have.
pub(super) fn command(word: &str) -> Option<String> {
    meant(COMMANDS, &word.to_lowercase()).next().map(told)
}

/// Returns the hint for an option that none of a command's options is. It names no option that the command does not have.
pub(super) fn option(typed: &str, known: &[&str]) -> Option<String> {
    let word = plain(typed);
    if known.contains(&&*word) {
        return Some(did_you_mean(&format!("--{word}")));
    }
    let is_there = |hint: &&str| named(hint).all(|name| known.contains(&name));
    meant(OPTIONS, &word).find(is_there).map(told)
}

/// Returns the options that a hint names.
fn named(hint: &str) -> impl Iterator<Item = &str> {
    hint.split(' ').filter_map(|word| word.strip_prefix("--")).filter(|name| !name.is_empty())
}

/// Returns an option's name as shedlock would spell it.
fn plain(typed: &str) -> String {
    let mut plain = String::new();
    let is_shouted = !typed.contains(char::is_lowercase);
    for c in typed.trim_start_matches('-').split('=').next().unwrap_or_default().chars() {
        if c.is_uppercase() && plain.ends_with(char::is_lowercase) && !is_shouted {
            plain.push('-');
        }
        plain.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    plain
}

fn meant(table: &[(&[&str], &'static str)], word: &str) -> impl Iterator<Item = &'static str> {
    table.iter().filter(move |(words, _)| words.contains(&word)).map(|(_, hint)| *hint)
}

/// Asks for what is one word, and says what is a sentence.
fn told(hint: &str) -> String {
    if hint.contains(' ') { hint.to_owned() } else { did_you_mean(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::SUBS;

    #[test]
    fn no_word_is_one_of_ours_and_every_hint_names_what_there_is() {
        let options: Vec<&str> = crate::cli::OPTIONS.iter().map(|option| option.long).collect();
        let commands: Vec<&str> = SUBS.iter().map(|sub| sub.name).chain(["run", "man", "completions"]).collect();
        for (table, known) in [(OPTIONS, &options), (COMMANDS, &commands)] {
            let ours: Vec<_> = table.iter().flat_map(|(words, _)| *words).filter(|word| known.contains(word)).collect();
            assert!(ours.is_empty(), "{ours:?}");
        }
        for name in OPTIONS.iter().flat_map(|(_, hint)| named(hint)) {
            assert!(options.contains(&name), "{name}");
        }
        for (_, hint) in COMMANDS.iter().filter(|(_, hint)| !hint.contains(' ') && !hint.starts_with('-')) {
            assert!(commands.contains(hint), "{hint}");
        }
    }

    #[test]
    fn other_spellings_are_the_same_option() {
        for (typed, word) in
            [("--lockAtMostFor", "lock-at-most-for"), ("-at_most=1h", "at-most"), ("--TTL", "ttl"), ("-n", "n")]
        {
            assert_eq!(plain(typed), word);
        }
    }
}
