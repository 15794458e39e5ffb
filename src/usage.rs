//! What the parser has to say, in our form: help on stdout, and a mistake in one line with one hint.

use std::ffi::OsString;
use std::io::{Write, stdout};

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::{OPTIONS, SUBS};
use crate::config::Mistake;
use crate::exit::Exit;

/// Prints help or the version, or returns the mistake in these arguments.
pub(crate) fn answer(error: &Error, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Emptied here and not at the exit, so that a full disk is noticed.
        crate::job::ignore_pipe();
        return match error.print().and_then(|()| stdout().flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(crate::report::unwritten(&error)),
            _ => Ok(Exit { code: 0, raise: None }),
        };
    }
    Err(mistake(error, command(arguments)).into())
}

/// The command that was given.
fn command(arguments: &[OsString]) -> Option<&str> {
    let word = arguments.get(1)?.to_str()?;
    (word == "run" || SUBS.iter().any(|sub| sub.name == word)).then_some(word)
}

fn mistake(error: &Error, command: Option<&str>) -> Mistake {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let option = argument.split([' ', '=']).next().unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => format!("`{argument}` is one word too many"),
        ErrorKind::UnknownArgument => format!("unknown option `{argument}`"),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command `{}`", text(ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::MissingSubcommand => "no command is given".to_owned(),
        ErrorKind::ArgumentConflict => format!("{option} is given twice"),
        ErrorKind::MissingRequiredArgument => format!("{} is missing", argument.trim_matches(['<', '>'])),
        ErrorKind::InvalidUtf8 => "an option's value is not UTF-8 text".to_owned(),
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).unwrap_or_default().is_empty() => {
            format!("{option} needs a value")
        }
        ErrorKind::InvalidValue => {
            format!("`{}` is no value for {argument}", text(ContextKind::InvalidValue).unwrap_or_default())
        }
        ErrorKind::TooManyValues => format!("{option} takes no value"),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    let suggestion = text(ContextKind::SuggestedArg)
        .or_else(|| text(ContextKind::SuggestedSubcommand))
        .or_else(|| text(ContextKind::SuggestedValue));
    let sub = SUBS.iter().find(|sub| command == Some(sub.name));
    let named = sub.filter(|sub| option == "--name" && sub.words.iter().any(|word| word.name == "NAME"));
    let hint = match (error.kind(), named, suggestion) {
        // The message says it all.
        (ErrorKind::ArgumentConflict, ..) => return Mistake::new(message),
        (ErrorKind::UnknownArgument, Some(sub), _) => {
            format!("the name stands without an option: shedlock {} NAME", sub.name)
        }
        (ErrorKind::UnknownArgument, ..) if command.is_none() && is_of_run(&argument) => {
            format!("it stands after the command: shedlock run {argument}")
        }
        (_, _, Some(known)) => format!("did you mean `{known}`?"),
        (_, _, None) => match command {
            Some(command) => format!("shedlock {command} --help tells what there is"),
            None => "shedlock --help and shedlock run --help tell what there is".to_owned(),
        },
    };
    Mistake::new(message).hint(hint)
}

/// Whether `shedlock run` knows this option. That it is unknown then means that it was given to something else.
fn is_of_run(argument: &str) -> bool {
    argument.strip_prefix("--").is_some_and(|long| OPTIONS.iter().any(|option| option.long == long))
}
