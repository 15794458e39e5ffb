//! The target of the fuzzer that gives Redis' answers.

use ::redis::Value;

use super::decode::{decode_acquisition, decode_lock};
use super::resp::AnswerReader;
use super::{admin, errors, listing};
use crate::backend::net::bounds::ANSWER_BYTES;
use crate::lock::Acquired;
use crate::system::Timestamp;

pub(crate) fn fuzz(input: &[u8]) {
    let Ok((read, Some(answer))) = AnswerReader::new(ANSWER_BYTES).read(input) else { return };
    assert!(read <= input.len());
    if let Some((Acquired::Granted(grant), _)) = decode_acquisition(&answer, 30_000) {
        assert!(grant.until >= grant.locked_at && grant.token != Some(0));
    }
    if let Some(locks) = listing::decode_list(&answer, &["a", "b"]) {
        assert!(locks.locks.len() <= 2);
    }
    let parts = if let Value::Array(parts) = &answer { parts.as_slice() } else { std::slice::from_ref(&answer) };
    let _ = decode_lock(Timestamp(1_790_000_000_000), parts);
    for part in parts {
        let _ = admin::decode_run(part, "job");
        if let Value::ServerError(error) = part {
            assert!(!errors::from_answer(error).message.is_empty());
        }
    }
}
