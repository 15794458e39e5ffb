//! Formats the last success of a lock, in one line for a monitor.

use std::time::Duration;

use super::runs::{RunState, ShownRun, ShownRuns};
use crate::duration;
use crate::report::skew::is_in_future;
use crate::report::times::{Zone, ago};
use crate::system::Timestamp;
use crate::text::{escape_hidden, printable_name, shorten};

/// The runs of a lock, and how recent its last success has to be.
pub(crate) struct RecentSuccess<'a> {
    pub(crate) name: &'a str,
    pub(crate) runs: &'a ShownRuns<'a>,
    pub(crate) now: Timestamp,
    /// The longest time that may have passed since the last success.
    pub(crate) most: Duration,
}

impl RecentSuccess<'_> {
    /// Returns whether the last success is no older than `most`.
    pub(crate) fn is_recent(&self) -> bool {
        self.last_success().end.is_some_and(|last| last + self.most >= self.now)
    }

    fn last_success(&self) -> LastSuccess {
        last_success(self.runs.iter(), self.now)
    }

    /// Returns the line that says when the last success was.
    pub(crate) fn line(&self, zone: &Zone) -> String {
        let when = |time: Timestamp| format!("{} ({})", zone.stamp(time), ago(time, self.now));
        let LastSuccess { end, future } = self.last_success();
        let future = future.map_or_else(String::new, |end| {
            format!("; the success of {} does not count, a clock was ahead or was set back since", when(end))
        });
        let verdict = match end.map(when) {
            Some(last) if self.is_recent() => {
                return format!("{}: last success {last}{future}\n", printable_name(self.name));
            }
            Some(last) => format!("no success for {}, the last was {last}", duration::format(self.most)),
            None if future.is_empty() => "no success is recorded".to_owned(),
            None => "no success up to now is recorded".to_owned(),
        };
        let run = self.runs.iter().max_by_key(|run| run.record.token).map_or_else(
            || "no run is recorded".to_owned(),
            |run| {
                let (word, time) = match run.state {
                    RunState::Running => ("running since", run.record.started_at),
                    _ => (run.word(), run.record.ended_at.or(run.record.started_at)),
                };
                format!("last run: {} {}", escape_hidden(&shorten(word)), time.map(when).unwrap_or_default())
            },
        );
        format!("{}: {verdict}{future}; {}\n", printable_name(self.name), run.trim_end())
    }
}

/// The ends of the newest successes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LastSuccess {
    /// The end of the newest success up to now.
    pub(crate) end: Option<Timestamp>,
    /// The end of the newest success in the future. Its true time is unknown, so it is no recent success: otherwise it would
    /// hide every failure until that time.
    pub(crate) future: Option<Timestamp>,
}

/// Returns the ends of the newest successes.
pub(crate) fn last_success(runs: impl Iterator<Item = ShownRun>, now: Timestamp) -> LastSuccess {
    let ends = runs.filter(|run| run.state == RunState::Success).filter_map(|run| run.record.ended_at);
    ends.fold(LastSuccess::default(), |LastSuccess { end, future }, one| match is_in_future(one, now) {
        true => LastSuccess { end, future: future.max(Some(one)) },
        false => LastSuccess { end: end.max(Some(one)), future },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::RunRecord;
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, lock, locks, run};
    use crate::report::times::tests::at;

    fn line(runs: &[RunRecord], hours: u64) -> (bool, String) {
        let holder = lock("backup", "db1:9:00000000000000ff", "2026-01-31T18:00:03Z", 60);
        let runs = list(runs);
        let runs = shown_runs(&runs, &locks(&[holder]));
        let most = Duration::from_secs(hours * 3600);
        let succeeded = RecentSuccess { name: "backup", runs: &runs, now: at(NOW), most };
        (succeeded.is_recent(), succeeded.line(&Zone::utc()))
    }

    #[test]
    fn a_success_counts_from_its_end_and_the_limit_is_included() {
        let success = run(1, "backup", "db1", "2026-01-31T14:05:03Z", Some(7200), "success");
        let failure = run(2, "backup", "db2", "2026-01-31T17:05:03Z", Some(0), "failure");
        let runs = [failure, success];
        assert_eq!(line(&runs, 2), (true, "backup: last success 2026-01-31 16:05:03Z (2h ago)\n".to_owned()));
        assert_eq!(
            line(&runs, 1),
            (
                false,
                "backup: no success for 1h, the last was 2026-01-31 16:05:03Z (2h ago); \
                 last run: failure 2026-01-31 17:05:03Z (1h ago)\n"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_success_of_the_future_is_not_recent_and_the_last_run_has_the_largest_token() {
        let future = run(1, "backup", "db1", "2027-01-31T18:00:03Z", Some(300), "success");
        let failure = run(2, "backup", "db2", "2026-01-31T17:05:03Z", Some(0), "failure");
        let told =
            "; the success of 2027-01-31 18:05:03Z (in 365d) does not count, a clock was ahead or was set back since";
        let last = "; last run: failure 2026-01-31 17:05:03Z (1h ago)\n";
        let runs = [future, failure];
        assert_eq!(line(&runs, 26), (false, format!("backup: no success up to now is recorded{told}{last}")));
        let old = run(0, "backup", "db1", "2026-01-31T14:05:03Z", Some(7200), "success");
        let runs = [runs.as_slice(), &[old]].concat();
        assert_eq!(
            line(&runs, 1),
            (false, format!("backup: no success for 1h, the last was 2026-01-31 16:05:03Z (2h ago){told}{last}"))
        );
        assert_eq!(line(&runs, 2), (true, format!("backup: last success 2026-01-31 16:05:03Z (2h ago){told}\n")));
        // As two readings of a clock differ.
        let soon = run(3, "backup", "db1", "2026-01-31T18:05:03Z", Some(60), "success");
        assert_eq!(line(&[soon], 1), (true, "backup: last success 2026-01-31 18:06:03Z (in 1m)\n".to_owned()));
    }

    #[test]
    fn what_has_never_succeeded_says_what_there_was() {
        assert_eq!(line(&[], 1).1, "backup: no success is recorded; no run is recorded\n");
        let running = run(9, "backup", "db1", "2026-01-31T18:00:03Z", None, "");
        assert_eq!(
            line(&[running], 1).1,
            "backup: no success is recorded; last run: running since 2026-01-31 18:00:03Z (5m ago)\n"
        );
        let gone = run(3, "backup", "db3", "2026-01-31T12:00:03Z", None, "");
        assert_eq!(
            line(&[gone], 1),
            (
                false,
                "backup: no success is recorded; last run: never came back 2026-01-31 12:00:03Z (6h ago)\n".to_owned()
            )
        );
    }
}
