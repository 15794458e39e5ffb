//! `shedlock completions`.

use clap::ArgMatches;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::generate;

/// Prints the completions for a shell.
pub(crate) fn completions(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let shell = matches
        .get_one::<String>("shell")
        .and_then(|name| name.parse::<Shell>().ok())
        .expect("the parser knows the shells");
    super::print(&generate::completions(shell))
}
