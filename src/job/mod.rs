//! The job as processes: started, signalled, frozen, reaped, ended. It decides nothing: `run` does.
//!
//! Only the main thread starts, reaps and signals processes: a parent-death signal is tied to the thread that forked, and
//! a pid is certain only for the process that reaps it. Most `unsafe` of the program is here and in `system`,
//! each block with its reason.
//!
//! ```text
//!   spawn ─────────────► running: Job ── children, tree, wait: which processes are the job's, and how they ended
//!                        │  leftovers: is anything left?   freeze: stop all of it while the lock is checked
//!                        ▼
//!   guardian/parent ── message ──► guardian/child       ends the job when shedlock is dead or stopped
//!   notifier                                            bounds the command of --notify
//!   signals, process: this process, as it was started
//! ```

mod children;
mod freeze;
mod guardian;
mod leftovers;
mod limits;
mod notifier;
mod process;
mod running;
mod signals;
mod spawn;
#[cfg(test)]
mod test_job;
mod tree;
mod wait;

pub(crate) use guardian::{GUARDIAN_NAME, Guardian, run_guardian};
pub(crate) use notifier::{NOTIFIER_NAME, Notifier, STOP_GRACE, run_notifier};
pub(crate) use process::{arguments, exit, fill_standard_descriptors, stdout_was_closed};
pub(crate) use running::{Job, reap};
pub(crate) use signals::{Inherited, Signals, ignore_pipe, raise_and_die, stop_ourselves};
pub(crate) use spawn::Command;
