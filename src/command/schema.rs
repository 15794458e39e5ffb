//! `shedlock schema`: prints the statements that `init` executes.

use std::time::Duration;

use clap::ArgMatches;

use super::output::print;
use crate::backend::{self, Access};
use crate::config::{BackendAccess, Configuration, Mistake};
use crate::exit::Exit;
use crate::suggest::{did_you_mean, nearest};

/// How long a provider may take to answer.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);

/// Prints the statements of `init`, for a kind of backend, a URL, or the configured backend.
pub(crate) fn schema(matches: &ArgMatches) -> anyhow::Result<Exit> {
    // A provider has to be asked.
    let access = &Access { timeout: PROVIDER_TIMEOUT, ..Access::default() };
    let wrong = |why: String| Mistake::new(format!("BACKEND {why}"));
    let mut opened = match matches.get_one::<String>("BACKEND") {
        None => BackendAccess::new(&Configuration::read(matches)?, None)?.backend,
        Some(url) if url.contains(':') => backend::from_url(url, access).map_err(wrong)?,
        Some(word) => match backend::open_kind(word, access) {
            Some(opened) => opened.map_err(wrong)?,
            None => return Err(unknown(word).into()),
        },
    };
    let schema =
        opened.backend.schema().map_err(|error| Mistake::new(error.message).hint(error.hint.unwrap_or_default()))?;
    print(format!("{}\n", schema.trim_end()).as_bytes())
}

/// Returns the mistake of an unknown kind of backend.
fn unknown(word: &str) -> Mistake {
    let kinds = backend::kinds();
    let mistake = Mistake::new(format!("BACKEND `{word}` is not known; known are {}, or a URL", kinds.join(", ")));
    match nearest(word, kinds.into_iter()) {
        Some(kind) => mistake.hint(did_you_mean(kind)),
        None => mistake.hint("without BACKEND, `schema` prints the statements for the configured one"),
    }
}
