//! The life of a provider: requests in, answers out, until stdin ends.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::PROTOCOL;
use crate::answer::{Finding, Item, Made, Opened, Reading, Removed, Schema, StoreError, Written};
use crate::record::Record;
use crate::request::{Open, Request};

/// Receives each lock's name and record.
pub type Listing<'a> = &'a mut dyn FnMut(&str, &Record) -> io::Result<()>;

/// Keeps records. It connects when it has to, decides nothing, and never tries again: shedlock does.
pub trait Store: Sized {
    /// Reads the URL; need not reach the store yet.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the URL.
    fn open(request: &Open) -> Result<(Self, Opened), StoreError>;

    /// Reads the record of a lock with its version, and the store's clock at the same time or before.
    ///
    /// # Errors
    ///
    /// Says why the store does not answer.
    fn read(&mut self, name: &str) -> Result<Reading, StoreError>;

    /// Writes a record if the store still has this version, or no record if it is `None`, in one atomic step. False: it
    /// has another one.
    ///
    /// # Errors
    ///
    /// Says why, and by [`StoreError::sent`] that the record may have been written all the same.
    fn write(&mut self, name: &str, version: Option<&str>, record: &Record) -> Result<bool, StoreError>;

    /// Removes a record if the store still has this version, in one atomic step. False: it has another one, or none.
    ///
    /// # Errors
    ///
    /// Says why, and by [`StoreError::sent`] that the record may have been removed all the same.
    fn remove(&mut self, name: &str, version: &str) -> Result<bool, StoreError>;

    /// Passes on all records, and returns the store's clock of before.
    ///
    /// # Errors
    ///
    /// Says why the store does not answer.
    fn list(&mut self, listing: Listing<'_>) -> Result<u64, StoreError>;

    /// Creates what the store needs, and returns a line for each thing.
    ///
    /// # Errors
    ///
    /// Says why it could not be created.
    fn make(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns what a person would do to create it, without reaching the store.
    fn schema(&self) -> String {
        "Nothing has to be created.\n".to_owned()
    }

    /// Returns findings about the store, for `shedlock check`.
    fn check(&mut self) -> Vec<Finding> {
        Vec::new()
    }
}

/// Answers requests from stdin on stdout until stdin ends. `--version` as an argument prints name and version instead.
#[must_use]
pub fn serve<S: Store>(name: &str, version: &str) -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "--version") {
        println!("{name} {version}");
        return ExitCode::SUCCESS;
    }
    let input = io::stdin().lock();
    if input.is_terminal() {
        eprintln!("{name}: shedlock starts this program; try it with `shedlock prove --backend URL`");
        return ExitCode::from(2);
    }
    match answer_all::<S>(input, io::BufWriter::new(io::stdout().lock()), &format!("{name} {version}")) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody is there any more to read an answer.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_all<S: Store>(mut input: impl BufRead, mut output: impl Write, version: &str) -> io::Result<()> {
    let mut store: Option<S> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let last = match serde_json::from_slice(&line) {
            Ok(request) => answer(&mut store, &request, &mut output, version)?,
            Err(error) => StoreError::permanent(format!("the request is no JSON: {error}")).to_json(),
        };
        write_line(&mut output, &last)?;
        output.flush()?;
    }
}

/// Carries out a request, writes all but the last line of the answer, and returns that.
fn answer<S: Store>(
    store: &mut Option<S>,
    request: &Value,
    output: &mut impl Write,
    version: &str,
) -> io::Result<Value> {
    let request = match Request::from_json(request) {
        Ok(request) => request,
        Err(why) => return Ok(StoreError::permanent(format!("the request is not understood: {why}")).to_json()),
    };
    let result = match (&request, store.as_mut()) {
        (Request::Open(open), _) if open.protocol != PROTOCOL => {
            Err(StoreError::permanent(format!("the provider speaks protocol {PROTOCOL}, and not {}", open.protocol))
                .hint("install a provider and a shedlock that fit each other"))
        }
        (Request::Open(open), _) => S::open(open).map(|(opened, answer)| {
            *store = Some(opened);
            Opened { version: answer.version.or_else(|| Some(version.to_owned())), ..answer }.to_json()
        }),
        (_, None) => Err(StoreError::permanent("the first request has to be `open`")),
        (Request::Read { name }, Some(store)) => store.read(name).map(|reading| reading.to_json()),
        (Request::Write { name, version, record }, Some(store)) => {
            store.write(name, version.as_deref(), record).map(|written| Written(written).to_json())
        }
        (Request::Remove { name, version }, Some(store)) => {
            store.remove(name, version).map(|removed| Removed(removed).to_json())
        }
        (Request::List, Some(store)) => {
            let mut listing = |name: &str, record: &Record| {
                write_line(output, &Item::Lock(name.to_owned(), record.clone()).to_json())
            };
            store.list(&mut listing).map(|now| Item::End { now }.to_json())
        }
        (Request::Make, Some(store)) => store.make().map(|made| Made(made).to_json()),
        (Request::Schema, Some(store)) => Ok(Schema(store.schema()).to_json()),
        (Request::Check, Some(store)) => Ok(Finding::all_to_json(&store.check())),
    };
    Ok(result.unwrap_or_else(|error| error.to_json()))
}

