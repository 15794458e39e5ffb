//! The record of a lock, and the record that each operation writes in its place. Nothing here asks a store.

use std::time::Duration;

#[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
use serde_json::{Value, json};

use crate::backend::clock::MIN_CLOCK_LEAD;
#[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
use crate::backend::net::json;
use crate::lock::ENDLESS;
use crate::lock::{Change, Claim, Closing, Holder, LockState, Purpose, RunRecord};
use crate::system::Timestamp;

/// Minimum remaining time of a held lock.
const MIN_REMAINING: Duration = Duration::from_millis(1);
/// The largest token: a larger one has no room in the 64 bits with a sign that fenced resources keep.
const LARGEST_TOKEN: u64 = i64::MAX as u64;

/// Holds the time of the store's clock, which may be coarse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// The earliest time that it can be by the store's clock.
    pub(crate) now: Timestamp,
    /// The true time is at most this much later.
    pub(crate) resolution: Duration,
}

impl Clock {
    /// Returns a time at which the duration has passed, even if the true time is the latest possible.
    fn after(self, duration: Duration) -> Timestamp {
        self.now + self.resolution + duration
    }
}

/// Holds the record of one lock: its state, the last token and the last runs. The default is a lock that nobody ever acquired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: String,
    /// `None` if the stored value is not a time.
    pub(crate) since: Option<Timestamp>,
    /// `None` if the stored value is not a time: the lock is then held without an end.
    pub(crate) until: Option<Timestamp>,
    /// The store's clock when shedlock wrote this end; `None` if another program or an earlier version wrote it.
    pub(crate) set_at: Option<Timestamp>,
    /// The token of the last acquisition.
    pub(crate) token: u64,
    /// The last runs, oldest first.
    pub(crate) runs: Vec<RunRecord>,
}

impl Default for Record {
    fn default() -> Self {
        Self { owner: String::new(), since: None, until: Some(Timestamp(0)), set_at: None, token: 0, runs: Vec::new() }
    }
}

impl Record {
    /// Returns whether the lock may still be held. It is free only if it is free at the earliest time that it can be.
    pub(crate) fn is_held(&self, clock: Clock) -> bool {
        self.end(clock).is_none_or(|end| end > clock.now)
    }

    /// Returns when the lock ends by the present clock; `None` if it has no end.
    fn end(&self, clock: Clock) -> Option<Timestamp> {
        let until = self.until?;
        let was_free = self.set_at.is_some_and(|set_at| until <= set_at);
        let is_ignored = was_free || self.has_ended() && is_ahead(self.since, clock, MIN_CLOCK_LEAD);
        match self.clock_corrected(clock) {
            // A lock that was free stays free, whatever the clock is set to.
            _ if is_ignored => Some(until.min(clock.now)),
            Some(corrected) => corrected.until,
            None => Some(until),
        }
    }

    /// Returns the record of a held lock with its times by the present clock, if the clock was ahead when the lock was
    /// written, and was set back since: the time for which it is held begins anew.
    ///
    /// Returns `None` if the clock was ahead by less than a minute, or by less than that time: otherwise servers of one store
    /// whose clocks differ would shorten locks that live. Locks of other programs stay, since these go by their own clocks.
    pub(crate) fn clock_corrected(&self, clock: Clock) -> Option<Self> {
        let written = self.set_at.max(self.since);
        let left = self.until?.since(written?);
        let is_running = !self.has_ended() && !Holder::parse(&self.owner).is_foreign();
        (is_running && is_ahead(written, clock, MIN_CLOCK_LEAD.max(left))).then(|| Self {
            since: self.since.min(Some(clock.now)),
            // `left` counts the coarseness of the clock already.
            until: Some(clock.now + left),
            set_at: Some(clock.now),
            ..self.clone()
        })
    }

    fn has_ended(&self) -> bool {
        Holder::parse(&self.owner).has_ended()
    }

