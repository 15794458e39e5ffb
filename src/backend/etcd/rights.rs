//! Transactions of a user who may lack rights. A lock needs its own key alone: without rights to the history, or to the
//! exact times as well, shedlock leaves these out.

use serde_json::Value;

use super::wire::Outcome;
use super::{Etcd, errors};
use crate::backend::BackendError;
use crate::lock::{Claim, Purpose};

/// The kinds of keys, in the order in which a lock needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keys {
    Locks,
    States,
    Runs,
}

/// An operation of a transaction, and the kind of its key.
pub(super) type Operation = (Keys, Value);

impl Etcd {
    /// Carries out one of two lists of operations. etcd refuses a transaction as a whole: where the user lacks a right, it is
    /// sent again without the operations that a lock can do without, and so are all later ones.
    pub(super) fn transact(
        &mut self,
        compare: &[Value],
        success: &[Operation],
        failure: &[Operation],
    ) -> Result<Outcome, BackendError> {
        loop {
            let permitted = self.permitted;
            let select = |all: &'_ [Operation]| -> Vec<Value> {
                all.iter().filter(|(keys, _)| *keys <= permitted).map(|(_, operation)| operation.clone()).collect()
            };
            let error = match self.client.transact(compare, &select(success), &select(failure)) {
                Err(error) if errors::is_of_rights(&error) => error,
                answer => return answer,
            };
            let sent = success.iter().chain(failure).map(|(keys, _)| *keys).filter(|keys| *keys <= permitted).max();
            self.permitted = match sent {
                Some(Keys::Runs) => Keys::States,
                Some(Keys::States) => Keys::Locks,
                // The reason was another one, or the user lacks every right.
                Some(Keys::Locks) | None => {
                    self.permitted = Keys::Runs;
                    return Err(error);
                }
            };
        }
    }

    /// Returns the reason why a run is not recorded, if it ought to be.
    pub(super) fn unrecorded(&mut self, claim: &Claim) -> Option<BackendError> {
        let missing = match self.permitted {
            _ if claim.keep == 0 || claim.purpose != Purpose::Run => return None,
            Keys::Runs => return None,
            Keys::States => format!("no history in the keys {}", self.space.runs()),
            Keys::Locks => {
                format!("no history in the keys {}, no exact times in {}", self.space.runs(), self.space.states())
            }
        };
        let error = BackendError::permanent(format!("{missing}: the user lacks rights")).hint(errors::ROLE);
        Some(error.of(&self.client.http().server()))
    }
}
