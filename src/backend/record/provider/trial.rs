//! Tries what a provider's functions must do, on a name that nobody else has. A lock alone does not show it: most mistakes are
//! found only by who asks for what shedlock seldom does, such as a write of an old version.

use std::thread;
use std::time::Duration;

use shedlock_provider::{Record as StoredRecord, Run};

use super::{Provider, from_stored};
use crate::backend::Finding;
use crate::backend::clock::wait_past;
use crate::backend::record::engine::{ReadResult, Record, RecordStore, WriteResult};
use crate::lock::{BackendError, ErrorClass};
use crate::system::Timestamp;
use crate::text::shorten;

/// Begins the name; a random number follows, and what takes four bytes each, until it is as long as a job's name can be.
const PREFIX: &str = "shedlock-check-";
const FILLING: char = '\u{1d11e}';
const NAME_CHARACTERS: usize = 64;
/// How long the records seem to be of use: later ones are of a trial that died.
const LIFE: Duration = Duration::from_secs(60);
/// The tries of a trial in which a request fails that may succeed later.
const TRIES: u32 = 3;
/// How often something is looked for that may come late, and the pauses.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

const COMPARE: &str = "the store itself has to compare the version and write or remove, in one step";
const NEW_VERSION: &str =
    "give each write a version of its own, such as a random text or a number that only grows, also after `remove`";

/// A trial that goes on.
struct Trial<'a> {
    store: &'a mut Provider,
    name: String,
    /// The function that is tried, for an error.
    function: &'static str,
    versions: Vec<String>,
    wrong: Vec<Finding>,
}

/// Ends a trial: a request failed, or what follows would only repeat what is wrong.
enum Stop {
    Error(BackendError),
    Wrong,
}

impl From<BackendError> for Stop {
    fn from(error: BackendError) -> Self {
        Self::Error(error)
    }
}

/// Tries the functions, and returns what was found: a line for each that is wrong, or one for all.
pub(super) fn try_functions(store: &mut Provider) -> Vec<Finding> {
    let mut tries = 0;
    loop {
        tries += 1;
        let Ok(random) = getrandom::u64() else { return vec![not_tried("the system returned no random number")] };
        let mut trial = Trial { store, name: name(random), function: "read", versions: Vec::new(), wrong: Vec::new() };
        let ended = trial.run();
        let (mut wrong, function) = (std::mem::take(&mut trial.wrong), trial.function);
        if ended.is_err() {
            // A trial that is left behind is found by the next one.
            let _ = trial.clean_up();
        }
        match ended {
            // A user who may only lock is a wise one. What cannot be removed is left once: the next trial sees it first.
            Err(Stop::Error(error))
                if wrong.is_empty()
                    && function == "remove"
                    && error.class == ErrorClass::Permanent
                    && !store.is_about_the_program(&error) =>
            {
                let why = format!("not tried, because what is written cannot be removed: {}", error.message);
                return vec![Finding::good("functions", why)];
            }
            Err(Stop::Error(error)) if error.class == ErrorClass::Permanent => {
                wrong.push(Finding::from_error(function, error));
            }
            Err(Stop::Error(_)) if wrong.is_empty() && tries < TRIES => {
                thread::sleep(PAUSE);
                continue;
            }
            Err(Stop::Error(error)) if wrong.is_empty() => return vec![not_tried(&error.message)],
            _ => {}
        }
        if wrong.is_empty() {
            wrong.push(Finding::good("functions", "read, write, remove and list do what they must"));
        }
        return wrong;
    }
}

fn not_tried(why: &str) -> Finding {
    Finding::unwise("functions", format!("not tried: {why}"), "try again")
}

