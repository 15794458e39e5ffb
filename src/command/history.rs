//! `shedlock history`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Shows past runs.
pub(crate) fn history(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
