//! Shows past runs, as a table and as JSON.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::json_array::json_array;
use super::table::{Cell, Column, Narrow, table};
use crate::lock::{Lock, Locks, RunList, RunOutcome, RunRecord};
use crate::report::screen::{Paint, Screen};
use crate::report::times::{Zone, ago, in_two_units};
use crate::system::Timestamp;

/// The state of a past run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    Success,
    Failure,
    /// Stopped, because at-most was used up or the lock was lost.
    Stopped,
    /// Ended with an unknown outcome, or with none.
    Unknown,
    /// The run holds its lock.
    Running,
    /// The run has no recorded end, and no longer holds its lock.
    Gone,
}

/// A run as it is shown: its record and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownRun {
    pub(crate) record: RunRecord,
    pub(crate) state: RunState,
}

/// Runs with their states. There may be very many, so each is unpacked when it is needed, and never all of them are in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownRuns<'a> {
    runs: &'a RunList,
    /// The places of the runs in the list, with their states.
    shown: Vec<(u32, RunState)>,
}

impl ShownRuns<'_> {
    pub(crate) fn len(&self) -> usize {
        self.shown.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Returns the run at a place below `len`.
    pub(crate) fn get(&self, place: usize) -> ShownRun {
        let (place, state) = self.shown[place];
        ShownRun { record: self.runs.get(place as usize), state }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ShownRun> + '_ {
        (0..self.len()).map(|place| self.get(place))
    }

    pub(crate) fn state(&self, place: usize) -> RunState {
        self.shown[place].1
    }

    pub(crate) fn started_at(&self, place: usize) -> Option<Timestamp> {
        self.runs.started_at(self.shown[place].0 as usize)
    }

    pub(crate) fn ended_at(&self, place: usize) -> Option<Timestamp> {
        self.runs.ended_at(self.shown[place].0 as usize)
    }

    pub(crate) fn token(&self, place: usize) -> u64 {
        self.runs.token(self.shown[place].0 as usize)
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        self.runs.name(self.shown[place].0 as usize)
    }

    pub(crate) fn host(&self, place: usize) -> &str {
        self.runs.host(self.shown[place].0 as usize)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&ShownRun) -> bool) {
        self.shown.retain(|(place, state)| keep(&ShownRun { record: self.runs.get(*place as usize), state: *state }));
    }
}

/// Finds the state of each run. Read the runs after the locks, so that a run that began in between is recognised.
pub(crate) fn shown_runs<'a>(runs: &'a RunList, locks: &Locks) -> ShownRuns<'a> {
    let held = locks.locks.iter().filter(|lock| lock.is_held());
    let holders: HashSet<&str> = held.map(|lock| &lock.state.owner[..]).collect();
    let is_running = |run: &RunRecord| {
        let new = run.started_at.is_some_and(|started| started >= locks.now);
        new || holders.contains(&run.owner[..])
    };
    let shown = runs.iter().zip(0..).map(|(run, place)| (place, state(&run, is_running))).collect();
    ShownRuns { runs, shown }
}

fn state(run: &RunRecord, is_running: impl Fn(&RunRecord) -> bool) -> RunState {
    if run.ended_at.is_none() && run.outcome.is_none() {
        return if is_running(run) { RunState::Running } else { RunState::Gone };
    }
    let is = |verdict: RunOutcome| run.outcome.as_deref() == Some(verdict.as_str());
    match () {
        () if is(RunOutcome::Success) => RunState::Success,
        () if is(RunOutcome::Failure) || is(RunOutcome::Error) => RunState::Failure,
        () if is(RunOutcome::Expired) || is(RunOutcome::Lost) => RunState::Stopped,
        () => RunState::Unknown,
    }
}

impl ShownRun {
    /// Returns the word for the outcome: the history's, `running`, or `never came back`.
    pub(crate) fn word(&self) -> &str {
        match self.state {
            RunState::Running => "running",
            RunState::Gone => "never came back",
            _ => self.record.outcome.as_deref().unwrap_or("unknown"),
        }
    }

    pub(crate) fn paint(&self) -> Paint {
        match self.state {
            RunState::Success => Paint::Good,
            RunState::Failure | RunState::Gone => Paint::Bad,
            RunState::Stopped => Paint::Warning,
            RunState::Running => Paint::Live,
            RunState::Unknown => Paint::Plain,
        }
    }

