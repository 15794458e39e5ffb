//! The variables that tell a job of its lock. None of them sets an option.

use std::ffi::OsStr;

use crate::clock::Timestamp;
use crate::job::Environment;
use crate::lock::{Claim, Grant, Record};

const NAME: &str = "SHEDLOCK_LOCK_NAME";
const OWNER: &str = "SHEDLOCK_LOCK_OWNER";
const TOKEN: &str = "SHEDLOCK_LOCK_TOKEN";
const UNTIL: &str = "SHEDLOCK_LOCK_UNTIL";
const BACKEND: &str = "SHEDLOCK_LOCK_BACKEND";
/// The owners of all enclosing runs, outermost first, and their tokens.
const OWNERS: &str = "SHEDLOCK_LOCK_OWNERS";
const TOKENS: &str = "SHEDLOCK_LOCK_TOKENS";
/// In the list of tokens, for a lock without one.
const NO_TOKEN: &str = "-";

/// The owners of the runs that this process is part of.
pub(crate) fn enclosing() -> Vec<String> {
    let owners = std::env::var_os(OWNERS).and_then(|owners| owners.into_string().ok()).unwrap_or_default();
    owners.split_whitespace().map(str::to_owned).collect()
}

/// Tells the job of its lock, which it may keep until `until`.
pub(crate) fn describe(claim: &Claim, grant: &Grant, until: Timestamp, address: &str, environment: &mut Environment) {
    let owner = claim.owner.as_str();
    let token = grant.token.map_or_else(|| NO_TOKEN.to_owned(), |token| token.to_string());
    for (list, word) in [(OWNERS, owner), (TOKENS, &token)] {
        let before = text(environment, list);
        environment.set(list, format!("{before} {word}").trim_start());
    }
    environment.set(NAME, claim.name.as_str());
    environment.set(OWNER, owner);
    set_token(&token, environment);
    environment.set(UNTIL, &until.to_string());
    environment.set(BACKEND, address);
}

/// Tells the job of a lock that an enclosing run holds. If that is the innermost one, all is said already.
pub(crate) fn describe_enclosing(claim: &Claim, record: &Record, address: &str, environment: &mut Environment) {
    if text(environment, OWNER) == record.owner {
        return;
    }
    let (owners, tokens) = (text(environment, OWNERS), text(environment, TOKENS));
    let place = owners.split(' ').position(|owner| owner == record.owner);
    let token = place.and_then(|place| tokens.split(' ').nth(place)).unwrap_or(NO_TOKEN);
    environment.set(NAME, claim.name.as_str());
    environment.set(OWNER, &record.owner);
    set_token(token, environment);
    match record.until {
        Some(until) => environment.set(UNTIL, &until.to_string()),
        None => environment.remove(UNTIL),
    }
    environment.set(BACKEND, address);
}

/// Takes away what would be an enclosing run's from a job that has no lock. Which runs it is part of stays.
pub(crate) fn forget(environment: &mut Environment) {
    for name in [NAME, OWNER, TOKEN, UNTIL, BACKEND] {
        environment.remove(name);
    }
}

/// Sets the token, or takes away that of another lock.
fn set_token(token: &str, environment: &mut Environment) {
    match token {
        NO_TOKEN => environment.remove(TOKEN),
        token => environment.set(TOKEN, token),
    }
}

fn text(environment: &Environment, name: &str) -> String {
    environment.get(name).and_then(OsStr::to_str).unwrap_or_default().to_owned()
}