    pub(crate) fn state(&self, clock: Clock) -> LockState {
        let end = self.end(clock);
        let left = end.map_or(ENDLESS, |end| end.since(clock.now).saturating_sub(clock.resolution).max(MIN_REMAINING));
        let left = if self.is_held(clock) { left } else { Duration::ZERO };
        LockState { owner: self.owner.clone(), since: self.since, until: end.filter(|end| end.0 > 0), left }
    }

    /// Returns the record after an acquisition of a lock that is free or has this owner, and the token; `None` if there is no
    /// larger token. A repeated acquisition replaces the run, and does not shorten the lock.
    pub(crate) fn acquired(&self, claim: &Claim, clock: Clock, min_token: u64) -> Option<(Self, Option<u64>)> {
        let owner = claim.owner.as_str();
        let is_owner = self.is_held(clock) && self.owner == owner;
        let mut acquired = self.clock_corrected(clock).unwrap_or_else(|| self.clone());
        let until = clock.after(claim.lease);
        if !is_owner || acquired.until.is_none_or(|end| end < until) {
            acquired.end_at(until, clock);
        }
        acquired.since = Some(clock.now);
        owner.clone_into(&mut acquired.owner);
        if claim.purpose == Purpose::Pause {
            return Some((acquired, None));
        }
        acquired.token = self.token.checked_add(1)?.max(min_token);
        if acquired.token > LARGEST_TOKEN {
            return None;
        }
        acquired.runs.retain(|run| run.owner != owner);
        acquired.runs.push(RunRecord {
            token: acquired.token,
            name: claim.name.as_str().to_owned(),
            owner: owner.to_owned(),
            host: Holder::parse(owner).host().to_owned(),
            started_at: Some(clock.now),
            ended_at: None,
            exit_code: None,
            outcome: None,
        });
        let token = acquired.token;
        Some((acquired, Some(token)))
    }

    /// Returns the record with a later end, if the claim's owner holds the lock. Never shortens the lock.
    pub(crate) fn renewed(&self, claim: &Claim, clock: Clock) -> Option<Self> {
        if !self.is_held(clock) || self.owner != claim.owner.as_str() {
            return None;
        }
        let mut renewed = self.clock_corrected(clock).unwrap_or_else(|| self.clone());
        let until = clock.after(claim.lease);
        if renewed.until.is_some_and(|end| end < until) {
            renewed.end_at(until, clock);
        }
        Some(renewed)
    }

    /// Returns the record after a release: its owner is marked as ended if the lock was the claim's. The run is closed in
    /// any case.
    pub(crate) fn released(&self, claim: &Claim, hold: Duration, closing: Closing, clock: Clock) -> Self {
        let mut released = self.clone();
        let is_owner = self.owner == claim.owner.as_str();
        released.close_run(claim, closing, clock.now);
        // The run of another owner goes on.
        let going_on = u32::from(self.is_held(clock) && !is_owner);
        released.keep_newest_runs(claim.keep.max(going_on));
        if self.is_held(clock) && is_owner {
            // The clock may have been set back since the acquisition: the lock is held for the hold from now at most.
            let since = self.since.unwrap_or(clock.now).min(clock.now);
            // The acquisition may have been as much later as the clock is coarse.
            let held_until = Clock { now: since, ..clock }.after(hold).max(clock.now);
            released.since = Some(since);
            released.end_at(if hold.is_zero() { clock.now } else { held_until }, clock);
            released.owner = claim.owner.ended();
        }
        released
    }

    fn end_at(&mut self, until: Timestamp, clock: Clock) {
        (self.until, self.set_at) = (Some(until), Some(clock.now));
    }

    fn close_run(&mut self, claim: &Claim, closing: Closing, now: Timestamp) {
        let is_owner = |run: &RunRecord| run.owner == claim.owner.as_str();
        match closing {
            Closing::Unused | Closing::Undone => self.runs.retain(|run| !is_owner(run)),
            Closing::Ended { outcome, exit_code } => {
                let open = self.runs.iter_mut().find(|run| is_owner(run) && run.ended_at.is_none());
                if let Some(run) = open {
                    run.ended_at = Some(now);
                    run.exit_code = exit_code.map(i64::from);
                    run.outcome = Some(outcome.as_str().to_owned());
                }
            }
        }
    }

