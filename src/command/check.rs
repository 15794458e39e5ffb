//! `shedlock check`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Says whether this host can lock here.
pub(crate) fn check(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
