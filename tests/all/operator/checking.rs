//! `shedlock check`, `init` and `schema`: what they say of real servers, healthy and not.

mod layout;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod setup;
mod sqlite;
mod wrong_servers;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::fmt;
use std::process::Command;

use serde_json::Value;

use crate::support::schema::Schema;
use crate::support::{Finished, Place, finish};

/// The password in these tests. No output may ever show it.
const SECRET: &str = "s3cret";

/// What a check has said.
struct Checked {
    code: Option<i32>,
    /// Grade, subject, what was seen, and what to do.
    found: Vec<[String; 4]>,
}

/// Returns `shedlock ARGUMENTS` with this backend, and no word from the caller on PostgreSQL.
fn on(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.shedlock(arguments);
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("PG")) {
        command.env_remove(key);
    }
    command.env("SHEDLOCK_BACKEND", url).env("HOME", place.path(""));
    command
}

/// Checks a backend.
#[track_caller]
fn check(url: &str) -> Checked {
    checked(&finish(&mut on(&Place::new(), url, &["check", "--json"])))
}

/// Reads what a check with `--json` has printed, and sees to it that the JSON is what docs/json/check.schema.json says.
#[track_caller]
fn checked(finished: &Finished) -> Checked {
    assert!(!format!("{finished:?}").contains(SECRET), "{finished:?}");
    let json: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    Schema::of("check").accepts(&json);
    let found = json.as_array().unwrap().iter().map(|finding| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let [grade, advice] = ["grade", "advice"].map(text);
        assert!(grade != "good" || advice.is_empty(), "{finding}");
        [grade, text("subject"), text("seen"), advice]
    });
    let checked = Checked { code: finished.code(), found: found.collect() };
    let bad = checked.found.iter().any(|[grade, ..]| grade == "bad");
    assert_eq!(checked.code, Some(i32::from(bad)), "{checked:?}");
    assert_eq!(finished.stderr, "");
    checked
}

/// A line for each finding, since they are read when a test fails.
impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.found.iter().map(|found| format!("\n{}", found.join(" | ")));
        write!(f, "{:?}{}", self.code, lines.collect::<String>())
    }
}

impl Checked {
    /// Asserts that nothing is in the way, a lock was really taken, and no more than this is unwise.
    #[track_caller]
    fn can_lock_but(&self, unwise: &[&str]) {
        assert_eq!(self.code, Some(0), "{self:?}");
        for subject in ["take", "renew", "refuse", "verify", "again", "release"] {
            self.says(if unwise.contains(&subject) { "unwise" } else { "good" }, subject, "");
        }
        let found: Vec<&str> =
            self.found.iter().filter(|[grade, ..]| grade != "good").map(|[_, subject, ..]| subject.as_str()).collect();
        assert_eq!(found, unwise, "{self:?}");
    }

    /// Asserts that a finding has this grade, this subject and this text, and says what to do.
    #[track_caller]
    fn says(&self, grade: &str, subject: &str, text: &str) {
        let is = |[its_grade, its_subject, seen, advice]: &&[String; 4]| {
            its_grade == grade && its_subject == subject && (seen.contains(text) || advice.contains(text))
        };
        let finding = self.found.iter().find(is);
        assert!(finding.is_some(), "no {grade} finding about {subject} says `{text}`: {self:?}");
        assert!(grade != "bad" || finding.is_some_and(|[.., advice]| !advice.is_empty()), "no advice: {finding:?}");
    }

    /// Returns the subjects, in their order.
    fn subjects(&self) -> Vec<&str> {
        self.found.iter().map(|[_, subject, ..]| subject.as_str()).collect()
    }
}

/// Asserts that a run with this backend fails, as the check has said.
#[track_caller]
fn a_run_fails(url: &str) {
    let arguments = ["run", "--name", "job", "--at-most", "1m", "--backend-timeout", "1s", "true"];
    let finished = finish(&mut on(&Place::new(), url, &arguments));
    assert_eq!(finished.code(), Some(125), "{finished:?}");
}

/// Asserts that a run with this backend works, as the check has said.
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[track_caller]
fn a_run_works(url: &str) {
    let finished = finish(&mut on(&Place::new(), url, &["run", "--name", "job", "--at-most", "1m", "true"]));
    finished.is_silent_with(0);
}
