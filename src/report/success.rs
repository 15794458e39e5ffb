//! The last success of a lock, in one line for a monitor.

use std::time::Duration;

use super::past::{Past, PastRuns, RunState};
use super::times::{Zone, ago};
use crate::duration;
use crate::system::Timestamp;
use crate::text::{shown, visible};

/// A lock's runs, and whether one of them succeeded lately.
pub(crate) struct Succeeded<'a> {
    pub(crate) name: &'a str,
    /// The runs, newest first.
    pub(crate) runs: &'a PastRuns<'a>,
    pub(crate) now: Timestamp,
    /// The longest time since the last success.
    pub(crate) most: Duration,
}

impl Succeeded<'_> {
    /// Returns whether the last success is no older than `most`.
    pub(crate) fn is_recent(&self) -> bool {
        last_success(self.runs.iter()).is_some_and(|last| last + self.most >= self.now)
    }

    /// Returns the line that says so.
    pub(crate) fn line(&self, zone: &Zone) -> String {
        let when = |time: Timestamp| format!("{} ({})", zone.stamp(time), ago(time, self.now));
        let last = last_success(self.runs.iter()).map(when);
        let verdict = match last {
            Some(last) if self.is_recent() => return format!("{}: last success {last}\n", shown(self.name)),
            Some(last) => format!("no success for {}, the last was {last}", duration::format(self.most)),
            None => "no success is recorded".to_owned(),
        };
        let run = self.runs.iter().next().map_or_else(
            || "no run is recorded".to_owned(),
            |past| {
                let (word, time) = match past.fate {
                    RunState::Running => ("running since", past.run.started_at),
                    _ => (past.word(), past.run.ended_at.or(past.run.started_at)),
                };
                format!("last run: {} {}", visible(word), time.map(when).unwrap_or_default())
            },
        );
        format!("{}: {verdict}; {}\n", shown(self.name), run.trim_end())
    }
}

/// Returns the end of the newest success.
pub(crate) fn last_success(runs: impl Iterator<Item = Past>) -> Option<Timestamp> {
    let ends = runs.filter(|past| past.fate == RunState::Success).filter_map(|past| past.run.ended_at);
    ends.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::RunRecord;
    use crate::report::past::past;
    use crate::report::past::tests::{NOW, list, lock, locks, run};
    use crate::report::times::tests::at;

    fn line(runs: &[RunRecord], hours: u64) -> (bool, String) {
        let holder = lock("backup", "db1:9:00000000000000ff", "2026-01-31T18:00:03Z", 60);
        let runs = list(runs);
        let runs = past(&runs, &locks(&[holder]));
        let most = Duration::from_secs(hours * 3600);
        let succeeded = Succeeded { name: "backup", runs: &runs, now: at(NOW), most };
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
