//! `shedlock release`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Gives back what `acquire` took.
pub(crate) fn release(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
