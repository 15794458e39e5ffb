//! `shedlock run`: runs a command under a lock.

use std::rc::Rc;

use clap::ArgMatches;

use super::output::print;
use super::process::{self, host, random};
use crate::config::{Mistake, Settings};
use crate::exit::{Exit, ExitReason};
use crate::job::Command;
use crate::lock::{Claim, Owner, Purpose};
use crate::report::{Metrics, Reporter, Screen, dry_run, shell_words};
use crate::run::{Notice, Run, forecast};
use crate::supervise::{Supervisor, Work};
use crate::system::{Moment, Timestamp};
use crate::variables;

/// Runs the command under the lock. `started` is the start of the process.
pub(crate) fn run(matches: &ArgMatches, started: Moment) -> anyhow::Result<Exit> {
    let random = random()?;
    let process = process::context(variables::enclosing(), random);
    let mut settings = Settings::for_run(matches, &process)?;
    if let Some(dry_run_settings) = settings.dry_run_settings.take() {
        let words = settings.command.iter().map(|word| word.to_string_lossy());
        let (command, now) = (shell_words(words), Timestamp::now());
        let text = dry_run(&dry_run_settings, &command, &forecast(&settings.policy), now, &Screen::for_stdout());
        return print(text.as_bytes());
    }
    let command = Command::new(&settings.command, settings.policy.placement.group, settings.die_with_shedlock)
        .map_err(Mistake::new)?;
    let claim = Claim {
        name: settings.name,
        owner: Owner::new(&host(), std::process::id(), random),
        lease: settings.policy.first_lease(),
        keep: settings.history_keep,
        purpose: Purpose::Run,
    };
    let reporter = Reporter::new(settings.verbosity, settings.format, claim.clone(), &settings.backend.address)
        .on_terminal(settings.policy.placement.terminal);
    if !settings.unknown_variables.is_empty() {
        reporter.emit(&Notice::UnknownVariables(settings.unknown_variables));
    }
    let at_most = settings.policy.at_most;
    let metrics = settings.metrics_dir.map(|directory| Metrics::new(directory, claim.name.clone(), at_most));
    let run = Run::new(settings.policy, settings.backend.name(), started);
    let (conflict, notify) = (settings.conflict_exit_code, settings.notify);
    let work = Work::Job(Rc::new(command), settings.backend_ref);
    let reason: ExitReason =
        Supervisor::new(run, claim, work, settings.backend, reporter, metrics)?.notifying(notify, conflict).supervise();
    Ok(reason.exit(conflict))
}