    /// Returns whether the run never came back and began before `time`.
    pub(crate) fn is_gone_before(&self, since: Timestamp) -> bool {
        self.state == RunState::Gone && self.record.started_at.is_none_or(|started| started < since)
    }

    /// Returns whether the run's lock may have expired after that time, from what the backend still has. Some backends keep
    /// nothing of a free lock.
    pub(crate) fn may_have_held(&self, locks: &Locks, since: Timestamp) -> bool {
        let lock = locks.locks.iter().find(|lock| lock.name == self.record.name && !lock.state.owner.is_empty());
        let over = lock.and_then(|Lock { state, .. }| match state.owner == self.record.owner {
            true => state.until,
            // Another owner has taken the lock since, for example a Java application.
            false => state.since,
        });
        over.is_none_or(|over| over >= since)
    }

    /// Returns how long the run took, or has taken so far.
    pub(crate) fn took(&self, now: Timestamp) -> Option<Duration> {
        let end = if self.state == RunState::Running { Some(now) } else { self.record.ended_at };
        Some(Duration::from_millis(end?.0.saturating_sub(self.record.started_at?.0)))
    }

    /// Returns the run as the JSON object that shedlock-json(5) describes.
    pub(crate) fn json(&self) -> Value {
        let run = &self.record;
        json!({
            "token": run.token,
            "name": run.name,
            "owner": run.owner,
            "host": text(&run.host),
            "started_at": time(run.started_at),
            "ended_at": time(run.ended_at),
            "exit_code": run.exit_code,
            "outcome": run.outcome,
            "running": self.state == RunState::Running,
        })
    }
}

/// Returns a text for JSON, where an empty one is null.
pub(crate) fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Formats a time as RFC 3339 says, in UTC.
pub(crate) fn time(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}

/// Returns the array of the runs, in pieces.
pub(crate) fn runs_json(runs: &ShownRuns<'_>) -> impl Iterator<Item = String> {
    json_array(runs.iter().map(|run| run.json()))
}

/// Returns the table of runs, line by line; with several locks, it has a column for the name.
pub(crate) fn runs_table<'a>(
    runs: &'a ShownRuns<'_>,
    names: bool,
    now: Timestamp,
    zone: &'a Zone,
    screen: &Screen,
) -> impl Iterator<Item = String> + 'a {
    let mut columns = runs_columns(now, zone);
    if !names {
        columns.remove(2);
    }
    table(|| runs.iter(), columns, &NARROWING, *screen)
}

/// Returns the columns of the table of runs.
pub(crate) fn runs_columns(now: Timestamp, zone: &Zone) -> Vec<Column<'_, ShownRun>> {
    vec![
        Column::new("STARTED", move |run: &ShownRun| {
            Cell::optional(run.record.started_at.map(|time| format!("{} ({})", zone.stamp(time), ago(time, now))))
        })
        .or(|run: &ShownRun| Cell::optional(run.record.started_at.map(|time| zone.stamp(time))))
        .or(move |run: &ShownRun| Cell::optional(run.record.started_at.map(|time| ago(time, now)))),
        Column::new("TOOK", move |run: &ShownRun| Cell::optional(run.took(now).map(in_two_units))),
        Column::new("JOB", |run: &ShownRun| Cell::name(&run.record.name)),
        Column::new("HOST", |run: &ShownRun| Cell::plain(&run.record.host)),
        Column::new("OUTCOME", |run: &ShownRun| Cell::new(run.word(), run.paint())),
        Column::new("CODE", |run: &ShownRun| Cell::optional(run.record.exit_code.map(|code| code.to_string()))),
        Column::new("TOKEN", |run: &ShownRun| Cell::plain(&run.record.token.to_string())),
    ]
}

