//! Parses and formats times, in UTC or in a local zone, and relative times.

use std::fmt::Write;
use std::time::Duration;

use tz::{DateTime, TimeZone, TimeZoneSettings};

use crate::duration;
use crate::system::Timestamp;
use crate::system::file::Input;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

const TIME_FORMS: &str = "write for example 2h, 7d, 2026-01-31, `2026-01-31 18:00` or 2026-01-31T18:00:00Z";

/// The time zone for output and input.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    zone: TimeZone,
    utc: bool,
}

/// A date and time in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalTime {
    pub(super) date: (i32, u8, u8),
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    /// The distance from UTC in seconds, eastwards.
    offset: i32,
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Self { zone: TimeZone::utc(), utc: true }
    }

    /// Returns the zone named by `variable`, the value of TZ, or else the system's; UTC if the host has none. The error is the
    /// end of a sentence that begins with the option.
    pub(crate) fn local(variable: Option<&str>) -> Result<Self, String> {
        let settings = TimeZoneSettings::new(TimeZoneSettings::DEFAULT_DIRECTORIES, |path| {
            let input = Input::open(path.as_ref()).ok().filter(Input::is_regular).ok_or("no such file")?;
            Ok(input.read(Duration::ZERO)?)
        });
        let zone = match variable {
            Some("") => return Ok(Self::utc()),
            Some(name) => settings
                .parse_posix_tz(name)
                .map_err(|_| format!("cannot be used: TZ is `{name}`, which is not a time zone on this host"))?,
            None => match settings.parse_local() {
                Ok(zone) => zone,
                Err(_) => return Ok(Self::utc()),
            },
        };
        Ok(Self { zone, utc: false })
    }

    /// Returns the date and time in the zone.
    pub(super) fn local_time(&self, time: Timestamp) -> LocalTime {
        let seconds = i64::try_from(time.0 / 1000).unwrap_or(LAST_SECOND).min(LAST_SECOND - DAY as i64);
        // A zone may have no rule for the far future.
        let shown = DateTime::from_timespec(seconds, 0, self.zone.as_ref())
            .or_else(|_| DateTime::from_timespec(seconds, 0, tz::TimeZoneRef::utc()))
            .expect("every second before the year 10000 has a date");
        LocalTime {
            date: (shown.year(), shown.month(), shown.month_day()),
            hour: shown.hour(),
            minute: shown.minute(),
            second: shown.second(),
            offset: shown.local_time_type().ut_offset(),
        }
    }

    /// Formats a time as `18:00:03Z`, or on another day than `now` with the date and without seconds.
    pub(super) fn clock(&self, time: Timestamp, now: Timestamp) -> String {
        let (then, now) = (self.local_time(time), self.local_time(now));
        let minute = format!("{:02}:{:02}", then.hour, then.minute);
        match then.date == now.date {
            true => format!("{minute}:{:02}{}", then.second, self.mark(&then)),
            false => format!("{} {minute}{}", then.day(), self.mark(&then)),
        }
    }

    /// Formats a time as `2026-01-31 18:00:03Z`, or in a local zone as `2026-01-31 19:00:03+01:00`.
    pub(crate) fn stamp(&self, time: Timestamp) -> String {
        let then = self.local_time(time);
        format!("{} {:02}:{:02}:{:02}{}", then.day(), then.hour, then.minute, then.second, self.mark(&then))
    }

    /// Returns the suffix of a time, `Z` or the distance from UTC, without which the hour repeated in autumn would be
    /// ambiguous.
    fn mark(&self, then: &LocalTime) -> String {
        if self.utc { "Z".to_owned() } else { then.distance() }
    }

    /// Returns the name of the zone for headings.
    pub(super) fn title(&self) -> &'static str {
        if self.utc { "UTC" } else { "local time" }
    }

    /// Returns the distance from UTC at that time, in seconds.
    pub(super) fn offset(&self, time: Timestamp) -> i64 {
        self.local_time(time).offset.into()
    }

    /// Parses a time: a duration before `now`, or a date and time in this zone unless the text names another. The error is the
    /// end of a sentence that begins with the option's name.
    pub(crate) fn read(&self, text: &str, now: Timestamp) -> Result<Timestamp, String> {
        let text = text.trim();
        if text.get(4..5) == Some("-") {
            return self.calendar(text).ok_or_else(|| format!("`{text}` is not a time; {TIME_FORMS}"));
        }
        match duration::parse(text) {
            Ok(before) => {
                let millis = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
                Ok(Timestamp(now.0.saturating_sub(millis)))
            }
            Err(_) => Err(format!("`{text}` is neither a time nor a duration; {TIME_FORMS}")),
        }
    }

    /// Parses `2026-01-31`, optionally with a time of day and a zone.
    fn calendar(&self, text: &str) -> Option<Timestamp> {
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.split('-');
        let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let (time, offset) = match rest.strip_prefix(['T', 't', ' ']) {
            None => rest.is_empty().then_some(("00:00", None))?,
            Some(rest) => offset(rest)?,
        };
        let mut parts = time.split(':');
        let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let seconds = parts.next().unwrap_or("00");
        let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let second = digits(second, 2)?;
        if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
        let (hour, minute) = (u8::try_from(hour).ok()?, u8::try_from(minute).ok()?);
        let (year, second) = (i32::try_from(year).ok()?, u8::try_from(second).ok()?);
        let fixed;
        let zone = match offset {
            None => self.zone.as_ref(),
            Some(seconds) => {
                fixed = TimeZone::fixed(seconds).ok()?;
                fixed.as_ref()
            }
        };
        // In the hour that is repeated in autumn, takes the first occurrence, so that nothing is left out.
        let found = DateTime::find(year, month, day, hour, minute, second, 0, zone).ok()?.earliest()?;
        let millis = format!("{fraction:0<3}")[..3].parse::<u64>().ok()?;
        Some(Timestamp(u64::try_from(found.unix_time()).ok()? * 1000 + millis))
    }
}

