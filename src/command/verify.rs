//! `shedlock verify`.

use clap::ArgMatches;

use super::own::{no, own, why_not_ours};
use crate::exit::Exit;

/// Asks whether a lock is still ours.
pub(crate) fn verify(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let (handle, mut operator) = own(matches)?;
    let found = operator.ask(|backend| backend.locks(&[handle.name.as_str()]))?;
    Ok(match why_not_ours(&handle.owner, &found) {
        None => Exit { code: 0, raise: None },
        Some(why) => no(&format!("the lock `{}` is not ours: {why}", handle.name)),
    })
}
