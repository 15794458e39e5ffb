//! Finds the backend that command line, variables and files name, and for a job the backend of its run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use super::defaults::{BACKEND_TIMEOUT, HISTORY_KEEP};
use super::layers::{Configuration, Layers};
#[cfg(feature = "sqlite")]
use super::paths;
use super::read::{self, FileProblem};
use super::value::{Given, Source};
use super::{Mistake, file, unknown};
use crate::backend::{self, Access, Detour, Opened, Rotation};
use crate::lock::LockName;
use crate::system::file::Input;
use crate::system::trust::Found;
use crate::variables::{self, BackendRef};

/// The value of `backend` that turns the default backend off.
const TURNED_OFF: &str = "none";

/// The most runs to keep: a release that removes the oldest scans the history of its lock.
const MAX_HISTORY_KEEP: u32 = 100_000;

/// The configured backend, for the commands beside `run`.
pub(crate) struct BackendAccess {
    pub(crate) backend: Opened,
    /// The option, variable or file that names the backend.
    pub(crate) source: String,
    /// How long to try to reach the backend.
    pub(crate) timeout: Duration,
    /// The values of options that were read to find the backend.
    layers: Layers,
}

impl BackendAccess {
    /// Returns the backend of the lock of this name, because each job may have its own, or of no lock in particular.
    pub(crate) fn new(configuration: &Configuration, name: Option<&LockName>) -> Result<Self, Mistake> {
        let layers = configuration.layers(name);
        let timeout = layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        let access = &Access { password: password()?, timeout, ..Access::default() };
        let named = layers.first_of(&["backend", "backend-file"])?;
        let source = named.map_or_else(|| "the default".to_owned(), |(_, given)| given.source.to_string());
        Ok(Self { backend: backend(&layers, access)?.0, source, timeout, layers })
    }

    /// Returns the backend of the lock that this job runs under, from the job's variables; options given here win.
    pub(crate) fn for_job(matches: &ArgMatches, name: &LockName) -> Result<Self, Mistake> {
        let layers = Layers::from_process(matches)?;
        let named = layers.first_of(&["backend", "backend-file"])?;
        let typed = named.is_some_and(|(_, given)| matches!(given.source, Source::Option(_)));
        let Some((address, backend_ref)) = variables::current_backend().filter(|_| !typed) else {
            return Self::new(&layers.with_files()?, Some(name));
        };
        let timeout = layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT);
        let mut access = Access { password: password()?, timeout, ..Access::default() };
        let from_variable = |why| Mistake::new(format!("{} {why}", variables::BACKEND));
        let found = match &backend_ref {
            BackendRef::Plain => backend::from_url(&address, &access).map_err(from_variable)?,
            BackendRef::Password(password) => {
                access.password = Some(password.clone());
                backend::from_url(&address, &access).map_err(from_variable)?
            }
            BackendRef::File(path) if !path.is_file() => return Err(not_readable_again(path)),
            BackendRef::File(path) => {
                backend_from_file(path, &access).map_err(|problem| problem.into_mistake(path.display()))?.opened
            }
            BackendRef::Config(path) => backend_from_config(path, name, &access)?,
        };
        let is_same = backend::is_same_place(&found.address, &address);
        if let (BackendRef::File(path) | BackendRef::Config(path), false) = (&backend_ref, is_same) {
            let (path, now) = (path.display(), found.address);
            return Err(Mistake::new(format!("{path} now names {now}, but the job's lock is in {address}"))
                .hint("name the backend with --backend or --backend-file"));
        }
        Ok(Self { backend: found, source: variables::BACKEND.to_owned(), timeout, layers })
    }

    /// Opens the backend once more, for another client that goes this way and waits no longer than this for an answer.
    pub(crate) fn another(&self, longest: Duration, detour: Detour) -> Result<Opened, Mistake> {
        let access = &Access { password: password()?, timeout: self.timeout.min(longest), detour, ..Access::default() };
        Ok(backend(&self.layers, access)?.0)
    }

    /// Returns the variables that begin like those of options and set nothing.
    pub(crate) fn unknown_variables(&self) -> &[String] {
        self.layers.unknown_variables()
    }

    /// Returns how many runs of the lock of this name the history keeps.
    pub(crate) fn history_keep(&mut self, name: &LockName) -> Result<u32, Mistake> {
        self.layers.add_files(Some(name))?;
        history_keep(&self.layers)
    }
}

/// Returns how many runs of a lock the history keeps.
pub(super) fn history_keep(layers: &Layers) -> Result<u32, Mistake> {
    layers.get("history-keep").map_or(Ok(HISTORY_KEEP), |given| given.read(runs))
}

