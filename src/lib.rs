//! shedlock: run a command under a named lock, so that it never runs twice at once.
//!
//! The library holds the whole program, so that tests reach every part of it. It is no library for other programs: nothing
//! but [`main`] is public.

#[cfg_attr(
    not(any(feature = "sqlite", feature = "tls")),
    expect(dead_code, reason = "a build without backends asks none")
)]
mod backend;
mod cli;
mod command;
mod config;
mod duration;
mod exit;
mod generate;
mod job;
#[cfg_attr(
    not(any(test, feature = "sqlite", feature = "tls")),
    expect(dead_code, reason = "a build without backends asks none")
)]
mod lock;
mod report;
mod run;
mod supervise;
mod system;
mod text;
mod variables;

use std::ffi::OsString;

use exit::Exit;
use system::Moment;

/// Runs the program, with the arguments as the C library passes them, and returns its exit code.
pub fn main(count: i32, words: *const *const std::ffi::c_char) -> i32 {
    let started = Moment::now();
    let arguments = job::arguments(count, words);
    if arguments == [job::GUARDIAN] {
        job::guard();
    }
    if let Some((_, words)) = arguments.split_first().filter(|(name, _)| *name == job::NOTIFIER) {
        job::notify(words);
    }
    job::fill_standard_descriptors();
    std::panic::set_hook(Box::new(|panic| {
        match command::random() {
            // Drivers cannot go on without random numbers.
            Err(mistake) => report::error(&mistake.message, mistake.hint.as_deref()),
            Ok(_) => report::error(
                &format!("internal error: {panic}").replace('\n', " "),
                Some("this is a bug in shedlock; please report it"),
            ),
        }
        // A driver that panics is a backend that does not answer, and the metrics' thread a directory that does not: the job
        // that may be running goes on, and ends as ever.
        while matches!(
            std::thread::current().name(),
            Some(supervise::THREAD | backend::FOLDER | report::METRICS_THREAD)
        ) {
            std::thread::park();
        }
        job::exit(exit::FAILED);
    }));
    let exit = match dispatch(&arguments, started) {
        Ok(exit) => exit,
        Err(error) => {
            job::ignore_pipe();
            command::tell(&error);
            Exit { code: exit::FAILED, raise: None }
        }
    };
    if let Some(signal) = exit.raise {
        job::raise_and_die(signal);
    }
    job::exit(exit.code)
}

fn dispatch(arguments: &[OsString], started: Moment) -> anyhow::Result<Exit> {
    if let [_, word, rest @ ..] = arguments
        && word == command::names::WORD
    {
        return command::names::names(rest, started);
    }
    let matches = match cli::parse(arguments) {
        Ok(matches) => matches,
        Err(error) => return command::usage::answer(&error, arguments),
    };
    if let Some(mistake) = command::usage::without_value(&matches, arguments) {
        return Err(mistake.into());
    }
    match matches.subcommand() {
        Some(("run", matches)) => command::run::run(matches, started),
        Some(("completions", matches)) => command::completions::completions(matches),
        Some(("man", matches)) => command::man::man(matches),
        Some(("status", matches)) => command::status::status(matches),
        Some(("history", matches)) => command::history::history(matches),
        Some(("unlock", matches)) => command::unlock::unlock(matches),
        Some(("pause", matches)) => command::pause::pause(matches),
        Some(("resume", matches)) => command::resume::resume(matches),
        Some(("forget", matches)) => command::forget::forget(matches),
        Some(("acquire", matches)) => command::acquire::acquire(matches, started),
        Some(("release", matches)) => command::release::release(matches),
        Some(("extend", matches)) => command::extend::extend(matches),
        Some(("verify", matches)) => command::verify::verify(matches),
        Some(("check", matches)) => command::check::check(matches),
        Some(("init", matches)) => command::init::init(matches),
        Some(("schema", matches)) => command::schema::schema(matches),
        _ => unreachable!("clap lets no other command through"),
    }
}
