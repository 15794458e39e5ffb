//! A store that is a program of its own: shedlock starts it, and asks it in JSON Lines through its standard streams.
//!
//! ```text
//!   find       which program a URL means, and whether others may write it
//!   process    a provider that runs: a line to it, a line from it, in time and bounded
//!   trial      what `check` and `prove` try of its functions
//!   mod        the requests of a store of records in the words of the protocol
//! ```
//!
//! The messages are those of the crate that providers in Rust are made with, so that the two sides cannot differ.

mod find;
mod process;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use shedlock_provider::{
    Class, Finding as Found, Grade as FoundGrade, Item, Made, Malformed, Open, Opened as OpenAnswer, PROTOCOL, Reading,
    Record as StoredRecord, Removed, Request, Run, Schema, StoreError, Written,
};

use crate::backend::diagnose::{self, connection_subject};
use crate::backend::record::engine::{ReadResult, Record, RecordLocks, RecordSink, RecordStore, WriteResult};
use crate::backend::{Access, Contact, Credentials, Detour, Finding, FindingSink, Grade, LockTest, Opened, Url};
use crate::lock::{BackendError, ErrorClass, Holder, RunRecord};
use crate::system::{Helpers, Moment, Timestamp};
use crate::text::{escape_hidden, shorten};
pub(crate) use find::{installed, is_packaged};
use process::{Failure, Process};

/// Divides the time of a request: a provider gets this part of it to answer, because it may hang where the next one does not.
const TRIES: u32 = 2;
/// The time below which a request is not divided: it is meant for one try already.
const SHORTEST_TRY: Duration = Duration::from_secs(1);
/// The coarsest clock with which a lock is still of use. A provider that names a coarser one has mistaken the unit.
const MAX_GRAIN: u64 = 3_600_000;

/// Stores records by a provider.
pub(crate) struct Provider {
    program: PathBuf,
    /// The URL as the user wrote it.
    url: String,
    /// The password that comes before the one in the URL.
    password: Option<String>,
    /// The password in the URL, which no message shows.
    url_password: Option<String>,
    /// The time for an answer.
    timeout: Duration,
    label: String,
    contact: Contact,
    helpers: Helpers,
    shows_stderr: bool,
    detour: Detour,
    /// Holds the provider's last answer to `open`.
    opened: OpenAnswer,
    process: Option<Process>,
}

impl Provider {
    /// Finds the program for a URL's scheme. The error is the end of a sentence that begins with the URL's source; it lists the
    /// backends that are `built_in`.
    pub(crate) fn open(text: &str, url: &Url, access: &Access, built_in: &str) -> Result<Opened, String> {
        let program = find::program(url, built_in)?;
        let public = url.public();
        let name = public.split('?').next().unwrap_or_default();
        let store = Self {
            program: program.clone(),
            url: text.trim().to_owned(),
            password: access.password.clone(),
            url_password: url.password(),
            timeout: (access.timeout / TRIES).max(SHORTEST_TRY.min(access.timeout)),
            label: format!("backend {name}"),
            contact: access.contact.clone(),
            helpers: access.helpers.clone(),
            shows_stderr: access.shows_stderr,
            detour: access.detour.clone(),
            opened: OpenAnswer::default(),
            process: None,
        };
        Ok(Opened { provider: Some(program), ..Opened::server(RecordLocks::new(store), url, access) })
    }

