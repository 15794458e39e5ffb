//! Parses and formats durations such as `1h30m`.

use std::time::Duration;

/// The longest accepted duration: ten years of 365 days.
pub(crate) const MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

const NANOS_PER_SEC: u128 = 1_000_000_000;
const MINUTE: u128 = 60 * NANOS_PER_SEC;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;
const WEEK: u128 = 7 * DAY;

const GRAMMAR: &str = "write for example 90s, 1.5h, 1h30m, 2days or PT1H30M";

/// Parses a duration: `90`, `90s`, `1.5h`, `1h30m`, `1h 30m`, `500ms`, `5min`, `2days`, `1w`, `PT1H30M`.
///
/// A bare number is seconds. The error is the end of a sentence that begins with the option's name.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("is empty; {GRAMMAR}"));
    }
    if text.starts_with('-') && !text.contains(|c: char| c.is_ascii_digit()) {
        return Err(format!("needs a duration, and `{text}` is not one; {GRAMMAR}"));
    }
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    let nanos = if text.starts_with(['P', 'p']) {
        iso(&text.to_ascii_uppercase()).ok_or_else(|| explain_iso(text))?
    } else {
        words(text)?
    };
    if nanos > MAX.as_nanos() {
        return Err(format!("`{text}` is longer than ten years"));
    }
    let secs = u64::try_from(nanos / NANOS_PER_SEC).expect("ten years of seconds fit");
    let rest = u32::try_from(nanos % NANOS_PER_SEC).expect("less than a second of nanoseconds fits");
    Ok(Duration::new(secs, rest))
}

/// Formats a measured time roughly: `0.4 ms`, `35 ms`, `1.2 s`, `1h`.
pub(crate) fn brief(duration: Duration) -> String {
    let millis = (duration.as_secs_f64() * 1000.0).max(0.1);
    match millis {
        ..9.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        ..9_950.0 => format!("{:.1} s", millis / 1000.0),
        _ => format(Duration::from_secs((duration + Duration::from_millis(500)).as_secs())),
    }
}

/// Formats a duration in the grammar of [`parse`]: `1h30m`, `250ms`, `2d`.
pub(crate) fn format(duration: Duration) -> String {
    let mut nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < NANOS_PER_SEC {
        return format!("{}ms", decimal(nanos, 1_000_000));
    }
    let mut text = String::new();
    for (unit, size) in [("d", DAY), ("h", HOUR), ("m", MINUTE)] {
        if nanos >= size {
            text += &format!("{}{unit}", nanos / size);
            nanos %= size;
        }
    }
    if nanos > 0 {
        text += &format!("{}s", decimal(nanos, NANOS_PER_SEC));
    }
    text
}

/// Formats `nanos / unit` with as many decimals as needed.
fn decimal(nanos: u128, unit: u128) -> String {
    let (whole, mut rest) = (nanos / unit, nanos % unit);
    let mut text = whole.to_string();
    if rest > 0 {
        text.push('.');
    }
    let mut place = unit;
    while rest > 0 {
        place /= 10;
        text += &(rest / place).to_string();
        rest %= place;
    }
    text
}

/// Parses `1h 30m`, or a bare number, which is seconds.
fn words(text: &str) -> Result<u128, String> {
    let mut rest = text;
    let mut total = 0_u128;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after.trim_start(), |c| c.is_alphabetic() || !c.is_ascii());
        let alone = number.len() == text.len();
        let size = match unit {
            _ if number.is_empty() => return Err(format!("`{text}` is not a duration; {GRAMMAR}")),
            "" if alone => NANOS_PER_SEC,
            "" => return Err(format!("`{text}` has a number without a unit; {GRAMMAR}")),
            unit => self::unit(unit).map_err(|why| format!("`{text}` {why}"))?,
        };
        let part = scale(number, size).ok_or_else(|| format!("`{text}` is not a duration; {GRAMMAR}"))?;
        total = total.saturating_add(part);
        rest = after.trim_start();
    }
    Ok(total)
}

/// Returns the nanoseconds of a unit; the error is the end of a sentence.
fn unit(unit: &str) -> Result<u128, String> {
    Ok(match unit {
        "ns" | "nsec" => 1,
        "us" | "µs" | "usec" => 1_000,
        "ms" | "msec" | "millis" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SEC,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => WEEK,
        "M" | "mo" | "mon" | "month" | "months" | "y" | "yr" | "year" | "years" => {
            return Err("counts in months or years, which have no fixed length; use days".to_owned());
        }
        other => return Err(format!("has the unknown unit `{other}`; use ms, s, m, h, d or w")),
    })
}

