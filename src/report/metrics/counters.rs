//! Computes the metrics of one job on this host, and formats and parses their text for Prometheus. It touches no file.

use std::time::Duration;

use crate::lock::{LockName, RunOutcome};
use crate::report::skew::is_in_future;
use crate::system::Timestamp;
use crate::text::printable_name;

/// The values of the label `outcome`. All are written from the first run on, so that Prometheus sees an increase from 0.
const OUTCOMES: [&str; 6] = ["success", "failure", "skipped", "expired", "lost", "error"];

/// The entry of a run in the metrics, as far as the run has come.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at_most: Duration,
    /// When the job was started, if it was.
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Ended>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// The outcome of the run; `None` if the lock was held.
    pub(crate) outcome: Option<RunOutcome>,
    pub(crate) exit_code: u8,
    /// How long the job ran, if it did.
    pub(crate) lasted: Option<Duration>,
}

/// The metrics of one job. A value that does not exist yet is `None` and is not written, because 0 would be a valid time or
/// exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// When the counters of runs were 0. The first run of a host may have ended before Prometheus sees the file: then a counter
    /// has no increase, and only its age tells that it is new.
    created: Option<Timestamp>,
    at_most: Option<Duration>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    success: Option<Timestamp>,
    duration: Option<Duration>,
    exit_code: Option<u8>,
    runs: [u64; OUTCOMES.len()],
}

const AT_MOST: &str = "shedlock_at_most_seconds";
pub(crate) const START: &str = "shedlock_last_start_timestamp_seconds";
pub(crate) const END: &str = "shedlock_last_end_timestamp_seconds";
pub(crate) const SUCCESS: &str = "shedlock_last_success_timestamp_seconds";
pub(crate) const DURATION: &str = "shedlock_last_duration_seconds";
pub(crate) const EXIT_CODE: &str = "shedlock_last_exit_code";
const CREATED: &str = "shedlock_runs_created_timestamp_seconds";
const RUNS: &str = "shedlock_runs_total";
/// The metrics from here on are of the backend's locks, and in no file of a job.
pub(crate) const OUTCOME: &str = "shedlock_last_outcome";
pub(crate) const HELD: &str = "shedlock_lock_held";
pub(crate) const PAUSED: &str = "shedlock_lock_paused";
pub(crate) const UNTIL: &str = "shedlock_lock_until_timestamp_seconds";

/// The texts of `# HELP`. node_exporter requires the same text in every file.
const HELP: [(&str, &str); 12] = [
    (AT_MOST, "The longest that the job may run, --at-most."),
    (START, "When the job was last started."),
    (END, "When the job last ended, with any outcome."),
    (SUCCESS, "When the job last ended with success."),
    (DURATION, "How long the job ran when it last ended."),
    (EXIT_CODE, "The exit code of shedlock after the last run that was not skipped."),
    (CREATED, "When the counters of runs were 0."),
    (RUNS, "Runs by outcome."),
    (OUTCOME, "1 for the outcome of the last run that ended, from the history."),
    (HELD, "1 while the lock is taken: by a run, after one, by a pause, or by another program."),
    (PAUSED, "1 while the lock is paused."),
    (UNTIL, "When the taken lock will be free unless it is renewed or released."),
];

