//! Transactions of a user who may lack rights. A lock needs its own key alone: without rights to the history, or to the
//! exact times as well, shedlock leaves these out.

use serde_json::Value;

use super::operations::{Keys, Operation};
use super::wire::TransactionResult;
use super::{Etcd, errors};
use crate::lock::BackendError;
use crate::lock::{Claim, Purpose};

impl Etcd {
    /// Carries out one of two lists of operations. etcd refuses a transaction as a whole: where the user lacks a right, shedlock
    /// sends it again without the operations that a lock can do without, and so all later ones.
    pub(crate) fn transact(
        &mut self,
        compare: &[Value],
        success: &[Operation],
        failure: &[Operation],
    ) -> Result<TransactionResult, BackendError> {
        loop {
            let permitted = self.permitted_keys;
            let select = |all: &'_ [Operation]| -> Vec<Value> {
                all.iter().filter(|(keys, _)| *keys <= permitted).map(|(_, operation)| operation.clone()).collect()
            };
            let error = match self.client.transact(compare, &select(success), &select(failure)) {
                Err(error) if errors::is_missing_rights(&error) => error,
                answer => return answer,
            };
            let sent = success.iter().chain(failure).map(|(keys, _)| *keys).filter(|keys| *keys <= permitted).max();
            self.permitted_keys = match sent {
                Some(Keys::Runs) => Keys::States,
                Some(Keys::States) => Keys::Locks,
                // The reason was another one, or the user lacks every right.
                Some(Keys::Locks) | None => {
                    self.permitted_keys = Keys::Runs;
                    return Err(error);
                }
            };
        }
    }

    /// Returns the reason why a run is not recorded although its history is wanted.
    pub(crate) fn unrecorded(&mut self, claim: &Claim) -> Option<BackendError> {
        let missing = match self.permitted_keys {
            _ if claim.keep == 0 || claim.purpose != Purpose::Run => return None,
            Keys::Runs => return None,
            Keys::States => format!("no history in the keys {}", self.space.runs()),
            Keys::Locks => {
                format!("no history in the keys {}, no exact times in {}", self.space.runs(), self.space.states())
            }
        };
        let error = BackendError::permanent(format!("{missing}: the user lacks rights")).hint(errors::ROLE_HINT);
        Some(error.naming(&self.client.http().server()))
    }
}
