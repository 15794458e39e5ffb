//! The locks of the example provider at the other end of a connection.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::example::install_text;
use super::{ExampleStore, Run, Shift, Store, Stored};
use crate::sockets::processes_with;
use crate::{Wire, unique, wire};

/// The file name of the provider that leads there.
const PROGRAM: &str = "shedlock-provider-wire";
const TEXT: &str = include_str!("../wire.pl");

/// A directory of the example's that nobody else uses, which is reached through a port.
pub struct WireStore {
    port: u16,
    /// As it is seen on this host.
    directory: ExampleStore,
}

/// Puts the provider where shedlock looks first.
pub fn install_wire() {
    install_text(PROGRAM, TEXT);
}

impl WireStore {
    pub fn new() -> Self {
        Self::of(wire())
    }

    pub fn of(wire: &Wire) -> Self {
        install_wire();
        let locks = wire.path().join(unique("locks"));
        Self { port: wire.port(), directory: ExampleStore::at(&locks) }
    }

    fn locks(&self) -> &Path {
        self.directory.locks()
    }
}

impl Store for WireStore {
    fn url(&self) -> String {
        format!("wire://127.0.0.1:{}{}", self.port, self.locks().display())
    }

    fn in_one_record(&self) -> bool {
        true
    }

    fn starts_programs(&self) -> bool {
        true
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let stored = self.directory.stored(name)?;
        // Its clock may have been moved.
        let answer = Wire::ask(self.port, &self.locks().display().to_string(), &json!({"op": "read", "name": ""}));
        Some(Stored { now: answer["now"].as_i64().unwrap(), ..stored })
    }

    fn delete(&self, name: &str) {
        self.directory.delete(name);
    }

    fn steal(&self, name: &str, owner: &str) {
        self.directory.steal(name, owner);
    }

    fn shift(&self, name: &str, by: Shift) {
        self.directory.shift(name, by);
    }

    fn connections(&self) -> usize {
        processes_with(PROGRAM, &self.url())
    }

    fn make_table(&self) {
        self.directory.make_table();
    }

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        self.directory.java_take(name, owner, at_most)
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        self.directory.java_release(name, owner, rest);
    }

    fn history(&self, name: &str) -> Vec<Run> {
        self.directory.history(name)
    }

    fn things(&self) -> Vec<String> {
        self.directory.things()
    }

    fn carry_out(&self, _: &str) {
        self.make_table();
    }
}