    /// Returns the record with another end or owner, if the lock has the named owner, or the new one already because
    /// the change is repeated.
    pub(crate) fn changed(&self, change: &Change, clock: Clock) -> Option<Self> {
        if !self.is_held(clock) || ![&change.from, &change.to].contains(&&self.owner) {
            return None;
        }
        let since = if self.owner == change.to { self.since.min(Some(clock.now)) } else { Some(clock.now) };
        let mut changed = Self { owner: change.to.clone(), since, ..self.clone() };
        changed.end_at(if change.left.is_zero() { clock.now } else { clock.after(change.left) }, clock);
        Some(changed)
    }

    /// Drops the oldest runs, so that this many are left.
    pub(crate) fn keep_newest_runs(&mut self, count: u32) {
        self.runs.drain(..self.runs.len().saturating_sub(count as usize));
    }

    /// Writes the record as one line of JSON, for a store that keeps text.
    #[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
    pub(crate) fn to_json(&self) -> String {
        let time = |time: Option<Timestamp>| time.map(|time| time.0);
        let runs = self.runs.iter().map(|run| {
            let times = (time(run.started_at), time(run.ended_at));
            json!([run.token, run.owner, times.0, times.1, run.exit_code, run.outcome])
        });
        let runs = runs.collect::<Vec<_>>();
        let (since, until, set_at) = (time(self.since), time(self.until), time(self.set_at));
        json!({"owner": self.owner, "since": since, "until": until, "set": set_at, "token": self.token, "runs": runs})
            .to_string()
    }

    /// Reads the text that [`Self::to_json`] wrote; `None` for any other text. A run that cannot be read is left out.
    #[cfg(any(test, feature = "kubernetes", feature = "zookeeper"))]
    pub(crate) fn parse(text: &str, name: &str) -> Option<Self> {
        let read = json::parse(text.as_bytes())?;
        let time = |value: &Value| value.as_u64().map(Timestamp);
        // A number beyond 64 bits is no 0, from which tokens would begin again.
        let token = |value: &Value| {
            let is_beyond = value.as_f64().is_some_and(|token| token > 1e19);
            value.as_u64().or_else(|| is_beyond.then_some(u64::MAX))
        };
        let run = |run: &Value| {
            let owner = run.get(1)?.as_str()?;
            Some(RunRecord {
                token: run.get(0)?.as_u64()?,
                name: name.to_owned(),
                owner: owner.to_owned(),
                host: Holder::parse(owner).host().to_owned(),
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
            set_at: read.get("set").and_then(time),
            token: token(read.get("token")?)?,
            runs: read.get("runs")?.as_array()?.iter().filter_map(run).collect(),
        })
    }
}

/// Returns whether a time is further in the future than `by`.
fn is_ahead(time: Option<Timestamp>, clock: Clock, by: Duration) -> bool {
    time.is_some_and(|time| time > clock.now + by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockName, Owner, RunOutcome};

    const AT: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3_600_000;
    const CLOCK_RESOLUTION: Duration = Duration::from_secs(1);
    const LEASE: Duration = Duration::from_secs(30);
    const DONE: Closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };

    fn clock(millis: u64) -> Clock {
        Clock { now: Timestamp(millis), resolution: CLOCK_RESOLUTION }
    }

    fn claim(number: u64) -> Claim {
        let (name, owner) = (LockName::new("job").unwrap(), Owner::new("web1", 1, number));
        Claim { name, owner, lease: LEASE, keep: 3, purpose: Purpose::Run }
    }

    fn acquired(at: u64) -> Record {
        Record::default().acquired(&claim(1), clock(at), 0).unwrap().0
    }

    fn released(record: &Record, hold: Duration, at: u64) -> Record {
        record.released(&claim(1), hold, DONE, clock(at))
    }

