//! `shedlock schema`.

use clap::ArgMatches;

use super::operator;
use crate::backend::{self, Access};
use crate::config::{Mistake, Reach};
use crate::exit::Exit;

/// Prints the statements of `init`, for a kind of backend, a URL, or the configured backend.
pub(crate) fn schema(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let wrong = |why: String| Mistake::new(format!("BACKEND {why}"));
    let opened = match matches.get_one::<String>("BACKEND") {
        None => Reach::of(matches, None)?.backend,
        Some(url) if url.contains(':') => backend::from_url(url, &Access::default()).map_err(wrong)?,
        Some(word) => match backend::of_kind(word) {
            Some(opened) => opened.map_err(wrong)?,
            None => return Err(unknown(word).into()),
        },
    };
    super::print(format!("{}\n", opened.backend.schema().trim_end()).as_bytes())
}

/// Returns the mistake of an unknown kind of backend.
fn unknown(word: &str) -> Mistake {
    let kinds = backend::kinds();
    let mistake = Mistake::new(format!("BACKEND `{word}` is not known; known are {}, or a URL", kinds.join(", ")));
    match operator::nearest(word, kinds.into_iter()) {
        Some(kind) => mistake.hint(format!("did you mean `{kind}`?")),
        None => mistake.hint("without BACKEND, `schema` prints the statements for the configured one"),
    }
}
