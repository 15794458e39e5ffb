//! `shedlock acquire`: takes a lock for a script.

use clap::ArgMatches;

use super::process::{self, host, random};
use crate::config::Settings;
use crate::exit::Exit;
use crate::job;
use crate::lock::{Claim, Owner, Purpose};
use crate::report::Reporter;
use crate::run::{Notice, Run};
use crate::supervise::{Supervisor, Work};
use crate::system::Moment;

/// Acquires a lock as a run does, and prints its handle instead of running a job. `started` is the start of the process.
pub(crate) fn acquire(matches: &ArgMatches, started: Moment) -> anyhow::Result<Exit> {
    // If the pipe is closed nobody gets the handle, so the lock has to be released.
    job::ignore_pipe();
    let random = random()?;
    // With two handles it would be unclear which one releases the lock.
    let process = process::context(Vec::new(), random);
    let settings = Settings::for_acquire(matches, &process)?;
    let claim = Claim {
        name: settings.name,
        owner: Owner::new(&host(), std::process::id(), random).with_at_least(settings.policy.at_least),
        lease: settings.policy.first_lease(),
        keep: settings.history_keep,
        purpose: Purpose::Run,
    };
    let reporter = Reporter::for_acquire(settings.verbosity, settings.format, claim.clone(), &settings.backend.address)
        .on_terminal(settings.policy.placement.terminal);
    if !settings.unknown_variables.is_empty() {
        reporter.emit(&Notice::UnknownVariables(settings.unknown_variables));
    }
    let run = Run::new(settings.policy, settings.backend.name(), started);
    let work = Work::Handover { json: matches.get_flag("json") };
    let reason = Supervisor::new(run, claim, work, settings.backend, reporter, None)?.supervise();
    Ok(reason.exit(settings.conflict_exit_code))
}
