//! The target of the fuzzer that reads a stored record.

use std::time::Duration;

use super::record::{Clock, Record};
use crate::backend::testing::fuzz_operations::claim;
use crate::lock::{Change, Closing, RunOutcome};
use crate::system::Timestamp;

/// Checks that a record is written in a form that is read as the same, and that each operation on it has an answer.
pub(crate) fn fuzz(input: &[u8]) {
    let Some(record) = std::str::from_utf8(input).ok().and_then(|text| Record::parse(text, "job")) else { return };
    assert_eq!(Record::parse(&record.to_json(), "job").as_ref(), Some(&record));
    let claim = claim();
    let own = Record { owner: claim.owner.as_str().to_owned(), ..record.clone() };
    let times = [record.since, record.until, record.set_at, Some(Timestamp(0)), Some(Timestamp(u64::MAX))];
    for (now, record) in times.into_iter().flatten().flat_map(|now| [(now, &record), (now, &own)]) {
        let clock = Clock { now, resolution: Duration::from_secs(1) };
        let state = record.state(clock);
        assert_eq!(record.is_held(clock), !state.left.is_zero());
        if let Some((taken, token)) = record.acquired(&claim, clock, 0) {
            assert!(token > Some(record.token) && taken.owner == claim.owner.as_str());
            assert!(taken.is_held(clock) || now == Timestamp(u64::MAX));
        }
        if let Some(renewed) = record.renewed(&claim, clock) {
            assert!(renewed.is_held(clock) && renewed.owner == record.owner);
        }
        let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
        let released = record.released(&claim, Duration::ZERO, closing, clock);
        assert!(released.owner != claim.owner.as_str() || !released.is_held(clock));
        let left = Duration::ZERO;
        let change = Change { name: claim.name.clone(), from: record.owner.clone(), to: "other".to_owned(), left };
        assert!(record.changed(&change, clock).is_none_or(|changed| !changed.is_held(clock)));
    }
}
