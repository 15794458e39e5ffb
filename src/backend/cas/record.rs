//! The record of a lock, and what each operation makes of it. Nothing here asks a store.

use std::time::Duration;

#[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
use serde_json::{Value, json};

use crate::backend::FOR_EVER;
use crate::lock::{Change, Claim, Closing, Holder, LockState, Purpose, RunRecord};
use crate::system::Timestamp;

/// Minimum remaining time of a held lock.
const MOMENT: Duration = Duration::from_millis(1);

/// The store's clock, which may be coarse.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Clock {
    /// The earliest time that it can be.
    pub(in crate::backend) now: Timestamp,
    /// The true time is at most this much later.
    pub(in crate::backend) grain: Duration,
}

impl Clock {
    /// Returns a time at which the duration has passed, however late it is.
    fn after(self, duration: Duration) -> Timestamp {
        self.now + self.grain + duration
    }
}

/// The record of one lock: its state, the last token and the last runs. The default is a lock that nobody ever took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backend) struct Record {
    pub(in crate::backend) owner: String,
    /// `None` if the stored value is not a time.
    pub(in crate::backend) since: Option<Timestamp>,
    /// `None` if the stored value is not a time: the lock is then held without an end.
    pub(in crate::backend) until: Option<Timestamp>,
    /// The token of the last taking.
    pub(in crate::backend) token: u64,
    /// The last runs, oldest first.
    pub(in crate::backend) runs: Vec<RunRecord>,
}

impl Default for Record {
    fn default() -> Self {
        Self { owner: String::new(), since: None, until: Some(Timestamp(0)), token: 0, runs: Vec::new() }
    }
}

impl Record {
    /// Returns whether the lock may still be held. It is free only if it is free at the earliest time that it can be.
    pub(super) fn is_held(&self, clock: Clock) -> bool {
        self.until.is_none_or(|until| until > clock.now)
    }

    pub(super) fn state(&self, clock: Clock) -> LockState {
        let left = self.until.map_or(FOR_EVER, |until| until.since(clock.now).saturating_sub(clock.grain).max(MOMENT));
        let left = if self.is_held(clock) { left } else { Duration::ZERO };
        let until = self.until.filter(|until| until.0 > 0);
        LockState { owner: self.owner.clone(), since: self.since, until, left }
    }

    /// Returns the record after a taking of a lock that is free or has this owner, and the token. A repeated taking
    /// replaces the run, and does not shorten the lock.
    pub(super) fn taken(&self, claim: &Claim, clock: Clock, floor: u64) -> (Self, Option<u64>) {
        let mut taken = self.clone();
        let owner = claim.owner.as_str();
        let until = clock.after(claim.lease);
        let ours = self.until.filter(|_| self.is_held(clock) && self.owner == owner);
        taken.until = Some(ours.map_or(until, |ours| ours.max(until)));
        taken.since = Some(clock.now);
        owner.clone_into(&mut taken.owner);
        if claim.purpose == Purpose::Pause {
            return (taken, None);
        }
        taken.token = (self.token + 1).max(floor);
        taken.runs.retain(|run| run.owner != owner);
        taken.runs.push(RunRecord {
            token: taken.token,
            name: claim.name.as_str().to_owned(),
            owner: owner.to_owned(),
            host: Holder::of(owner).host().to_owned(),
            started_at: Some(clock.now),
            ended_at: None,
            exit_code: None,
            outcome: None,
        });
        let token = taken.token;
        (taken, Some(token))
    }

    /// Returns the record with a later end, if the claim's owner holds the lock. Never shortens the lock.
    pub(super) fn renewed(&self, claim: &Claim, clock: Clock) -> Option<Self> {
        let until = self.until.map(|until| until.max(clock.after(claim.lease)));
        (self.is_held(clock) && self.owner == claim.owner.as_str()).then(|| Self { until, ..self.clone() })
    }

