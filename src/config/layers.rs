//! Reads the values of options: of the command line, the variables and the files, in order of precedence.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use super::defaults::BACKEND_TIMEOUT;
use super::file::{self, File};
use super::parse::count;
use super::value::{Given, Layer, Source};
use super::{Mistake, paths, read, unknown};
use crate::cli::{OPTIONS, Opt, OptionKind};
use crate::duration;
use crate::lock::LockName;
use crate::system::trust::Found;

/// Pairs of options that set the same thing.
const EXCLUSIVE: [[&str; 2]; 3] = [["backend", "backend-file"], ["foreground", "new-group"], ["quiet", "verbose"]];

/// The values of options from all places, in order of precedence.
#[derive(Clone)]
pub(super) struct Layers {
    layers: Vec<Layer>,
    /// The variables that begin like those of options and set nothing.
    unknown: Vec<String>,
    /// Says whether the files are among the layers.
    has_files: bool,
}

/// Command line, variables and files, each read once for all locks of a command.
pub(crate) struct Configuration {
    process: Layers,
    files: Vec<File>,
}

impl Configuration {
    /// Reads command line, variables and files.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, Mistake> {
        Layers::from_process(matches)?.with_files()
    }

    /// Returns the values for the lock of this name, or for no lock in particular.
    pub(super) fn layers(&self, name: Option<&LockName>) -> Layers {
        let mut layers = self.process.clone();
        layers.add(&self.files, name);
        layers
    }
}

impl Layers {
    /// Reads the command line and the environment.
    pub(super) fn from_process(matches: &ArgMatches) -> Result<Self, Mistake> {
        let (mut variables, mut unknown) = (Layer::new(), Vec::new());
        // Most environments have no variable of shedlock, so one pass over the environment is cheaper than one look-up per
        // option.
        for (name, value) in env::vars_os().filter(|(name, _)| begins_with_prefix(name)) {
            if let Some(option) = OPTIONS.iter().find(|option| name.to_str() == Some(&option.variable())) {
                variables.extend(from_variable(option, value)?.map(|given| (option.long, given)));
            } else if !value.is_empty() {
                unknown.extend(unknown::check_name(&name.to_string_lossy())?);
            }
        }
        let typed: Layer =
            OPTIONS.iter().filter_map(|option| Some((option.long, from_command_line(option, matches)?))).collect();
        unknown.sort_unstable();
        Ok(Self { layers: vec![typed, variables], unknown, has_files: false })
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn from_files(layers: Vec<Layer>) -> Self {
        Self { layers, unknown: Vec::new(), has_files: true }
    }

    /// Reads the configuration files once, for the job of this name or for no job.
    pub(super) fn add_files(&mut self, name: Option<&LockName>) -> Result<(), Mistake> {
        if !self.has_files {
            let files = self.read_files()?;
            self.add(&files, name);
        }
        Ok(())
    }

    /// Reads the configuration files, for any lock.
    pub(super) fn with_files(self) -> Result<Configuration, Mistake> {
        let files = self.read_files()?;
        Ok(Configuration { process: self, files })
    }

    fn read_files(&self) -> Result<Vec<File>, Mistake> {
        let mut files = Vec::new();
        let timeout = self.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        if let Some(given) = self.get("config") {
            let path = PathBuf::from(&given.text);
            let text = read::text(&path, Found::Named, timeout)
                .map_err(|problem| problem.into_mistake(format!("{} {}", given.source, path.display())))?;
            files.push(file::parse(&text, &path)?);
        } else {
            for place in paths::config_files() {
                let path = place.path();
                match read::text(&path, place.found(), timeout) {
                    Ok(text) => files.push(file::parse(&text, &path)?),
                    Err(problem) if problem.is_absent => {}
                    Err(problem) => return Err(problem.into_mistake(path.display())),
                }
            }
        }
        Ok(files)
    }

    /// Adds the layers of files: the settings of the job win over those for every job, and the later file over the earlier.
    fn add(&mut self, files: &[File], name: Option<&LockName>) {
        self.layers.extend(files.iter().rev().map(|file| file.job(name)));
        self.layers.extend(files.iter().rev().map(|file| file.defaults.clone()));
        self.has_files = true;
    }

    /// Returns the variables that begin like those of options and set nothing.
    pub(super) fn unknown_variables(&self) -> &[String] {
        &self.unknown
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

    /// Returns the flag that is set, of two that exclude each other.
    pub(super) fn set_one_of(&self, one: &'static str, other: &'static str) -> Result<Option<&'static str>, Mistake> {
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
        let Some(OptionKind::Choice(words)) = words else { return Ok(None) };
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
        OptionKind::Value(_) | OptionKind::Choice(_) => matches.get_one::<String>(option.long).cloned(),
        OptionKind::Flag => matches.get_flag(option.long).then(|| "true".to_owned()),
        OptionKind::Count => {
            Some(matches.get_count(option.long)).filter(|count| *count > 0).map(|count| count.to_string())
        }
    };
    text.map(|text| Given { text, source: Source::Option(option.long) })
}

/// Returns whether a variable begins like those of options, in upper or lower case.
fn begins_with_prefix(name: &OsStr) -> bool {
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