const NARROWING: [Narrow; 13] = [
    Narrow::Cut("HOST", 20),
    Narrow::Cut("JOB", 24),
    Narrow::Shorten("STARTED"),
    Narrow::Cut("HOST", 12),
    Narrow::Cut("JOB", 16),
    Narrow::Drop("TOKEN"),
    Narrow::Cut("HOST", 8),
    Narrow::Cut("JOB", 12),
    Narrow::Shorten("STARTED"),
    Narrow::Drop("CODE"),
    Narrow::Drop("HOST"),
    Narrow::Drop("TOOK"),
    Narrow::Cut("JOB", 6),
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::lock::LockState;
    use crate::report::tables::table::tests::{PIPED, on};
    use crate::report::times::tests::{at, berlin};

    pub(crate) const NOW: &str = "2026-01-31T18:05:03Z";

    /// Returns a run that took so many seconds, or has not ended.
    pub(crate) fn run(
        token: u64,
        name: &str,
        host: &str,
        started: &str,
        took: Option<u64>,
        outcome: &str,
    ) -> RunRecord {
        let started = at(started);
        RunRecord {
            token,
            name: name.to_owned(),
            owner: format!("{host}:{token}:00000000000000ff"),
            host: host.to_owned(),
            started_at: Some(started),
            ended_at: took.map(|took| started + Duration::from_secs(took)),
            exit_code: match (took, outcome) {
                (None, _) => None,
                (_, "success") => Some(0),
                (_, "expired") => Some(124),
                (_, "lost") => Some(123),
                _ => Some(3),
            },
            outcome: took.map(|_| outcome.to_owned()),
        }
    }

    pub(crate) fn list(runs: &[RunRecord]) -> RunList {
        runs.iter().cloned().collect()
    }

    pub(crate) fn lock(name: &str, owner: &str, since: &str, seconds: u64) -> Lock {
        let since = at(since);
        let left = Duration::from_secs(seconds);
        let until = if seconds == 0 { since } else { at(NOW) + left };
        let record = LockState { owner: owner.to_owned(), since: Some(since), until: Some(until), left };
        Lock { name: name.to_owned(), state: record }
    }

    pub(crate) fn locks(locks: &[Lock]) -> Locks {
        Locks { now: at(NOW), locks: locks.to_vec() }
    }

    fn runs() -> Vec<RunRecord> {
        vec![
            run(10_007, "nightly-report", "web1", "2026-01-31T18:00:03Z", None, ""),
            run(10_006, "backup", "db-primary-eu-central", "2026-01-31T17:00:00Z", Some(3700), "expired"),
            run(10_005, "backup", "db-primary-eu-central", "2026-01-31T16:00:00Z", Some(42), "failure"),
            run(10_004, "nightly-report", "web2", "2026-01-30T18:00:02Z", None, ""),
            run(10_003, "nightly-report", "web2", "2026-01-29T18:00:02Z", Some(312), "success"),
        ]
    }

    fn shown(width: Option<usize>, names: bool, zone: &Zone) -> String {
        let (runs, locks) = (runs(), locks(&[lock("nightly-report", "web1:10007:00000000000000ff", NOW, 60)]));
        let (runs, screen) = (list(&runs), width.map_or(PIPED, on));
        runs_table(&shown_runs(&runs, &locks), names, at(NOW), zone, &screen).collect()
    }

    #[test]
    fn a_program_gets_all_of_it() {
        assert_eq!(
            shown(None, true, &Zone::utc()),
            "\
STARTED                         TOOK   JOB             HOST                   OUTCOME          CODE  TOKEN
2026-01-31 18:00:03Z (5m ago)   5m     nightly-report  web1                   running          -     10007
2026-01-31 17:00:00Z (1h ago)   1h1m   backup          db-primary-eu-central  expired          124   10006
2026-01-31 16:00:00Z (2h ago)   42s    backup          db-primary-eu-central  failure          3     10005
2026-01-30 18:00:02Z (24h ago)  -      nightly-report  web2                   never came back  -     10004
2026-01-29 18:00:02Z (2d ago)   5m12s  nightly-report  web2                   success          0     10003
"
        );
    }

    #[test]
    fn it_fits_80_columns_and_40() {
        assert_eq!(
            shown(Some(80), false, &berlin()),
            "\
STARTED                    TOOK   HOST              OUTCOME          CODE  TOKEN
2026-01-31 19:00:03+01:00  5m     web1              running          -     10007
2026-01-31 18:00:00+01:00  1h1m   db-primary-eu-c…  expired          124   10006
2026-01-31 17:00:00+01:00  42s    db-primary-eu-c…  failure          3     10005
2026-01-30 19:00:02+01:00  -      web2              never came back  -     10004
2026-01-29 19:00:02+01:00  5m12s  web2              success          0     10003
"
        );
        assert_eq!(
            shown(Some(80), true, &Zone::utc()),
            "\
STARTED               TOOK   JOB             HOST          OUTCOME          CODE
2026-01-31 18:00:03Z  5m     nightly-report  web1          running          -
2026-01-31 17:00:00Z  1h1m   backup          db-primary-…  expired          124
2026-01-31 16:00:00Z  42s    backup          db-primary-…  failure          3
2026-01-30 18:00:02Z  -      nightly-report  web2          never came back  -
2026-01-29 18:00:02Z  5m12s  nightly-report  web2          success          0
"
        );
        assert_eq!(
            shown(Some(40), true, &Zone::utc()),
            "\
STARTED  JOB             OUTCOME
5m ago   nightly-report  running
1h ago   backup          expired
2h ago   backup          failure
24h ago  nightly-report  never came back
2d ago   nightly-report  success
"
        );
    }

    #[test]
    fn a_run_without_an_end_runs_only_while_it_holds_its_lock() {
        let open = run(7, "job", "web1", "2026-01-31T18:00:03Z", None, "");
        let state = |locks: Locks| shown_runs(&list(std::slice::from_ref(&open)), &locks).state(0);
        assert_eq!(state(locks(&[lock("job", &open.owner, NOW, 60)])), RunState::Running);
        assert_eq!(state(locks(&[lock("job", &open.owner, NOW, 0)])), RunState::Gone);
        assert_eq!(state(locks(&[lock("job", "web1", NOW, 60)])), RunState::Gone);
        assert_eq!(state(locks(&[])), RunState::Gone);
        // It began when the locks had been looked at.
        assert_eq!(state(Locks { now: at("2026-01-31T18:00:03Z"), locks: Vec::new() }), RunState::Running);
    }

    #[test]
    fn a_run_that_never_came_back_is_over_when_its_lock_is() {
        let began = "2026-01-31T12:00:00Z";
        let open = [run(7, "job", "web1", began, None, "")];
        let may = |found: Option<Lock>, since: &str| {
            let locks = locks(found.as_slice());
            let run = shown_runs(&list(&open), &locks).get(0);
            assert!(run.is_gone_before(at("2026-01-31T12:00:01Z")) && !run.is_gone_before(at(began)));
            run.may_have_held(&locks, at(since))
        };
        let ended = |owner: &str, at: &str| Some(lock("job", owner, at, 0));
        assert!(may(ended(&open[0].owner, "2026-01-31T13:00:00Z"), "2026-01-31T13:00:00Z"));
        assert!(!may(ended(&open[0].owner, "2026-01-31T13:00:00Z"), "2026-01-31T13:00:01Z"));
        // Another owner has taken the lock, and nothing is left of the run.
        assert!(!may(ended("java-host", "2026-01-31T14:00:00Z"), "2026-01-31T14:00:01Z"));
        assert!(may(ended("", "2026-01-31T14:00:00Z"), "2026-01-31T14:00:01Z"));
        assert!(may(None, "2026-01-31T14:00:01Z"));
    }

    #[test]
    fn an_odd_row_is_shown_as_it_is() {
        let mut odd = run(0, "\x1b[2J", "", NOW, Some(1), "gelungen");
        odd.started_at = None;
        let odd = list(&[odd]);
        let shown = shown_runs(&odd, &locks(&[]));
        assert_eq!(
            runs_table(&shown, true, at(NOW), &Zone::utc(), &PIPED).nth(1).unwrap(),
            "-        -     $'\\033[2J'  -     gelungen  3     0\n"
        );
        assert_eq!(shown.get(0).json()["started_at"], Value::Null);
        assert_eq!(shown.get(0).json()["host"], Value::Null);
    }

    #[test]
    fn programs_read_the_fields_of_the_contract() {
        let run = run(7, "job", "web1", "2026-01-31T18:00:03Z", Some(2), "failure");
        assert_eq!(
            shown_runs(&list(&[run]), &locks(&[])).get(0).json(),
            json!({
                "token": 7, "name": "job", "owner": "web1:7:00000000000000ff", "host": "web1",
                "started_at": "2026-01-31T18:00:03.000Z", "ended_at": "2026-01-31T18:00:05.000Z", "exit_code": 3,
                "outcome": "failure", "running": false,
            })
        );
    }
}
