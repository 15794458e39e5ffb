//! `shedlock man`.

use clap::ArgMatches;

use crate::exit::Exit;
use crate::generate;

/// Prints a manual page for man(1).
pub(crate) fn man(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let name = matches.get_one::<String>("page").map(String::as_str).unwrap_or_default();
    let page = generate::page(name).or_else(|| generate::page(&format!("shedlock-{name}")));
    let page = page.expect("the parser knows the pages");
    super::print(page.as_bytes())
}
