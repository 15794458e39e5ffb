//! `shedlock pause`.

use clap::ArgMatches;

use crate::exit::Exit;

/// Keeps every host from running a job.
pub(crate) fn pause(_matches: &ArgMatches) -> anyhow::Result<Exit> {
    anyhow::bail!("not made yet")
}
