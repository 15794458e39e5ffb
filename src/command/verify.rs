//! `shedlock verify`.

use clap::ArgMatches;

use super::own::{own, why_not_ours};
use super::refuse;
use crate::exit::Exit;

/// Checks whether a lock is still ours.
pub(crate) fn verify(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let (handle, mut operator) = own(matches)?;
    let found = operator.ask(|backend| backend.locks(&[handle.name.as_str()]))?;
    Ok(match why_not_ours(&handle.owner, &found) {
        None => Exit { code: 0, raise: None },
        Some(why) => refuse(&format!("the lock `{}` is not ours: {why}", handle.name), None),
    })
}