/// Returns the configured backend, and the reference by which the job finds it.
pub(super) fn backend(layers: &Layers, access: &Access) -> Result<(Opened, BackendRef), Mistake> {
    match layers.first_of(&["backend", "backend-file"])? {
        Some(("backend", given)) if given.text == TURNED_OFF => Err(turned_off(given)),
        Some(("backend", given)) => {
            let found = given.read(|url| backend::from_url(url, access))?;
            let backend_ref = match (backend::password(&given.text), &given.source) {
                (None, _) => BackendRef::Plain,
                (Some(_), Source::File { path, .. }) => BackendRef::Config(absolute(path)),
                (Some(password), Source::Option(_) | Source::Variable(_)) => BackendRef::Password(password),
            };
            Ok((found, backend_ref))
        }
        Some((_, given)) => {
            let path = Path::new(&given.text);
            let found = backend_from_file(path, access)
                .map_err(|problem| problem.into_mistake(format!("{} {}", given.source, path.display())))?;
            // A file that can be read only once, such as a shell's <(…), needs no second reading if its URL has no password.
            let backend_ref = if found.has_password || found.is_regular {
                BackendRef::File(absolute(path))
            } else {
                BackendRef::Plain
            };
            Ok((found.opened, backend_ref))
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
    let Some(password) = std::env::var_os(unknown::PASSWORD_VARIABLE).filter(|password| !password.is_empty()) else {
        return Ok(None);
    };
    password
        .into_string()
        .map(Some)
        .map_err(|_| Mistake::new(format!("{} is not UTF-8 text", unknown::PASSWORD_VARIABLE)))
}

/// A backend whose URL is in a file.
struct FileBackend {
    opened: Opened,
    has_password: bool,
    /// Says whether the file can be read again.
    is_regular: bool,
}

/// Returns the backend whose URL is in a file.
fn backend_from_file(path: &Path, access: &Access) -> Result<FileBackend, FileProblem> {
    let input = read::open(path, Found::Named)?;
    let url = read::read_text(&input, access.timeout)?;
    let url = url.trim();
    if url.is_empty() {
        return Err(FileProblem::new("is empty; write the backend's URL into it"));
    }
    // A URL would take another line as a part of its path, and show it.
    if url.contains('\n') {
        return Err(FileProblem::new("has more than one line; write only the backend's URL into it"));
    }
    let found = backend::from_url(url, access).map_err(FileProblem::new)?;
    let (has_password, is_regular) = (backend::password(url).is_some(), input.is_regular());
    // A file that can be read only once is not read again, and one without a password has none to renew.
    let rotation = (has_password && is_regular).then(|| rotation(url, path, access.timeout));
    Ok(FileBackend { opened: Opened { rotation, ..found }, has_password, is_regular })
}

/// Returns the way to read the login anew if the server refuses it: the file may be a secret that was rotated meanwhile.
fn rotation(url: &str, path: &Path, timeout: Duration) -> Rotation {
    let path = absolute(path);
    Rotation::new(url.to_owned(), move || {
        let input = read::open(&path, Found::Named).ok().filter(Input::is_regular)?;
        Some(read::read_text(&input, timeout).ok()?.trim().to_owned())
    })
}

/// Returns the mistake of a job whose run read its URL from a file that cannot be read again.
fn not_readable_again(path: &Path) -> Mistake {
    let what = if path.exists() { "can be read only once" } else { "no longer exists" };
    Mistake::new(format!("the job's backend was read from {}, which {what}", path.display()))
        .hint("give the run a permanent file, or name the backend here with --backend or --backend-file")
}

/// Returns the backend that a configuration file sets for this job.
fn backend_from_config(path: &Path, name: &LockName, access: &Access) -> Result<Opened, Mistake> {
    let text =
        read::text(path, Found::Named, access.timeout).map_err(|problem| problem.into_mistake(path.display()))?;
    let file = file::parse(&text, path)?;
    match file.job(Some(name)).get("backend").or_else(|| file.defaults.get("backend")) {
        Some(given) if given.text != TURNED_OFF => given.read(|url| backend::from_url(url, access)),
        _ => Err(Mistake::new(format!("{} no longer names a backend for {name}", path.display()))),
    }
}

/// Returns the mistake of a missing backend where the default one is turned off.
fn turned_off(given: &Given) -> Mistake {
    Mistake::new(format!("no backend is named, and {} `{TURNED_OFF}` turns the default one off", given.source))
        .hint("name one with --backend, SHEDLOCK_BACKEND or --backend-file")
}

/// Returns the backend that is used when none is named.
fn default_backend() -> Result<Opened, Mistake> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty()) {
        return Err(Mistake::new("no backend is named, and in a Kubernetes pod there is no default").hint(
            "a file in a pod excludes nobody; use `--backend kubernetes:`, or name a backend that all pods can reach, with --backend or SHEDLOCK_BACKEND",
        ));
    }
    #[cfg(feature = "sqlite")]
    return Ok(backend::sql::sqlite::Sqlite::at_default_path(paths::state_file()?));
    #[cfg(not(feature = "sqlite"))]
    Err(Mistake::new("no backend is named, and the default one was left out of this build")
        .hint("name one with --backend"))
}

fn runs(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number <= MAX_HISTORY_KEEP);
    number.ok_or_else(|| format!("`{text}` is not a number of runs; write a number from 0 to {MAX_HISTORY_KEEP}"))
}
