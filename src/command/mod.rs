//! Each subcommand in a file of its own, beside what several of them share. A command reads its arguments, asks the backend and
//! prints; it writes no table itself and decides no rule of a run.

pub(crate) mod acquire;
mod arguments;
pub(crate) mod check;
pub(crate) mod completions;
mod consent;
pub(crate) mod extend;
pub(crate) mod forget;
mod handle;
pub(crate) mod history;
pub(crate) mod init;
mod inspect;
pub(crate) mod man;
pub(crate) mod names;
mod operator;
mod others;
mod output;
pub(crate) mod pause;
mod process;
pub(crate) mod prove;
pub(crate) mod release;
pub(crate) mod resume;
pub(crate) mod run;
mod save;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod unlock;
pub(crate) mod usage;
pub(crate) mod verify;

pub(crate) use output::print_failure;
pub(crate) use process::random;