    /// Returns the milliseconds that a lock is held for from this time on, by a clock that goes on from there.
    fn held_for(record: &Record, at: u64) -> u64 {
        let state = record.state(clock(at));
        if record.is_held(clock(at)) { u64::try_from(state.left.as_millis()).unwrap() } else { 0 }
    }

    #[test]
    fn a_hold_counts_from_the_latest_time_of_the_acquisition_and_for_its_time_from_now_at_most() {
        let hold = Duration::from_secs(60);
        for (released_at, until) in [
            (AT, AT + 61_000),
            (AT + 20_000, AT + 61_000),
            (AT + 29_000, AT + 61_000),
            // The clock was set back by ten seconds, and by an hour.
            (AT - 10_000, AT + 51_000),
            (AT - HOUR, AT - HOUR + 61_000),
        ] {
            let kept = released(&acquired(AT), hold, released_at);
            assert_eq!((kept.until, kept.owner), (Some(Timestamp(until)), claim(1).owner.ended()), "{released_at}");
            assert!(kept.since <= Some(Timestamp(released_at)), "it counts as kept, and not as one of the future");
        }
    }

    #[test]
    fn what_was_freed_stays_free_and_what_is_kept_frees_once_it_lies_in_the_future() {
        let free = released(&acquired(AT), Duration::ZERO, AT + 20_000);
        // The acquisition was long ago.
        let long = Record { since: Some(Timestamp(AT - 3 * HOUR)), ..free.clone() };
        for now in [0, AT - HOUR, AT, AT + 20_000, AT + HOUR] {
            assert_eq!((held_for(&free, now), held_for(&long, now)), (0, 0), "{now}");
        }
        let kept = released(&acquired(AT), Duration::from_secs(7200), AT + 20_000);
        assert!(kept.is_held(clock(AT - 60_000)) && !kept.is_held(clock(AT - 60_001)));
        assert!(kept.acquired(&claim(2), clock(AT - HOUR), 0).is_some());
        let java = Record { owner: "java-host".to_owned(), set_at: None, ..kept };
        assert!(
            java.is_held(clock(AT - HOUR)) && java.clock_corrected(clock(AT - HOUR)).is_none(),
            "its clock is its own"
        );
    }

    #[test]
    fn a_dead_holder_s_lock_begins_anew_once_the_clock_that_was_ahead_is_set_right() {
        let dead = acquired(AT + HOUR);
        assert_eq!(held_for(&dead, AT), 30_000);
        let clock_corrected = dead.clock_corrected(clock(AT)).unwrap();
        assert_eq!((clock_corrected.since, clock_corrected.until), (Some(Timestamp(AT)), Some(Timestamp(AT + 31_000))));
        assert_eq!(
            (&clock_corrected.owner, clock_corrected.token, &clock_corrected.runs),
            (&dead.owner, dead.token, &dead.runs)
        );
        assert!(clock_corrected.is_held(clock(AT + 30_999)) && !clock_corrected.is_held(clock(AT + 31_000)));
        // A minute, or the clocks of two servers.
        assert_eq!(dead.clock_corrected(clock(AT + HOUR - 60_000)), None);
        assert!(dead.clock_corrected(clock(AT + HOUR - 60_001)).is_some());
        let long = Record::default().acquired(&Claim { lease: LEASE * 60, ..claim(1) }, clock(AT), 0).unwrap().0;
        assert_eq!(
            long.clock_corrected(clock(AT - 1_801_000)),
            None,
            "a server that is behind by less than the time of the lock"
        );
        assert!(long.clock_corrected(clock(AT - 1_801_001)).is_some());
        // A pause as well.
        let pause = Owner::for_pause("ada", "web1", 7, None, "disk").as_str().to_owned();
        assert!(Record { owner: pause, ..dead }.clock_corrected(clock(AT)).is_some());
    }