    /// Returns the provider, which is started and opened if it does not run.
    fn connected(&mut self, until: Moment) -> Result<Process, BackendError> {
        match self.process.take() {
            Some(process) if process.is_of_this_thread() => return Ok(process),
            // It dies with the thread that started it.
            Some(process) => process.end(),
            None => {}
        }
        let mut process = Process::start(&self.helpers, &self.program, self.shows_stderr, self.detour.clone())
            .map_err(|error| find::not_started(&self.program, &error))?;
        let open = Request::Open(Open {
            protocol: PROTOCOL,
            url: self.url.clone(),
            password: self.password.clone(),
            timeout: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        let answer = match process.ask(&open, until) {
            Ok(answer) => answer,
            Err(failure) => return Err(self.explain(process, failure, true)),
        };
        match self.understood(&answer, OpenAnswer::from_json) {
            Ok(opened) if opened.grain <= MAX_GRAIN => {
                self.label = format!("backend {}", escape_hidden(&shorten(&self.without_password(&opened.label))));
                self.opened = opened;
                Ok(process)
            }
            Ok(opened) => {
                let why = format!("its clock is coarse by {} ms, which cannot be", opened.grain);
                Err(self.explain(process, Failure::Malformed(why), true))
            }
            Err(Answer::Error(error)) => {
                process.end();
                Err(BackendError { ambiguous: false, ..self.refused(error) })
            }
            Err(Answer::Malformed(why)) => Err(self.explain(process, Failure::Malformed(why.to_string()), true)),
        }
    }

    /// Asks for something and reads the answer. After any answer but an understood one the provider is ended.
    fn ask<T>(
        &mut self,
        request: &Request,
        read: impl FnOnce(&Value) -> Result<T, Malformed>,
    ) -> Result<T, BackendError> {
        let until = Moment::now() + self.timeout;
        let mut process = self.connected(until)?;
        let answer = match process.ask(request, until) {
            Ok(answer) => answer,
            Err(failure) => return Err(self.explain(process, failure, false)),
        };
        self.judge(process, &answer, read)
    }

    /// Reads an answer, and keeps the provider if it is understood.
    fn judge<T>(
        &mut self,
        process: Process,
        answer: &Value,
        read: impl FnOnce(&Value) -> Result<T, Malformed>,
    ) -> Result<T, BackendError> {
        match self.understood(answer, read) {
            Ok(answer) => {
                self.contact.reached();
                self.process = Some(process);
                Ok(answer)
            }
            Err(Answer::Error(error)) => {
                // It may be in any state; a fresh one is not.
                process.end();
                Err(self.refused(error))
            }
            Err(Answer::Malformed(why)) => Err(self.explain(process, Failure::Malformed(why.to_string()), false)),
        }
    }

    fn understood<T>(&self, answer: &Value, read: impl FnOnce(&Value) -> Result<T, Malformed>) -> Result<T, Answer> {
        match StoreError::from_json(answer) {
            Ok(None) => read(answer).map_err(Answer::Malformed),
            Ok(Some(error)) => Err(Answer::Error(error)),
            Err(why) => Err(Answer::Malformed(why)),
        }
    }

    /// Explains an error that the provider reports.
    fn refused(&self, error: StoreError) -> BackendError {
        let class = match error.class {
            Class::Transient => ErrorClass::Transient,
            Class::Overloaded => ErrorClass::Overloaded,
            Class::Permanent => ErrorClass::Permanent,
        };
        let hint = error.hint.map(|hint| self.shown(&hint)).unwrap_or_default();
        let shown = BackendError::new(class, self.shown(&error.error)).hint(hint);
        let shown = if error.sent { shown.ambiguous() } else { shown };
        if error.login_refused { shown.refusing_login() } else { shown }
    }

    /// Explains a provider that gave no answer, and kills it. `opening`: nothing was asked of the store yet.
    fn explain(&self, process: Process, failure: Failure, opening: bool) -> BackendError {
        let program = find::file_name(&self.program);
        let sent = !opening && failure.may_be_carried_out();
        let end = process.kill();
        let class = match failure {
            // It fails in the same way again.
            Failure::Malformed(_) | Failure::TooLong(_) => ErrorClass::Permanent,
            Failure::Ended if opening && end.is_own => ErrorClass::Permanent,
            Failure::Ended | Failure::Late | Failure::System(_) => ErrorClass::Transient,
        };
        let mut message = match failure {
            Failure::Late => format!("{program} did not answer within {}", crate::duration::brief(self.timeout)),
            Failure::Malformed(why) => format!("{program} gave an answer that shedlock does not understand: {why}"),
            Failure::TooLong(bytes) => format!("{program} sent more than {} MiB", bytes >> 20),
            Failure::Ended => format!("{program} {}", end.how),
            Failure::System(why) => format!("{program} cannot be talked to: {why}"),
        };
        if let Some(line) = end.last_line {
            message += &format!("; its last words: {line}");
        }
        let error = BackendError::new(class, self.shown(&message)).hint(format!(
            "`{} </dev/null` shows whether it starts; `run -vv` shows what it writes to stderr",
            self.program.display()
        ));
        if sent { error.ambiguous() } else { error }
    }

    /// Returns whether the program itself has failed, and not the store.
    fn is_about_the_program(&self, error: &BackendError) -> bool {
        error.message.starts_with(&format!("{} ", find::file_name(&self.program)))
            || error.message.starts_with(&format!("the program {} ", self.program.display()))
    }

    /// Returns a text of the provider's as one line, without a password.
    fn shown(&self, text: &str) -> String {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        escape_hidden(&shorten(&self.without_password(&line))).into_owned()
    }

    fn without_password(&self, text: &str) -> String {
        // One that stands in a URL, as the user wrote it, is hidden wherever messages are shown.
        let passwords = [self.password.as_deref(), self.url_password.as_deref()];
        let known = passwords.into_iter().flatten().filter(|password| !password.is_empty());
        known.fold(text.to_owned(), |text, password| text.replace(password, "…"))
    }

    fn probe(&mut self, report: FindingSink<'_>) -> Result<LockTest, BackendError> {
        let begun = Moment::now();
        let process = self.connected(begun + self.timeout)?;
        self.process = Some(process);
        let took = crate::duration::brief(Moment::now().since(begun));
        let version = self.opened.version.as_deref().map_or("which tells no version".into(), |it| self.shown(it));
        report(Finding::good("provider", format!("{}, {version}; started in {took}", self.program.display())));
        let findings = self.ask(&Request::Check, Found::all_from_json)?;
        let mut worst = Grade::Good;
        for found in findings {
            let finding = Finding {
                grade: match found.grade {
                    FoundGrade::Good => Grade::Good,
                    FoundGrade::Unwise => Grade::Unwise,
                    FoundGrade::Bad => Grade::Bad,
                },
                subject: self.shown(&found.subject).into(),
                seen: self.shown(&found.text),
                advice: found.advice.map(|advice| self.shown(&advice)),
            };
            if finding.grade == Grade::Bad {
                worst = Grade::Bad;
            }
            report(finding);
        }
        if worst == Grade::Bad {
            return Ok(LockTest::Pointless);
        }
        let resolution = self.clock_resolution();
        diagnose::clock_as_coarse_as(resolution, || self.read(PROBED).map(|read| read.now.0 * 1000), report)?;
        trial::try_functions(self).into_iter().for_each(report);
        Ok(LockTest::Possible)
    }
}

/// The name of a lock that is read to learn the store's clock.
const PROBED: &str = "shedlock-check";

/// An answer other than the one that was asked for.
enum Answer {
    Error(StoreError),
    Malformed(Malformed),
}

impl RecordStore for Provider {
    type Version = String;

    fn clock_resolution(&self) -> Duration {
        Duration::from_millis(self.opened.grain)
    }

    fn max_runs(&self) -> u32 {
        self.opened.runs
    }

    fn label(&self) -> String {
        self.label.clone()
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.disconnect();
        self.password = Some(login.password.clone());
        true
    }

    fn read(&mut self, name: &str) -> Result<ReadResult<String>, BackendError> {
        let reading = self.ask(&Request::Read { name: name.to_owned() }, Reading::from_json)?;
        Ok(ReadResult {
            now: Timestamp(reading.now),
            min_token: reading.floor,
            found: reading.found.map(|(version, record)| (from_stored(record, name), version)),
        })
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&String>) -> Result<WriteResult, BackendError> {
        let write = Request::Write { name: name.to_owned(), version: version.cloned(), record: to_stored(record) };
        self.ask(&write, Written::from_json).map(|written| written.0.into())
    }

    fn remove(&mut self, name: &str, version: &String) -> Result<WriteResult, BackendError> {
        let remove = Request::Remove { name: name.to_owned(), version: version.clone() };
        self.ask(&remove, Removed::from_json).map(|removed| removed.0.into())
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        let begun = Moment::now();
        let mut process = self.connected(begun + self.timeout)?;
        let mut answer = match process.ask_for_many(&Request::List, begun + self.timeout) {
            Ok(answer) => answer,
            Err(failure) => return Err(self.explain(process, failure, false)),
        };
        while let Ok(Item::Lock(name, record)) = self.understood(&answer, Item::from_json) {
            let record = from_stored(record, &name);
            sink(name, record);
            // Each has the time of an answer: a long list is no slow store.
            answer = match process.next(Moment::now() + self.timeout) {
                Ok(answer) => answer,
                Err(failure) => return Err(self.explain(process, failure, false)),
            };
        }
        let is_end = matches!(self.understood(&answer, Item::from_json), Ok(Item::End { .. }));
        if let (true, Err(failure)) = (is_end, process.expect_nothing_more()) {
            return Err(self.explain(process, failure, false));
        }
        let read_end = |value: &Value| match Item::from_json(value)? {
            Item::End { now } => Ok(Timestamp(now)),
            Item::Lock(..) => Ok(Timestamp(0)),
        };
        self.judge(process, &answer, read_end)
    }

    fn disconnect(&mut self) {
        if let Some(process) = self.process.take() {
            process.end();
        }
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        let Made(lines) = self.ask(&Request::Make, Made::from_json)?;
        Ok(lines.iter().map(|line| self.shown(line)).collect())
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        let schema = self.ask(&Request::Schema, Schema::from_json);
        self.disconnect();
        schema.map(|Schema(text)| self.without_password(&text))
    }

    fn try_functions(&mut self) -> Vec<Finding> {
        trial::try_functions(self)
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        match self.probe(report) {
            Ok(reached) => reached,
            Err(error) => {
                // The program reports the store's errors, and may itself fail; neither is a login.
                let subject = match connection_subject(&error) {
                    "login" if self.is_about_the_program(&error) => "provider",
                    "login" if !error.refuses_login => "store",
                    subject => subject,
                };
                report(Finding::from_error(subject, error));
                LockTest::Pointless
            }
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.disconnect();
    }
}

impl From<bool> for WriteResult {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::Conflict }
    }
}

fn from_stored(record: StoredRecord, name: &str) -> Record {
    let run = |run: Run| RunRecord {
        token: run.token,
        name: name.to_owned(),
        host: Holder::parse(&run.owner).host().to_owned(),
        owner: run.owner,
        started_at: run.started_at.map(Timestamp),
        ended_at: run.ended_at.map(Timestamp),
        exit_code: run.exit_code,
        outcome: run.outcome,
    };
    Record {
        owner: record.owner,
        since: record.since.map(Timestamp),
        until: record.until.map(Timestamp),
        set_at: record.set_at.map(Timestamp),
        token: record.token,
        runs: record.runs.into_iter().map(run).collect(),
    }
}

fn to_stored(record: &Record) -> StoredRecord {
    let millis = |time: Option<Timestamp>| time.map(|time| time.0);
    let run = |run: &RunRecord| Run {
        token: run.token,
        owner: run.owner.clone(),
        started_at: millis(run.started_at),
        ended_at: millis(run.ended_at),
        exit_code: run.exit_code,
        outcome: run.outcome.clone(),
    };
    StoredRecord {
        owner: record.owner.clone(),
        since: millis(record.since),
        until: millis(record.until),
        set_at: millis(record.set_at),
        token: record.token,
        runs: record.runs.iter().map(run).collect(),
    }
}

#[cfg(test)]
mod tests {
    crate::backend::testing::conformance::conformance!(servers::stores::ExampleStore::new);

    mod mongodb {
        use serde_json::json;
        use servers::stores::MongoDbStore;

        crate::backend::testing::conformance::conformance!(
            #[ignore = "needs a server: --include-ignored"]
            servers::stores::MongoDbStore::new
        );

        #[test]
        #[ignore = "needs a server: --include-ignored"]
        fn a_removal_waits_until_the_clock_has_passed_the_last_token() {
            let store = MongoDbStore::new();
            crate::backend::testing::conformance::a_removal_waits_until_the_clock_has_passed_the_last_token(
                &store,
                &|token| {
                    let set = json!({"$set": {"shedlock.token": token}});
                    store.command("update", "shedLock", &json!({"updates": [{"q": {"_id": "job"}, "u": set}]}));
                },
            );
        }
    }
}
