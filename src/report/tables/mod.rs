//! Locks, runs and findings as tables for people and as JSON for programs. It knows what the backend listed, and asks for
//! nothing more.

mod findings;
mod json_array;
pub(crate) mod locks;
mod proof;
pub(crate) mod runs;
mod success;
pub(crate) mod table;

pub(crate) use findings::Findings;
pub(crate) use locks::{LockView, lock_views, locks_json, locks_table};
pub(crate) use proof::ProofReport;
pub(crate) use runs::{ShownRun, runs_json, runs_table, shown_runs};
pub(crate) use success::{RecentSuccess, last_success};
