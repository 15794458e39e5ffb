//! Builds the settings of one run from its options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use super::Mistake;
use super::backend;
use super::layers::Layers;
use super::parse::{directory, exit_code};
use super::policy::{ProcessContext, notify, policy};
use super::value::Source;
use crate::backend::{Access, Opened};
use crate::cli::{OPTIONS, Opt, OptionKind};
use crate::exit;
use crate::lock::LockName;
use crate::report::{Format, Setting, Verbosity};
use crate::run::{Group, Notify, OnBackendError, OnExpiry, Policy};
use crate::text::shell_word;
use crate::variables::BackendRef;

/// The settings of one run.
pub(crate) struct Settings {
    pub(crate) name: LockName,
    pub(crate) policy: Policy,
    pub(crate) conflict_exit_code: u8,
    pub(crate) backend: Opened,
    /// The reference by which the job finds the backend.
    pub(crate) backend_ref: BackendRef,
    pub(crate) die_with_shedlock: bool,
    pub(crate) history_keep: u32,
    pub(crate) command: Vec<OsString>,
    pub(crate) verbosity: Verbosity,
    pub(crate) format: Format,
    pub(crate) metrics_dir: Option<PathBuf>,
    pub(crate) notify: Option<Notify>,
    /// The variables that begin like those of options and set nothing.
    pub(crate) unknown_variables: Vec<String>,
    /// Every setting and its source, if --dry-run asks for them.
    pub(crate) dry_run_settings: Option<Vec<Setting>>,
}

impl Settings {
    /// Builds the settings of `shedlock run`: options win over variables, variables over files, and files over defaults.
    pub(crate) fn for_run(matches: &ArgMatches, process: &ProcessContext) -> Result<Self, Mistake> {
        let command: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
        let (layers, name) = layers(&usage(&command), matches)?;
        let policy = match layers.get("at-most").is_none().then(|| misplaced_at_most(&name, &command)).flatten() {
            Some(mistake) => return Err(mistake),
            None => policy(&layers, process)?,
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
    pub(crate) fn for_acquire(matches: &ArgMatches, process: &ProcessContext) -> Result<Self, Mistake> {
        let (layers, name) = layers("shedlock acquire --name NAME --at-most DURATION", matches)?;
        let policy = policy(&layers, process)?;
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
        policy: Policy,
        conflict_exit_code: u8,
        command: Vec<OsString>,
    ) -> Result<Self, Mistake> {
        let verbosity = verbosity(layers)?;
        let access = &Access {
            password: backend::password()?,
            timeout: policy.request_timeout(),
            shows_stderr: verbosity == Verbosity::Debug,
            ..Access::default()
        };
        let (backend, backend_ref) = backend::backend(layers, access)?;
        let dry_run_settings = match layers.flag("dry-run")? {
            true => Some(settings(layers, &backend, policy.placement.group)),
            false => None,
        };
        Ok(Self {
            name,
            policy,
            conflict_exit_code,
            backend,
            backend_ref,
            history_keep: backend::history_keep(layers)?,
            die_with_shedlock: !layers.flag("no-die-with-shedlock")?,
            command,
            verbosity,
            format: match layers.choice("log-format")? {
                Some("json") => Format::Json,
                _ => Format::Text,
            },
            metrics_dir: layers.get("metrics-dir").map(|given| given.read(directory)).transpose()?,
            notify: notify(layers)?,
            unknown_variables: layers.unknown_variables().to_vec(),
            dry_run_settings,
        })
    }
}

/// Returns every setting that is in effect, with its source.
fn settings(layers: &Layers, backend: &Opened, group: Group) -> Vec<Setting> {
    let address = &backend.address;
    let shown = OPTIONS.iter().filter(|option| !["dry-run", "config"].contains(&option.long));
    let setting = |option: &'static Opt| {
        let given = layers.in_effect(option.long);
        let default = match (option.long, option.default) {
            ("backend", _) if layers.in_effect("backend-file").is_none() => address,
            ("foreground", _) if group == Group::Shared => "yes",
            ("new-group", _) if group == Group::Own => "yes",
            (_, "") if matches!(option.kind, OptionKind::Value(_)) => "-",
            (_, "") => "no",
            (_, default) => default,
        };
        let value = match (option.long, given) {
            (_, None) => default.to_owned(),
            // It may have a password.
            ("backend", Some(_)) => address.clone(),
            (_, Some(given)) => given.text.clone(),
        };
        Setting { option: option.long, value, source: given.map(|given| given.source.to_string()) }
    };
    let mut settings: Vec<Setting> = shown.map(setting).collect();
    if let Some(provider) = &backend.provider
        && let Some(place) = settings.iter().position(|setting| setting.option == "backend-file")
    {
        let value = provider.display().to_string();
        settings.insert(place + 1, Setting { option: "provider", value, source: Some("the scheme".to_owned()) });
    }
    settings
}

/// Returns the values set for the named lock, and its name.
fn layers(usage: &str, matches: &ArgMatches) -> Result<(Layers, LockName), Mistake> {
    let mut layers = Layers::from_process(matches)?;
    let name = match layers.get("name") {
        Some(given) => given.read(LockName::new)?,
        None => return Err(Mistake::new("--name is missing").hint(format!("name the lock: {usage}"))),
    };
    layers.add_files(Some(&name))?;
    Ok((layers, name))
}

/// Returns how to name the lock, for somebody who has given its name as the first word.
fn usage(command: &[OsString]) -> String {
    match command.iter().position(|word| word == "--") {
        Some(1..) => {
            let name = command[0].to_string_lossy();
            format!("shedlock run --name {} --at-most DURATION -- COMMAND", shell_word(&name))
        }
        _ => "shedlock run --name NAME --at-most DURATION COMMAND".to_owned(),
    }
}

/// Returns the mistake of an --at-most after the command, as with an unquoted name of two words.
fn misplaced_at_most(name: &LockName, command: &[OsString]) -> Option<Mistake> {
    let (first, rest) = command.split_first()?;
    let is_at_most = |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some("--at-most"));
    let first = first.to_string_lossy();
    rest.iter().any(is_at_most).then(|| {
        Mistake::new(format!("--at-most is missing: it comes after the command, which is `{first}`"))
            .hint(format!("if `{first}` is a part of the name, quote it: --name '{name} {first}'"))
    })
}

/// Returns how much the run reports.
pub(super) fn verbosity(layers: &Layers) -> Result<Verbosity, Mistake> {
    Ok(match layers.set_one_of("quiet", "verbose")? {
        None => Verbosity::Warnings,
        Some("quiet") => Verbosity::Errors,
        Some(_) if layers.count("verbose")? > 1 => Verbosity::Debug,
        Some(_) => Verbosity::Info,
    })
}
