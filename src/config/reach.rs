//! Finds the backend: from command line, variables and files, or for a job that of its run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use super::layer::{Given, Layers, Source, error_text};
#[cfg(feature = "sqlite")]
use super::paths;
use super::{BACKEND_TIMEOUT, Mistake, file, unknown};
use crate::backend::{self, Access, Opened, Rotation};
use crate::lock::LockName;
use crate::variables::{self, BackendRef};

/// The value of `backend` that turns the default backend off.
const NONE: &str = "none";

/// The default of `--history-keep`.
const HISTORY_KEEP: u32 = 1000;

/// The most runs to keep: a release that removes the oldest scans the history of its lock.
const MOST_RUNS: u32 = 100_000;

/// The backend for the commands beside `run`.
pub(crate) struct Reach {
    pub(crate) backend: Opened,
    /// The option, variable or file that names the backend.
    pub(crate) source: String,
    /// The longest time to try.
    pub(crate) timeout: Duration,
    /// The variables that begin like those of options and set nothing.
    pub(crate) unknown_variables: Vec<String>,
}

impl Reach {
    /// Returns the backend of the lock of this name, since each job may have its own, or of no lock in particular.
    pub(crate) fn of(matches: &ArgMatches, name: Option<&LockName>) -> Result<Self, Mistake> {
        let mut layers = Layers::of_process(matches)?;
        layers.add_files(name)?;
        let timeout = layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        let access = &Access { password: password()?, patience: timeout };
        let named = layers.first_of(&["backend", "backend-file"])?;
        let source = named.map_or_else(|| "the default".to_owned(), |(_, given)| given.source.to_string());
        let unknown_variables = layers.unknown_variables();
        Ok(Self { backend: backend(&layers, access)?.0, source, timeout, unknown_variables })
    }

    /// Returns the backend of the lock that our job runs under, from the job's variables; options given here win.
    pub(crate) fn of_job(matches: &ArgMatches, name: &LockName) -> Result<Self, Mistake> {
        let layers = Layers::of_process(matches)?;
        let named = layers.first_of(&["backend", "backend-file"])?;
        let typed = named.is_some_and(|(_, given)| matches!(given.source, Source::Option(_)));
        let Some((address, way)) = variables::backend().filter(|_| !typed) else {
            return Self::of(matches, Some(name));
        };
        let timeout = layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        let mut access = Access { password: password()?, patience: timeout };
        let of_variable = |why| Mistake::new(format!("{} {why}", variables::BACKEND));
        let found = match &way {
            BackendRef::Plain => backend::from_url(&address, &access).map_err(of_variable)?,
            BackendRef::Password(password) => {
                access.password = Some(password.clone());
                backend::from_url(&address, &access).map_err(of_variable)?
            }
            BackendRef::File(path) if !path.is_file() => return Err(read_once(path)),
            BackendRef::File(path) => backend_from_file(path, &access).map_err(Mistake::new)?.0,
            BackendRef::Config(path) => backend_from_config(path, name, &access)?,
        };
        let is_same = backend::is_same_place(&found.address, &address);
        if let (BackendRef::File(path) | BackendRef::Config(path), false) = (&way, is_same) {
            let (path, now) = (path.display(), found.address);
            return Err(Mistake::new(format!("{path} now names {now}, but the job's lock is in {address}"))
                .hint("name the backend with --backend or --backend-file"));
        }
        let unknown_variables = layers.unknown_variables();
        Ok(Self { backend: found, source: variables::BACKEND.to_owned(), timeout, unknown_variables })
    }
}

/// Returns how many runs of this lock the history keeps.
pub(crate) fn history_keep_of(matches: &ArgMatches, name: &LockName) -> Result<u32, Mistake> {
    let mut layers = Layers::of_process(matches)?;
    layers.add_files(Some(name))?;
    history_keep(&layers)
}

pub(super) fn history_keep(layers: &Layers) -> Result<u32, Mistake> {
    layers.get("history-keep").map_or(Ok(HISTORY_KEEP), |given| given.read(runs))
}

