//! Asks a person before a command changes a lock that somebody else holds.

use std::io::{IsTerminal, Write, stderr, stdin};

use clap::ArgMatches;

use super::output::refuse;
use crate::exit::Exit;
use crate::report;

/// Says whether the user agrees to the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    Forced,
    /// Asked for on the terminal.
    ToAsk,
    Missing,
}

impl Consent {
    /// Reads `--force`, and looks for somebody to ask.
    pub(super) fn from(matches: &ArgMatches) -> Self {
        match matches.get_flag("force") {
            true => Self::Forced,
            false if stdin().is_terminal() && stderr().is_terminal() => Self::ToAsk,
            false => Self::Missing,
        }
    }
}

/// Leaves a lock unchanged because nobody can be asked; `--force` does without.
pub(super) fn refuse_unasked(state: &str, does: &str) -> Exit {
    let message = format!("{state}; without a terminal to ask on, it is left unchanged");
    refuse(&message, Some(&format!("--force {does} it without asking")))
}

/// Asks on the terminal whether to change a lock; no answer means no.
pub(super) fn is_agreed(what: &str, effect: &str, question: &str) -> bool {
    report::print_error(what, Some(effect));
    let _ = write!(stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let ended = stdin().read_line(&mut answer).map_or(true, |_| !answer.ends_with('\n'));
    if ended {
        let _ = writeln!(stderr());
    }
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
