//! `shedlock acquire`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Takes a lock and prints its handle.
pub(crate) fn acquire(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
