//! `shedlock status`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Shows locks.
pub(crate) fn status(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
