//! From what was typed, exported and written in files to the settings of one run: who wins, what the words mean, and
//! every rule that spans two options.

mod file;
mod layer;
mod place;

use std::ffi::OsString;
use std::time::Duration;

use clap::ArgMatches;

use crate::backend::{self, Access, Operate};
use crate::duration;
use crate::lock::LockName;
use crate::report::{Format, Verbosity};
use crate::run::{
    Every, Group, OnBackendError, OnExpiry, OnFailure, OnLost, Patience, Placement, Policy, Rest, WaitFor,
};
use crate::signal::Signal;
use layer::Layers;

/// The history is there to be read, and every release looks through that of its lock.
const MOST_RUNS: u32 = 100_000;

/// Unless `--backend-timeout` says otherwise.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of one run.
pub(crate) struct Settings {
    pub(crate) name: LockName,
    pub(crate) policy: Policy,
    pub(crate) conflict_exit_code: u8,
    pub(crate) backend: Box<dyn Operate>,
    pub(crate) die_with_us: bool,
    pub(crate) history_keep: u32,
    pub(crate) command: Vec<OsString>,
    pub(crate) verbosity: Verbosity,
    pub(crate) format: Format,
}

/// How the commands beside `run` reach the backend.
pub(crate) struct Reach {
    pub(crate) backend: Box<dyn Operate>,
    /// Where the backend is named.
    pub(crate) source: String,
    /// The longest to try.
    pub(crate) timeout: Duration,
}

/// What the process finds itself in; looked at once, by the caller.
pub(crate) struct Surroundings {
    pub(crate) terminal: bool,
    pub(crate) session_leader: bool,
    /// The owners of the runs that this one is part of.
    pub(crate) enclosing: Vec<String>,
    /// Feeds the splay and the jitter.
    pub(crate) random: u64,
}

/// Bad usage or bad configuration: one line, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl Mistake {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Settings {
    /// Puts together the settings of `shedlock run`: the option wins over the variable, the variable over the files,
    /// and these over the default.
    pub(crate) fn of_run(matches: &ArgMatches, surroundings: &Surroundings) -> Result<Self, Mistake> {
        let mut layers = Layers::of_process(matches)?;
        let name = match layers.get("name") {
            Some(given) => given.read(LockName::new)?,
            None => {
                return Err(Mistake::new("--name is missing")
                    .hint("name the lock: shedlock run --name NAME --at-most DURATION COMMAND"));
            }
        };
        layers.add_files(Some(&name))?;
        let command: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
        if command.is_empty() {
            return Err(Mistake::new("no command is given")
                .hint("shedlock run --name NAME --at-most DURATION COMMAND [ARG]..."));
        }
        let mut policy = policy(&layers, surroundings)?;
        let access = &Access { password: password()?, patience: policy.patience() };
        let backend = backend(&layers, access)?;
        policy.backend = backend.address().split('?').next().unwrap_or_default().to_owned();
        Ok(Self {
            name,
            policy,
            conflict_exit_code: layers.get("conflict-exit-code").map_or(Ok(0), |given| given.read(exit_code))?,
            backend,
            history_keep: layers.get("history-keep").map_or(Ok(100), |given| given.read(runs))?,
            die_with_us: !layers.flag("no-die-with-shedlock")?,
            command,
            verbosity: verbosity(&layers)?,
            format: match layers.choice("log-format")? {
                Some("json") => Format::Json,
                _ => Format::Text,
            },
        })
    }
}

impl Reach {
    /// The backend of the lock of this name, or of no lock in particular: which one it is can be said for each job.
    pub(crate) fn of(matches: &ArgMatches, name: Option<&LockName>) -> Result<Self, Mistake> {
        let mut layers = Layers::of_process(matches)?;
        layers.add_files(name)?;
        let timeout = layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        let access = &Access { password: password()?, patience: timeout };
        let named = layers.first_of(&["backend", "backend-file"])?;
        let source = named.map_or_else(|| "the default".to_owned(), |(_, given)| given.source.to_string());
        Ok(Self { backend: backend(&layers, access)?, source, timeout })
    }
}

