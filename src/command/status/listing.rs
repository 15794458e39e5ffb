//! Reads locks with their last runs, for `status` and for the page of `history`.

use super::super::check;
use crate::backend::Admin;
use crate::config::Mistake;
use crate::lock::{BackendError, Locks, RunList, RunQuery, Runs};

/// Locks and their last runs, as the backend listed them.
pub(crate) struct Listing {
    /// The requested names, without duplicates for a backend that ignores case.
    pub(crate) names: Vec<String>,
    pub(crate) locks: Locks,
    pub(crate) runs: Runs,
    /// The error of the history, if it could not be read.
    pub(super) unread: Option<String>,
}

impl Listing {
    /// Returns an error if the last runs could not be read, for output that would hide that.
    pub(crate) fn must_be_whole(&self) -> Result<(), Mistake> {
        self.unread.as_ref().map_or(Ok(()), |why| Err(Mistake::new(format!("the last runs could not be read: {why}"))))
    }

    /// Reads the locks, and then their last runs. If the runs cannot be read, the locks are still shown.
    pub(crate) fn read(backend: &mut dyn Admin, names: &[String]) -> Result<Self, BackendError> {
        let mut locks = backend.locks(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        // Hides the lock of `shedlock check`, unless it is held.
        locks.locks.retain(|lock| !names.is_empty() || lock.is_held() || lock.name != check::CHECK_LOCK);
        // The run that holds the lock, and the one before.
        let wanted = RunQuery { names: names.to_vec(), newest_per_lock: Some(2), ..RunQuery::default() };
        let runs = backend.runs(&wanted);
        let names = unfolded(backend, names, &locks)?;
        backend.disconnect();
        Ok(match runs {
            Ok(runs) => Self { names, locks, runs, unread: None },
            Err(error) => {
                let runs = Runs { now: locks.now, runs: RunList::default() };
                Self { names, locks, runs, unread: Some(error.message) }
            }
        })
    }
}

/// Drops names that a case-insensitive backend stores under another requested name: for `job` alone it returns `Job`, while
/// other backends return nothing.
fn unfolded(backend: &mut dyn Admin, names: &[String], found: &Locks) -> Result<Vec<String>, BackendError> {
    let mut kept = Vec::new();
    for name in names {
        let has_twin = names.iter().any(|other| other != name && other.to_lowercase() == name.to_lowercase());
        let is_stored = found.locks.iter().any(|lock| lock.name == *name);
        if !has_twin || is_stored || backend.locks(&[name])?.locks.is_empty() {
            kept.push(name.clone());
        }
    }
    Ok(kept)
}
