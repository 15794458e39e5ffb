//! What people ask of the store, and have done to it.

use super::Sqlite;
use crate::backend::{Finding, Kept, Operate, Trouble};
use crate::lock::{Change, Locks, Runs, Wanted};

impl Sqlite {
    /// The locks of these names, or all.
    pub(super) fn list(&mut self, _names: &[&str]) -> Result<Locks, Trouble> {
        Err(Trouble::lasting("not made yet"))
    }
}

impl Operate for Sqlite {
    fn runs(&mut self, _wanted: &Wanted) -> Result<Runs, Trouble> {
        Err(Trouble::lasting("not made yet"))
    }

    fn change(&mut self, _change: &Change) -> Result<Kept, Trouble> {
        Err(Trouble::lasting("not made yet"))
    }

    fn make(&mut self) -> Result<Vec<String>, Trouble> {
        Err(Trouble::lasting("not made yet"))
    }

    fn schema(&self) -> String {
        String::new()
    }

    fn check(&mut self, tell: &mut dyn FnMut(Finding)) {
        self.probe(tell);
    }
}