impl LocalTime {
    /// Formats the date as `2026-01-31`.
    pub(super) fn day(&self) -> String {
        let (year, month, day) = self.date;
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// Returns the distance from UTC, `+01:00`.
    fn distance(&self) -> String {
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs() / 60);
        format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Parses exactly this many digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Splits `Z` or `+01:00` off a time of day, and returns the distance from UTC in seconds.
fn offset(text: &str) -> Option<(&str, Option<i32>)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, Some(0)));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, None)) };
    let (hours, minutes) = text[at + 1..].split_once(':')?;
    let seconds = i32::try_from(digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60).ok()?;
    Some((&text[..at], Some(if text[at..].starts_with('-') { -seconds } else { seconds })))
}

/// Formats a relative time: `5m ago`, `in 2h`.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    // Rounded to the nearest second, because a lock of one hour is always read a moment later.
    let distance = Duration::from_millis(then.0.abs_diff(now.0) + 500);
    match distance.as_secs() {
        0 => "now".to_owned(),
        _ if then > now => format!("in {}", in_largest_unit(distance)),
        _ => format!("{} ago", in_largest_unit(distance)),
    }
}

/// Formats a duration in its largest unit, rounded down: `59s`, `5m`, `23h`, `41d`.
pub(super) fn in_largest_unit(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..MINUTE => format!("{seconds}s"),
        seconds @ MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        seconds => format!("{}d", seconds / DAY),
    }
}

