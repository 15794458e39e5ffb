//! `shedlock schema`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Prints the statements that `init` carries out.
pub(crate) fn schema(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