impl Counters {
    /// Returns the metrics before the first run.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { created: Some(now), ..Self::default() }
    }

    /// Corrects the times of a clock that was ahead: until they have come, they would hide every failure. A success then is as
    /// good as none, and counters of that time are not new: a stop that they count would be reported as one of today. The others
    /// become the latest that they can be.
    pub(crate) fn forget_future(&mut self, now: Timestamp) {
        for time in [&mut self.success, &mut self.created] {
            *time = time.filter(|time| !is_in_future(*time, now));
        }
        for time in [&mut self.start, &mut self.end].into_iter().flatten() {
            if is_in_future(*time, now) {
                *time = now;
            }
        }
    }

    /// Adds what a run has come to.
    pub(crate) fn enter(&mut self, entry: &Entry) {
        self.at_most = Some(entry.at_most);
        self.start = entry.started.or(self.start);
        let Some(ended) = &entry.ended else { return };
        if let Some(index) =
            OUTCOMES.iter().position(|outcome| *outcome == ended.outcome.map_or("skipped", RunOutcome::as_str))
        {
            self.runs[index] += 1;
        }
        if ended.outcome.is_some() {
            self.exit_code = Some(ended.exit_code);
        }
        if let (Some(started), Some(lasted)) = (entry.started, ended.lasted) {
            // Computed from the start, not read from the clock: after a clock change an ended job would seem to be running.
            self.end = Some(started + lasted);
            self.duration = Some(lasted);
            if ended.outcome == Some(RunOutcome::Success) {
                self.success = self.end;
            }
        }
    }

    /// Formats the metrics in version 0.0.4 of Prometheus' text format. The counters come last, so a truncated file lacks one.
    pub(crate) fn text(&self, name: &LockName) -> String {
        let name = name.as_str();
        let seconds = |time: Option<Timestamp>| time.map(|time| seconds(Duration::from_millis(time.0)));
        let gauges = [
            (AT_MOST, self.at_most.map(self::seconds)),
            (START, seconds(self.start)),
            (END, seconds(self.end)),
            (SUCCESS, seconds(self.success)),
            (DURATION, self.duration.map(self::seconds)),
            (EXIT_CODE, self.exit_code.map(|code| code.to_string())),
            (CREATED, seconds(self.created)),
        ];
        let mut text = String::new();
        for (metric, value) in gauges {
            if let Some(value) = value {
                text += &format!("{}{}{value}\n", head(metric, "gauge"), series(metric, name, None));
            }
        }
        text += &head(RUNS, "counter");
        for (outcome, count) in OUTCOMES.iter().zip(self.runs) {
            text += &format!("{}{count}\n", series(RUNS, name, Some(("outcome", outcome))));
        }
        text
    }

    /// Parses the output of [`Counters::text`], also from another version; `None` for any other text.
    pub(crate) fn read(text: &str, name: &LockName) -> Option<Self> {
        let name = name.as_str();
        let mut counters = Self::default();
        let mut counted = [false; OUTCOMES.len()];
        // Without the final newline the last number may be truncated.
        text.ends_with('\n').then_some(())?;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = |metric| line.strip_prefix(&series(metric, name, None));
            if let Some(value) = value(AT_MOST) {
                counters.at_most = Some(duration(value)?);
            } else if let Some(value) = value(START) {
                counters.start = Some(timestamp(value)?);
            } else if let Some(value) = value(END) {
                counters.end = Some(timestamp(value)?);
            } else if let Some(value) = value(SUCCESS) {
                counters.success = Some(timestamp(value)?);
            } else if let Some(value) = value(DURATION) {
                counters.duration = Some(duration(value)?);
            } else if let Some(value) = value(EXIT_CODE) {
                counters.exit_code = Some(value.parse().ok()?);
            } else if let Some(value) = value(CREATED) {
                counters.created = Some(timestamp(value)?);
            } else if line.starts_with(RUNS) {
                let of = |outcome| line.strip_prefix(&series(RUNS, name, Some(("outcome", outcome))));
                let (index, value) =
                    OUTCOMES.iter().enumerate().find_map(|(index, outcome)| Some((index, of(outcome)?)))?;
                counters.runs[index] = value.parse().ok()?;
                counted[index] = true;
            } else if !line.starts_with("shedlock_") {
                return None;
            }
        }
        counted.iter().all(|counted| *counted).then_some(counters)
    }
}

pub(crate) fn head(metric: &str, kind: &str) -> String {
    let help = HELP.iter().find_map(|(of, help)| (*of == metric).then_some(*help)).unwrap_or_default();
    format!("# HELP {metric} {help}\n# TYPE {metric} {kind}\n")
}

/// Formats the metric name, the label `name`, and a further one. The name of the lock is that of the tables, because a terminal
/// may show the text.
pub(crate) fn series(metric: &str, name: &str, label: Option<(&str, &str)>) -> String {
    let name = printable_name(name).replace('\\', "\\\\").replace('"', "\\\"");
    let label = label.map(|(key, value)| format!(",{key}=\"{value}\"")).unwrap_or_default();
    format!("{metric}{{name=\"{name}\"{label}}} ")
}

/// Formats seconds, with milliseconds if there are any.
pub(crate) fn seconds(time: Duration) -> String {
    let millis = time.subsec_millis();
    if millis == 0 { time.as_secs().to_string() } else { format!("{}.{millis:03}", time.as_secs()) }
}

fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let millis = duration(text)?.as_secs_f64() * 1000.0;
    // A float that is too large becomes the largest.
    Some(Timestamp(millis.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    fn ended(outcome: Option<RunOutcome>, exit_code: u8, lasted: Option<u64>) -> Option<Ended> {
        Some(Ended { outcome, exit_code, lasted: lasted.map(Duration::from_millis) })
    }

    fn entry(started: Option<u64>, ended: Option<Ended>) -> Entry {
        Entry { at_most: Duration::from_secs(90), started: started.map(Timestamp), ended }
    }

    fn after(entries: &[Entry]) -> Counters {
        let mut counters = Counters::default();
        entries.iter().for_each(|entry| counters.enter(entry));
        counters
    }

    #[test]
    fn what_has_never_been_is_left_out_but_every_counter_is_there() {
        let text = after(&[entry(None, ended(None, 75, None))]).text(&name("a"));
        assert_eq!(
            text,
            "# HELP shedlock_at_most_seconds The longest that the job may run, --at-most.\n\
             # TYPE shedlock_at_most_seconds gauge\n\
             shedlock_at_most_seconds{name=\"a\"} 90\n\
             # HELP shedlock_runs_total Runs by outcome.\n\
             # TYPE shedlock_runs_total counter\n\
             shedlock_runs_total{name=\"a\",outcome=\"success\"} 0\n\
             shedlock_runs_total{name=\"a\",outcome=\"failure\"} 0\n\
             shedlock_runs_total{name=\"a\",outcome=\"skipped\"} 1\n\
             shedlock_runs_total{name=\"a\",outcome=\"expired\"} 0\n\
             shedlock_runs_total{name=\"a\",outcome=\"lost\"} 0\n\
             shedlock_runs_total{name=\"a\",outcome=\"error\"} 0\n"
        );
    }

    #[test]
    fn times_of_a_clock_that_was_ahead_are_not_kept() {
        let now = Timestamp(10_000_000);
        let ran = |began: u64| entry(Some(began), ended(Some(RunOutcome::Success), 0, Some(1_000)));
        let mut counters = Counters::new(Timestamp(now.0 + 70_000));
        counters.enter(&ran(now.0 + 70_000));
        counters.forget_future(now);
        let times = |counters: &Counters| (counters.created, counters.start, counters.end, counters.success);
        assert_eq!(times(&counters), (None, Some(now), Some(now), None));
        assert_eq!(counters.runs[0], 1);
        // As the clocks of a host differ before and after it was set right.
        let mut counters = Counters::new(now);
        counters.enter(&ran(now.0 + 50_000));
        let before = counters.clone();
        counters.forget_future(now);
        assert_eq!(counters, before);
    }

    #[test]
    fn a_file_of_a_version_without_the_time_of_its_counters_is_read() {
        let name = name("a");
        let text = after(&[entry(Some(1_000), ended(Some(RunOutcome::Success), 0, Some(2)))]).text(&name);
        assert!(!text.contains(CREATED));
        assert_eq!(Counters::read(&text, &name).map(|counters| counters.created), Some(None));
    }

    #[test]
    fn every_outcome_has_a_counter() {
        let verdicts =
            [RunOutcome::Success, RunOutcome::Failure, RunOutcome::Expired, RunOutcome::Lost, RunOutcome::Error];
        let all: Vec<_> = verdicts.map(Some).into_iter().chain([None]).collect();
        let entries: Vec<Entry> = all.iter().map(|outcome| entry(None, ended(*outcome, 1, None))).collect();
        assert_eq!(after(&entries).runs, [1; OUTCOMES.len()]);
    }

    #[test]
    fn a_success_and_then_a_failure_and_then_a_skip() {
        let counters = after(&[
            entry(Some(10_000), ended(Some(RunOutcome::Success), 0, Some(1_500))),
            entry(Some(20_000), ended(Some(RunOutcome::Failure), 3, Some(250))),
            entry(None, ended(None, 75, None)),
            entry(Some(30_000), None),
        ]);
        let text = counters.text(&name("a"));
        for line in [
            "shedlock_last_start_timestamp_seconds{name=\"a\"} 30\n",
            "shedlock_last_end_timestamp_seconds{name=\"a\"} 20.250\n",
            "shedlock_last_success_timestamp_seconds{name=\"a\"} 11.500\n",
            "shedlock_last_duration_seconds{name=\"a\"} 0.250\n",
            "shedlock_last_exit_code{name=\"a\"} 3\n",
            "shedlock_runs_total{name=\"a\",outcome=\"success\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let name = name("a \"b\" \\ ü");
        let mut counters = Counters::new(Timestamp(1_700_000_000_001));
        counters.enter(&entry(Some(1_800_000_000_123), ended(Some(RunOutcome::Success), 0, Some(61_001))));
        assert_eq!(Counters::read(&counters.text(&name), &name), Some(counters));
    }

    #[test]
    fn a_line_of_a_later_version_is_passed_over() {
        let name = name("a");
        let text = Counters::default().text(&name);
        let more = format!("# TYPE shedlock_mood gauge\nshedlock_mood{{name=\"a\"}} 1\n{text}");
        assert_eq!(Counters::read(&more, &name), Some(Counters::default()));
    }

    #[test]
    fn what_was_cut_anywhere_or_is_no_work_of_ours_is_not_read() {
        let a = name("a");
        let text = after(&[entry(Some(1), ended(Some(RunOutcome::Success), 0, Some(2)))]).text(&a);
        for end in 0..text.len() {
            assert_eq!(Counters::read(&text[..end], &a), None, "{}", &text[..end]);
        }
        assert_eq!(Counters::read(&text, &name("b")), None);
        assert_eq!(Counters::read(&format!("up 1\n{text}"), &a), None);
        assert_eq!(Counters::read(&text.replace("success\"} 1", "success\"} -1"), &a), None);
        assert_eq!(Counters::read(&text.replace("_seconds{name=\"a\"} ", "_seconds{name=\"a\"} N"), &a), None);
    }
}
