//! The command line. One table of options feeds the parser, `--help`, the man pages, the completions, the environment variables
//! and the keys of the configuration files.

mod commands;
mod meant;
mod options;

use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, Error, value_parser};

use crate::exit;
use commands::Count;
pub(crate) use commands::{SUBS, Sub};
pub(crate) use options::{Kind, OPTIONS, Opt, Place};

/// Parses a command line. The first parser has no help texts, because laying them out takes longer than parsing; only after a
/// mistake or a call for help, a second parser with help reads the line again.
pub(crate) fn parse(arguments: &[OsString]) -> Result<ArgMatches, Error> {
    let silent = Command::new("shedlock").subcommand_required(true).subcommand(bare_run()).disable_help_flag(true);
    silent.try_get_matches_from(arguments).or_else(|_| command().try_get_matches_from(arguments))
}

/// Builds the parser of the whole program.
pub(crate) fn command() -> Command {
    Command::new("shedlock")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Run a command under a named lock, so that it never runs twice at once")
        .after_help(example(RUN))
        .subcommand_required(true)
        .subcommand(run())
        .subcommands(SUBS.iter().map(sub))
        .subcommand(completions())
        .subcommand(man())
}

/// Builds the parser of `shedlock run`.
fn run() -> Command {
    let explain = |argument: Arg| match OPTIONS.iter().find(|option| argument.get_id() == option.long) {
        Some(option) => explained(argument, option),
        None => argument
            .help("The command and its arguments, executed without a shell. Options after COMMAND belong to COMMAND"),
    };
    bare_run()
        .about("Run a command under a lock")
        .override_usage("shedlock run --name NAME --at-most DURATION [OPTIONS] [--] COMMAND [ARG]...")
        .disable_help_flag(false)
        .mut_args(explain)
        .after_help(example(RUN))
        .after_long_help(after_help())
}

/// Builds the parser of `shedlock run` without help.
fn bare_run() -> Command {
    Command::new("run").disable_help_flag(true).args(OPTIONS.iter().map(argument)).arg(
        Arg::new("command")
            .value_names(["COMMAND", "ARG"])
            .num_args(1..)
            .trailing_var_arg(true)
            .value_parser(value_parser!(OsString)),
    )
}

/// Builds the parser of a command beside `run`.
fn sub(sub: &'static Sub) -> Command {
    let words = sub.words.iter().map(|word| {
        let argument = Arg::new(word.name)
            .value_name(word.name)
            .help(word.help)
            .required(matches!(word.count, Count::One | Count::AtLeastOne));
        match word.count {
            Count::One | Count::AtMostOne => argument,
            Count::AtLeastOne => argument.num_args(1..),
            Count::Any => argument.num_args(0..),
        }
    });
    let options = sub.options().map(|option| explained(argument(option), option));
    Command::new(sub.name)
        .about(sub.about)
        .override_usage(sub.usage)
        .args(words)
        .args(options)
        .after_help(example(sub.example))
        .after_long_help(sub_after_help(sub))
}

impl Sub {
    /// Returns its own options, followed by those shared with `run`.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static Opt> {
        let own: &'static [Opt] = self.own;
        let shared = OPTIONS.iter().filter(|option| self.shared.contains(&option.long));
        let meant = |option: &'static Opt| self.meant.iter().find(|meant| meant.long == option.long).unwrap_or(option);
        own.iter().chain(shared.map(meant))
    }
}

/// Adds the help of an option: its first clause for `-h`, all of it for `--help`.
fn explained(argument: Arg, option: &Opt) -> Arg {
    let with_default = |text: &str| match option.default {
        "" => text.to_owned(),
        default => format!("{text} [default: {default}]"),
    };
    let end = [". ", ": ", "; "].iter().filter_map(|stop| option.help.find(stop)).min();
    let short = &option.help[..end.unwrap_or(option.help.len())];
    argument.help(with_default(short)).long_help(with_default(option.help))
}

/// An example of `shedlock run`.
const RUN: &str = "shedlock run --name report --at-most 30m -- report";

fn example(line: &str) -> String {
    format!("Example:\n  {line}\n")
}

