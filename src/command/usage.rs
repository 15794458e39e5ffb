//! Answers a call for help or the version, and turns a mistake in the arguments into one line with one hint.

use std::ffi::{OsStr, OsString};
use std::io::{Write, stdout};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Error};

use super::others;
use crate::cli::{self, OPTIONS, Opt, OptionKind, SUBS, Sub};
use crate::config::Mistake;
use crate::exit::Exit;
use crate::suggest::{did_you_mean, nearest};

/// The characters around an argument's name in the usage.
const USAGE_BRACKETS: [char; 4] = ['<', '>', '[', ']'];

/// Prints help or the version, or returns the mistake in these arguments.
pub(crate) fn answer(error: &Error, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Flushed here, so that a full disk is noticed.
        crate::job::ignore_pipe();
        return match error.print().and_then(|()| stdout().flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(crate::report::stdout_error(&error)),
            _ => Ok(Exit { code: 0, raise: None }),
        };
    }
    Err(mistake(error, arguments).into())
}

/// Returns the mistake of an option that took the `--` before the command as its value. A lock may have that name, but then it
/// is attached: `--name=--`.
pub(crate) fn without_value(matches: &ArgMatches, arguments: &[OsString]) -> Option<Mistake> {
    let (_, matches) = matches.subcommand()?;
    let has = |id: &str| matches.ids().any(|known| known == id);
    let command = if has("command") { matches.get_many::<OsString>("command") } else { None };
    let typed = &arguments[..arguments.len().saturating_sub(command.map_or(0, Iterator::count))];
    let taken = |option: &&Opt| {
        let is_of_text = matches!(option.kind, OptionKind::Value(_) | OptionKind::Choice(_)) && has(option.long);
        is_of_text
            && matches.get_one::<String>(option.long).is_some_and(|value| value == "--")
            && !typed.iter().any(|word| attaches(option, word))
    };
    let option = OPTIONS.iter().find(taken)?;
    let what = if option.kind == OptionKind::Value("DURATION") { "duration" } else { "value" };
    let message = format!("--{} needs a {what}", option.long);
    Some(Mistake::new(message).hint("`--` separates the options from the command"))
}

/// Returns whether one word of the command line has both the option and `--` as its value.
fn attaches(option: &Opt, word: &OsStr) -> bool {
    let Some(before) = word.to_str().and_then(|word| word.strip_suffix("--")) else { return false };
    match before.strip_prefix("--") {
        Some(long) => long.strip_suffix('=') == Some(option.long),
        None => before.trim_end_matches('=').ends_with(|last| option.short == Some(last)),
    }
}

/// Returns the command on the command line.
fn command(arguments: &[OsString]) -> Option<&str> {
    let word = arguments.get(1)?.to_str()?;
    commands().any(|command| command == word && word != "help").then_some(word)
}

/// Returns the names of all commands.
fn commands() -> impl Iterator<Item = &'static str> {
    ["run", "completions", "man", "help"].into_iter().chain(SUBS.iter().map(|sub| sub.name))
}

/// Returns the hint for a command that there is not.
fn intended_command(word: &str) -> Option<String> {
    others::command(word).or_else(|| nearest(word, commands()).map(did_you_mean))
}

/// Returns the hint for an option that a command does not have: an other program's, or one that is spelt in another way.
fn intended_option(argument: &str, command: Option<&str>, arguments: &[OsString]) -> Option<String> {
    let line = cli::command();
    let of = command.and_then(|name| line.find_subcommand(name)).unwrap_or(&line);
    let known: Vec<&str> = of.get_arguments().filter_map(|argument| argument.get_long()).collect();
    // The parser takes `-at-most` for the letter `a` and more.
    let whole = arguments.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let whole = whole.filter(|word| argument.len() == 2 && word.len() > 2 && word.starts_with(argument));
    let typed = whole.chain([argument]).filter(|word| !word.starts_with("---"));
    let mut typed = typed.map(|word| word.split('=').next().unwrap_or_default());
    typed.find_map(|word| {
        let nearest = || {
            nearest(word.trim_start_matches('-'), known.iter().copied())
                .map(|known| did_you_mean(&format!("--{known}")))
        };
        others::option(word, &known).or_else(|| (word.len() > 2).then(nearest).flatten())
    })
}

/// Returns a page's name without the common prefix.
fn short(known: &str) -> &str {
    known.strip_prefix("shedlock-").unwrap_or(known)
}

