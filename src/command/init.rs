//! `shedlock init`.

use clap::ArgMatches;

use super::operator::Operator;
use crate::exit::Exit;

/// Makes what the backend needs, and prints a line for each thing.
pub(crate) fn init(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let lines = Operator::new(matches, None)?.ask(|backend| backend.make())?;
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    super::print(text.as_bytes())
}
