//! Generates the completions for shells. Those for Bash, Zsh and Fish also ask for the names of locks.

use std::collections::BTreeSet;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ValueHint};
use clap_complete::Shell;

use crate::cli::{self, OPTIONS, Opt, OptionKind, SUBS, Sub};
use crate::command::names;

/// The word of a command that is the name of a lock.
const NAME: &str = "NAME";

/// Returns the completions for a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut command = cli::command().mut_subcommand("run", |run| {
        let run = OPTIONS.iter().fold(run, |run, option| run.mut_arg(option.long, |argument| hinted(argument, option)));
        run.mut_arg("command", |argument| argument.value_hint(ValueHint::CommandWithArguments))
    });
    for sub in SUBS {
        command = command.mut_subcommand(sub.name, |command| {
            let command = sub
                .options()
                .fold(command, |command, option| command.mut_arg(option.long, |argument| hinted(argument, option)));
            sub.words.iter().fold(command, |command, word| {
                command.mut_arg(word.name, |argument| argument.value_hint(ValueHint::Other))
            })
        });
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "shedlock", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        Shell::Bash => with_names_in_bash(&script),
        Shell::Zsh => with_names_in_zsh(&script),
        Shell::Fish => with_names_in_fish(&script),
        _ => script.into_owned(),
    };
    script.replace("@WORD@", names::NAMES_COMMAND).replace("@BACKENDS@", names::BACKENDS_COMMAND).into_bytes()
}

/// Returns the commands whose words are names of locks.
fn naming() -> impl Iterator<Item = &'static str> {
    SUBS.iter().filter(|sub| sub.words.iter().any(|word| word.name == NAME)).map(|sub| sub.name)
}

/// Wraps the function, because it offers fixed words only.
fn with_names_in_bash(script: &str) -> String {
    let valued = SUBS.iter().flat_map(Sub::options).chain(OPTIONS);
    let valued: BTreeSet<String> = valued
        .filter(|option| !matches!(option.kind, OptionKind::Flag | OptionKind::Count))
        .map(|option| format!("--{}", option.long))
        .collect();
    let any = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>().join(" | ");
    let names = include_str!("names.bash")
        .replace("*,@VALUED@", &any(&mut valued.iter().map(|option| format!("*,{option}"))))
        .replace("@NAMING@", &any(&mut naming().map(|name| format!("{name},*"))));
    let script = script.replacen("_shedlock() {", "__shedlock_words() {", 1);
    script.replacen("\nif [[ ", &format!("\n{names}\nif [[ "), 1)
}

fn with_names_in_zsh(script: &str) -> String {
    let line = |line: &str| {
        let naming = line.contains(":NAME:'") || line.contains(":NAME -- ");
        let backend = line.starts_with("'--backend=");
        let line = if backend { line.replacen(":' \\", ":_shedlock_backends' \\", 1) } else { line.to_owned() };
        let line = if naming { line.replacen(":' \\", ":_shedlock_names' \\", 1) } else { line };
        line + "\n"
    };
    let script: String = script.lines().map(line).collect();
    script.replacen("\n_shedlock() {", &format!("\n{}\n_shedlock() {{", include_str!("names.zsh")), 1)
}

fn with_names_in_fish(script: &str) -> String {
    let offered = "-f -a \"(__fish_shedlock_names)\"";
    let option = |line: &str| {
        let offered = match line.strip_suffix(" -f") {
            Some(rest) if rest.contains("-l name ") => Some((rest, offered)),
            Some(rest) if rest.contains("-l backend ") => Some((rest, "-f -a \"(__fish_shedlock_backends)\"")),
            _ => None,
        };
        offered.map_or_else(|| format!("{line}\n"), |(rest, offered)| format!("{rest} {offered}\n"))
    };
    let script: String = script.lines().map(option).collect();
    let words =
        naming().map(|name| format!("complete -c shedlock -n \"__fish_shedlock_using_subcommand {name}\" {offered}\n"));
    include_str!("names.fish").to_owned() + &script + &words.collect::<String>()
}

/// Adds the values or files that a shell may offer for an option.
fn hinted(argument: Arg, option: &Opt) -> Arg {
    match option.kind {
        // The parser leaves the words to `config`, which names them in its own messages.
        OptionKind::Choice(words) => argument.value_parser(PossibleValuesParser::new(words)),
        // Any other signal works as well; these are the likely ones.
        OptionKind::Value("SIGNAL") => {
            argument.value_parser(PossibleValuesParser::new(["TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "KILL"]))
        }
        OptionKind::Value("FILE") => argument.value_hint(ValueHint::FilePath),
        OptionKind::Value("DIR") => argument.value_hint(ValueHint::DirPath),
        // Keeps the shell from offering file names.
        OptionKind::Value(_) => argument.value_hint(ValueHint::Other),
        OptionKind::Flag | OptionKind::Count => argument,
    }
}
