//! `shedlock run`.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;

use clap::ArgMatches;
use nix::libc;
use nix::unistd::{getpid, getsid};

use super::{print, random};
use crate::config::{Mistake, Settings, Surroundings};
use crate::exit::{Exit, ExitReason};
use crate::job::Command;
use crate::lock::{Claim, Owner, Purpose};
use crate::report::{Metrics, Reporter, Screen, quoted, rehearsal};
use crate::run::{Notice, Run, outline};
use crate::supervise::{Supervisor, Work};
use crate::system::{Moment, Timestamp};
use crate::variables;

/// Runs the command under the lock. `started` is the start of the process.
pub(crate) fn run(matches: &ArgMatches, started: Moment) -> anyhow::Result<Exit> {
    let random = random()?;
    let surroundings = Surroundings {
        terminal: has_terminal(),
        session_leader: getsid(None).is_ok_and(|leader| leader == getpid()),
        enclosing: variables::enclosing(),
        random,
    };
    let mut settings = Settings::of_run(matches, &surroundings)?;
    if let Some(rehearsed) = settings.rehearsed.take() {
        let words = settings.command.iter().map(|word| word.to_string_lossy());
        let (command, now) = (quoted(words), Timestamp::now());
        let text = rehearsal(&rehearsed, &command, &outline(&settings.policy), now, &Screen::of_stdout());
        return print(text.as_bytes());
    }
    let command =
        Command::new(&settings.command, settings.policy.placement.group, settings.die_with_us).map_err(Mistake::new)?;
    let claim = Claim {
        name: settings.name,
        owner: Owner::new(&host(), std::process::id(), random),
        lease: settings.policy.first_lease(),
        keep: settings.history_keep,
        purpose: Purpose::Run,
    };
    let reporter = Reporter::new(settings.verbosity, settings.format, claim.clone(), &settings.backend.address);
    if !settings.unknown_variables.is_empty() {
        reporter.emit(&Notice::Unknown(settings.unknown_variables));
    }
    let at_most = settings.policy.at_most;
    let metrics = settings.metrics_dir.map(|directory| Metrics::new(directory, claim.name.clone(), at_most));
    let run = Run::new(settings.policy, started);
    let (conflict, notify) = (settings.conflict_exit_code, settings.notify);
    let work = Work::Job(Rc::new(command), settings.way);
    let outcome: ExitReason =
        Supervisor::new(run, claim, work, settings.backend, reporter, metrics)?.notifying(notify, conflict).supervise();
    Ok(outcome.exit(conflict))
}

/// Returns this host's name.
pub(super) fn host() -> String {
    hostname::get().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns whether this process has a controlling terminal, whatever its descriptors are.
pub(super) fn has_terminal() -> bool {
    OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY).open("/dev/tty").is_ok()
}
