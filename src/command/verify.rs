//! `shedlock verify`: says whether a script or a job still holds its lock.

use clap::ArgMatches;

use super::handle::{find_own, why_not_held};
use super::output::refuse;
use crate::exit::Exit;

/// Checks whether the caller still holds a lock.
pub(crate) fn verify(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let (handle, mut operator) = find_own(matches)?;
    let found = operator.ask(|backend| backend.locks(&[handle.name.as_str()]))?;
    Ok(match why_not_held(&handle.owner, &found) {
        None => Exit { code: 0, raise: None },
        Some(why) => refuse(&format!("the lock `{}` is not ours: {why}", handle.name), None),
    })
}
