//! The places where an option can be set, in order of precedence.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fmt, io};

use clap::ArgMatches;

use super::{Mistake, file, paths, unknown};
use crate::cli::{Kind, OPTIONS, Opt};
use crate::duration;
use crate::lock::LockName;

/// A value as it was given, and its place.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) source: Source,
}

/// The place of a value.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Option(&'static str),
    Variable(String),
    File { key: String, path: PathBuf, line: usize },
}

/// The values set in one place.
pub(super) type Layer = BTreeMap<&'static str, Given>;

/// The options that set the same thing.
const EXCLUSIVE: [[&str; 2]; 3] = [["backend", "backend-file"], ["foreground", "new-group"], ["quiet", "verbose"]];

/// All places, in order of precedence.
pub(super) struct Layers {
    layers: Vec<Layer>,
    /// Variables that set nothing.
    unknown: Vec<String>,
}

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

impl Layers {
    /// Reads the command line and the environment.
    pub(super) fn of_process(matches: &ArgMatches) -> Result<Self, Mistake> {
        let (mut variables, mut unknown) = (Layer::new(), Vec::new());
        // Most environments have none of our variables, so one pass over the environment is cheaper than one look-up per
        // option.
        for (name, value) in env::vars_os().filter(|(name, _)| begins_as_ours(name)) {
            if let Some(option) = OPTIONS.iter().find(|option| name.to_str() == Some(&option.variable())) {
                variables.extend(from_variable(option, value)?.map(|given| (option.long, given)));
            } else if !value.is_empty() {
                unknown.extend(unknown::judge(&name.to_string_lossy())?);
            }
        }
        let typed: Layer =
            OPTIONS.iter().filter_map(|option| Some((option.long, from_command_line(option, matches)?))).collect();
        unknown.sort_unstable();
        Ok(Self { layers: vec![typed, variables], unknown })
    }

    /// Reads the configuration files, for the job of this name or for no job.
    pub(super) fn add_files(&mut self, name: Option<&LockName>) -> Result<(), Mistake> {
        let mut files = Vec::new();
        if let Some(given) = self.get("config") {
            let path = PathBuf::from(&given.text);
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Mistake::new(format!("{} {} cannot be read: {}", given.source, path.display(), error_text(&error)))
            })?;
            files.push(file::parse(&text, &path, name)?);
        } else {
            for path in paths::config_files() {
                match std::fs::read_to_string(&path) {
                    Ok(text) => files.push(file::parse(&text, &path, name)?),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => {
                        return Err(Mistake::new(format!("{} cannot be read: {}", path.display(), error_text(&error))));
                    }
                }
            }
        }
        // This job's settings win over those for every job, and the later file over the earlier.
        let (jobs, defaults): (Vec<Layer>, Vec<Layer>) =
            files.into_iter().rev().map(|file| (file.job, file.defaults)).unzip();
        self.layers.extend(jobs);
        self.layers.extend(defaults);
        Ok(())
    }

    /// Returns the variables that begin like those of options and set nothing.
    pub(super) fn unknown_variables(&self) -> Vec<String> {
        self.unknown.clone()
    }

    /// Returns the value of an option from the first place that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Given> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    /// Returns the value of an option that is in effect: none if the first place that has it, or the one that it excludes,
    /// has the other.
    pub(super) fn in_effect(&self, key: &str) -> Option<&Given> {
        let pair = EXCLUSIVE.iter().find(|pair| pair.contains(&key));
        let of_pair = |layer: &Layer| pair.is_some_and(|pair| pair.iter().any(|key| layer.contains_key(key)));
        let layer = self.layers.iter().find(|layer| layer.contains_key(key) || of_pair(layer))?;
        layer.get(key)
    }

    /// Returns the first value of options that set the same thing; two of them in one place are a mistake.
    pub(super) fn first_of(&self, keys: &[&'static str]) -> Result<Option<(&'static str, &Given)>, Mistake> {
        for layer in &self.layers {
            let here: Vec<_> = keys.iter().filter_map(|key| Some((*key, layer.get(key)?))).collect();
            match here.as_slice() {
                [] => {}
                [one] => return Ok(Some(*one)),
                [(_, one), (_, other), ..] => return Err(exclusive(one, other)),
            }
        }
        Ok(None)
    }

    /// Returns which of two exclusive flags is set.
    pub(super) fn either(&self, one: &'static str, other: &'static str) -> Result<Option<&'static str>, Mistake> {
        for layer in &self.layers {
            let set = |key| layer.get(key).map_or(Ok(None), |given| Ok(is_set(given)?.then_some(given)));
            match (set(one)?, set(other)?) {
                (Some(one), Some(other)) => return Err(exclusive(one, other)),
                (Some(_), None) => return Ok(Some(one)),
                (None, Some(_)) => return Ok(Some(other)),
                // A layer that sets one to false also ends the search.
                (None, None) if layer.contains_key(one) || layer.contains_key(other) => return Ok(None),
                (None, None) => {}
            }
        }
        Ok(None)
    }

    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, Mistake> {
        self.get(key).map(|given| given.read(duration::parse)).transpose()
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Mistake> {
        self.get(key).map_or(Ok(false), is_set)
    }

    /// Returns how often a counting option is given.
    pub(super) fn count(&self, key: &str) -> Result<u8, Mistake> {
        self.get(key).map_or(Ok(0), |given| given.read(count))
    }

    /// Returns the value of a choice, one of its words.
    pub(super) fn choice(&self, key: &str) -> Result<Option<&'static str>, Mistake> {
        let words = OPTIONS.iter().find(|option| option.long == key).map(|option| option.kind);
        let Some(Kind::Choice(words)) = words else { return Ok(None) };
        let known = |text: &str| {
            let found = words.iter().find(|word| **word == text).copied();
            found.ok_or_else(|| format!("is `{text}`; known are {}", words.join(", ")))
        };
        self.get(key).map(|given| given.read(known)).transpose()
    }
}