fn policy(layers: &Layers, surroundings: &Surroundings) -> Result<Policy, Mistake> {
    let Some(given) = layers.get("at-most") else {
        return Err(
            Mistake::new("--at-most is missing").hint("say how long the job may run at the most, such as --at-most 1h")
        );
    };
    let at_most = given.read(at_least_a_second)?;
    let shortest = layers.get("at-least");
    let at_least = shortest.map_or(Ok(Duration::ZERO), |given| given.read(duration::parse))?;
    if let Some(shortest) = shortest.filter(|_| at_least > at_most) {
        let (low, high) = (duration::format(at_least), duration::format(at_most));
        return Err(Mistake::new(format!("{} {low} is longer than {} {high}", shortest.source, given.source))
            .hint("make --at-most the longer one"));
    }
    let every = layers.get("every").map(|given| Ok((given, given.read(duration::parse)?))).transpose()?;
    if let Some((given, _)) = every.filter(|(_, every)| every.is_zero()) {
        return Err(Mistake::new(format!("{} is 0", given.source)).hint("leave it out to run at every firing"));
    }
    let lease = layers.get("lease").map(|given| given.read(at_least_a_second)).transpose()?;
    let splay = layers.duration("splay")?.unwrap_or_default();
    Ok(Policy {
        at_most,
        at_least,
        lease,
        every: every.map(|(_, every)| Every(every)),
        wait: layers.get("wait").map_or(Ok(Patience::UpTo(Duration::ZERO)), |given| given.read(patience))?,
        splay: share(splay, surroundings.random),
        on_expiry: match layers.choice("on-expiry")? {
            Some("extend") => OnExpiry::Extend,
            Some("ignore") => OnExpiry::Ignore,
            _ => OnExpiry::Kill,
        },
        on_lost: match layers.choice("on-lost")? {
            Some("ignore") => OnLost::Ignore,
            _ => OnLost::Kill,
        },
        wait_for: match layers.choice("wait-for")? {
            Some("group") => WaitFor::Rest(Rest::Group),
            Some("tree") => WaitFor::Rest(Rest::Tree),
            _ => WaitFor::Child,
        },
        guarded: lease.is_some() && !layers.flag("no-die-with-shedlock")?,
        enclosing: surroundings.enclosing.clone(),
        signal: layers.get("signal").map_or(Ok(Signal::TERM), |given| given.read(Signal::parse))?,
        kill_after: layers.duration("kill-after")?.unwrap_or(Duration::from_secs(10)),
        stop_timeout: layers.duration("stop-timeout")?,
        on_failure: match layers.choice("on-failure")? {
            Some("release") => OnFailure::Release,
            Some("hold") => OnFailure::Hold,
            _ => OnFailure::AtLeast,
        },
        success_codes: layers.get("success-codes").map_or(Ok(vec![0]), |given| given.read(exit_codes))?,
        on_backend_error: match layers.choice("on-backend-error")? {
            Some("skip") => OnBackendError::Skip,
            Some("run") => OnBackendError::Run,
            _ => OnBackendError::Fail,
        },
        backend_timeout: layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT),
        backend: String::new(),
        placement: placement(layers, surroundings)?,
        seed: surroundings.random,
    })
}

fn placement(layers: &Layers, surroundings: &Surroundings) -> Result<Placement, Mistake> {
    let group = match layers.either("foreground", "new-group")? {
        Some("foreground") => Group::Shared,
        Some(_) => Group::Own,
        None if surroundings.terminal => Group::Shared,
        None => Group::Own,
    };
    Ok(Placement { group, terminal: surroundings.terminal, session_leader: surroundings.session_leader })
}

fn verbosity(layers: &Layers) -> Result<Verbosity, Mistake> {
    Ok(match layers.either("quiet", "verbose")? {
        None => Verbosity::Warnings,
        Some("quiet") => Verbosity::Errors,
        Some(_) if layers.count("verbose")? > 1 => Verbosity::Debug,
        Some(_) => Verbosity::Info,
    })
}

fn backend(layers: &Layers, access: &Access) -> Result<Box<dyn Operate>, Mistake> {
    match layers.first_of(&["backend", "backend-file"])? {
        Some(("backend", given)) => given.read(|url| backend::from_url(url, access)),
        Some((_, given)) => given.read(|path| backend_from_file(path, access)),
        None => default_backend(),
    }
}

/// The password for a backend whose URL has none. It is no option: what stands on a command line, everybody can read.
fn password() -> Result<Option<String>, Mistake> {
    let Some(password) = std::env::var_os("SHEDLOCK_BACKEND_PASSWORD").filter(|password| !password.is_empty()) else {
        return Ok(None);
    };
    password.into_string().map(Some).map_err(|_| Mistake::new("SHEDLOCK_BACKEND_PASSWORD is no text"))
}

fn backend_from_file(path: &str, access: &Access) -> Result<Box<dyn Operate>, String> {
    let url =
        std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {}", layer::plain(&error)))?;
    backend::from_url(url.trim(), access).map_err(|why| format!("{path} {why}"))
}

/// The backend when nobody named one.
fn default_backend() -> Result<Box<dyn Operate>, Mistake> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty()) {
        return Err(Mistake::new("no backend is named, and in a Kubernetes pod there is no default").hint(
            "a file in a pod excludes nobody; name a backend that all pods reach with --backend or SHEDLOCK_BACKEND",
        ));
    }
    #[cfg(feature = "sqlite")]
    return Ok(backend::sqlite::Sqlite::at_default_place(place::state_file()?));
    #[cfg(not(feature = "sqlite"))]
    Err(Mistake::new("no backend is named, and the default one was left out of this build")
        .hint("name one with --backend"))
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let at_most = duration::parse(text)?;
    if at_most < Duration::from_secs(1) {
        return Err(format!("`{text}` is shorter than 1s"));
    }
    Ok(at_most)
}

fn patience(text: &str) -> Result<Patience, String> {
    if text == "forever" {
        return Ok(Patience::Forever);
    }
    duration::parse(text).map(Patience::UpTo)
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is no exit code; write a number from 0 to 255"))
}

fn runs(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number <= MOST_RUNS);
    number.ok_or_else(|| format!("`{text}` is no number of runs; write one from 0 to {MOST_RUNS}"))
}

fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    text.split(',').map(exit_code).collect()
}

/// A random part of `whole`.
fn share(whole: Duration, random: u64) -> Duration {
    let nanos = whole.as_nanos() * u128::from(random) / u128::from(u64::MAX);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
