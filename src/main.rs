//! shedlock: run a command under a named lock, so that it never runs twice at once.

mod backend;
mod cli;
mod clock;
mod command;
mod config;
mod duration;
mod exit;
mod generate;
mod job;
mod keeper;
mod lock;
mod report;
mod run;
mod signal;
mod supervise;
mod usage;

use std::process;

use clock::Moment;
use config::Mistake;
use exit::Exit;

fn main() {
    let started = Moment::now();
    let exit = match dispatch(started) {
        Ok(exit) => exit,
        Err(error) => {
            let hint = error.downcast_ref::<Mistake>().and_then(|mistake| mistake.hint.as_deref());
            report::error(&format!("{error:#}"), hint);
            Exit { code: exit::FAILED, raise: None }
        }
    };
    if let Some(signal) = exit.raise {
        job::raise_and_die(signal);
    }
    // Not by returning: the keeper's thread may hang, and nothing of ours needs an orderly end.
    process::exit(i32::from(exit.code));
}

fn dispatch(started: Moment) -> anyhow::Result<Exit> {
    let matches = match cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage::answer(&error),
    };
    match matches.subcommand() {
        Some(("run", matches)) => command::run::run(matches, started),
        Some(("completions", matches)) => command::completions::completions(matches),
        Some(("man", matches)) => command::man::man(matches),
        _ => unreachable!("clap lets no other command through"),
    }
}
