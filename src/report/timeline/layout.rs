//! Lays out runs as bars over time, for a terminal or for SVG.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::report::tables::runs::{RunState, ShownRun, ShownRuns};
use crate::report::times::Zone;
use crate::system::Timestamp;
use crate::text::{escape_hidden, printable_name, shorten};

/// The subject of a lane: a job or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupBy {
    Job,
    Host,
}

/// Runs laid out over time.
#[derive(Debug, Clone)]
pub(crate) struct Timeline<'a> {
    pub(crate) runs: &'a ShownRuns<'a>,
    pub(crate) from: Timestamp,
    /// The end of the timeline: the time by the backend's clock.
    pub(crate) to: Timestamp,
    pub(crate) lanes: Vec<Lane<'a>>,
    pub(crate) by: GroupBy,
}

/// A line of the timeline: all runs of a job, or on a host.
#[derive(Debug, Clone)]
pub(crate) struct Lane<'a> {
    pub(crate) label: &'a str,
    /// The start of the records. The history keeps only the last runs, so a gap before this time does not mean that nothing ran.
    pub(crate) recorded_from: Timestamp,
    /// Rows of bars, as the places of their runs; overlapping runs are in different rows.
    pub(crate) rows: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) from: Timestamp,
    /// The end of the bar; for a run that never came back, its beginning, because the end is unknown.
    pub(crate) to: Timestamp,
    /// The place of the run among all runs.
    pub(crate) run: u32,
    pub(crate) state: RunState,
}

/// A mark on the axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) at: Timestamp,
    pub(crate) label: String,
    /// The date, if it differs from that of the tick before and is not in the label.
    pub(crate) date: Option<String>,
}

/// The most rows of a lane, so that it does not hide the others; further overlapping bars share a row.
const MAX_ROWS: usize = 6;

/// The shortest range of a timeline, in milliseconds.
const MIN_RANGE_MS: u64 = 60_000;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The possible distances between ticks, in seconds.
const TICK_STEPS: [u64; 23] = [
    1,
    5,
    10,
    30,
    MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    WEEK,
    2 * WEEK,
    4 * WEEK,
    12 * WEEK,
    52 * WEEK,
    2 * 52 * WEEK,
    5 * 52 * WEEK,
    520 * WEEK,
];

impl RunState {
    /// The order in which bars are drawn: the most important last, on top.
    pub(crate) const DRAWING_ORDER: [Self; 6] =
        [Self::Success, Self::Unknown, Self::Running, Self::Stopped, Self::Failure, Self::Gone];

    pub(crate) fn drawing_order(self) -> usize {
        Self::DRAWING_ORDER.iter().position(|state| *state == self).unwrap_or_default()
    }
}

impl<'a> Timeline<'a> {
    /// Lays out the runs from `since`, or from the beginning of the oldest, until now; `None` if there are none. `runs` are
    /// all that the history has of these jobs, also those before `since`.
    pub(crate) fn new(runs: &'a ShownRuns<'a>, by: GroupBy, since: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let mut oldest: HashMap<&str, Timestamp> = HashMap::new();
        let mut drawn: Vec<u32> = Vec::new();
        for (run, place) in (0..runs.len()).zip(0..) {
            let started = runs.started_at(run).unwrap_or(now);
            let first = oldest.entry(runs.name(run)).or_insert(started);
            *first = started.min(*first);
            // The picture ends now.
            let is_over = since.is_some_and(|since| Bar::new(runs, place, now).to < since);
            if runs.started_at(run).is_some_and(|started| started <= now) && !is_over {
                drawn.push(place);
            }
        }
        drawn.sort_unstable_by_key(|place| (runs.started_at(*place as usize), runs.token(*place as usize), *place));
        let first = Bar::new(runs, *drawn.first()?, now).from;
        let from = since.unwrap_or(first).min(Timestamp(now.0.saturating_sub(MIN_RANGE_MS)));
        let mut lanes: BTreeMap<&str, Lane<'a>> = BTreeMap::new();
        for bar in drawn.into_iter().map(|place| Bar::new(runs, place, now)) {
            let run = bar.run as usize;
            let label = if by == GroupBy::Job { runs.name(run) } else { runs.host(run) };
            let lane = lanes.entry(label).or_insert(Lane { label, recorded_from: from, rows: Vec::new() });
            // A host's records are complete from when all its jobs have records.
            lane.recorded_from = oldest.get(runs.name(run)).map_or(from, |oldest| lane.recorded_from.max(*oldest));
            put_into_row(&mut lane.rows, &bar, |run| Bar::new(runs, run, now));
        }
        let lanes: Vec<Lane<'a>> = lanes.into_values().collect();
        (!lanes.is_empty()).then_some(Self { runs, from, to: now, lanes, by })
    }

