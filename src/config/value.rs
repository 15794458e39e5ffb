//! The values of options as a user gave them, and the place of each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Mistake;

/// The value of an option as a user gave it.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) source: Source,
}

/// The place where a value was given.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Option(&'static str),
    Variable(String),
    File { key: String, path: PathBuf, line: usize },
}

/// The values of options that one place gives, by their long names.
pub(super) type Layer = BTreeMap<&'static str, Given>;

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(long) => write!(f, "--{long}"),
            Self::Variable(name) => f.write_str(name),
            Self::File { key, path, line } => write!(f, "{}:{line}: `{key}`", path.display()),
        }
    }
}

impl Given {
    /// Parses the value; the parser's error is the end of a sentence that begins with the source.
    pub(super) fn read<T>(&self, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Mistake> {
        parse(&self.text).map_err(|why| Mistake::new(format!("{} {why}", self.source)))
    }
}
