//! All locks and their last runs as metrics, from the backend: `shedlock status --prometheus`.

use std::time::Duration;

use super::counters::{DURATION, END, EXIT_CODE, HELD, PAUSED, START, SUCCESS, UNTIL, head, seconds, series};
use super::standing::Standing;
use crate::system::Timestamp;

/// A lock and the end of its last success.
pub(crate) struct Exposed<'a> {
    pub(crate) lock: &'a Standing<'a>,
    pub(crate) success: Option<Timestamp>,
}

/// Formats the metrics in version 0.0.4 of Prometheus' text format. A value that does not exist is left out.
pub(crate) fn exposition(locks: &[Exposed<'_>], now: Timestamp) -> String {
    let mut text = String::new();
    let mut gauge = |metric: &str, value: &dyn Fn(&Exposed<'_>) -> Option<String>| {
        let lines = locks.iter().filter_map(|one| Some(series(metric, one.lock.name, None) + &value(one)? + "\n"));
        let lines: String = lines.collect();
        if !lines.is_empty() {
            text += &head(metric, "gauge");
            text += &lines;
        }
    };
    let time = |time: Option<Timestamp>| time.map(|time| seconds(Duration::from_millis(time.0)));
    let flag = |flag: bool| Some(u8::from(flag).to_string());
    gauge(HELD, &|one| flag(one.lock.is_held()));
    gauge(PAUSED, &|one| flag(one.lock.is_paused()));
    gauge(UNTIL, &|one| time(one.lock.ends()));
    gauge(START, &|one| time(one.lock.last_start()));
    gauge(END, &|one| time(one.lock.last_run()?.run.ended_at));
    gauge(SUCCESS, &|one| time(one.success));
    gauge(DURATION, &|one| one.lock.last_run()?.took(now).map(seconds));
    gauge(EXIT_CODE, &|one| Some(one.lock.last_run()?.run.exit_code?.to_string()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::past::tests::{NOW, lock, locks, run};
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
        let standings = standings(&[], &locks, &runs);
        let success = Some(at("2026-01-30T18:00:00.500Z"));
        let exposed: Vec<_> =
            standings.iter().map(|lock| Exposed { lock, success: success.filter(|_| lock.name != "free") }).collect();
        let text = exposition(&exposed, at(NOW));
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
        assert_eq!(exposition(&[], at(NOW)), "");
    }
}