    /// The job began before the clock went ahead.
    #[test]
    fn an_end_that_was_written_while_the_clock_was_ahead_is_righted() {
        let renewed = Record { until: Some(Timestamp(AT + HOUR)), ..acquired(AT) };
        let renewed = renewed.renewed(&claim(1), clock(AT + HOUR - 1)).unwrap();
        assert_eq!((renewed.since, renewed.until), (Some(Timestamp(AT)), Some(Timestamp(AT + HOUR + 30_999))));
        assert_eq!(held_for(&renewed, AT + 60_000), 30_000);
        let clock_corrected = renewed.clock_corrected(clock(AT + 60_000)).unwrap();
        assert_eq!((clock_corrected.since, clock_corrected.until), (Some(Timestamp(AT)), Some(Timestamp(AT + 91_000))));
    }

    #[test]
    fn a_renewal_never_shortens_and_goes_by_the_present_clock() {
        let until = |record: &Record, at: u64| record.renewed(&claim(1), clock(at)).unwrap().until.unwrap().0;
        assert_eq!(until(&acquired(AT), AT + 10_000), AT + 41_000);
        assert_eq!(until(&acquired(AT), AT - 10_000), AT + 31_000, "the clock was set back");
        assert_eq!(until(&acquired(AT), AT - HOUR), AT - HOUR + 31_000, "by more than a minute");
        // The first lease was longer, for at-least.
        let long = Record::default().acquired(&Claim { lease: LEASE * 4, ..claim(1) }, clock(AT), 0).unwrap().0;
        let renewed = long.renewed(&claim(1), clock(AT + 10_000)).unwrap();
        assert_eq!((renewed.until, renewed.set_at), (long.until, long.set_at));
        assert_eq!(until(&long, AT - HOUR), AT - HOUR + 121_000);
        assert_eq!(acquired(AT).renewed(&claim(1), clock(AT + 31_000)), None);
    }

    #[test]
    fn a_repeated_taking_and_a_change_go_by_the_present_clock() {
        let again = |at: u64| acquired(AT).acquired(&claim(1), clock(at), 0).unwrap().0;
        assert_eq!(again(AT + 5_000).until, Some(Timestamp(AT + 36_000)));
        assert_eq!(again(AT - 5_000).until, Some(Timestamp(AT + 31_000)), "never sooner");
        assert_eq!(again(AT - HOUR).until, Some(Timestamp(AT - HOUR + 31_000)));
        let owner = claim(1).owner.as_str().to_owned();
        let change = |left: u64| Change {
            name: claim(1).name,
            from: owner.clone(),
            to: owner.clone(),
            left: Duration::from_millis(left),
        };
        for at in [AT - HOUR, AT - 5_000, AT + 5_000] {
            let changed = acquired(AT).changed(&change(20_000), clock(at)).unwrap();
            assert_eq!(changed.until, Some(Timestamp(at + 21_000)));
            assert!(changed.since <= Some(Timestamp(at)));
            let freed = acquired(AT).changed(&change(0), clock(at)).unwrap();
            assert_eq!((held_for(&freed, at), held_for(&freed, at - HOUR)), (0, 0));
        }
    }

    #[test]
    fn a_token_that_none_can_follow_is_refused_and_not_taken_for_nothing() {
        let with = |token: u64| Record { token, ..Record::default() };
        assert_eq!(with(LARGEST_TOKEN - 1).acquired(&claim(1), clock(AT), 0).unwrap().1, Some(LARGEST_TOKEN));
        for token in [LARGEST_TOKEN, LARGEST_TOKEN + 1, u64::MAX] {
            assert_eq!(with(token).acquired(&claim(1), clock(AT), 0), None, "{token}");
        }
        assert_eq!(with(1).acquired(&claim(1), clock(AT), u64::MAX), None);
        let written = |token: &str| {
            let text = format!("{{\"owner\":\"\",\"since\":1,\"until\":2,\"token\":{token},\"runs\":[]}}");
            Record::parse(&text, "job").map(|record| record.token)
        };
        for (text, token) in [
            ("7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("1e300", Some(u64::MAX)),
            ("-1", None),
            ("1.5", None),
        ] {
            assert_eq!(written(text), token, "{text}");
        }
    }
}
