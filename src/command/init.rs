//! `shedlock init`: creates what the backend needs.

use clap::ArgMatches;

use super::operator::Operator;
use super::output::print;
use crate::exit::Exit;

/// Creates the tables or the file that the backend needs, and prints a line for each.
pub(crate) fn init(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let lines = Operator::new(matches, None)?.ask(|backend| backend.create_missing())?;
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    print(text.as_bytes())
}
