//! shedlock: run a command under a named lock, so that it never runs twice at once.
//!
//! The library holds the whole program, so that tests reach every part of it. It is no library for other programs: nothing
//! but [`main`] is public, and for the fuzzer its targets.

#[cfg_attr(
    not(any(test, feature = "sqlite", feature = "tls")),
    expect(dead_code, reason = "a build without backends asks none")
)]
mod backend;
mod cli;
mod command;
mod config;
mod duration;
mod exit;
#[cfg(any(test, fuzzing))]
mod fuzzing;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod imports;
mod job;
#[cfg_attr(
    not(any(test, feature = "sqlite", feature = "tls")),
    expect(dead_code, reason = "a build without backends asks none")
)]
mod lock;
mod prove;
mod report;
mod run;
mod suggest;
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
    if arguments == [job::GUARDIAN_NAME] {
        job::run_guardian();
    }
    if let Some((_, words)) = arguments.split_first().filter(|(name, _)| *name == job::NOTIFIER_NAME) {
        job::run_notifier(words);
    }
    job::fill_standard_descriptors();
    std::panic::set_hook(Box::new(|panic| {
        match command::random() {
            // Drivers cannot go on without random numbers.
            Err(mistake) => report::print_error(&mistake.message, mistake.hint.as_deref()),
            Ok(_) => report::print_error(
                &format!("internal error: {panic}").replace('\n', " "),
                Some("this is a bug in shedlock; please report it"),
            ),
        }
        // A driver that panics is a backend that does not answer, and the metrics' thread a directory that does not: the job
        // that may be running goes on, and ends as ever.
        while std::thread::current().name().is_some_and(|name| THREADS_BESIDE_MAIN.contains(&name)) {
            std::thread::park();
        }
        job::exit(exit::FAILED);
    }));
    let exit = match dispatch(&arguments, started) {
        Ok(exit) => exit,
        Err(error) => {
            job::ignore_pipe();
            command::print_failure(&error);
            Exit { code: exit::FAILED, raise: None }
        }
    };
    if let Some(signal) = exit.raise {
        job::raise_and_die(signal);
    }
    job::exit(exit.code)
}

/// The threads whose panic does not end the program.
const THREADS_BESIDE_MAIN: &[&str] = &[
    supervise::THREAD,
    #[cfg(feature = "sqlite")]
    backend::CHECKPOINT_THREAD,
    report::METRICS_THREAD,
];

/// Returns the fuzzer's target of this name.
#[cfg(fuzzing)]
pub fn fuzz_target(name: &str) -> Option<fn(&[u8])> {
    fuzzing::target(name)
}

fn dispatch(arguments: &[OsString], started: Moment) -> anyhow::Result<Exit> {
    if let [_, word, rest @ ..] = arguments {
        if word == command::names::NAMES_COMMAND {
            return command::names::names(rest, started);
        }
        if word == command::names::BACKENDS_COMMAND {
            return command::names::backends(rest);
        }
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
        Some(("prove", matches)) => command::prove::prove(matches),
        Some(("init", matches)) => command::init::init(matches),
        Some(("schema", matches)) => command::schema::schema(matches),
        _ => unreachable!("clap lets no other command through"),
    }
}