/// Parses ISO 8601: `P1DT2H3M4.5S` or `P2W`; only the last number may have decimals. `text` is upper case.
fn iso(text: &str) -> Option<u128> {
    let mut rest = text.strip_prefix('P')?;
    let mut total = 0_u128;
    let mut order = 0;
    let mut in_time = false;
    let mut decimals = false;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            if in_time || time.is_empty() {
                return None;
            }
            in_time = true;
            rest = time;
        }
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.' || c == ',');
        let unit = after.chars().next()?;
        let (rank, size) = match (in_time, unit) {
            (false, 'W') => (1, WEEK),
            (false, 'D') => (2, DAY),
            (true, 'H') => (3, HOUR),
            (true, 'M') => (4, MINUTE),
            (true, 'S') => (5, NANOS_PER_SEC),
            _ => return None,
        };
        if rank <= order || decimals {
            return None;
        }
        order = rank;
        decimals = number.contains(['.', ',']);
        total = total.saturating_add(scale(&number.replace(',', "."), size)?);
        rest = &after[1..];
    }
    (order > 0).then_some(total)
}

fn explain_iso(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    let date = upper.split('T').next().unwrap_or_default();
    if date.contains(['Y', 'M']) {
        format!("`{text}` counts in months or years, which have no fixed length; use days")
    } else {
        format!("`{text}` is not an ISO 8601 duration such as PT1H30M")
    }
}

/// Splits off the longest prefix whose characters all satisfy `belongs`.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Multiplies `number`, digits with at most one point, by `size` nanoseconds, rounding down.
fn scale(number: &str, size: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return None;
    }
    // A number too long for the type is certainly longer than ten years.
    let whole = whole.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(size);
    let digits = &fraction[..fraction.len().min(18)];
    let part = if digits.is_empty() {
        0
    } else {
        digits.parse::<u128>().ok()? * size / 10_u128.pow(u32::try_from(digits.len()).ok()?)
    };
    Some(whole.saturating_add(part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_brief_duration_gives_an_idea() {
        for (micros, text) in
            [(0, "0.1 ms"), (420, "0.4 ms"), (9_960, "10 ms"), (999_600, "1.0 s"), (3_599_600_000, "1h")]
        {
            assert_eq!(brief(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn the_grammar_of_the_manual_is_read() {
        for (text, millis) in [
            ("90", 90_000),
            ("0", 0),
            ("1.5", 1_500),
            ("90s", 90_000),
            ("1.5h", 5_400_000),
            ("0.5ms", 0),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1 h 30 m", 5_400_000),
            ("500ms", 500),
            ("5min", 300_000),
            ("2days", 172_800_000),
            ("1w", 604_800_000),
            ("PT1H30M", 5_400_000),
            ("pt90s", 90_000),
            ("P1DT0.5S", 86_400_500),
            ("P2W", 1_209_600_000),
            ("PT1,5H", 5_400_000),
            (" 3m ", 180_000),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(parse(text).unwrap().as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn what_is_not_in_the_grammar_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "is empty"),
            ("-5s", "is negative"),
            ("-PT5S", "is negative"),
            ("1M", "months or years"),
            ("1month", "months or years"),
            ("2y", "months or years"),
            ("P1M", "months or years"),
            ("P1Y2DT3H", "months or years"),
            ("3651d", "longer than ten years"),
            ("99999999999999999999999999999999999999999999s", "longer than ten years"),
            ("1h 30", "a number without a unit"),
            ("5 parsecs", "unknown unit `parsecs`"),
            ("1..5s", "not a duration"),
            ("1.s", "not a duration"),
            (".5s", "not a duration"),
            ("1e3", "unknown unit `e`"),
            ("h", "not a duration"),
            ("soon", "not a duration"),
            ("١s", "not a duration"),
            ("P", "not an ISO 8601 duration"),
            ("PT", "not an ISO 8601 duration"),
            ("PT1.5H30M", "not an ISO 8601 duration"),
            ("PT30M1H", "not an ISO 8601 duration"),
            ("P1H", "not an ISO 8601 duration"),
            ("PT1é", "not an ISO 8601 duration"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_printed_short() {
        for (text, printed) in [
            ("5400", "1h30m"),
            ("250ms", "250ms"),
            ("1.5s", "1.5s"),
            ("0", "0s"),
            ("60d", "60d"),
            ("90000.25", "1d1h0.25s"),
        ] {
            assert_eq!(format(parse(text).unwrap()), printed);
        }
    }

    proptest! {
        #[test]
        fn every_duration_is_read_back_as_printed(nanos in 0..=MAX.as_nanos()) {
            let secs = u64::try_from(nanos / NANOS_PER_SEC).unwrap();
            let duration = Duration::new(secs, u32::try_from(nanos % NANOS_PER_SEC).unwrap());
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,12}|[0-9.PTHMSDWhmsd ]{0,12}") {
            let _ = parse(&text);
        }
    }
}