fn sub_after_help(sub: &Sub) -> String {
    let rows = sub.codes.iter().map(|(code, when)| format!("  {code}\n          {when}\n"));
    rows.fold(example(sub.example) + "\nExit codes:\n", |text, row| text + &row)
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print the completions for a shell")
        .after_help(example("shedlock completions bash"))
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(["bash", "elvish", "fish", "powershell", "zsh"])
                .help("The shell"),
        )
}

fn man() -> Command {
    Command::new("man").about("Print a manual page for man(1)").after_help(example("shedlock man run | man -l -")).arg(
        Arg::new("page")
            .value_name("PAGE")
            .default_value("shedlock")
            .value_parser(PossibleValuesParser::new(pages()))
            .help("The page; `run` is shedlock-run"),
    )
}

/// Returns the manual pages; the part after `shedlock-` is an alias.
fn pages() -> impl Iterator<Item = PossibleValue> {
    let short = SUBS.iter().map(|sub| sub.name).chain(["json", "backends", "fencing"]);
    let short = ["run"].into_iter().chain(short).map(|name| PossibleValue::new(format!("shedlock-{name}")).alias(name));
    ["shedlock", "shedlock.toml"].map(PossibleValue::new).into_iter().chain(short)
}

fn argument(option: &'static Opt) -> Arg {
    let argument = Arg::new(option.long).long(option.long).help_heading(option.heading);
    let argument = match option.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    match option.kind {
        Kind::Value(name) => argument.value_name(name).allow_hyphen_values(true),
        Kind::Choice(words) => argument.value_name(words.join("|")),
        Kind::Flag => argument.action(ArgAction::SetTrue),
        Kind::Count => argument.action(ArgAction::Count),
    }
}

/// Returns the text below the options in `--help`.
fn after_help() -> String {
    let mut text = example(RUN)
        + "\nDURATION: 90, 90s, 1.5h, 1h30m, 500ms, 2days, 1w or PT1H30M. A bare number is seconds; m is minutes.\n\
         Every option can also be set by a variable (--at-most by SHEDLOCK_AT_MOST) or in a file, see shedlock.toml(5).\n\n\
         Exit codes:\n";
    for row in &exit::TABLE {
        text += &format!("  {}\n          {}\n", row.code, row.when);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Vec<String> {
        let words = ["shedlock", "run"].iter().chain(words);
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let matches = parse(&words).unwrap();
        let run = matches.subcommand_matches("run").unwrap();
        run.get_many::<OsString>("command")
            .into_iter()
            .flatten()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_table_makes_a_valid_parser() {
        command().debug_assert();
    }

    #[test]
    fn what_an_option_means_to_another_command_is_told_of_an_option_that_it_has() {
        for sub in SUBS {
            for meant in sub.meant {
                let of_run =
                    OPTIONS.iter().find(|option| option.long == meant.long && sub.shared.contains(&meant.long));
                let of_run = of_run.unwrap_or_else(|| panic!("{} {}", sub.name, meant.long));
                assert_eq!((meant.short, meant.heading), (of_run.short, of_run.heading), "{}", meant.long);
                assert!(meant.place == of_run.place && sub.options().any(|option| option.help == meant.help));
            }
        }
        let help = command().find_subcommand_mut("acquire").unwrap().render_long_help().to_string();
        assert!(
            help.contains("not 0 [default: 1]") && help.contains("<fail|skip>") && !help.contains("on-expiry"),
            "{help}"
        );
    }

    #[test]
    fn parsing_stops_at_the_first_word_that_is_no_option() {
        assert_eq!(parsed(&["--name", "a", "--at-most", "1h", "sh", "-c", "echo -v"]), ["sh", "-c", "echo -v"]);
        assert_eq!(parsed(&["--name", "a", "--", "-x", "--name", "b"]), ["-x", "--name", "b"]);
        assert_eq!(parsed(&["--name", "a", "env", "--", "x", "--"]), ["env", "--", "x", "--"]);
        assert_eq!(parsed(&["--name", "a", "--", "--", "x"]), ["--", "x"]);
        assert_eq!(parsed(&["-v", "cmd", "-v", "--help", "--version"]), ["cmd", "-v", "--help", "--version"]);
    }

    #[test]
    fn an_unknown_option_before_the_command_is_not_the_command() {
        assert!(command().try_get_matches_from(["shedlock", "run", "--nmae", "a", "cmd"]).is_err());
    }
}
