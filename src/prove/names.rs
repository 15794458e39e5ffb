//! The names of the locks that are made up, and how they are removed.
//!
//! While it runs, each `prove` holds `shedlock-prove-RANDOM-0`. So what another one finds of it later is in use exactly if that lock
//! is held, and is left over otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backend::Admin;
use crate::lock::{BackendError, Change, Claim, ErrorClass, Forgotten, Lock, LockName, Owner, Purpose, Removal};

/// Begins every name.
const PREFIX: &str = "shedlock-prove-";
/// Says how long the lock that marks the names as in use outlives its `prove`.
const BEACON_LEASE: Duration = Duration::from_secs(30);

/// Counts the names before and after one that was found of which something may be left, though no list shows it.
const HIDDEN_NAMES: u64 = 8;

/// Gives names to the locks of one `prove`, and removes them.
pub(crate) struct Names {
    random: u64,
    newest: u64,
    owner: Owner,
    /// The names that could not be removed yet.
    kept: Vec<LockName>,
    /// Why names may not be removed. They are free then, and used again.
    pub(crate) refused: Option<BackendError>,
}

impl Names {
    pub(crate) fn new(random: u64, owner: Owner) -> Self {
        Self { random, newest: 0, owner, kept: Vec::new(), refused: None }
    }

    /// Returns a name that nothing else has, or an old one of ours if they may not be removed.
    pub(crate) fn next(&mut self) -> Option<LockName> {
        if self.refused.is_some()
            && let Some(name) = self.kept.pop()
        {
            return Some(name);
        }
        self.newest += 1;
        LockName::new(&name(self.random, self.newest)).ok()
    }

    /// Returns the beginning of all the names.
    pub(crate) fn pattern(&self) -> String {
        format!("{PREFIX}{:016x}-", self.random)
    }

    /// Marks the names as in use.
    pub(crate) fn mark(&self, backend: &mut dyn Admin) -> Result<(), BackendError> {
        // To acquire it again is to renew it. A store that gives it away protects the names no longer, and that is all.
        backend.acquire(&self.beacon())?;
        Ok(())
    }

    /// Removes names that are not used any more. What cannot be removed now is tried again with the next ones.
    pub(crate) fn remove(&mut self, backend: &mut dyn Admin, names: Vec<LockName>) -> Result<(), BackendError> {
        self.kept.extend(names);
        // Unless they are free, the next round must not use them: it would meet the owners of this one.
        self.refused = None;
        let mut left = std::mem::take(&mut self.kept);
        let result = remove_all(backend, &mut left);
        self.kept = left;
        match result {
            Err(error) if error.class == ErrorClass::Permanent => {
                free(backend, &self.kept)?;
                self.refused = Some(error);
                Ok(())
            }
            result => result,
        }
    }

    /// Returns how many names are still there.
    pub(crate) fn left(&self) -> usize {
        self.kept.len()
    }

    /// Frees and removes everything at the end.
    pub(crate) fn finish(&mut self, backend: &mut dyn Admin) -> Result<(), BackendError> {
        let beacon = self.beacon().name;
        self.kept.retain(|name| *name != beacon);
        // The last one to be removed.
        self.remove(backend, Vec::new())?;
        match self.refused.is_some() || !self.kept.is_empty() {
            true => free(backend, std::slice::from_ref(&beacon)).map(|()| self.kept.push(beacon)),
            false => self.remove(backend, vec![beacon]),
        }
    }

    fn beacon(&self) -> Claim {
        Claim {
            name: LockName::new(&name(self.random, 0)).expect("letters, digits and dashes, and short enough"),
            owner: self.owner.clone(),
            lease: BEACON_LEASE,
            keep: 1,
            purpose: Purpose::Run,
        }
    }
}

/// Removes what earlier ones have left, and returns how many names that were.
pub(crate) fn remove_leftovers(backend: &mut dyn Admin) -> Result<usize, BackendError> {
    let mut found: BTreeMap<u64, Vec<LockName>> = BTreeMap::new();
    for text in backend.names()? {
        if let Some((random, _)) = parse(&text)
            && let Ok(name) = LockName::new(&text)
        {
            found.entry(random).or_default().push(name);
        }
    }
    let mut removed = 0;
    for (random, mut names) in found {
        let beacon = name(random, 0);
        if is_held(&backend.locks(&[&beacon])?.locks) {
            continue;
        }
        let found = names.clone();
        // Of a lock that nobody got, a mark may be left, which no list shows.
        let newest = names.iter().filter_map(|name| Some(parse(name.as_str())?.1)).max().unwrap_or_default();
        let around = newest.saturating_sub(HIDDEN_NAMES)..=newest + HIDDEN_NAMES;
        let hidden: Vec<LockName> = around.filter_map(|number| LockName::new(&name(random, number)).ok()).collect();
        names.splice(0..0, hidden.into_iter().filter(|hidden| !names.contains(hidden)).collect::<Vec<_>>());
        remove_all(backend, &mut names)?;
        removed += found.iter().filter(|found| !names.contains(found)).count();
    }
    Ok(removed)
}

/// Frees and removes locks, and takes those that are gone from the list.
fn remove_all(backend: &mut dyn Admin, names: &mut Vec<LockName>) -> Result<(), BackendError> {
    while let Some(name) = names.last() {
        free(backend, std::slice::from_ref(name))?;
        let locks = backend.locks(&[name.as_str()])?.locks;
        let seen = locks.iter().find(|lock| lock.name == name.as_str()).map(|lock| lock.state.owner.clone());
        // The relay has delivered what it kept, so nothing is on its way any more.
        let removal = Removal { mark_age: Duration::ZERO, ..Removal::new(name.clone(), seen.unwrap_or_default()) };
        match backend.forget(&removal)? {
            Forgotten::Gone { .. } => drop(names.pop()),
            // A request that was late has changed it. The next time will do.
            Forgotten::InUse => return Ok(()),
        }
    }
    Ok(())
}

/// Frees locks that were left to their time.
fn free(backend: &mut dyn Admin, names: &[LockName]) -> Result<(), BackendError> {
    for name in names {
        let locks = backend.locks(&[name.as_str()])?.locks;
        for lock in locks.iter().filter(|lock| lock.name == name.as_str() && lock.is_held()) {
            let (from, to) = (lock.state.owner.clone(), lock.state.owner.clone());
            backend.change(&Change { name: name.clone(), from, to, left: Duration::ZERO })?;
        }
    }
    Ok(())
}

fn is_held(locks: &[Lock]) -> bool {
    locks.iter().any(Lock::is_held)
}

fn name(random: u64, number: u64) -> String {
    format!("{PREFIX}{random:016x}-{number}")
}

/// Reads a name of any `prove`.
fn parse(text: &str) -> Option<(u64, u64)> {
    let (random, number) = text.strip_prefix(PREFIX)?.split_once('-')?;
    let is_random = random.len() == 16 && random.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let is_number = number.chars().all(|c| c.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
    (is_random && is_number).then_some(())?;
    Some((u64::from_str_radix(random, 16).ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_form_is_nobody_s() {
        assert_eq!(parse(&name(7, 12)), Some((7, 12)));
        for other in [
            "shedlock-prove",
            "shedlock-prove-x-1",
            "shedlock-prove-0000000000000007-",
            "shedlock-prove-0000000000000007-01",
            "shedlock-prove-000000000000000A-1",
            "shedlock-prove-0000000000000007-1x",
            "shedlock-prove-0000000000000007-1-2",
            "my-shedlock-prove-0000000000000007-1",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