/// Formats a duration in its two largest units, rounded down: `420ms`, `4.2s`, `42s`, `5m12s`, `1h3m`, `2d4h`.
pub(super) fn in_two_units(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |large: u64, one: &str, small: u64, other: &str| {
        let mut text = format!("{}{one}", seconds / large);
        match seconds % large / small {
            0 => {}
            rest => write!(text, "{rest}{other}").expect("writing to a string cannot fail"),
        }
        text
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(MINUTE, "m", 1, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "m"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// Returns the zone of Middle Europe as POSIX writes it, so that the test needs no files of the host.
    pub(crate) fn berlin() -> Zone {
        Zone::local(Some("CET-1CEST,M3.5.0,M10.5.0/3")).unwrap()
    }

    #[test]
    fn a_time_has_its_date_unless_it_is_of_today() {
        let now = at("2026-01-31T18:05:03Z");
        let utc = Zone::utc();
        assert_eq!(utc.clock(at("2026-01-31T18:00:03.999Z"), now), "18:00:03Z");
        assert_eq!(utc.clock(at("2026-01-30T23:59:59Z"), now), "2026-01-30 23:59Z");
        // It is tomorrow there already.
        assert_eq!(berlin().clock(at("2026-01-31T23:00:00Z"), now), "2026-02-01 00:00+01:00");
        assert_eq!(berlin().clock(at("2026-01-31T18:00:03Z"), now), "19:00:03+01:00");
        assert_eq!(berlin().stamp(at("2026-07-01T18:00:03Z")), "2026-07-01 20:00:03+02:00");
        // Clocks are put back: the same hour twice, and two rows that can be told apart.
        assert_eq!(berlin().stamp(at("2026-10-25T00:30:00Z")), "2026-10-25 02:30:00+02:00");
        assert_eq!(berlin().stamp(at("2026-10-25T01:30:00Z")), "2026-10-25 02:30:00+01:00");
        assert_eq!(utc.stamp(Timestamp(u64::MAX)), "9999-12-30 23:59:59Z");
    }

    #[test]
    fn a_zone_says_what_it_is() {
        assert_eq!((Zone::utc().title(), berlin().title()), ("UTC", "local time"));
        let marquesas = Zone::local(Some("<-0930>9:30")).unwrap();
        assert_eq!(marquesas.stamp(Timestamp(0)), "1969-12-31 14:30:00-09:30");
        assert_eq!(Zone::local(Some("")).unwrap().title(), "UTC");
        assert!(Zone::local(Some("Mars/Olympus")).unwrap_err().contains("`Mars/Olympus`"));
    }

    #[test]
    fn relative_times_are_short() {
        let now = Timestamp(1_000_000_000_000);
        for (seconds, past, future) in [
            (0, "now", "now"),
            (59, "59s ago", "in 59s"),
            (60, "1m ago", "in 1m"),
            (3_599, "59m ago", "in 59m"),
            (3_600, "1h ago", "in 1h"),
            (172_799, "47h ago", "in 47h"),
            (172_800, "2d ago", "in 2d"),
            (31_536_000, "365d ago", "in 365d"),
        ] {
            assert_eq!(ago(Timestamp(now.0 - seconds * 1000), now), past);
            assert_eq!(ago(Timestamp(now.0 + seconds * 1000), now), future);
        }
        for (millis, text) in [
            (0, "0ms"),
            (420, "420ms"),
            (4_250, "4.2s"),
            (42_999, "42s"),
            (312_000, "5m12s"),
            (300_000, "5m"),
            (3_780_000, "1h3m"),
            (187_200_000, "2d4h"),
        ] {
            assert_eq!(in_two_units(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_time_is_a_duration_before_now_or_one_of_the_calendar() {
        let now = at("2026-01-31T18:00:00Z");
        for (text, utc, local) in [
            ("2h", "2026-01-31T16:00:00Z", "2026-01-31T16:00:00Z"),
            ("7d", "2026-01-24T18:00:00Z", "2026-01-24T18:00:00Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z", "2026-01-30T23:00:00Z"),
            ("2026-01-31 18:00", "2026-01-31T18:00:00Z", "2026-01-31T17:00:00Z"),
            ("2026-07-31T18:00:05", "2026-07-31T18:00:05Z", "2026-07-31T16:00:05Z"),
            ("2026-01-31T18:00:00.25Z", "2026-01-31T18:00:00.250Z", "2026-01-31T18:00:00.250Z"),
            ("2026-01-31T18:00:00+05:30", "2026-01-31T12:30:00Z", "2026-01-31T12:30:00Z"),
            ("2026-01-31 18:00-01:00", "2026-01-31T19:00:00Z", "2026-01-31T19:00:00Z"),
            // Shown twice, and never.
            ("2026-10-25 02:30", "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z"),
            ("2026-03-29 02:30", "2026-03-29T02:30:00Z", "2026-03-29T01:00:00Z"),
        ] {
            assert_eq!(Zone::utc().read(text, now), Ok(at(utc)), "{text}");
            assert_eq!(berlin().read(text, now), Ok(at(local)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026-02-30",
            "2026-1-31",
            "2026-01-31 25:00",
            "2026-01-31 18",
            "2026-01-31T",
            "2026-01-31x",
            "2026-01-31 18:00:00:00",
            "2026-01-31 18:00:0",
            "2026-01-31 18:00Q",
            "2026-01-31 18:00+1",
            "18:00",
            "-5m",
            "1969-12-31",
            "2026-01-31 18:00:00.x",
            "2026-01-31 18:00:00.1.2",
        ] {
            let error = Zone::utc().read(text, Timestamp(0)).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is n")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9T:. Z+é-]{0,30}|[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]\\PC{0,12}") {
            let _ = Zone::utc().read(&text, Timestamp(0));
        }

        #[test]
        fn what_is_shown_is_read_back(seconds in 0_u64..250_000_000_000) {
            let time = Timestamp(seconds * 1000);
            for zone in [Zone::utc(), berlin()] {
                prop_assert_eq!(zone.read(&zone.stamp(time), time), Ok(time));
            }
        }
    }
}
