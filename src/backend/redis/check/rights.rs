//! The user's rights, tested by running each command on a missing key, which changes nothing.

use ::redis::{Cmd, Value, cmd};

use super::super::connection::Connection;
use super::super::errors;
use crate::backend::Finding;
use crate::lock::BackendError;

/// Names the feature that needs a right: locks, or their tokens and history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    Lock,
    History,
}

/// Pairs a missing right with the feature that needs it.
pub(crate) type MissingRight = (Feature, &'static str);

/// Returns the missing rights. `key_prefix` is the prefix of all locks' keys.
pub(crate) fn missing(connection: &mut Connection, key_prefix: &str) -> Result<Vec<MissingRight>, BackendError> {
    // No lock has this name.
    let random = getrandom::u64().unwrap_or_default();
    let lock = format!("{key_prefix}shedlock-check-{random:016x}");
    let history = format!("{{{lock}}}:history");
    let mut missing = Vec::new();
    for (needed, right, command) in commands(&lock, &history) {
        // A cluster checks the rights before it redirects.
        let answer = connection.ask_one(command)?;
        if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOPERM") {
            missing.push((needed, right));
        }
    }
    Ok(missing)
}

fn commands(lock: &str, history: &str) -> Vec<(Feature, &'static str, Cmd)> {
    let of = |needed, right: &'static str, key: &str, more: &[&str]| {
        let mut command = cmd(right);
        command.arg(key).arg(more);
        (needed, right, command)
    };
    let script = cmd("EVAL").arg("return 1").arg(1).arg(lock).clone();
    let known = cmd("EVALSHA").arg("0".repeat(40)).arg(1).arg(lock).clone();
    vec![
        (Feature::Lock, "EVAL", script),
        (Feature::Lock, "EVALSHA", known),
        (Feature::Lock, "TIME", cmd("TIME")),
        of(Feature::Lock, "GET", lock, &[]),
        of(Feature::Lock, "SET", lock, &["", "XX", "PX", "1"]),
        of(Feature::Lock, "SETRANGE", lock, &["0", ""]),
        of(Feature::Lock, "DEL", lock, &[]),
        of(Feature::Lock, "PTTL", lock, &[]),
        of(Feature::Lock, "PEXPIRE", lock, &["1"]),
        of(Feature::History, "GET", history, &[]),
        of(Feature::History, "SET", history, &["", "XX", "PX", "1"]),
        of(Feature::History, "ZADD", history, &["XX", "0", ""]),
        of(Feature::History, "ZRANGE", history, &["0", "0"]),
        of(Feature::History, "ZREM", history, &[""]),
        of(Feature::History, "ZREMRANGEBYRANK", history, &["0", "0"]),
    ]
}

/// Explains the consequences of the missing rights.
pub(crate) fn judge(missing: &[MissingRight], key_prefix: &str) -> Vec<Finding> {
    let of = |wanted: Feature| missing.iter().filter(move |(needed, _)| *needed == wanted).map(|(_, right)| *right);
    let (lock, history): (Vec<_>, Vec<_>) = (of(Feature::Lock).collect(), of(Feature::History).collect());
    let allowed = |rights: &[&str], keys: &str| {
        let rights: Vec<_> = rights.iter().map(|right| format!("+{}", right.to_lowercase())).collect();
        format!("ACL SETUSER USER {keys} {}", rights.join(" "))
    };
    let first = match lock.is_empty() {
        true => Finding::good("rights", format!("all that a lock needs, on {key_prefix}*")),
        false => Finding::bad(
            "rights",
            format!("the user may not {} on {key_prefix}*", lock.join(", ")),
            allowed(&lock, &format!("~{key_prefix}*")),
        ),
    };
    let second = match history.is_empty() {
        true => Finding::good("history", format!("all that tokens and a history need, on {{{key_prefix}*")),
        false => Finding::unwise(
            "history",
            format!("the user may not {} on {{{key_prefix}*; locks work without tokens", history.join(", ")),
            allowed(&history, &format!("~{{{key_prefix}*")),
        ),
    };
    vec![first, second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    #[test]
    fn without_a_right_to_the_lock_nothing_works_and_without_one_to_the_history_there_is_no_token() {
        let grades =
            |missing: &[MissingRight]| judge(missing, "a:b:").into_iter().map(|it| it.grade).collect::<Vec<_>>();
        assert_eq!(grades(&[]), [Grade::Good, Grade::Good]);
        assert_eq!(grades(&[(Feature::Lock, "SET")]), [Grade::Bad, Grade::Good]);
        assert_eq!(grades(&[(Feature::History, "ZADD")]), [Grade::Good, Grade::Unwise]);
        let said = judge(&[(Feature::History, "ZADD")], "a:b:")[1].advice.clone().unwrap();
        assert_eq!(said, "ACL SETUSER USER ~{a:b:* +zadd");
    }
}
