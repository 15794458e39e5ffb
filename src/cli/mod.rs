//! The command line. One table of options feeds the parser, `--help`, the man pages, the completions, the environment variables
//! and the keys of the configuration files.

mod commands;
mod options;
mod overrides;

use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, Error, value_parser};

use crate::exit;
use commands::{Count, OWN};
pub(crate) use commands::{SUBS, Sub};
pub(crate) use options::{OPTIONS, Opt, OptionKind, Scope};
use options::{RARE, REPORTS};

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
        .override_usage("shedlock COMMAND [OPTIONS] [ARG]...")
        .after_help(example(RUN) + "\nOptions of a command: shedlock COMMAND -h\nManual: shedlock man | man -l -\n")
        .subcommand_required(true)
        .subcommand(run())
        .subcommands(SUBS.iter().map(sub))
        .subcommand(completions())
        .subcommand(man())
}

/// Builds the parser of `shedlock run`.
fn run() -> Command {
    let explain = |argument: Arg| match OPTIONS.iter().find(|option| argument.get_id() == option.long) {
        Some(option) => explained(argument, option).hide_short_help(RARE.contains(&option.long)),
        None => argument
            .help("The command and its arguments, executed without a shell. Options after COMMAND belong to COMMAND")
            .hide_short_help(true),
    };
    bare_run()
        .about("Run a command under a lock")
        .override_usage("shedlock run --name NAME --at-most DURATION [OPTIONS] [--] COMMAND...")
        .mut_args(explain)
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .action(ArgAction::Help)
                .help_heading(REPORTS)
                .help("Print this overview; --help prints all options")
                .long_help("Print all options; -h prints an overview"),
        )
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
    let takes_a_lock = sub.shared.contains(&"name");
    let options = sub.options().map(|option| {
        let heading = match option.heading {
            OWN => None,
            heading if takes_a_lock => Some(heading),
            _ => Some("Common options"),
        };
        explained(argument(option), option).help_heading(heading)
    });
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
        let overridden =
            |option: &'static Opt| self.overrides.iter().find(|other| other.long == option.long).unwrap_or(option);
        own.iter().chain(shared.map(overridden))
    }
}

impl Opt {
    /// Returns the first sentence of the help, which is all that `-h` has room for.
    pub(crate) fn brief(&self) -> &'static str {
        self.help.split_once(". ").map_or(self.help, |(first, _)| first)
    }
}

/// Adds the help of an option: its first sentence for `-h`, all of it for `--help`.
fn explained(argument: Arg, option: &Opt) -> Arg {
    let brief = match (option.kind, option.default) {
        (OptionKind::Value(_), default) if !["", "0", "off"].contains(&default) && !default.contains(' ') => {
            format!("{} [{default}]", option.brief())
        }
        _ => option.brief().to_owned(),
    };
    let long = match option.default {
        "" => option.help.to_owned(),
        default => format!("{} [default: {default}]", option.help),
    };
    argument.help(brief).long_help(long)
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
    Command::new("man")
        .about("Show a manual page on a terminal, or print it for man(1)")
        .after_help(example("shedlock man run"))
        .arg(
            Arg::new("page")
                .value_name("PAGE")
                .default_value("shedlock")
                .value_parser(PossibleValuesParser::new(pages()))
                .help("The page; `run` is shedlock-run"),
        )
}

/// Returns the manual pages; the part after `shedlock-` is an alias.
fn pages() -> impl Iterator<Item = PossibleValue> {
    let short = SUBS.iter().map(|sub| sub.name).chain(["json", "backends", "fencing", "provider"]);
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
        OptionKind::Value(name) => argument.value_name(name).allow_hyphen_values(true),
        OptionKind::Choice(words) => argument.value_name(words.join("|")),
        OptionKind::Flag => argument.action(ArgAction::SetTrue),
        OptionKind::Count => argument.action(ArgAction::Count),
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
            for other in sub.overrides {
                let original =
                    OPTIONS.iter().find(|option| option.long == other.long && sub.shared.contains(&other.long));
                let original = original.unwrap_or_else(|| panic!("{} {}", sub.name, other.long));
                assert_eq!((other.short, other.heading), (original.short, original.heading), "{}", other.long);
                assert!(other.scope == original.scope && sub.options().any(|option| option.help == other.help));
            }
        }
        let help = command().find_subcommand_mut("acquire").unwrap().render_long_help().to_string();
        assert!(
            help.contains("cannot be 0 [default: 1]") && help.contains("<fail|skip>") && !help.contains("on-expiry"),
            "{help}"
        );
    }

    #[test]
    fn the_short_help_of_run_fits_a_terminal() {
        let mut command = command().term_width(80);
        let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
        assert!(help.lines().count() <= 40, "{}:\n{help}", help.lines().count());
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert!(RARE.iter().all(|long| OPTIONS.iter().any(|option| option.long == *long) && !help.contains(long)));
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
