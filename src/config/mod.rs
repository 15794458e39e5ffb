//! Turns command line, variables and files into the settings of one run: precedence, parsing, and every rule that spans two
//! options.

mod file;
mod layer;
mod mistake;
mod paths;
mod reach;
mod unknown;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use crate::backend::{Access, Opened};
use crate::cli::{Kind, OPTIONS, Opt};
use crate::lock::LockName;
use crate::report::{Format, Setting, Verbosity};
use crate::run::{
    Every, Group, Leftovers, Notify, NotifyEvent, OnBackendError, OnExpiry, OnFailure, OnLost, Patience, Placement,
    Policy, WaitFor,
};
use crate::system::Signal;
use crate::variables::{self, BackendRef};
use crate::{duration, exit};
use layer::{Layers, Source};
pub(crate) use mistake::Mistake;
pub(crate) use reach::{Reach, history_keep_of};
pub(crate) use unknown::is_of_a_service;

/// The default of `--backend-timeout`.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of `--notify-timeout`.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of one run.
pub(crate) struct Settings {
    pub(crate) name: LockName,
    pub(crate) policy: Policy,
    pub(crate) conflict_exit_code: u8,
    pub(crate) backend: Opened,
    pub(crate) way: BackendRef,
    pub(crate) die_with_us: bool,
    pub(crate) history_keep: u32,
    pub(crate) command: Vec<OsString>,
    pub(crate) verbosity: Verbosity,
    pub(crate) format: Format,
    pub(crate) metrics_dir: Option<PathBuf>,
    pub(crate) notify: Option<Notify>,
    /// The variables that begin like those of options and set nothing.
    pub(crate) unknown_variables: Vec<String>,
    /// All settings, for --dry-run.
    pub(crate) rehearsed: Option<Vec<Setting>>,
}

/// The process's surroundings, determined once by the caller.
pub(crate) struct Surroundings {
    pub(crate) terminal: bool,
    pub(crate) session_leader: bool,
    /// The owners of the enclosing runs.
    pub(crate) enclosing: Vec<String>,
    /// The seed of splay and jitter.
    pub(crate) random: u64,
}

impl Settings {
    /// Builds the settings of `shedlock run`: options win over variables, variables over files, and files over defaults.
    pub(crate) fn of_run(matches: &ArgMatches, surroundings: &Surroundings) -> Result<Self, Mistake> {
        let (layers, name) = layers("shedlock run --name NAME --at-most DURATION COMMAND", matches)?;
        let command: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
        let policy = match layers.get("at-most").is_none().then(|| of_the_command(&name, &command)).flatten() {
            Some(mistake) => return Err(mistake),
            None => policy(&layers, surroundings)?,
        };
        if command.is_empty() {
            return Err(Mistake::new("no command is given")
                .hint("shedlock run --name NAME --at-most DURATION COMMAND [ARG]..."));
        }
        let code = layers.get("conflict-exit-code").map_or(Ok(0), |given| given.read(exit_code))?;
        Self::new(&layers, name, policy, code, command)
    }

    /// Builds the settings of `shedlock acquire`. Ignores settings for a job or for a living process, which a file may have for
    /// `run` under the same name.
    pub(crate) fn of_acquire(matches: &ArgMatches, surroundings: &Surroundings) -> Result<Self, Mistake> {
        let (layers, name) = layers("shedlock acquire --name NAME --at-most DURATION", matches)?;
        let policy = policy(&layers, surroundings)?;
        if let (OnBackendError::Run, Some(given)) = (policy.on_backend_error, layers.get("on-backend-error")) {
            return Err(Mistake::new(format!("{} is `run`, but there is no job to run", given.source))
                .hint("with `acquire` use --on-backend-error fail or skip"));
        }
        let code = match layers
            .get("conflict-exit-code")
            .map(|given| Ok((given, given.read(exit_code)?)))
            .transpose()?
        {
            // A 0 from a variable or a file is meant for `run`, and no mistake.
            Some((given, 0)) if matches!(given.source, Source::Option(_)) => {
                return Err(Mistake::new(format!("{} is 0, which would mean that the lock was taken", given.source))
                    .hint("with `acquire` choose another code with -E, such as 1"));
            }
            Some((_, 0)) | None => exit::NO,
            Some((_, code)) => code,
        };
        let policy = Policy {
            lease: None,
            every: None,
            splay: Duration::ZERO,
            on_expiry: OnExpiry::Kill,
            guarded: false,
            success_codes: vec![0],
            ..policy
        };
        Self::new(&layers, name, policy, code, Vec::new())
    }

    fn new(
        layers: &Layers,
        name: LockName,
        mut policy: Policy,
        conflict_exit_code: u8,
        command: Vec<OsString>,
    ) -> Result<Self, Mistake> {
        let access = &Access { password: reach::password()?, patience: policy.patience() };
        let (backend, way) = reach::backend(layers, access)?;
        let rehearsed = match layers.flag("dry-run")? {
            true => Some(settings(layers, &backend.address, policy.placement.group)),
            false => None,
        };
        policy.backend = backend.address.split('?').next().unwrap_or_default().to_owned();
        Ok(Self {
            name,
            policy,
            conflict_exit_code,
            backend,
            way,
            history_keep: reach::history_keep(layers)?,
            die_with_us: !layers.flag("no-die-with-shedlock")?,
            command,
            verbosity: verbosity(layers)?,
            format: match layers.choice("log-format")? {
                Some("json") => Format::Json,
                _ => Format::Text,
            },
            metrics_dir: layers.get("metrics-dir").map(|given| given.read(directory)).transpose()?,
            notify: notify(layers)?,
            unknown_variables: layers.unknown_variables(),
            rehearsed,
        })
    }
}

