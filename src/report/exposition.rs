//! All locks and their last runs as metrics, from the backend: `shedlock status --prometheus`.

use std::time::Duration;

use super::counters::{DURATION, END, EXIT_CODE, HELD, PAUSED, START, SUCCESS, UNTIL, head, seconds, series};
use super::past::Past;
use super::standing::Standing;
use crate::system::Timestamp;

/// A lock, its last run that ended, and the end of its last success.
pub(crate) struct Exposed<'a> {
    pub(crate) lock: &'a Standing<'a>,
    pub(crate) ended: Option<Past>,
    pub(crate) success: Option<Timestamp>,
}

/// Formats the metrics in version 0.0.4 of Prometheus' text format. A value that does not exist is left out.
/// The text comes line by line.
pub(crate) fn exposition(locks: &[Exposed<'_>], now: Timestamp) -> impl Iterator<Item = String> {
    let time = |time: Option<Timestamp>| time.map(|time| seconds(Duration::from_millis(time.0)));
    let gauges = [HELD, PAUSED, UNTIL, START, END, SUCCESS, DURATION, EXIT_CODE];
    gauges.into_iter().flat_map(move |metric| {
        let lines = locks.iter().filter_map(move |Exposed { lock, ended, success }| {
            let value = match metric {
                HELD => u8::from(lock.is_held()).to_string(),
                PAUSED => u8::from(lock.is_paused()).to_string(),
                UNTIL => time(lock.ends())?,
                START => time(lock.last_start())?,
                END => time(ended.as_ref()?.run.ended_at)?,
                SUCCESS => time(*success)?,
                DURATION => ended.as_ref()?.took(now).map(seconds)?,
                _ => ended.as_ref()?.run.exit_code?.to_string(),
            };
            Some(series(metric, lock.name, None) + &value + "\n")
        });
        let mut lines = lines.peekable();
        let head = lines.peek().map(|_| head(metric, "gauge"));
        head.into_iter().chain(lines)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::past::past;
    use crate::report::past::tests::{NOW, list, lock, locks, run};
    use crate::report::standings;
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
        let past = past(&runs, &locks);
        let standings = standings(&[], &locks, &past);
        let success = Some(at("2026-01-30T18:00:00.500Z"));
        let exposed: Vec<_> = standings
            .iter()
            .map(|lock| Exposed { lock, ended: lock.last_run(), success: success.filter(|_| lock.name != "free") })
            .collect();
        let text: String = exposition(&exposed, at(NOW)).collect();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = r#"{name="a \"b\"\\"}"#;
        assert_eq!(
            lines,
            [
                &format!("shedlock_lock_held{name} 1"),
                "shedlock_lock_held{name=\"free\"} 0",
                &format!("shedlock_lock_paused{name} 0"),
                "shedlock_lock_paused{name=\"free\"} 0",
                &format!("shedlock_lock_until_timestamp_seconds{name} 1769883003"),
                &format!("shedlock_last_start_timestamp_seconds{name} 1769882403"),
                &format!("shedlock_last_end_timestamp_seconds{name} 1769878890"),
                &format!("shedlock_last_success_timestamp_seconds{name} 1769796000.500"),
                &format!("shedlock_last_duration_seconds{name} 90"),
                &format!("shedlock_last_exit_code{name} 3"),
            ]
        );
        assert_eq!(text.matches("# TYPE").count(), 8, "{text}");
        assert_eq!(exposition(&[], at(NOW)).next(), None);
    }
}
