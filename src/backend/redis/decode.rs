//! Decodes the answers of the scripts, and the value of a lock's key.

use std::time::Duration;

use ::redis::Value;

use crate::backend::clock::MIN_CLOCK_LEAD;
use crate::lock::{Acquired, ENDLESS};
use crate::lock::{Grant, LockState, Owner};
use crate::system::Timestamp;

/// Number of characters shown of a text from the server.
pub(crate) const SHOWN_CHARACTERS: usize = 255;

/// Decodes the answer to an acquisition, and the reason if the run could not be recorded.
pub(crate) fn decode_acquisition(answer: &Value, lease: u64) -> Option<(Acquired, Option<String>)> {
    let Value::Array(answer) = answer else { return None };
    match answer.as_slice() {
        [Value::Int(1), Value::Int(now), Value::Int(token), Value::BulkString(failure)] => {
            let now = u64::try_from(*now).ok()?;
            let grant = Grant {
                locked_at: Timestamp(now),
                until: Timestamp(now.saturating_add(lease)),
                token: u64::try_from(*token).ok().filter(|token| *token > 0),
            };
            let failure = String::from_utf8_lossy(failure);
            let failure = failure.trim_start_matches('-').chars().take(SHOWN_CHARACTERS).collect::<String>();
            Some((Acquired::Granted(grant), Some(failure).filter(|failure| !failure.is_empty())))
        }
        [Value::Int(0), Value::Int(now), Value::Int(left), Value::BulkString(value)] => {
            let record = decode_holder(u64::try_from(*now).ok()?, *left, &String::from_utf8_lossy(value));
            Some((Acquired::Held(record), None))
        }
        _ => None,
    }
}

/// Describes another owner's lock, with an overlong owner cut.
fn decode_holder(now: u64, left: i64, value: &str) -> LockState {
    let record = decode_value(now, left, value);
    LockState { owner: record.owner.chars().take(SHOWN_CHARACTERS).collect(), ..record }
}

/// Decodes the answers to GET and PTTL. In this order, a lock that expires between the two counts as expired.
pub(crate) fn decode_lock(now: Timestamp, answers: &[Value]) -> Option<LockState> {
    match answers {
        // PTTL is -1 for a key that never expires, and -2 for a missing one.
        [Value::BulkString(value), Value::Int(left @ -1..)] => {
            Some(decode_value(now.0, *left, &String::from_utf8_lossy(value)))
        }
        _ => None,
    }
}

/// Decodes the value of a lock's key. As in the scripts, a lock counts as free that was to be kept by a clock that was ahead.
pub(crate) fn decode_value(now: u64, left: i64, value: &str) -> LockState {
    // PTTL is -1 for a key that never expires.
    let left = u64::try_from(left).ok();
    let shedlock_form = value.strip_prefix("ADDED:").and_then(|rest| rest.split_once('@'));
    let (since, owner) = shedlock_form.map_or((None, value), |(time, owner)| (Timestamp::parse(time), owner));
    let is_ahead = since.is_some_and(|since| since > Timestamp(now) + MIN_CLOCK_LEAD);
    let is_over = is_ahead && owner.ends_with(Owner::ENDED_SUFFIX) && owner.matches(':').count() > 1;
    LockState {
        owner: owner.to_owned(),
        since,
        until: left.map(|left| Timestamp(now.saturating_add(left))),
        left: if is_over { Duration::ZERO } else { left.map_or(ENDLESS, Duration::from_millis) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_who_and_since_when_if_it_is_of_our_form() {
        let java = decode_holder(1000, 500, "ADDED:2026-01-31T18:00:00.000Z@web1:0d5a@x");
        assert_eq!(java.owner, "web1:0d5a@x");
        assert_eq!(java.since, Timestamp::parse("2026-01-31T18:00:00.000Z"));
        assert_eq!((java.until, java.left), (Some(Timestamp(1500)), Duration::from_millis(500)));
        let odd = decode_holder(1000, -1, &"x".repeat(1000));
        assert_eq!((odd.owner.len(), odd.since, odd.until, odd.left), (255, None, None, ENDLESS));
        assert_eq!(decode_holder(0, 1, "ADDED:soon").owner, "ADDED:soon");
    }

    #[test]
    fn what_was_to_be_kept_by_a_clock_that_was_ahead_is_free() {
        let script = include_str!("lock.lua");
        let [shedlock_form, others] =
            ["a:1:2", "java"].map(|owner| crate::backend::clock::min_clock_lead(owner).as_millis());
        assert!(script.contains(&format!("':.*:') and {shedlock_form} or {others})\n")), "{script}");
        let left = |owner: &str, now| {
            let time = Timestamp::parse("2026-01-31T18:01:00.000Z").unwrap();
            decode_value(time.0 - now, 5, &format!("ADDED:{time}@{owner}")).left
        };
        let five = Duration::from_millis(5);
        assert_eq!((left("h:1:a:ended", 60_000), left("h:1:a:ended", 60_001)), (five, Duration::ZERO));
        assert_eq!((left("h:1:a", 60_001), left("java:ended", 60_001)), (five, five));
    }

    #[test]
    fn a_key_that_is_gone_is_no_lock_and_one_without_an_end_is_held_for_ever() {
        let decode = |left| decode_lock(Timestamp(7), &[Value::BulkString(b"host".to_vec()), Value::Int(left)]);
        assert_eq!(decode(-1).unwrap().left, ENDLESS);
        assert_eq!(decode(5).unwrap().until, Some(Timestamp(12)));
        assert_eq!((decode(-2), decode_lock(Timestamp(7), &[Value::Nil, Value::Int(-2)])), (None, None));
    }
}