/// Returns every setting that is in effect, with its place.
fn settings(layers: &Layers, address: &str, group: Group) -> Vec<Setting> {
    let shown = OPTIONS.iter().filter(|option| !["dry-run", "config"].contains(&option.long));
    let setting = |option: &'static Opt| {
        let given = layers.in_effect(option.long);
        let default = match (option.long, option.default) {
            ("backend", _) if layers.in_effect("backend-file").is_none() => address,
            ("foreground", _) if group == Group::Shared => "yes",
            ("new-group", _) if group == Group::Own => "yes",
            (_, "") if matches!(option.kind, Kind::Value(_)) => "-",
            (_, "") => "no",
            (_, default) => default,
        };
        let value = match (option.long, given) {
            (_, None) => default.to_owned(),
            // It may have a password.
            ("backend", Some(_)) => address.to_owned(),
            (_, Some(given)) => given.text.clone(),
        };
        Setting { option: option.long, value, source: given.map(|given| given.source.to_string()) }
    };
    shown.map(setting).collect()
}

/// Returns the values set for the named lock, and its name.
fn layers(usage: &str, matches: &ArgMatches) -> Result<(Layers, LockName), Mistake> {
    let mut layers = Layers::of_process(matches)?;
    let name = match layers.get("name") {
        Some(given) => given.read(LockName::new)?,
        None => return Err(Mistake::new("--name is missing").hint(format!("name the lock: {usage}"))),
    };
    layers.add_files(Some(&name))?;
    Ok((layers, name))
}

/// Returns the mistake of an --at-most after the command, as with an unquoted name of two words.
fn of_the_command(name: &LockName, command: &[OsString]) -> Option<Mistake> {
    let (first, rest) = command.split_first()?;
    let is_at_most = |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some("--at-most"));
    let first = first.to_string_lossy();
    rest.iter().any(is_at_most).then(|| {
        Mistake::new(format!("--at-most is missing: it comes after the command, which is `{first}`"))
            .hint(format!("if `{first}` is a part of the name, quote it: --name '{name} {first}'"))
    })
}

fn policy(layers: &Layers, surroundings: &Surroundings) -> Result<Policy, Mistake> {
    let Some(given) = layers.get("at-most") else {
        return Err(Mistake::new("--at-most is missing")
            .hint("set the longest time that the job may run, such as --at-most 1h"));
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
            Some("group") => WaitFor::Leftovers(Leftovers::Group),
            Some("tree") => WaitFor::Leftovers(Leftovers::Tree),
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

/// Returns the settings of --notify. A run within the command of another run's --notify has none: it would tell of its own
/// telling, without end.
fn notify(layers: &Layers) -> Result<Option<Notify>, Mistake> {
    let command = layers.get("notify").map_or(Ok(String::new()), |given| given.read(shell_command))?;
    let on = layers.get("notify-on").map(|given| given.read(notify_events)).transpose()?;
    let timeout = layers.get("notify-timeout").map(|given| given.read(at_least_a_second)).transpose()?;
    let wanted = !command.trim().is_empty() && !variables::is_notified();
    Ok(wanted.then(|| Notify {
        command,
        on: on.unwrap_or_else(|| NotifyEvent::ALL[2..6].to_vec()),
        timeout: timeout.unwrap_or(NOTIFY_TIMEOUT),
    }))
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

/// Parses a duration of at least a second.
pub(crate) fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let at_most = duration::parse(text)?;
    if at_most < Duration::from_secs(1) {
        return Err(format!("`{text}` is shorter than 1s"));
    }
    Ok(at_most)
}

/// Parses a time to wait, or `forever`.
pub(crate) fn patience(text: &str) -> Result<Patience, String> {
    if text == "forever" {
        return Ok(Patience::Forever);
    }
    duration::parse(text).map(Patience::UpTo)
}

/// Parses an exit code.
pub(crate) fn exit_code(text: &str) -> Result<u8, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not an exit code; write a number from 0 to 255"))
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.trim().is_empty() { Err("is empty; name a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn shell_command(text: &str) -> Result<String, String> {
    if text.contains('\0') { Err("contains a NUL byte".to_owned()) } else { Ok(text.to_owned()) }
}

fn notify_events(text: &str) -> Result<Vec<NotifyEvent>, String> {
    let named = |word: &str| match NotifyEvent::ALL.iter().find(|event| event.as_str() == word) {
        Some(event) => Ok(vec![*event]),
        None if word == "all" => Ok(NotifyEvent::ALL.to_vec()),
        None => {
            let known = NotifyEvent::ALL.map(NotifyEvent::as_str).join(", ");
            Err(format!("`{word}` is not an event; known are {known}, all"))
        }
    };
    Ok(text.split(',').map(|word| named(word.trim())).collect::<Result<Vec<_>, _>>()?.concat())
}

fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    text.split(',').map(exit_code).collect()
}

/// Returns a random part of `whole`.
fn share(whole: Duration, random: u64) -> Duration {
    let nanos = whole.as_nanos() * u128::from(random) / u128::from(u64::MAX);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
