//! A database of a MongoDB.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Run, Shift, Store, Stored, install_mongodb};
use crate::script::Script;
use crate::sockets::connections;
use crate::{MongoDb, mongodb, unique};

/// A database that nobody else uses.
pub struct MongoDbStore {
    port: u16,
    client: Arc<Script>,
    database: String,
}

impl MongoDbStore {
    pub fn new() -> Self {
        Self::of(mongodb())
    }

    pub fn of(server: &MongoDb) -> Self {
        install_mongodb();
        Self { port: server.port(), client: Arc::clone(server.client()), database: unique("test") }
    }

    pub fn database(&self) -> &str {
        &self.database
    }

    /// Carries out a command of the server, in this database.
    #[track_caller]
    pub fn command(&self, name: &str, value: &str, arguments: &Value) {
        self.ask("command", &[json!(name), json!(value), arguments.clone()]);
    }

    /// Gives a lock that is held to another owner, until the same time. The answer is `done` if it was held.
    pub fn try_steal(&self, name: &str, owner: &str) -> Result<String, String> {
        self.try_ask("steal", &[json!(name), json!(owner)]).map(|stolen| stolen.as_str().unwrap_or_default().to_owned())
    }

    /// Frees a lock, as an application of the Java library does that releases too late.
    pub fn try_free(&self, name: &str) -> Result<String, String> {
        self.try_ask("release", &[json!(name), json!(0)]).map(|_| String::new())
    }

    #[track_caller]
    fn ask(&self, operation: &str, arguments: &[Value]) -> Value {
        self.try_ask(operation, arguments).unwrap_or_else(|error| panic!("{operation}: {error}"))
    }

    fn try_ask(&self, operation: &str, arguments: &[Value]) -> Result<Value, String> {
        let request: Vec<Value> =
            [json!(operation), json!(self.database)].into_iter().chain(arguments.iter().cloned()).collect();
        self.client.try_request(&Value::from(request))
    }

    fn write(&self, name: &str, owner: &str, since: i64, until: i64) {
        self.ask("write", &[json!(name), json!(owner), json!(since), json!(until)]);
    }
}

fn millis(duration: Duration) -> Value {
    json!(i64::try_from(duration.as_millis()).unwrap())
}

impl Store for MongoDbStore {
    fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}/{}", self.port, self.database)
    }

    fn in_one_record(&self) -> bool {
        true
    }

    fn java_frees_only_its_own(&self) -> bool {
        false
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let found = self.ask("get", &[json!(name)]);
        let lock = found.get("lock")?;
        Some(Stored {
            owner: lock[0].as_str()?.to_owned(),
            since: lock[1].as_i64().unwrap_or_default(),
            until: lock[2].as_i64()?,
            now: found["now"].as_i64()?,
        })
    }

    fn delete(&self, name: &str) {
        self.ask("delete", &[json!(name)]);
    }

    fn steal(&self, name: &str, owner: &str) {
        let stored = self.stored(name).unwrap();
        self.write(name, owner, stored.since, stored.until);
    }

    fn shift(&self, name: &str, by: Shift) {
        self.ask("shift", &[json!(name), json!(by.millis())]);
    }

    fn connections(&self) -> usize {
        connections(self.port, &self.database)
    }

    fn make_table(&self) {
        self.ask("create", &[]);
    }

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        self.ask("take", &[json!(name), json!(owner), millis(at_most)]) == json!(true)
    }

    fn java_release(&self, name: &str, _: &str, rest: Duration) {
        self.ask("release", &[json!(name), millis(rest)]);
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let found = self.ask("get", &[json!(name)]);
        let runs = found.get("runs").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let read = |run: &Value| {
            let owner = text(&run["owner"]).unwrap();
            Run {
                token: run["token"].as_u64().unwrap(),
                host: owner.split(':').next().unwrap().to_owned(),
                owner,
                started: run["started"].as_i64().unwrap(),
                ended: run["ended"].as_i64(),
                exit_code: run["exitCode"].as_i64(),
                outcome: text(&run["outcome"]),
            }
        };
        runs.iter().map(read).collect()
    }

    fn things(&self) -> Vec<String> {
        let found = self.ask("collections", &[]);
        found.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    }

    fn carry_out(&self, _: &str) {
        self.make_table();
    }
}