    /// Returns the record after a release: its owner is marked as ended if the lock was the claim's. The run is closed in
    /// any case.
    pub(super) fn released(&self, claim: &Claim, hold: Duration, closing: Closing, clock: Clock) -> Self {
        let mut released = self.clone();
        let is_ours = self.owner == claim.owner.as_str();
        released.close(claim, closing, clock.now);
        // The run of another owner goes on.
        let going_on = u32::from(self.is_held(clock) && !is_ours);
        released.keep(claim.keep.max(going_on));
        if self.is_held(clock) && is_ours {
            // Not later: `every` ends with a minute of the clock, at which cron starts the next run.
            let held_until = (self.since.unwrap_or(clock.now) + hold).max(clock.now);
            // Without a hold it frees by the present clock, which may have been set back since the taking.
            released.until = Some(if hold.is_zero() { clock.now } else { held_until });
            released.owner = claim.owner.ended();
        }
        released
    }

    fn close(&mut self, claim: &Claim, closing: Closing, now: Timestamp) {
        let is_ours = |run: &RunRecord| run.owner == claim.owner.as_str();
        match closing {
            Closing::Unused | Closing::GivenUp => self.runs.retain(|run| !is_ours(run)),
            Closing::Ended { verdict, exit_code } => {
                let open = self.runs.iter_mut().find(|run| is_ours(run) && run.ended_at.is_none());
                if let Some(run) = open {
                    run.ended_at = Some(now);
                    run.exit_code = exit_code.map(i64::from);
                    run.outcome = Some(verdict.as_str().to_owned());
                }
            }
        }
    }

    /// Returns the record with another end or owner, if the lock has the named owner, or the new one already because
    /// the change is repeated.
    pub(super) fn changed(&self, change: &Change, clock: Clock) -> Option<Self> {
        if !self.is_held(clock) || ![&change.from, &change.to].contains(&&self.owner) {
            return None;
        }
        let until = if change.left.is_zero() { clock.now } else { clock.after(change.left) };
        let since = if self.owner == change.to { self.since } else { Some(clock.now) };
        Some(Self { owner: change.to.clone(), since, until: Some(until), ..self.clone() })
    }

    /// Drops the oldest runs.
    pub(super) fn keep(&mut self, most: u32) {
        self.runs.drain(..self.runs.len().saturating_sub(most as usize));
    }

    /// Writes the record as one line of JSON, for a store that keeps text.
    #[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
    pub(in crate::backend) fn to_json(&self) -> String {
        let time = |time: Option<Timestamp>| time.map(|time| time.0);
        let runs = self.runs.iter().map(|run| {
            let times = (time(run.started_at), time(run.ended_at));
            json!([run.token, run.owner, times.0, times.1, run.exit_code, run.outcome])
        });
        let runs = runs.collect::<Vec<_>>();
        json!({"owner": self.owner, "since": time(self.since), "until": time(self.until), "token": self.token, "runs": runs})
            .to_string()
    }

    /// Reads what [`Self::to_json`] wrote; `None` for any other text. A run that cannot be read is left out.
    #[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
    pub(in crate::backend) fn parse(text: &str, name: &str) -> Option<Self> {
        let read: Value = serde_json::from_str(text).ok()?;
        let time = |value: &Value| value.as_u64().map(Timestamp);
        let run = |run: &Value| {
            let owner = run.get(1)?.as_str()?;
            Some(RunRecord {
                token: run.get(0)?.as_u64()?,
                name: name.to_owned(),
                owner: owner.to_owned(),
                host: Holder::of(owner).host().to_owned(),
                started_at: time(run.get(2)?),
                ended_at: time(run.get(3)?),
                exit_code: run.get(4)?.as_i64(),
                outcome: run.get(5)?.as_str().map(str::to_owned),
            })
        };
        Some(Self {
            owner: read.get("owner")?.as_str()?.to_owned(),
            since: time(read.get("since")?),
            until: time(read.get("until")?),
            token: read.get("token")?.as_u64()?,
            runs: read.get("runs")?.as_array()?.iter().filter_map(run).collect(),
        })
    }
}