/// Names the argument that is not UTF-8 text, which the parser does not.
fn not_text(arguments: &[OsString]) -> String {
    let Some(place) = arguments.iter().position(|word| word.to_str().is_none()) else {
        return "an option's value is not UTF-8 text".to_owned();
    };
    let text = |place: usize| arguments.get(place).map(|word| word.to_string_lossy()).unwrap_or_default();
    let (word, before) = (text(place), text(place.saturating_sub(1)));
    let long = word.starts_with("--").then(|| word.split('=').next()).flatten().filter(|long| long.len() < word.len());
    let takes_a_value = !before.contains('=') && before.len() > 1 && before.starts_with('-') && before != "--";
    match (long, takes_a_value) {
        (Some(option), _) => format!("{option} is not UTF-8 text"),
        (None, true) if !word.starts_with('-') => format!("{before} is not UTF-8 text"),
        (None, _) => format!("the argument `{word}` is not UTF-8 text"),
    }
}

fn mistake(error: &Error, arguments: &[OsString]) -> Mistake {
    let command = command(arguments);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let all = |kind| match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let option = argument.split([' ', '=']).next().unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => format!("unexpected argument `{argument}`"),
        ErrorKind::UnknownArgument => format!("unknown option `{argument}`"),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command `{}`", text(ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::MissingSubcommand => "no command is given".to_owned(),
        ErrorKind::ArgumentConflict => format!("{option} is given twice"),
        ErrorKind::MissingRequiredArgument => {
            format!("{} is missing", argument.trim_end_matches("...").trim_matches(USAGE_BRACKETS))
        }
        ErrorKind::InvalidUtf8 => not_text(arguments),
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).unwrap_or_default().is_empty() => {
            format!("{option} needs a value")
        }
        ErrorKind::InvalidValue => {
            let (what, value) =
                (argument.trim_matches(USAGE_BRACKETS), text(ContextKind::InvalidValue).unwrap_or_default());
            format!("{what} `{value}` is not known; known are {}", all(ContextKind::ValidValue).join(", "))
        }
        ErrorKind::TooManyValues => format!("{option} takes no value"),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    let suggestion = match error.kind() {
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).and_then(|word| intended_command(&word)),
        ErrorKind::InvalidValue => text(ContextKind::InvalidValue).and_then(|word| {
            nearest(&word, all(ContextKind::ValidValue).iter().map(|known| short(known))).map(did_you_mean)
        }),
        ErrorKind::UnknownArgument if argument.starts_with('-') => intended_option(&argument, command, arguments),
        _ => None,
    };
    let sub = SUBS.iter().find(|sub| command == Some(sub.name));
    let is_name = option == "--name"
        || option.starts_with('-') && others::option(option, &["name"]).is_some_and(|hint| hint.contains("--name"));
    let named = sub.filter(|sub| is_name && sub.words.iter().any(|word| word.name == "NAME"));
    let hint = match (error.kind(), named, suggestion) {
        // The message needs no hint.
        (ErrorKind::ArgumentConflict, ..) => return Mistake::new(message),
        (ErrorKind::UnknownArgument, Some(sub), _) => {
            format!("give the name without an option: shedlock {} NAME", sub.name)
        }
        (ErrorKind::UnknownArgument, ..) if command.is_none() && is_of_run(&argument) => {
            format!("put it after the command: shedlock run {argument}")
        }
        (ErrorKind::UnknownArgument, _, None) if !argument.starts_with('-') && takes_a_name(sub) => {
            let command = command.unwrap_or_default();
            format!("quote a name of several words, as in 'my job'; see shedlock {command} --help")
        }
        (_, _, Some(hint)) => hint,
        (_, _, None) => match command {
            Some(command) => format!("see shedlock {command} --help"),
            None => "see shedlock --help and shedlock run --help".to_owned(),
        },
    };
    Mistake::new(message).hint(hint)
}

/// Returns whether a command takes a lock's name.
fn takes_a_name(sub: Option<&Sub>) -> bool {
    sub.is_some_and(|sub| sub.words.iter().any(|word| word.name == "NAME") || sub.shared.contains(&"name"))
}

/// Returns whether `shedlock run` has this option, which was then given to another command.
fn is_of_run(argument: &str) -> bool {
    argument.strip_prefix("--").is_some_and(|long| OPTIONS.iter().any(|option| option.long == long))
}
