//! Formats the locks of a backend and their last runs as metrics, for `shedlock status --prometheus`.

use std::time::Duration;

use super::counters::{DURATION, END, EXIT_CODE, HELD, OUTCOME, PAUSED, START, SUCCESS, UNTIL, head, seconds, series};
use crate::lock::RunOutcome;
use crate::report::skew::is_in_future;
use crate::report::tables::locks::LockView;
use crate::report::tables::runs::ShownRun;
use crate::system::Timestamp;

/// A lock, its last run that ended, and the end of its last success.
pub(crate) struct LockMetrics<'a> {
    pub(crate) lock: &'a LockView<'a>,
    pub(crate) ended: Option<ShownRun>,
    pub(crate) success: Option<Timestamp>,
}

/// The label of metrics that the files of jobs have, too. Without it both would be one series, and node_exporter, which then
/// refuses all of its metrics, can be given only one of them.
const SOURCE: (&str, &str) = ("source", "backend");

/// Formats the metrics of locks in version 0.0.4 of Prometheus' text format. A value that does not exist is left out, and a
/// time in the future, of a clock that was ahead, is given as now. The text comes line by line.
pub(crate) fn prometheus_text(locks: &[LockMetrics<'_>], now: Timestamp) -> impl Iterator<Item = String> {
    let time = |time: Option<Timestamp>| time.map(|time| seconds(Duration::from_millis(time.0)));
    let up_to_now = move |one: Option<Timestamp>| time(one.map(|one| if is_in_future(one, now) { now } else { one }));
    let gauges = [HELD, PAUSED, UNTIL, START, END, SUCCESS, DURATION, EXIT_CODE, OUTCOME];
    gauges.into_iter().flat_map(move |metric| {
        let lines = locks.iter().filter_map(move |LockMetrics { lock, ended, success }| {
            let label = match metric {
                HELD | PAUSED | UNTIL => None,
                OUTCOME => Some(("outcome", outcome(ended.as_ref()?)?)),
                _ => Some(SOURCE),
            };
            let value = match metric {
                HELD => u8::from(lock.is_held()).to_string(),
                PAUSED => u8::from(lock.is_paused()).to_string(),
                UNTIL => time(lock.ends())?,
                START => up_to_now(lock.last_start())?,
                END => up_to_now(ended.as_ref()?.record.ended_at)?,
                SUCCESS => time(*success)?,
                DURATION => ended.as_ref()?.took(now).map(seconds)?,
                OUTCOME => "1".to_owned(),
                _ => ended.as_ref()?.record.exit_code?.to_string(),
            };
            Some(series(metric, lock.name, label) + &value + "\n")
        });
        let mut lines = lines.peekable();
        let head = lines.peek().map(|_| head(metric, "gauge"));
        head.into_iter().chain(lines)
    })
}

/// Returns the outcome of a run that ended, if it is one of a run: the history may have any text.
fn outcome(ended: &ShownRun) -> Option<&'static str> {
    use RunOutcome::{Error, Expired, Failure, Lost, Success};
    let found = ended.record.ended_at.and(ended.record.outcome.as_deref())?;
    [Success, Failure, Expired, Lost, Error].map(RunOutcome::as_str).into_iter().find(|known| *known == found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lock_views;
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, lock, locks, run};
    use crate::report::times::tests::at;

    #[test]
    fn every_lock_has_what_is_known_of_it() {
        let held = lock("a \"b\"\\", "db1:2:00000000000000ff", "2026-01-31T18:00:03Z", 300);
        let locks = locks(&[held, lock("free", "db1:9:00000000000000ff", "2026-01-31T17:00:00Z", 0)]);
        let runs = [
            run(2, "a \"b\"\\", "db1", "2026-01-31T18:00:03Z", None, ""),
            run(1, "a \"b\"\\", "db1", "2026-01-31T17:00:00Z", Some(90), "failure"),
        ];
        let runs = list(&runs);
        let shown = shown_runs(&runs, &locks);
        let views = lock_views(&[], &locks, &shown);
        let success = Some(at("2026-01-30T18:00:00.500Z"));
        let exposed: Vec<_> = views
            .iter()
            .map(|lock| LockMetrics { lock, ended: lock.last_run(), success: success.filter(|_| lock.name != "free") })
            .collect();
        let text: String = prometheus_text(&exposed, at(NOW)).collect();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = r#"{name="a \"b\"\\"}"#;
        let shared = r#"{name="a \"b\"\\",source="backend"}"#;
        let outcome = r#"{name="a \"b\"\\",outcome="failure"}"#;
        assert_eq!(
            lines,
            [
                &format!("shedlock_lock_held{name} 1"),
                "shedlock_lock_held{name=\"free\"} 0",
                &format!("shedlock_lock_paused{name} 0"),
                "shedlock_lock_paused{name=\"free\"} 0",
                &format!("shedlock_lock_until_timestamp_seconds{name} 1769883003"),
                &format!("shedlock_last_start_timestamp_seconds{shared} 1769882403"),
                &format!("shedlock_last_end_timestamp_seconds{shared} 1769878890"),
                &format!("shedlock_last_success_timestamp_seconds{shared} 1769796000.500"),
                &format!("shedlock_last_duration_seconds{shared} 90"),
                &format!("shedlock_last_exit_code{shared} 3"),
                &format!("shedlock_last_outcome{outcome} 1"),
            ]
        );
        assert_eq!(text.matches("# TYPE").count(), 9, "{text}");
        assert_eq!(prometheus_text(&[], at(NOW)).next(), None);
    }
    #[test]
    fn times_in_the_future_are_now_and_an_odd_outcome_is_none() {
        let none = locks(&[]);
        let runs = list(&[run(3, "a", "db1", "2027-01-31T18:00:03Z", Some(60), "gelungen")]);
        let shown = shown_runs(&runs, &none);
        let views = lock_views(&[], &none, &shown);
        let exposed = [LockMetrics { lock: &views[0], ended: views[0].last_run(), success: None }];
        let text: String = prometheus_text(&exposed, at(NOW)).collect();
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("timestamp") && !line.starts_with('#')).collect();
        let now = at(NOW).0 / 1000;
        assert_eq!(
            lines,
            [
                &format!("shedlock_last_start_timestamp_seconds{{name=\"a\",source=\"backend\"}} {now}"),
                &format!("shedlock_last_end_timestamp_seconds{{name=\"a\",source=\"backend\"}} {now}"),
            ]
        );
        assert!(!text.contains("last_outcome"), "{text}");
    }
}
