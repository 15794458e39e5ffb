//! The settings that can make a server lose locks: its memory, its disk, and the replicas that may replace it.

use ::redis::{Value, cmd};

use super::super::connection::Connection;
use super::info::{Info, text};
use crate::backend::Finding;
use crate::backend::diagnose::FindingSink;
use crate::lock::BackendError;

/// Holds the server's settings; a value is `None` if the user may not read it.
struct Settings {
    save: Option<String>,
    least_replicas: Option<String>,
    policy: Option<String>,
    memory: Option<String>,
}

/// Judges the memory, the disk and the replicas; fails if the server stops answering.
pub(crate) fn probe(
    connection: &mut Connection,
    info: &Info,
    sentinels: bool,
    report: FindingSink<'_>,
) -> Result<(), BackendError> {
    let mut ask = |name: &str| setting(connection, name);
    let settings = Settings {
        save: ask("save")?,
        least_replicas: ask("min-replicas-to-write")?,
        policy: ask("maxmemory-policy")?.or_else(|| info.get("maxmemory_policy").cloned()),
        memory: ask("maxmemory")?.or_else(|| info.get("maxmemory").cloned()),
    };
    report(judge_memory(&settings));
    report(judge_disk(&settings, info));
    report(judge_copies(&settings, info, sentinels));
    Ok(())
}

fn setting(connection: &mut Connection, name: &str) -> Result<Option<String>, BackendError> {
    Ok(match connection.ask_one(cmd("CONFIG").arg("GET").arg(name).clone())? {
        Value::Array(pair) => pair.get(1).map(text),
        _ => None,
    })
}

/// Judges the memory: locks expire, so a policy that evicts expiring keys may evict them.
fn judge_memory(settings: &Settings) -> Finding {
    let (Some(policy), Some(memory)) = (settings.policy.as_deref(), settings.memory.as_deref()) else {
        return Finding::unwise(
            "eviction",
            "the user may not read maxmemory and maxmemory-policy",
            "allow this user +config|get or +info, or make sure that maxmemory-policy is noeviction",
        );
    };
    match (policy, memory) {
        (_, "0") => Finding::good("eviction", "maxmemory is not set, so nothing is evicted"),
        ("noeviction", _) => Finding::good("eviction", "maxmemory-policy is noeviction"),
        (policy, memory) => Finding::bad(
            "eviction",
            format!("maxmemory-policy is {policy}: when the {memory} bytes of maxmemory are full, locks are evicted"),
            "set maxmemory-policy to noeviction, or give locks a server of their own",
        ),
    }
}

fn judge_disk(settings: &Settings, info: &Info) -> Finding {
    let advice = "set appendonly yes";
    match (info.get("aof_enabled").map(String::as_str), settings.save.as_deref()) {
        (Some("1"), _) => Finding::good("persistence", "appendonly is on: locks survive a restart"),
        (Some(_), Some("")) => {
            Finding::unwise("persistence", "neither appendonly nor save is on: a restart loses all locks", advice)
        }
        (Some(_), Some(_)) => {
            Finding::unwise("persistence", "snapshots only: a crash loses the locks taken since the last one", advice)
        }
        _ => Finding::unwise("persistence", "the user may not read whether locks survive a restart", advice),
    }
}

fn judge_copies(settings: &Settings, info: &Info, sentinels: bool) -> Finding {
    let Some(copies) = info.get("connected_slaves").and_then(|count| count.parse::<u32>().ok()) else {
        return Finding::unwise("replicas", "the user may not read whether there are any", "allow the user +info");
    };
    match (copies, settings.least_replicas.as_deref()) {
        (0, _) if !sentinels => Finding::good("replicas", "there are none, so no failover can lose a lock"),
        (_, Some(least)) if least != "0" => {
            Finding::good("replicas", format!("{copies}, and min-replicas-to-write is {least}"))
        }
        (copies, _) => Finding::unwise(
            "replicas",
            format!("{copies}: a failover can lose the locks taken just before"),
            "set min-replicas-to-write 1, and make jobs check SHEDLOCK_LOCK_TOKEN if two at once would do harm",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    fn settings(save: Option<&str>, least: &str, policy: &str, memory: &str) -> Settings {
        let some = |text: &str| Some(text.to_owned());
        Settings {
            save: save.map(str::to_owned),
            least_replicas: some(least),
            policy: some(policy),
            memory: some(memory),
        }
    }

    fn info(key: &str, value: &str) -> Info {
        [(key.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn a_policy_that_throws_locks_away_is_bad() {
        let grade = |policy, memory| judge_memory(&settings(None, "0", policy, memory)).grade;
        for policy in ["allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lru"] {
            assert_eq!(grade(policy, "100000"), Grade::Bad, "{policy}");
            assert_eq!(grade(policy, "0"), Grade::Good, "{policy}");
        }
        assert_eq!(grade("noeviction", "100000"), Grade::Good);
    }

    #[test]
    fn a_server_that_forgets_with_a_restart_is_unwise() {
        let seen = |save, aof| judge_disk(&settings(save, "0", "", "0"), &info("aof_enabled", aof));
        assert_eq!(seen(Some(""), "1").grade, Grade::Good);
        assert!(seen(Some(""), "0").seen.contains("loses all locks"));
        assert!(seen(Some("3600 1"), "0").seen.contains("snapshots only"));
        assert!(seen(None, "0").seen.contains("may not read"));
    }

    #[test]
    fn a_replica_that_need_not_know_of_a_lock_is_unwise() {
        let grade = |copies, least, sentinels| {
            judge_copies(&settings(None, least, "", "0"), &info("connected_slaves", copies), sentinels).grade
        };
        assert_eq!(grade("0", "0", false), Grade::Good);
        assert_eq!(grade("1", "0", false), Grade::Unwise);
        assert_eq!(grade("1", "1", false), Grade::Good);
        assert_eq!(grade("0", "0", true), Grade::Unwise);
    }
}
