//! `shedlock man`.

use clap::ArgMatches;

use crate::exit::Exit;
use crate::generate;

/// Prints a manual page in the form that man(1) reads.
pub(crate) fn man(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let page =
        matches.get_one::<String>("page").and_then(|name| generate::page(name)).expect("the parser knows the pages");
    super::print(page.as_bytes())
}
