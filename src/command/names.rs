//! Prints the names of locks, and the beginnings of URLs, for the completions of a shell.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::operator::Operator;
use super::output::print;
use crate::backend;
use crate::cli;
use crate::exit::Exit;
use crate::lock::LockName;
use crate::system::Moment;
use crate::text::escape_hidden;

/// The word in place of a command with which the completions ask for names. It is no command of users, whose interface is
/// `status --json`.
pub(crate) const NAMES_COMMAND: &str = "__names";

/// The word with which the completions ask for the beginnings of backends' URLs.
pub(crate) const BACKENDS_COMMAND: &str = "__backends";

/// The longest time that a shell waits for names.
const SHELL_TIMEOUT: Duration = Duration::from_millis(500);

/// The most names that a shell can show in a useful way.
const MAX_NAMES: usize = 1000;

/// The options that select the backend.
const BACKEND_OPTIONS: [&str; 3] = ["--backend", "--backend-file", "--config"];

/// Prints the names that begin like the first argument, a line for each, from the backend that the other arguments select:
/// these are the words of the command line so far. Prints nothing if the backend fails or is slow.
pub(crate) fn names(arguments: &[OsString], started: Moment) -> anyhow::Result<Exit> {
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    let beginning = arguments.next().unwrap_or_default();
    let words: Vec<String> = arguments.collect();
    // The name of a job's lock has to be one that a job may have.
    let of_job = words.get(1).is_some_and(|command| matches!(&command[..], "run" | "acquire"));
    let (send, receive) = mpsc::channel();
    // The thread may hang, for example in a look-up of a host; the process ends without it.
    let asking = thread::Builder::new().spawn(move || send.send(ask(&words)));
    let left = SHELL_TIMEOUT.saturating_sub(Moment::now().since(started));
    let known = asking.ok().and_then(|_| receive.recv_timeout(left).ok()?.ok()).unwrap_or_default();
    let offered =
        known.iter().filter(|name| name.starts_with(&beginning) && can_be_offered(name, of_job)).take(MAX_NAMES);
    print(offered.map(|name| format!("{name}\n")).collect::<String>().as_bytes())
}

/// Prints how the URLs of backends begin that begin like the first argument.
pub(crate) fn backends(arguments: &[OsString]) -> anyhow::Result<Exit> {
    let beginning = arguments.first().map(|argument| argument.to_string_lossy()).unwrap_or_default();
    let offered = backend::beginnings().into_iter().filter(|url| url.starts_with(&*beginning));
    print(offered.map(|url| format!("{url}\n")).collect::<String>().as_bytes())
}

fn ask(words: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let line: Vec<OsString> =
        ["shedlock", "status"].map(OsString::from).into_iter().chain(backend_words(words)).collect();
    let matches = cli::parse(&line)?;
    let matches = matches.subcommand_matches("status").context("the line begins with it")?;
    Operator::new(matches, None)?.ask(|backend| backend.names())
}

/// Returns the options of a command line that select the backend, up to the words of the job. Bash does not remove quotes.
fn backend_words(words: &[String]) -> Vec<OsString> {
    let plain = |word: &str| word.trim_matches(['\'', '"']).to_owned();
    let mut words = words.iter().take_while(|word| *word != "--");
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((&word[..], None), |(option, value)| (option, Some(value)));
        if BACKEND_OPTIONS.contains(&option)
            && let Some(value) = value.or_else(|| words.next().map(String::as_str))
        {
            found.push(format!("{option}={}", plain(value)).into());
        }
    }
    found
}

/// Returns whether a command takes this name of a lock, and a terminal shows it as it is.
fn can_be_offered(name: &str, of_job: bool) -> bool {
    let is_taken = if of_job { LockName::new(name) } else { LockName::from_stored(name) }.is_ok();
    is_taken && escape_hidden(name) == name && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_is_that_of_the_command_line() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            backend_words(&words).into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("shedlock run --backend sqlite:/x --lease 1m --name"), "--backend=sqlite:/x");
        assert_eq!(of("shedlock run --backend='sqlite:/x y"), "--backend=sqlite:/x");
        assert_eq!(of("shedlock status --config=a.toml --backend-file b"), "--config=a.toml --backend-file=b");
        assert_eq!(of("shedlock run --name a -- psql --backend x"), "");
        assert_eq!(of("shedlock run --backend"), "");
    }

    #[test]
    fn what_a_shell_would_have_to_show_in_another_way_is_not_offered() {
        for bad in ["-v", "a\nb", "a\tb", "\u{202e}a", ""] {
            assert!(!can_be_offered(bad, true) && !can_be_offered(bad, false), "{bad:?}");
        }
        for good in ["a", "import of orders", "$(id)", "Überweisung"] {
            assert!(can_be_offered(good, true) && can_be_offered(good, false), "{good:?}");
        }
        for odd in ["report ", " a", &"x".repeat(65)] {
            assert!(!can_be_offered(odd, true) && can_be_offered(odd, false), "{odd:?}");
        }
    }
}
