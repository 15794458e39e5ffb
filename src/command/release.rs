//! `shedlock release`: releases the lock of a script.

use std::time::Duration;

use clap::ArgMatches;

use super::handle::{bad_argument, find_own, refuse_lost};
use crate::config;
use crate::exit::Exit;
use crate::lock::StillHeld;
use crate::lock::{Claim, Closing, Purpose, RunOutcome};

/// Releases a lock, which stays held for its at-least, and records the outcome in the history.
pub(crate) fn release(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let code = matches.get_one::<String>("exit-code").map(|text| config::exit_code(text)).transpose();
    let exit_code = code.map_err(|why| bad_argument("--exit-code", &why))?;
    let outcome = if exit_code.unwrap_or_default() == 0 { RunOutcome::Success } else { RunOutcome::Failure };
    let (handle, mut operator) = find_own(matches)?;
    let claim = Claim {
        name: handle.name.clone(),
        owner: handle.owner.clone(),
        lease: Duration::ZERO,
        keep: operator.history_keep(&handle.name)?,
        purpose: Purpose::Run,
    };
    let closing = Closing::Ended { outcome, exit_code };
    let hold = handle.owner.at_least();
    Ok(match operator.insist(|backend| backend.release(&claim, hold, closing))?.answer {
        StillHeld::Held => Exit { code: 0, raise: None },
        StillHeld::Lost => refuse_lost(&handle, &mut operator),
    })
}
