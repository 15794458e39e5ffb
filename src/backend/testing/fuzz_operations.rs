//! Carries out the operations of a backend on the answers that the fuzzer gives in place of its server.

use std::time::Duration;

#[cfg(any(feature = "http", feature = "zookeeper"))]
use crate::backend::Admin;
#[cfg(any(feature = "http", feature = "zookeeper"))]
use crate::lock::{Acquired, BackendError, Change, Closing, Removal, RunOutcome, RunQuery};
use crate::lock::{Claim, LockName, Owner, Purpose};

/// Carries out some of the operations of a backend, whatever its server answers. The last byte of the input chooses which.
#[cfg(any(feature = "http", feature = "zookeeper"))]
pub(crate) fn operate(backend: &mut dyn Admin, input: &[u8]) {
    let claim = claim();
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    let mut errors: Vec<BackendError> = Vec::new();
    match input.last().copied().unwrap_or_default() % 4 {
        0 => {
            match backend.acquire(&claim) {
                Ok(reply) => match reply.answer {
                    Acquired::Granted(grant) => assert!(grant.until >= grant.locked_at && grant.token != Some(0)),
                    Acquired::Held(state) => assert!(!state.left.is_zero()),
                },
                Err(error) => errors.push(error),
            }
            errors.extend(backend.renew(&claim).err());
            errors.extend(backend.release(&claim, Duration::ZERO, closing).err());
        }
        1 => {
            errors.extend(backend.locks(&["job"]).err());
            let change = Change {
                name: claim.name.clone(),
                from: claim.owner.as_str().to_owned(),
                to: "other".to_owned(),
                left: claim.lease,
            };
            errors.extend(backend.change(&change).err());
            errors.extend(backend.forget(&Removal::new(claim.name, String::new())).err());
        }
        2 => errors.extend(backend.locks(&[]).err()),
        _ => errors.extend(backend.runs(&RunQuery::default()).err()),
    }
    for error in errors {
        assert!(!error.message.is_empty() && error.hint.is_none_or(|hint| !hint.is_empty()));
    }
}

/// Returns the claim of the run that the operations are for.
pub(crate) fn claim() -> Claim {
    Claim {
        name: LockName::new("job").expect("it is a name"),
        owner: Owner::new("web1", 1, 255),
        lease: Duration::from_secs(30),
        keep: 3,
        purpose: Purpose::Run,
    }
}
