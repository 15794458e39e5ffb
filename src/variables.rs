//! The environment variables that describe its lock to a job. They never set an option.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::lock::{Claim, Grant, LockState};
use crate::system::Environment;
use crate::system::Timestamp;

pub(crate) const NAME: &str = "SHEDLOCK_LOCK_NAME";
pub(crate) const OWNER: &str = "SHEDLOCK_LOCK_OWNER";
const TOKEN: &str = "SHEDLOCK_LOCK_TOKEN";
const UNTIL: &str = "SHEDLOCK_LOCK_UNTIL";
pub(crate) const BACKEND: &str = "SHEDLOCK_LOCK_BACKEND";
/// The variables needed to reach the backend besides its URL; at most one is set.
const PASSWORD: &str = "SHEDLOCK_LOCK_BACKEND_PASSWORD";
const FILE: &str = "SHEDLOCK_LOCK_BACKEND_FILE";
const CONFIG: &str = "SHEDLOCK_LOCK_CONFIG";
/// The owners of all enclosing runs, outermost first, and their tokens.
const OWNERS: &str = "SHEDLOCK_LOCK_OWNERS";
const TOKENS: &str = "SHEDLOCK_LOCK_TOKENS";
/// The variables that only the command of `--notify` gets.
pub(crate) const EVENT: &str = "SHEDLOCK_EVENT";
pub(crate) const EXIT_CODE: &str = "SHEDLOCK_EXIT_CODE";
pub(crate) const DURATION: &str = "SHEDLOCK_DURATION";
pub(crate) const MESSAGE: &str = "SHEDLOCK_MESSAGE";
/// The entry in the list of tokens for a lock without a token.
const NO_TOKEN: &str = "-";

/// How a job finds the backend of its run, besides a URL without a password. No secret gets into the environment that was
/// not there, or on the command line, before: a file is named, and read again.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum BackendRef {
    /// Only the URL, or with the environment that the job inherits.
    Plain,
    Password(String),
    /// The file that holds the URL.
    File(PathBuf),
    /// The configuration file that holds the URL.
    Config(PathBuf),
}

/// Returns name and owner of the lock that this process runs under.
pub(crate) fn current_lock() -> Option<(String, String)> {
    let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    Some((text(NAME)?, text(OWNER)?))
}

/// Returns the URL of the backend whose lock this process runs under, and the reference to it.
pub(crate) fn current_backend() -> Option<(String, BackendRef)> {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let address = value(BACKEND)?.into_string().ok()?;
    let password = value(PASSWORD).and_then(|password| password.into_string().ok());
    let backend_ref = match (password, value(FILE), value(CONFIG)) {
        (Some(password), _, _) => BackendRef::Password(password),
        (None, Some(path), _) => BackendRef::File(path.into()),
        (None, None, Some(path)) => BackendRef::Config(path.into()),
        (None, None, None) => BackendRef::Plain,
    };
    Some((address, backend_ref))
}

/// Returns the owners of the enclosing runs.
pub(crate) fn enclosing() -> Vec<String> {
    let owners = std::env::var_os(OWNERS).and_then(|owners| owners.into_string().ok()).unwrap_or_default();
    owners.split_whitespace().map(str::to_owned).collect()
}

/// Sets the variables of the job's lock, which ends at `until`.
pub(crate) fn describe_lock(
    claim: &Claim,
    grant: &Grant,
    until: Timestamp,
    backend: (&str, &BackendRef),
    environment: &mut Environment,
) {
    let owner = claim.owner.as_str();
    let token = grant.token.map_or_else(|| NO_TOKEN.to_owned(), |token| token.to_string());
    for (list, word) in [(OWNERS, owner), (TOKENS, &token)] {
        let before = text(environment, list);
        environment.set(list, format!("{before} {word}").trim_start());
    }
    environment.set(NAME, claim.name.as_str());
    environment.set(OWNER, owner);
    set_token(&token, environment);
    environment.set(UNTIL, until.to_string());
    set_backend(backend, environment);
}

/// Sets the variables of a lock that an enclosing run holds. If that is the innermost run, they are set already.
pub(crate) fn describe_enclosing(
    claim: &Claim,
    state: &LockState,
    backend: (&str, &BackendRef),
    environment: &mut Environment,
) {
    if text(environment, OWNER) == state.owner {
        return;
    }
    let (owners, tokens) = (text(environment, OWNERS), text(environment, TOKENS));
    let place = owners.split(' ').position(|owner| owner == state.owner);
    let token = place.and_then(|place| tokens.split(' ').nth(place)).unwrap_or(NO_TOKEN);
    environment.set(NAME, claim.name.as_str());
    environment.set(OWNER, &state.owner);
    set_token(token, environment);
    match state.until {
        Some(until) => environment.set(UNTIL, until.to_string()),
        None => environment.remove(UNTIL),
    }
    set_backend(backend, environment);
}

/// Removes an enclosing run's variables from a job without a lock, except the lists of enclosing runs.
pub(crate) fn remove_lock(environment: &mut Environment) {
    for name in [NAME, OWNER, TOKEN, UNTIL, BACKEND, PASSWORD, FILE, CONFIG] {
        environment.remove(name);
    }
}

/// Returns whether this process is the command of `--notify` of a run, or belongs to it.
pub(crate) fn is_notified() -> bool {
    std::env::var_os(EVENT).is_some_and(|event| !event.is_empty())
}

/// Sets the variables of the command of `--notify`. It gets no reference to the lock, which it does not run under: with the
/// run's owner in its list, it would count as a part of the job.
pub(crate) fn describe_event(
    claim: &Claim,
    token: Option<u64>,
    values: &[(&str, Option<String>)],
    environment: &mut Environment,
) {
    remove_lock(environment);
    environment.set(NAME, claim.name.as_str());
    environment.set(OWNER, claim.owner.as_str());
    if let Some(token) = token {
        environment.set(TOKEN, token.to_string());
    }
    for (name, value) in values {
        match value {
            Some(value) => environment.set(name, value),
            None => environment.remove(name),
        }
    }
}

/// Sets the variables of the lock's backend, and removes those of an enclosing run's backend.
fn set_backend((address, backend_ref): (&str, &BackendRef), environment: &mut Environment) {
    environment.set(BACKEND, address);
    for name in [PASSWORD, FILE, CONFIG] {
        environment.remove(name);
    }
    match backend_ref {
        BackendRef::Plain => {}
        BackendRef::Password(password) => environment.set(PASSWORD, password),
        BackendRef::File(path) => environment.set(FILE, path),
        BackendRef::Config(path) => environment.set(CONFIG, path),
    }
}

/// Sets the token, or removes that of another lock.
fn set_token(token: &str, environment: &mut Environment) {
    match token {
        NO_TOKEN => environment.remove(TOKEN),
        token => environment.set(TOKEN, token),
    }
}

fn text(environment: &Environment, name: &str) -> String {
    environment.get(name).and_then(OsStr::to_str).unwrap_or_default().to_owned()
}
