//! `shedlock extend`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Keeps a lock for longer.
pub(crate) fn extend(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
