//! Turns command line, variables and files into settings: precedence, parsing, and every rule that spans two options. It starts
//! nothing and asks no backend: it only opens the one that is configured.

mod backend;
mod defaults;
mod file;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod layers;
mod mistake;
mod parse;
mod paths;
mod policy;
mod read;
mod settings;
mod unknown;
mod value;

pub(crate) use backend::BackendAccess;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz::fuzz;
pub(crate) use layers::Configuration;
pub(crate) use mistake::Mistake;
pub(crate) use parse::{exit_code, parse_from_one_second, parse_wait_limit};
pub(crate) use policy::ProcessContext;
pub(crate) use settings::Settings;
pub(crate) use unknown::is_kubernetes_service;