fn write_line(output: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Keeps one record, whose version counts its writes.
    #[derive(Default)]
    struct One {
        record: Option<Record>,
        writes: u64,
    }

    impl Store for One {
        fn open(request: &Open) -> Result<(Self, Opened), StoreError> {
            Ok((Self::default(), Opened { label: request.url.clone(), ..Opened::default() }))
        }

        fn read(&mut self, _: &str) -> Result<Reading, StoreError> {
            let found = self.record.clone().map(|record| (self.writes.to_string(), record));
            Ok(Reading { now: 5, floor: 0, found })
        }

        fn write(&mut self, _: &str, version: Option<&str>, record: &Record) -> Result<bool, StoreError> {
            let is = self.record.as_ref().map(|_| self.writes.to_string());
            let fits = is.as_deref() == version;
            if fits {
                self.record = Some(record.clone());
                self.writes += 1;
            }
            Ok(fits)
        }

        fn remove(&mut self, _: &str, _: &str) -> Result<bool, StoreError> {
            Err(StoreError::permanent("may not be removed").hint("ask somebody else").sent().refusing_login())
        }

        fn list(&mut self, listing: Listing<'_>) -> Result<u64, StoreError> {
            if let Some(record) = &self.record {
                listing("a", record).map_err(|error| StoreError::transient(error.to_string()))?;
            }
            Ok(6)
        }
    }

    fn answers(requests: &[Value]) -> Vec<Value> {
        let input: String = requests.iter().map(|request| format!("{request}\n")).collect();
        let mut output = Vec::new();
        answer_all::<One>(input.as_bytes(), &mut output, "one 1.0").unwrap();
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn open() -> Value {
        json!({"op": "open", "protocol": 1, "url": "one:x", "password": null, "timeout": 1000, "later": 1})
    }

    #[test]
    fn each_request_is_answered_in_order() {
        let run =
            json!({"token": 3, "owner": "h:1:a", "started_at": 1, "ended_at": null, "exit_code": -1, "outcome": null});
        let record = json!({"owner": "h:1:a", "since": 1, "until": null, "set_at": 1, "token": 3, "runs": [run]});
        let write = json!({"op": "write", "name": "a", "version": null, "record": record});
        let said = answers(&[
            open(),
            json!({"op": "read", "name": "a"}),
            write.clone(),
            write,
            json!({"op": "read", "name": "a"}),
            json!({"op": "list"}),
            json!({"op": "remove", "name": "a", "version": "1"}),
            json!({"op": "make"}),
            json!({"op": "check"}),
        ]);
        let expected = [
            json!({"label": "one:x", "grain": 1, "runs": 100, "version": "one 1.0"}),
            json!({"now": 5, "floor": 0, "version": null, "record": null}),
            json!({"written": true}),
            json!({"written": false}),
            json!({"now": 5, "floor": 0, "version": "1", "record": record}),
            json!({"name": "a", "record": record}),
            json!({"now": 6}),
            json!({"error": "may not be removed", "class": "permanent", "sent": true, "hint": "ask somebody else", "login_refused": true}),
            json!({"made": []}),
            json!({"findings": []}),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_no_request_is_a_permanent_error_and_the_next_is_answered() {
        let said = answers(&[
            json!({"op": "read", "name": "a"}),
            json!(5),
            json!({"op": "dance"}),
            json!({"op": "open", "protocol": 2, "url": "one:x", "password": null, "timeout": 1}),
            open(),
            json!({"op": "write", "name": "a", "version": null, "record": {"owner": 5}}),
        ]);
        let errors: Vec<&str> = said.iter().map(|answer| answer["error"].as_str().unwrap_or_default()).collect();
        assert_eq!(
            errors,
            [
                "the first request has to be `open`",
                "the request is not understood: it is no object",
                "the request is not understood: its op `dance` is unknown",
                "the provider speaks protocol 1, and not 2",
                "",
                "the request is not understood: of `record`, its `owner` is no text",
            ]
        );
        assert!(said.iter().all(|answer| answer["class"] == "permanent" || answer["label"] == "one:x"));
    }
}
