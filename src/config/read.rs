//! Reads the files that set options or name the backend, unless another user may have written them.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use super::Mistake;
use crate::system::file::{self, Input};
use crate::system::trust::{Doubt, Found};

/// The reason why a file is of no use: the end of a sentence that begins with its name.
#[derive(Debug)]
pub(super) struct FileProblem {
    why: String,
    hint: Option<String>,
    /// Says whether there is no such file.
    pub(super) is_absent: bool,
}

impl FileProblem {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: None, is_absent: false }
    }

    fn from_io(error: &io::Error) -> Self {
        let why = match error.kind() {
            ErrorKind::InvalidData => "it is not text".to_owned(),
            _ => crate::system::error_text(error),
        };
        Self {
            why: format!("cannot be read: {why}"),
            hint: file::remedy(error).map(str::to_owned),
            is_absent: matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }

    fn from_doubt(found: Found<'_>, doubt: &Doubt) -> Self {
        let instead = match found {
            Found::Named => "move it to a directory that only its owner may write to",
            Found::Below(_) | Found::OfSystem(_) => {
                "name another file with --config FILE, or --config /dev/null for none"
            }
        };
        let remedy =
            doubt.remedy().map_or_else(String::new, |remedy| format!("; if you trust what is there, `{remedy}`"));
        Self { hint: Some(format!("{instead}{remedy}")), ..Self::new(format!("is not obeyed: {doubt}")) }
    }

    /// Returns the mistake, for a file of this name.
    pub(super) fn into_mistake(self, name: impl std::fmt::Display) -> Mistake {
        let mistake = Mistake::new(format!("{name} {}", self.why));
        Mistake { hint: self.hint, ..mistake }
    }
}

/// Opens a file that others may not have written.
pub(super) fn open(path: &Path, found: Found<'_>) -> Result<Input, FileProblem> {
    let input = Input::open(path).map_err(|error| FileProblem::from_io(&error))?;
    // The way is judged after the opening: what others could have exchanged before, they still can.
    let judged = found.judge_way(path).and_then(|()| found.judge_open(path, input.metadata()));
    judged.map_err(|doubt| FileProblem::from_doubt(found, &doubt))?;
    Ok(input)
}

/// Reads a file that others may not have written.
pub(super) fn text(path: &Path, found: Found<'_>, timeout: Duration) -> Result<String, FileProblem> {
    read_text(&open(path, found)?, timeout)
}

pub(super) fn read_text(input: &Input, timeout: Duration) -> Result<String, FileProblem> {
    input.read_text(timeout).map_err(|error| FileProblem::from_io(&error))
}
