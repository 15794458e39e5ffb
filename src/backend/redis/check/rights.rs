//! The user's rights, tested by running each command on a missing key, which changes nothing.

use ::redis::{Cmd, Value, cmd};

use super::super::errors;
use super::super::link::Link;
use crate::backend::{BackendError, Finding};

/// The feature that needs a right: the locks, or their tokens and history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Lock,
    History,
}

/// A missing right, and the feature that needs it.
pub(super) type Lacking = (For, &'static str);

/// Returns the missing rights. `space` is the prefix of all locks' keys.
pub(super) fn lacking(link: &mut Link, space: &str) -> Result<Vec<Lacking>, BackendError> {
    // No lock has this name.
    let random = getrandom::u64().unwrap_or_default();
    let lock = format!("{space}shedlock-check-{random:016x}");
    let history = format!("{{{lock}}}:history");
    let mut lacking = Vec::new();
    for (needed, right, command) in commands(&lock, &history) {
        // A cluster checks the rights before it redirects.
        let answer = link.one(command)?;
        if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOPERM") {
            lacking.push((needed, right));
        }
    }
    Ok(lacking)
}

fn commands(lock: &str, history: &str) -> Vec<(For, &'static str, Cmd)> {
    let of = |needed, right: &'static str, key: &str, more: &[&str]| {
        let mut command = cmd(right);
        command.arg(key).arg(more);
        (needed, right, command)
    };
    let script = cmd("EVAL").arg("return 1").arg(1).arg(lock).clone();
    let known = cmd("EVALSHA").arg("0".repeat(40)).arg(1).arg(lock).clone();
    vec![
        (For::Lock, "EVAL", script),
        (For::Lock, "EVALSHA", known),
        (For::Lock, "TIME", cmd("TIME")),
        of(For::Lock, "GET", lock, &[]),
        of(For::Lock, "SET", lock, &["", "XX", "PX", "1"]),
        of(For::Lock, "SETRANGE", lock, &["0", ""]),
        of(For::Lock, "DEL", lock, &[]),
        of(For::Lock, "PTTL", lock, &[]),
        of(For::Lock, "PEXPIRE", lock, &["1"]),
        of(For::History, "GET", history, &[]),
        of(For::History, "SET", history, &["", "XX", "PX", "1"]),
        of(For::History, "ZADD", history, &["XX", "0", ""]),
        of(For::History, "ZRANGE", history, &["0", "0"]),
        of(For::History, "ZREM", history, &[""]),
        of(For::History, "ZREMRANGEBYRANK", history, &["0", "0"]),
    ]
}

/// Explains the consequences of the missing rights.
pub(super) fn judge(lacking: &[Lacking], space: &str) -> Vec<Finding> {
    let of = |wanted: For| lacking.iter().filter(move |(needed, _)| *needed == wanted).map(|(_, right)| *right);
    let (lock, history): (Vec<_>, Vec<_>) = (of(For::Lock).collect(), of(For::History).collect());
    let allowed = |rights: &[&str], keys: &str| {
        let rights: Vec<_> = rights.iter().map(|right| format!("+{}", right.to_lowercase())).collect();
        format!("ACL SETUSER USER {keys} {}", rights.join(" "))
    };
    let first = match lock.is_empty() {
        true => Finding::good("rights", format!("all that a lock needs, on {space}*")),
        false => Finding::bad(
            "rights",
            format!("the user may not {} on {space}*", lock.join(", ")),
            allowed(&lock, &format!("~{space}*")),
        ),
    };
    let second = match history.is_empty() {
        true => Finding::good("history", format!("all that tokens and a history need, on {{{space}*")),
        false => Finding::unwise(
            "history",
            format!("the user may not {} on {{{space}*; locks work without tokens", history.join(", ")),
            allowed(&history, &format!("~{{{space}*")),
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
        let grades = |lacking: &[Lacking]| judge(lacking, "a:b:").into_iter().map(|it| it.grade).collect::<Vec<_>>();
        assert_eq!(grades(&[]), [Grade::Good, Grade::Good]);
        assert_eq!(grades(&[(For::Lock, "SET")]), [Grade::Bad, Grade::Good]);
        assert_eq!(grades(&[(For::History, "ZADD")]), [Grade::Good, Grade::Unwise]);
        let said = judge(&[(For::History, "ZADD")], "a:b:")[1].advice.clone().unwrap();
        assert_eq!(said, "ACL SETUSER USER ~{a:b:* +zadd");
    }
}
