//! `shedlock release`.

use std::time::Duration;

use clap::ArgMatches;

use super::own::{lost, own, wrong};
use crate::backend::Kept;
use crate::config;
use crate::exit::Exit;
use crate::lock::{Claim, Closing, Purpose, RunOutcome};

/// Releases a lock, which stays held for its at-least, and records the outcome in the history.
pub(crate) fn release(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let code = matches.get_one::<String>("exit-code").map(|text| config::exit_code(text)).transpose();
    let exit_code = code.map_err(|why| wrong("--exit-code", &why))?;
    let verdict = if exit_code.unwrap_or_default() == 0 { RunOutcome::Success } else { RunOutcome::Failure };
    let (handle, mut operator) = own(matches)?;
    let claim = Claim {
        name: handle.name.clone(),
        owner: handle.owner.clone(),
        lease: Duration::ZERO,
        keep: config::history_keep_of(matches, &handle.name)?,
        purpose: Purpose::Run,
    };
    let closing = Closing::Ended { verdict, exit_code };
    let hold = handle.owner.at_least();
    Ok(match operator.insist(|backend| backend.release(&claim, hold, closing))?.answer {
        Kept::Kept => Exit { code: 0, raise: None },
        Kept::Lost => lost(&handle, &mut operator),
    })
}