fn from_command_line(option: &'static Opt, matches: &ArgMatches) -> Option<Given> {
    // Not every command has the option. The ids contain every flag of the command, typed or not; `try_contains_id` can tell
    // only in a debug build.
    if !matches.ids().any(|id| id == option.long) {
        return None;
    }
    let text = match option.kind {
        Kind::Value(_) | Kind::Choice(_) => matches.get_one::<String>(option.long).cloned(),
        Kind::Flag => matches.get_flag(option.long).then(|| "true".to_owned()),
        Kind::Count => Some(matches.get_count(option.long)).filter(|count| *count > 0).map(|count| count.to_string()),
    };
    text.map(|text| Given { text, source: Source::Option(option.long) })
}

/// Returns whether a variable begins like those of options, in upper or lower case.
fn begins_as_ours(name: &OsStr) -> bool {
    let start = name.as_encoded_bytes().get(..unknown::PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(unknown::PREFIX.as_bytes()))
}

/// Reads a variable; an empty one counts as unset.
fn from_variable(option: &Opt, value: OsString) -> Result<Option<Given>, Mistake> {
    let name = option.variable();
    match value.into_string() {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(Given { text, source: Source::Variable(name) })),
        Err(_) => Err(Mistake::new(format!("{name} is not UTF-8 text"))),
    }
}

fn exclusive(one: &Given, other: &Given) -> Mistake {
    Mistake::new(format!("{} and {} exclude each other", one.source, other.source)).hint("give only one of them")
}

fn is_set(given: &Given) -> Result<bool, Mistake> {
    given.read(count).map(|count| count > 0)
}

/// Parses a flag, or its count.
fn count(text: &str) -> Result<u8, String> {
    match text {
        "true" | "yes" | "on" => Ok(1),
        "false" | "no" | "off" => Ok(0),
        text => text.parse().map_err(|_| format!("is `{text}`; write true or false")),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns why a file cannot be read.
pub(super) fn error_text(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidData {
        return "it is not text".to_owned();
    }
    crate::system::error_text(error)
}
