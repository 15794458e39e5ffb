//! `shedlock resume`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Ends a pause.
pub(crate) fn resume(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