impl Trial<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        self.listed()?;
        let first = self.read()?;
        if first.found.is_some() {
            return self.stop("read", "it found a record of a name that nobody has written", COMPARE);
        }
        let (bare, full) = records(first.now, first.min_token.max(1), self.store.max_runs());
        self.create(&bare)?;
        if self.write(&full, None)? == WriteResult::Done {
            let seen = "with the version null it answered true although there was a record";
            return self.stop("write", seen, COMPARE);
        }
        let created = self.look(&bare)?;
        self.rewrite(&full, &created)?;
        let changed = self.look(&full)?;
        self.rewrite(&full, &changed)?;
        let newest = self.look(&full)?;
        self.floor(full.token)?;
        if created != newest {
            if self.write(&bare, Some(&created))? == WriteResult::Done {
                return self.stop("write", "it answered true to the version of an earlier record", COMPARE);
            }
            if self.remove(&created)? == WriteResult::Done {
                self.is_gone()?;
                return self.stop("remove", "it answered true to the version of an earlier record", COMPARE);
            }
        }
        self.list_has(&full)?;
        if self.remove(&newest)? == WriteResult::Conflict {
            let seen = "it did not remove a record whose version was the one that `read` had just returned";
            return self.stop("remove", seen, "answer true once the record is removed");
        }
        self.is_gone()?;
        self.list_has_not()?;
        self.create(&bare)?;
        let again = self.look(&bare)?;
        self.remove(&again)?;
        Ok(())
    }

    fn read(&mut self) -> Result<ReadResult<String>, BackendError> {
        self.function = "read";
        self.store.read(&self.name)
    }

    fn write(&mut self, record: &Record, version: Option<&String>) -> Result<WriteResult, BackendError> {
        self.function = "write";
        self.store.write(&self.name, record, version)
    }

    fn remove(&mut self, version: &String) -> Result<WriteResult, BackendError> {
        self.function = "remove";
        self.store.remove(&self.name, version)
    }

    fn create(&mut self, record: &Record) -> Result<(), Stop> {
        match self.write(record, None)? {
            WriteResult::Done => Ok(()),
            WriteResult::Conflict => {
                let seen = "with the version null it refused to write although `read` had found no record";
                self.stop("write", seen, "null means that there is no record")
            }
        }
    }

    fn rewrite(&mut self, record: &Record, version: &String) -> Result<(), Stop> {
        match self.write(record, Some(version))? {
            WriteResult::Done => Ok(()),
            WriteResult::Conflict => {
                let seen = "it refused the version that `read` had just returned";
                self.stop("write", seen, "answer true if the record has still this version, and was written")
            }
        }
    }

    /// Checks that a record is gone whose removal was answered.
    fn is_gone(&mut self) -> Result<(), Stop> {
        match self.read()?.found {
            None => Ok(()),
            Some(_) => {
                let seen = "it answered true, and the record is still there";
                self.stop("remove", seen, "answer true only once the store has removed the record")
            }
        }
    }

    /// Compares the record that is read with the one that was written, and returns its version.
    fn look(&mut self, written: &Record) -> Result<String, Stop> {
        let Some((record, version)) = self.read()?.found else {
            self.stop(
                "read",
                "it did not find the record that `write` had just written",
                "read what was written last",
            )?;
            return Err(Stop::Wrong);
        };
        if let Some(field) = difference(&record, written) {
            let seen = format!("`{field}` of the record did not come back as it was written");
            self.add("read", seen, "store and return every field as it came");
        }
        if self.versions.contains(&version) {
            self.add("version", format!("`{}` came again after another write", shorten(&version)), NEW_VERSION);
        }
        self.versions.push(version.clone());
        Ok(version)
    }

    /// Checks that the smallest token is larger than this one, at the latest when the store's clock has gone on.
    fn floor(&mut self, token: u64) -> Result<(), Stop> {
        for _ in 0..LOOKS {
            let floor = self.read()?.min_token;
            if floor == 0 || floor > token {
                return Ok(());
            }
            if !wait_past(token, floor) {
                break;
            }
        }
        let seen = "`floor` was no larger than the token of a record";
        self.add("read", seen.to_owned(), "return a number that is larger than every token so far, or 0");
        Ok(())
    }

    /// Checks that the list has the record.
    fn list_has(&mut self, written: &Record) -> Result<(), Stop> {
        for _ in 0..LOOKS {
            match self.listed()? {
                Some(record) if difference(&record, written).is_none() => return Ok(()),
                _ => thread::sleep(PAUSE),
            }
        }
        let seen = match self.listed()? {
            None => "it left out a record that `read` has found".to_owned(),
            Some(record) => match difference(&record, written) {
                Some(field) if self.wrong.iter().all(|wrong| wrong.subject != "read") => {
                    format!("`{field}` of the record was not as it was written")
                }
                _ => return Ok(()),
            },
        };
        self.add("list", seen, "list every record as `read` returns it");
        Ok(())
    }

    /// Checks that the list has the record no longer.
    fn list_has_not(&mut self) -> Result<(), Stop> {
        for _ in 0..LOOKS {
            if self.listed()?.is_none() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        self.add("list", "it has a record that was removed".to_owned(), "list what is there");
        Ok(())
    }

    /// Returns the record as the list has it, and removes what an earlier trial has left.
    fn listed(&mut self) -> Result<Option<Record>, BackendError> {
        self.function = "list";
        let (mut found, mut others) = (None, Vec::new());
        let now = self.store.list(&mut |name, record| match name == self.name {
            true => found = Some(record),
            false if is_of_a_trial(&name) => others.push((name, record.until)),
            false => {}
        })?;
        for (name, _) in others.iter().filter(|(_, until)| until.is_some_and(|until| until < now)) {
            if let Some((_, version)) = self.store.read(name)?.found {
                self.function = "remove";
                self.store.remove(name, &version)?;
            }
        }
        Ok(found)
    }

    fn clean_up(&mut self) -> Result<(), BackendError> {
        if let Some((_, version)) = self.store.read(&self.name)?.found {
            self.store.remove(&self.name, &version)?;
        }
        Ok(())
    }

    fn add(&mut self, function: &'static str, seen: String, advice: &str) {
        if self.wrong.iter().all(|wrong| wrong.subject != function) {
            self.wrong.push(Finding::bad(function, seen, advice));
        }
    }

    /// Notes what is wrong, and ends the trial.
    fn stop(&mut self, function: &'static str, seen: &str, advice: &str) -> Result<(), Stop> {
        self.add(function, seen.to_owned(), advice);
        Err(Stop::Wrong)
    }
}

