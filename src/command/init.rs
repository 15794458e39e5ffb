//! `shedlock init`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Makes what the backend needs.
pub(crate) fn init(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
