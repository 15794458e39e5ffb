//! The operators' requests: the runs of a lock, changes, removal, and the commands that set a server up.

use std::collections::BTreeSet;
use std::time::Duration;

use ::redis::{Value, cmd};
use serde_json::Value as Json;

use super::bulk_read::{HISTORIES_PER_READ, RECORDS_PER_READ, VALUES_PER_READ, escaped};
use super::client::Call;
use super::scripts::{CHANGE, FORGET};
use super::{CompanionKey, Redis, errors, millis, unexpected_answer};
use crate::backend::{Admin, Backend, FindingSink, LockTest};
use crate::lock::{BackendError, Forgotten, StillHeld};
use crate::lock::{Change, Order, Removal, RunList, RunQuery, RunRecord, Runs};
use crate::system::Timestamp;

/// The output of `shedlock schema`; `{rights}` stands for the additional rights on a cluster.
const SCHEMA: &str = "\
# Redis needs nothing to be created: the first run of a lock creates its keys.
# This ACL user has all the rights that shedlock needs, and no more:
# ACL SETUSER {user} on >PASSWORD ~{key_prefix}* ~{{key_prefix}*}:* +eval +evalsha +select +time +get +set +setrange +del \
+pttl +pexpire +zadd +zrange +zrem +zremrangebyrank +scan{rights}
";

/// Number of times that a removal is repeated, a millisecond apart: it waits until the server's clock is past a token, which
/// is at most a second ahead.
const REMOVAL_RETRIES: usize = 10_000;

impl Admin for Redis {
    fn drops_free_locks(&self) -> bool {
        true
    }

    fn names(&mut self) -> Result<BTreeSet<String>, BackendError> {
        let held = self.locks(&[])?.locks.into_iter().map(|lock| lock.name);
        let last = self.runs(&RunQuery { newest_per_lock: Some(1), ..RunQuery::default() })?.runs;
        Ok(held.chain(last.iter().map(|run| run.name)).collect())
    }

    fn runs(&mut self, wanted: &RunQuery) -> Result<Runs, BackendError> {
        let now = self.now()?;
        let mut names: BTreeSet<String> = wanted.names.iter().cloned().collect();
        if names.is_empty() {
            let keys = self.client.find_keys(&format!("{{{}", self.key_prefix))?;
            let found = keys.iter().filter_map(|key| self.companion_lock_name(key, &[CompanionKey::History]));
            names.extend(found.map(str::to_owned));
        }
        let names: Vec<String> = names.into_iter().collect();
        let keys = names.iter().map(|name| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        let histories: Vec<String> = keys.iter().map(|key| CompanionKey::History.key(key)).collect();
        let newest =
            [wanted.limit, wanted.newest_per_lock].into_iter().flatten().min().filter(|_| wanted.since.is_none());
        let first = newest.map_or(0, |newest| -i64::from(newest.max(1)));
        let question = |key: &str| vec![cmd("ZRANGE").arg(key).arg(first).arg(-1).clone()];
        let mut runs = RunList::default();
        let at_once = newest
            .map_or(HISTORIES_PER_READ, |newest| (RECORDS_PER_READ / newest.max(1) as usize).clamp(1, VALUES_PER_READ));
        self.client.read(&histories, at_once, question, |place, answers| {
            match answers.as_slice() {
                // A listing of all locks skips a key that is not a history.
                [Value::ServerError(refusal)] if wanted.names.is_empty() && errors::code(refusal) == "WRONGTYPE" => {}
                [Value::Array(members)] => {
                    let found = members.iter().filter_map(|member| decode_run(member, &names[place]));
                    found.filter(|run| wanted.includes(run)).for_each(|run| runs.push(run));
                }
                [Value::ServerError(refusal)] if errors::is_denied(refusal) || errors::code(refusal) == "WRONGTYPE" => {
                    let why = format!("{} {}", refusal.code(), refusal.details().unwrap_or_default());
                    return Err(errors::from_history(&keys[place], &self.key_prefix, &why).named(&self.address));
                }
                [Value::ServerError(refusal)] => return Err(errors::from_answer(refusal).named(&self.address)),
                other => return Err(unexpected_answer(&self.address, &Value::Array(other.to_vec()))),
            }
            Ok(())
        })?;
        Ok(Runs { now, runs: wanted.select(runs, Order::Beginning) })
    }

    fn change(&mut self, change: &Change) -> Result<StillHeld, BackendError> {
        let keys = [self.key(change.name.as_str())?];
        let left = millis(change.left).to_string();
        let arguments = [change.from.as_str(), change.to.as_str(), left.as_str()];
        let answer = self.client.run(&Call { script: CHANGE, keys: &keys, arguments: &arguments })?;
        self.decode_still_held(&answer)
    }

    /// Removes a free lock, which has no key, and so no owner: the owner that was seen does not count.
    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let key = self.key(removal.name.as_str())?;
        let keys = [CompanionKey::History, CompanionKey::Token].map(|kind| kind.key(&key));
        let keys = [&[key][..], &keys].concat();
        for _ in 0..REMOVAL_RETRIES {
            let answer = self.client.run_unless(&Call { script: FORGET, keys: &keys, arguments: &[""] }, |_| false)?;
            return match &answer {
                Value::Array(found) => match found.as_slice() {
                    [Value::Int(0)] => Ok(Forgotten::InUse),
                    [Value::Int(1), Value::Int(token), Value::Int(runs)] => {
                        Ok(Forgotten::Gone { lock: *token > 0, runs: u64::try_from(*runs).unwrap_or_default() })
                    }
                    [Value::Int(2)] => {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                    _ => Err(self.unexpected_answer(&answer)),
                },
                _ => Err(self.unexpected_answer(&answer)),
            };
        }
        Err(BackendError::transient("the server's clock stands still").named(&self.address))
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        self.now()?;
        Ok(vec!["Redis needs nothing to be created".to_owned()])
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        let (user, rights) = match (&self.client.settings().user, self.client.is_cluster()) {
            (user, true) => (user, " +cluster|slots"),
            (user, false) => (user, ""),
        };
        Ok(SCHEMA
            .replace("{user}", user.as_deref().unwrap_or("jobs"))
            .replace("{key_prefix}", &escaped(&self.key_prefix))
            .replace("{rights}", rights))
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        self.probe(report)
    }
}

/// Decodes a record; returns `None` if it is not one.
pub(crate) fn decode_run(member: &Value, name: &str) -> Option<RunRecord> {
    let Value::BulkString(member) = member else { return None };
    let record: Json = serde_json::from_slice(member).ok()?;
    let text = |key: &str| record.get(key)?.as_str().map(str::to_owned);
    let time = |key: &str| Timestamp::parse(record.get(key)?.as_str()?);
    Some(RunRecord {
        token: record.get("token")?.as_u64()?,
        name: name.to_owned(),
        owner: text("owner").unwrap_or_default(),
        host: text("host").unwrap_or_default(),
        started_at: time("started_at"),
        ended_at: time("ended_at"),
        exit_code: record.get("exit_code").and_then(Json::as_i64),
        outcome: text("outcome"),
    })
}