fn name(random: u64) -> String {
    let mut name = format!("{PREFIX}{random:016x}-");
    name.extend(std::iter::repeat_n(FILLING, NAME_CHARACTERS - name.len()));
    name
}

fn is_of_a_trial(text: &str) -> bool {
    let random = text.strip_prefix(PREFIX).and_then(|rest| rest.get(..16));
    random.and_then(|random| u64::from_str_radix(random, 16).ok()).is_some_and(|random| text == name(random))
}

/// Returns a record without anything that may be missing, and a whole one. Neither is a lock's that is over.
fn records(now: Timestamp, token: u64, max_runs: u32) -> (Record, Record) {
    let owner = "trial-\u{e9}-\"\\:1:0123456789abcdef".to_owned();
    let until = Some((now + LIFE).0);
    let ended = Run {
        token: 1,
        owner: "trial:1:00000000000000ff".to_owned(),
        started_at: Some(now.0),
        ended_at: Some(now.0 + 1),
        exit_code: Some(7),
        outcome: Some("failure".to_owned()),
    };
    let running =
        Run { token, owner: owner.clone(), started_at: Some(now.0), ended_at: None, exit_code: None, outcome: None };
    let bare = StoredRecord { owner: String::new(), since: None, until, set_at: None, token: 0, runs: Vec::new() };
    let full = StoredRecord {
        owner,
        since: Some(now.0),
        until,
        set_at: Some(now.0 + 1),
        token,
        runs: [ended, running].into_iter().take(max_runs as usize).collect(),
    };
    (from_stored(bare, ""), from_stored(full, ""))
}

/// Returns the first field in which two records differ. Runs have the name under which they were read.
fn difference(one: &Record, other: &Record) -> Option<&'static str> {
    let runs = |record: &Record| {
        let unnamed = record.runs.iter().cloned().map(|run| crate::lock::RunRecord { name: String::new(), ..run });
        unnamed.collect::<Vec<_>>()
    };
    let fields = [
        ("owner", one.owner == other.owner),
        ("since", one.since == other.since),
        ("until", one.until == other.until),
        ("set_at", one.set_at == other.set_at),
        ("token", one.token == other.token),
        ("runs", runs(one) == runs(other)),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_long_as_can_be_and_known_again() {
        let name = name(7);
        assert_eq!((name.chars().count(), name.ends_with(FILLING)), (NAME_CHARACTERS, true));
        assert!(
            is_of_a_trial(&name) && !is_of_a_trial("shedlock-check") && !is_of_a_trial(&name.replace("07-", "0g-"))
        );
        assert!(crate::lock::LockName::new(&name).is_ok());
    }
}
