//! The commands that a person uses: `check`, `init`, `schema`, `status`, `history`, `unlock`, `pause`, `resume`, `forget`. Each
//! test brings a real store into a state, runs the command, and compares what it prints and what the store has afterwards.
//! The pages that tell an operator what to type are run in `documents`.

mod checking;
mod foreign_names;
mod forget;
mod prove;
mod status_history;
mod unlock_pause_resume;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod writes_undone_by_triggers;
