//! `shedlock unlock`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Frees a lock.
pub(crate) fn unlock(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
