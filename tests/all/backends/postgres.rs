//! Locks in PostgreSQL, seen from outside: real processes, a real server, and psql as the witness.

mod basics;
mod faults;
mod history;
mod hostile;
mod hosts;
mod java;
mod login;
mod many;
mod pgbouncer;
mod time_zones;
mod tls;

use std::ffi::OsStr;
use std::process::Command;

use crate::support::process::Started;
use crate::support::{Finished, Place, finish, finish_in_time};
use servers::PostgresDatabase;

/// The password in these tests. No output may ever show it.
const SECRET: &str = "s3cret";

/// A place whose backend is a URL, with no word from the caller on PostgreSQL.
struct Site {
    place: Place,
    url: String,
}

impl Site {
    fn new(url: impl Into<String>) -> Self {
        Self { place: Place::new(), url: url.into() }
    }

    /// Returns `shedlock run --name NAME --at-most 1m -E 75 ARGUMENTS`.
    fn run<A: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.place.shedlock(["run", "--name", name, "--at-most", "1m", "-E", "75"]);
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("PG")) {
            command.env_remove(key);
        }
        command.args(arguments).env("SHEDLOCK_BACKEND", &self.url).env("HOME", self.place.path(""));
        command
    }

    /// Starts a run whose job goes on until [`Job::end`], and waits until it goes.
    fn job<A: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = A>) -> Job<'_> {
        let tag = servers::unique("job");
        let script = format!(
            "echo $SHEDLOCK_LOCK_OWNER > {tag}.ready; while [ ! -e {tag}.done ] && [ -e {tag}.ready ]; do sleep 0.02; \
             done; exit $(cat {tag}.done)"
        );
        let mut command = self.run(name, arguments);
        let started = Started::new(&self.place, &tag, command.args(["sh", "-c", &script]));
        let owner = self.place.wait_for_lines(&format!("{tag}.ready"), 1).remove(0);
        Job { site: self, started, tag, owner }
    }

    /// Runs `true` under a lock; the exit code says whether it was free.
    fn is_free(&self, name: &str) -> bool {
        let finished = finish(&mut self.run(name, ["true"]));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""), "{finished:?}");
        match finished.code() {
            Some(0) => true,
            Some(75) => false,
            _ => panic!("{finished:?}"),
        }
    }

    /// Asserts that a run of `true` fails with 125 and this text, and shows no password.
    #[track_caller]
    fn fails<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>, text: &str) -> Finished {
        fails(self.run("job", arguments).arg("true"), text)
    }

    /// Asserts that a run of `true` fails with this text soon: nothing is tried again.
    #[track_caller]
    fn fails_at_once(&self, text: &str) -> Finished {
        fails_at_once(&mut self.run("job", ["true"]), text)
    }

    /// Asserts that a run of `true` succeeds without a word.
    #[track_caller]
    fn works(&self) {
        works(&mut self.run("job", ["true"]));
    }
}

/// A run that is under way.
struct Job<'a> {
    site: &'a Site,
    started: Started,
    tag: String,
    owner: String,
}

impl Job<'_> {
    /// Has the job exit with this code, and waits for the end of the run.
    fn end(self, code: i32) -> Finished {
        self.tell(code);
        self.started.finish()
    }

    fn tell(&self, code: i32) {
        std::fs::write(self.site.place.path(&format!("{}.new", self.tag)), code.to_string()).unwrap();
        let [from, to] = ["new", "done"].map(|end| self.site.place.path(&format!("{}.{end}", self.tag)));
        std::fs::rename(from, to).unwrap();
    }
}

#[track_caller]
fn works(command: &mut Command) {
    finish(command).is_silent_with(0);
}

#[track_caller]
fn fails(command: &mut Command, text: &str) -> Finished {
    let finished = finish_in_time(command);
    finished.complains(125, text);
    assert!(!finished.stderr.contains(SECRET), "{}", finished.stderr);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    finished
}

#[track_caller]
fn fails_at_once(command: &mut Command, text: &str) -> Finished {
    fails(command.env("SHEDLOCK_BACKEND_TIMEOUT", "1h"), text)
}

/// A lock's row as psql shows it: owner, whether it is held, and for how many more seconds, in whole.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    owner: String,
    held: bool,
    left: i64,
}

fn row(database: &PostgresDatabase, name: &str) -> Row {
    row_in(database, "shedlock", name)
}

fn row_in(database: &PostgresDatabase, table: &str, name: &str) -> Row {
    let answer = database.psql(&format!(
        "set timezone = 'UTC'; select locked_by, lock_until > timezone('utc', current_timestamp), \
         round(extract(epoch from lock_until - timezone('utc', current_timestamp))) from {table} \
         where name = {}",
        quoted(name)
    ));
    let fields: Vec<&str> = answer.rsplitn(3, '|').collect();
    let [left, held, owner] = fields[..] else { panic!("no row: {answer}") };
    Row { owner: owner.to_owned(), held: held == "t", left: left.parse().unwrap() }
}

/// Returns text as a literal, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
