//! `shedlock prove`: no false alarm on a server that keeps the rules, every rule seen broken on one that does not, and nothing left
//! behind.

#[cfg(feature = "provider")]
mod broken_providers;
#[cfg(feature = "default")]
mod broken_servers;
#[cfg(feature = "default")]
mod drills;
#[cfg(feature = "postgres")]
mod nothing_left;
#[cfg(feature = "postgres")]
mod servers_in_need;
mod servers_kept;
#[cfg(feature = "default")]
mod servers_that_grant_nothing;

use std::process::Command;

use serde_json::Value;

use crate::support::schema::Schema;
use crate::support::{Finished, Place, finish};

/// What a report says.
pub(crate) struct Report {
    pub(crate) finished: Finished,
    json: Value,
}

/// Runs `prove --json` on this URL to its end.
pub(crate) fn prove(place: &Place, url: &str, options: &[&str]) -> Report {
    Report::of(finish(&mut command(place, url, options)))
}

/// Returns `shedlock prove --json OPTIONS` on this URL.
pub(crate) fn command(place: &Place, url: &str, options: &[&str]) -> Command {
    let mut command = place.shedlock([&["prove", "--json"], options].concat());
    command.env("SHEDLOCK_BACKEND", url);
    command
}

impl Report {
    pub(crate) fn of(finished: Finished) -> Self {
        let json = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
        Schema::of("prove").accepts(&json);
        Self { finished, json }
    }

    /// Returns grade and text of the line about this subject.
    #[track_caller]
    pub(crate) fn line(&self, subject: &str) -> (&str, &str) {
        let all = self.json["findings"].as_array().unwrap();
        let found = all.iter().find(|finding| finding["subject"] == subject);
        let found = found.unwrap_or_else(|| panic!("no line {subject}: {}", self.json));
        (found["grade"].as_str().unwrap(), found["seen"].as_str().unwrap())
    }

    /// Returns the subjects of the lines with this grade.
    pub(crate) fn lines(&self, grade: &str) -> Vec<&str> {
        let all = self.json["findings"].as_array().unwrap().iter();
        all.filter(|finding| finding["grade"] == grade).map(|finding| finding["subject"].as_str().unwrap()).collect()
    }

    /// Returns the subjects of all lines.
    pub(crate) fn subjects(&self) -> Vec<&str> {
        let all = self.json["findings"].as_array().unwrap().iter();
        all.map(|finding| finding["subject"].as_str().unwrap()).collect()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.json["forgotten"].as_u64().unwrap()
    }

    pub(crate) fn figure(&self, name: &str) -> &Value {
        &self.json["figures"][name]
    }

    /// Fails unless every rule was kept.
    #[track_caller]
    pub(crate) fn is_kept(&self) {
        assert_eq!((self.finished.code(), self.lines("bad")), (Some(0), vec![]), "{:#}", self.json);
    }

    /// Fails unless this rule was broken.
    #[track_caller]
    pub(crate) fn is_broken(&self, subject: &str) {
        assert_eq!(self.finished.code(), Some(1), "{:#}", self.json);
        assert_eq!(self.line(subject).0, "bad", "{:#}", self.json);
    }
}