    /// Returns the text beside a lane.
    pub(crate) fn label(&self, lane: &Lane<'a>) -> Cow<'a, str> {
        match shorten(lane.label) {
            Cow::Borrowed(label) if self.by == GroupBy::Job => printable_name(label),
            Cow::Borrowed(label) => escape_hidden(label),
            Cow::Owned(label) => Cow::Owned(escape_hidden(&label).into_owned()),
        }
    }

    /// Returns the bar of a run.
    pub(crate) fn bar(&self, run: u32) -> Bar {
        Bar::new(self.runs, run, self.to)
    }

    /// Returns the run of a bar.
    pub(crate) fn run(&self, bar: &Bar) -> ShownRun {
        self.runs.get(bar.run as usize)
    }

    /// Returns the number of bars with this outcome.
    pub(crate) fn count(&self, state: RunState) -> usize {
        let runs = self.lanes.iter().flat_map(|lane| lane.rows.iter().flatten());
        runs.filter(|run| self.runs.state(**run as usize) == state).count()
    }

    /// Returns whether some lane begins before its records.
    pub(crate) fn has_gaps(&self) -> bool {
        self.lanes.iter().any(|lane| lane.recorded_from > self.from)
    }

    /// Says since when there are records, if some lane begins before its own.
    pub(crate) fn records_since(&self, zone: &Zone) -> Option<String> {
        let since = self.lanes.iter().map(|lane| lane.recorded_from);
        let (first, last) = (since.clone().min()?, since.max()?);
        let all = if self.by == GroupBy::Job { "jobs" } else { "hosts" };
        let (first_of, last_of) = (zone.stamp(first), zone.stamp(last));
        match () {
            () if !self.has_gaps() => None,
            () if first == last => Some(format!("records since {last_of}")),
            // Of this lane nothing is missing, and its records may be older than the picture.
            () if first <= self.from => Some(format!("records of all {all} since {last_of}")),
            () => Some(format!("records since {first_of}, of all {all} since {last_of}")),
        }
    }

    /// Returns the title of the timeline.
    pub(crate) fn title(&self, zone: &Zone) -> String {
        let (from, to) = (zone.stamp(self.from), zone.stamp(self.to));
        let lane = if self.by == GroupBy::Job { "job" } else { "host" };
        format!("Runs by {lane}, {from} to {to} ({})", zone.title())
    }

    /// Returns the position of a time, from 0 (left) to 1 (right).
    pub(crate) fn share(&self, time: Timestamp) -> f64 {
        let (all, part) = (self.to.0 - self.from.0, time.0.clamp(self.from.0, self.to.0) - self.from.0);
        part as f64 / all.max(1) as f64
    }

    /// Returns at most `most` ticks, at round times in the zone.
    pub(crate) fn ticks(&self, zone: &Zone, most: usize) -> Vec<Tick> {
        let all = (self.to.0 - self.from.0) / 1000;
        let fits = |step: &&u64| all / **step < most.max(1) as u64;
        let step = TICK_STEPS.iter().find(fits).or(TICK_STEPS.last()).copied().unwrap_or(DAY);
        // Weeks begin on Mondays, and the epoch did on a Thursday.
        let anchor = if step % WEEK == 0 { 4 * DAY } else { 0 };
        let shift = |time: Timestamp| time.0.saturating_add_signed(zone.offset(time) * 1000) / 1000;
        let first = (shift(self.from).saturating_sub(anchor)).div_ceil(step) * step + anchor;
        let mut ticks: Vec<Tick> = Vec::new();
        let mut date = None;
        for local in (first..).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            // Uses the tick's own distance from UTC, because daylight saving may change it.
            let guess = Timestamp((local * 1000).saturating_add_signed(-zone.offset(self.from) * 1000));
            let at = Timestamp((local * 1000).saturating_add_signed(-zone.offset(guess) * 1000));
            if at > self.to {
                break;
            }
            if at < self.from || ticks.last().is_some_and(|last| last.at >= at) {
                continue;
            }
            let civil = zone.local_time(at);
            let label = match step {
                _ if step < MINUTE => format!("{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second),
                _ if step < DAY => format!("{:02}:{:02}", civil.hour, civil.minute),
                _ => civil.day(),
            };
            let new = step < DAY && date.replace(civil.date) != Some(civil.date);
            ticks.push(Tick { at, label, date: new.then(|| civil.day()) });
        }
        ticks
    }
}

impl Bar {
    fn new(runs: &ShownRuns<'_>, run: u32, now: Timestamp) -> Self {
        let (place, state) = (run as usize, runs.state(run as usize));
        let from = runs.started_at(place).unwrap_or(now).min(now);
        let to = match state {
            RunState::Gone => from,
            RunState::Running => now,
            _ => runs.ended_at(place).unwrap_or(from),
        };
        Self { from, to: to.clamp(from, now), run, state }
    }
}

/// Puts a bar into the first row with room; bars must come in the order of their start.
fn put_into_row(rows: &mut Vec<Vec<u32>>, bar: &Bar, bar_of_run: impl Fn(u32) -> Bar) {
    let free = |row: &Vec<u32>| row.last().is_none_or(|last| bar_of_run(*last).to <= bar.from);
    match rows.iter().position(free) {
        Some(row) => rows[row].push(bar.run),
        None if rows.len() < MAX_ROWS => rows.push(vec![bar.run]),
        None => rows[MAX_ROWS - 1].push(bar.run),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lock::{Locks, RunList, RunRecord};
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, lock, locks, run};
    use crate::report::times::tests::{at, berlin};

    /// Returns runs of all kinds, and the locks.
    pub(crate) fn runs() -> (RunList, Locks) {
        let runs = vec![
            run(9, "backup", "db1", "2026-01-31T17:20:00Z", None, ""),
            run(8, "vacuum", "db1", "2026-01-31T15:00:00Z", Some(1), "success"),
            run(7, "<b>&\u{1b}", "web2", "2026-01-31T13:00:00Z", Some(3600), "lost"),
            run(6, "vacuum", "db1", "2026-01-31T12:00:00Z", None, ""),
            run(5, "backup", "db1", "2026-01-31T11:20:00Z", Some(5400), "success"),
            run(4, "backup", "web2", "2026-01-31T08:00:00Z", Some(3600), "failure"),
        ];
        let locks = locks(&[lock("backup", &runs[0].owner, "2026-01-31T17:20:00Z", 60)]);
        (list(&runs), locks)
    }

    fn labels(from: &str, to: &str, zone: &Zone, most: usize) -> Vec<String> {
        let none = RunList::default();
        let runs = &shown_runs(&none, &locks(&[]));
        let timeline = Timeline { runs, from: at(from), to: at(to), lanes: Vec::new(), by: GroupBy::Job };
        let show = |tick: Tick| tick.date.map_or_else(|| tick.label.clone(), |date| format!("{date} {}", tick.label));
        timeline.ticks(zone, most).into_iter().map(show).collect()
    }

    #[test]
    fn the_picture_reaches_from_the_oldest_run_or_from_since_until_now() {
        let (runs, locks) = runs();
        let shown = shown_runs(&runs, &locks);
        let whole = Timeline::new(&shown, GroupBy::Job, None, at(NOW)).unwrap();
        assert_eq!((whole.from, whole.to), (at("2026-01-31T08:00:00Z"), at(NOW)));
        let lanes: Vec<_> = whole.lanes.iter().map(|lane| (lane.label, lane.rows.len())).collect();
        assert_eq!(lanes, [("<b>&\u{1b}", 1), ("backup", 1), ("vacuum", 1)]);
        let since = at("2026-01-31T12:30:00Z");
        let part = Timeline::new(&shown, GroupBy::Host, Some(since), at(NOW)).unwrap();
        assert_eq!(part.from, since);
        let seen: Vec<_> = part.lanes.iter().map(|lane| (lane.label, lane.rows.concat().len())).collect();
        assert_eq!(
            seen,
            [("db1", 3), ("web2", 1)],
            "what had ended before, and what then never came back, is not in it"
        );
        assert!(Timeline::new(&shown, GroupBy::Job, Some(at(NOW)), at(NOW)).is_some(), "one is running");
        let mut over = shown.clone();
        over.retain(|run| run.record.token < 9);
        assert!(Timeline::new(&over, GroupBy::Job, Some(at(NOW)), at(NOW)).is_none());
        over.retain(|_| false);
        assert!(Timeline::new(&over, GroupBy::Job, None, at(NOW)).is_none());
        assert!(Timeline::new(&shown, GroupBy::Job, None, at("2020-01-01T00:00:00Z")).is_none(), "all are to come");
    }

    #[test]
    fn a_lane_is_known_from_its_oldest_record_on() {
        let (runs, locks) = runs();
        let shown = shown_runs(&runs, &locks);
        let since = at("2026-01-31T07:00:00Z");
        let known = |by, since| -> Vec<(&str, String)> {
            let timeline = Timeline::new(&shown, by, since, at(NOW)).unwrap();
            timeline.lanes.iter().map(|lane| (lane.label, lane.recorded_from.to_string())).collect()
        };
        let [backup, other, vacuum] =
            ["08:00:00", "13:00:00", "12:00:00"].map(|time| format!("2026-01-31T{time}.000Z"));
        let jobs = [("<b>&\u{1b}", other.clone()), ("backup", backup), ("vacuum", vacuum.clone())];
        assert_eq!(known(GroupBy::Job, None), jobs);
        assert_eq!(known(GroupBy::Job, Some(since)), jobs);
        assert_eq!(known(GroupBy::Host, Some(since)), [("db1", vacuum), ("web2", other)]);
        // The older runs are not in the picture, and show that nothing is missing from it.
        let since = at("2026-01-31T14:00:00Z");
        assert!(!Timeline::new(&shown, GroupBy::Job, Some(since), at(NOW)).unwrap().has_gaps());
        assert!(Timeline::new(&shown, GroupBy::Job, None, at(NOW)).unwrap().has_gaps());
    }

    #[test]
    fn words_say_since_when_there_are_records() {
        let (runs, locks) = runs();
        let shown = shown_runs(&runs, &locks);
        let said = |runs, by, since: &str| {
            Timeline::new(runs, by, Some(at(since)), at(NOW)).unwrap().records_since(&Zone::utc())
        };
        let early = "2026-01-24T18:00:00Z";
        let [first, last] = ["08:00", "13:00"].map(|time| format!("2026-01-31 {time}:00Z"));
        assert_eq!(said(&shown, GroupBy::Job, early), Some(format!("records since {first}, of all jobs since {last}")));
        let mut one = shown.clone();
        one.retain(|run| run.record.token == 9);
        assert_eq!(said(&one, GroupBy::Job, early).unwrap(), "records since 2026-01-31 17:20:00Z");
        assert_eq!(
            said(&shown, GroupBy::Job, "2026-01-31T09:00:00Z"),
            Some(format!("records of all jobs since {last}"))
        );
        assert_eq!(
            said(&shown, GroupBy::Host, "2026-01-31T12:00:00Z"),
            Some(format!("records of all hosts since {last}"))
        );
        assert_eq!(said(&shown, GroupBy::Job, "2026-01-31T14:00:00Z"), None);
    }

    #[test]
    fn runs_that_overlap_lie_in_rows_of_their_own_up_to_six() {
        let start = at("2026-01-31T12:00:00Z");
        let mut runs: Vec<RunRecord> = (0..9)
            .map(|number| {
                run(number, "a", "h", &(start + Duration::from_secs(number)).to_string(), Some(60), "success")
            })
            .collect();
        runs.push(run(9, "a", "h", "2026-01-31T12:01:00Z", Some(60), "success"));
        let runs = list(&runs);
        let shown = shown_runs(&runs, &locks(&[]));
        let timeline = Timeline::new(&shown, GroupBy::Host, None, at(NOW)).unwrap();
        let rows: Vec<usize> = timeline.lanes[0].rows.iter().map(Vec::len).collect();
        assert_eq!(rows, [2, 1, 1, 1, 1, 4]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let utc = Zone::utc();
        assert_eq!(
            labels("2026-01-31T20:10:00Z", "2026-02-01T05:00:00Z", &utc, 5),
            ["2026-01-31 22:00", "2026-02-01 00:00", "02:00", "04:00"]
        );
        assert_eq!(
            labels("2026-01-31T20:10:00Z", "2026-02-01T05:00:00Z", &berlin(), 5),
            ["2026-01-31 22:00", "2026-02-01 00:00", "02:00", "04:00", "06:00"]
        );
        assert_eq!(
            labels("2026-01-31T20:10:03Z", "2026-01-31T20:10:59Z", &utc, 6),
            ["2026-01-31 20:10:10", "20:10:20", "20:10:30", "20:10:40", "20:10:50"]
        );
        // Weeks, from Monday.
        assert_eq!(
            labels("2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", &utc, 5),
            ["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26"]
        );
    }

    #[test]
    fn ticks_follow_a_clock_that_is_put_forward_or_back() {
        assert_eq!(
            labels("2026-03-28T20:00:00Z", "2026-03-29T11:00:00Z", &berlin(), 6),
            ["2026-03-28 21:00", "2026-03-29 00:00", "03:00", "06:00", "09:00", "12:00"]
        );
        assert_eq!(
            labels("2026-10-23T22:00:00Z", "2026-10-26T23:00:00Z", &berlin(), 6),
            ["2026-10-24", "2026-10-25", "2026-10-26", "2026-10-27"]
        );
    }

    #[test]
    fn any_span_has_a_tick_or_two() {
        let (from, zone, none) = (at("2020-02-29T23:59:59Z"), berlin(), RunList::default());
        for seconds in (0..40).map(|power| 60.0 * 1.5_f64.powi(power)) {
            let to = from + Duration::from_secs_f64(seconds);
            let timeline =
                Timeline { runs: &shown_runs(&none, &locks(&[])), from, to, lanes: Vec::new(), by: GroupBy::Job };
            let count = timeline.ticks(&zone, 8).len();
            assert!((1..=8).contains(&count), "{seconds}: {count}");
        }
    }
}