/// Returns the configured backend, and the reference by which the job finds it.
pub(super) fn backend(layers: &Layers, access: &Access) -> Result<(Opened, BackendRef), Mistake> {
    match layers.first_of(&["backend", "backend-file"])? {
        Some(("backend", given)) if given.text == NONE => Err(turned_off(given)),
        Some(("backend", given)) => {
            let found = given.read(|url| backend::from_url(url, access))?;
            let way = match (backend::password(&given.text), &given.source) {
                (None, _) => BackendRef::Plain,
                (Some(_), Source::File { path, .. }) => BackendRef::Config(absolute(path)),
                (Some(password), Source::Option(_) | Source::Variable(_)) => BackendRef::Password(password),
            };
            Ok((found, way))
        }
        Some((_, given)) => {
            let path = Path::new(&given.text);
            let (found, password) = given.read(|_| backend_from_file(path, access))?;
            // A file that can be read only once, such as a shell's <(…), needs no second reading if its URL has no password.
            let way = if password.is_none() && !path.is_file() {
                BackendRef::Plain
            } else {
                BackendRef::File(absolute(path))
            };
            Ok((found, way))
        }
        None => Ok((default_backend()?, BackendRef::Plain)),
    }
}

/// Makes a path absolute, because the job may change its directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads the password for a backend whose URL has none.
pub(super) fn password() -> Result<Option<String>, Mistake> {
    let Some(password) = std::env::var_os(unknown::PASSWORD).filter(|password| !password.is_empty()) else {
        return Ok(None);
    };
    password.into_string().map(Some).map_err(|_| Mistake::new(format!("{} is not UTF-8 text", unknown::PASSWORD)))
}

/// Returns the backend whose URL is in a file, and the password in that URL.
fn backend_from_file(path: &Path, access: &Access) -> Result<(Opened, Option<String>), String> {
    let name = path.display();
    let url =
        std::fs::read_to_string(path).map_err(|error| format!("{name} cannot be read: {}", error_text(&error)))?;
    let url = url.trim();
    if url.is_empty() {
        return Err(format!("{name} is empty; write the backend's URL into it"));
    }
    let found = backend::from_url(url, access).map_err(|why| format!("{name} {why}"))?;
    let password = backend::password(url);
    // A file that can be read only once is not read again, and one without a password has none to renew.
    let rotation = (password.is_some() && path.is_file()).then(|| rotation(url, path));
    Ok((Opened { rotation, ..found }, password))
}

/// Returns what reads the login anew if the server refuses it: the file may be a secret that was rotated meanwhile.
fn rotation(url: &str, path: &Path) -> Rotation {
    let path = absolute(path);
    Rotation::new(url.to_owned(), move || {
        let text = path.is_file().then(|| std::fs::read_to_string(&path).ok()).flatten()?;
        Some(text.trim().to_owned())
    })
}

/// Returns the mistake of a job whose run read its URL from a file that cannot be read again.
fn read_once(path: &Path) -> Mistake {
    let what = if path.exists() { "can be read only once" } else { "no longer exists" };
    Mistake::new(format!("the job's backend was read from {}, which {what}", path.display()))
        .hint("give the run a permanent file, or name the backend here with --backend or --backend-file")
}

/// Returns the backend that a configuration file sets for this job.
fn backend_from_config(path: &Path, name: &LockName, access: &Access) -> Result<Opened, Mistake> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Mistake::new(format!("{} cannot be read: {}", path.display(), error_text(&error))))?;
    let file = file::parse(&text, path, Some(name))?;
    match file.job.get("backend").or_else(|| file.defaults.get("backend")) {
        Some(given) if given.text != NONE => given.read(|url| backend::from_url(url, access)),
        _ => Err(Mistake::new(format!("{} no longer names a backend for {name}", path.display()))),
    }
}

/// Returns the mistake of a missing backend where the default one is turned off.
fn turned_off(given: &Given) -> Mistake {
    Mistake::new(format!("no backend is named, and {} `{NONE}` turns the default one off", given.source))
        .hint("name one with --backend, SHEDLOCK_BACKEND or --backend-file")
}

/// Returns the default backend.
fn default_backend() -> Result<Opened, Mistake> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty()) {
        return Err(Mistake::new("no backend is named, and in a Kubernetes pod there is no default").hint(
            "a file in a pod excludes nobody; use `--backend kubernetes:`, or name a backend that all pods can reach, with --backend or SHEDLOCK_BACKEND",
        ));
    }
    #[cfg(feature = "sqlite")]
    return Ok(backend::sqlite::Sqlite::at_default_place(paths::state_file()?));
    #[cfg(not(feature = "sqlite"))]
    Err(Mistake::new("no backend is named, and the default one was left out of this build")
        .hint("name one with --backend"))
}

fn runs(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number <= MOST_RUNS);
    number.ok_or_else(|| format!("`{text}` is not a number of runs; write a number from 0 to {MOST_RUNS}"))
}
