//! Keeps the locks of shedlock in MongoDB: a document for each, as the Java library writes it, with fields of shedlock's own.
//!
//! The clock is the server's `localTime`, asked on the connection that reads the document. A write names the values that
//! were read, so that any write in between is a conflict. Nothing here decides when a lock is free: shedlock does, which
//! starts this program and speaks to it by stdin and stdout.

mod address;
mod check;
mod document;
mod errors;
mod lookup;
mod session;
mod tls;
mod url;

use std::process::ExitCode;
use std::time::Duration;

use mongodb::Database;
use mongodb::bson::{Document, doc};
use shedlock_provider::{Class, Finding, Listing, Open, Opened, Reading, Record, Store, StoreError, serve};

use address::Address;
use errors::RequestKind;
use session::{Attempts, Deadline, Session};

/// Number that FerretDB 1 gives to each of its connections.
const FERRETDB_CONNECTION: i32 = 42;

/// Stores records as the documents of a collection.
struct MongoDb {
    address: Address,
    /// The time for a request.
    timeout: Duration,
    session: Option<Session>,
}

impl MongoDb {
    fn deadline(&self) -> Deadline {
        Deadline::new(self.timeout)
    }

    /// Returns the session, made if there is none.
    fn session(&mut self, deadline: Deadline) -> Result<&mut Session, StoreError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::new(&self.address, self.timeout, deadline)?,
        };
        Ok(self.session.insert(session))
    }

    /// Performs an operation on the collection. After an error that is no answer the connection is closed.
    fn ask<T>(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        operation: impl AsyncFnOnce(&Database) -> mongodb::error::Result<T>,
    ) -> Result<T, StoreError> {
        let answer = self.session(deadline)?.ask(kind, deadline, operation);
        answer.map_err(|failure| {
            if failure.is_over {
                self.session = None;
            }
            failure.error
        })
    }

    /// Reads something, anew on another connection after silence.
    fn until_answered<T>(
        &mut self,
        mut read: impl FnMut(&mut Self, Deadline) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut attempts = Attempts::new(self.timeout);
        loop {
            let deadline = attempts.begin();
            match read(self, deadline) {
                Err(error) if error.class == Class::Transient && attempts.met_silence() => self.session = None,
                answer => return answer,
            }
        }
    }

    /// Reads the server's clock, and the description that comes with it. It is `hello` by its old name, which every server knows.
    ///
    /// FerretDB 1 is refused. Only `buildInfo` has its name, but every connection of it has the same number, so no other
    /// server is asked for it, save the one whose connection has that number by chance.
    fn hello(&mut self, deadline: Deadline) -> Result<(u64, Document), StoreError> {
        let command = doc! { "isMaster": 1 };
        let hello = self.ask(RequestKind::Read, deadline, async |database| database.run_command(command).await)?;
        let is_known_server = self.session.as_ref().is_some_and(|session| session.is_known_server);
        if !is_known_server && hello.get_i32("connectionId").is_ok_and(|number| number == FERRETDB_CONNECTION) {
            self.build_info(deadline)?;
            if let Some(session) = &mut self.session {
                session.is_known_server = true;
            }
        }
        Ok((errors::clock(&hello)?, hello))
    }

    /// Reads what the server was built from, and refuses FerretDB 1.
    fn build_info(&mut self, deadline: Deadline) -> Result<Document, StoreError> {
        let command = doc! { "buildInfo": 1 };
        let info = self.ask(RequestKind::Read, deadline, async |database| database.run_command(command).await)?;
        match info.get_str("ferretdbVersion").map(|version| version.trim_start_matches('v')) {
            Ok(version) if version.starts_with("0.") || version.starts_with("1.") => {
                Err(errors::ferretdb(&format!("FerretDB {version}")))
            }
            // Within another program it does not know its version.
            Ok("unknown") => Err(errors::ferretdb("FerretDB of an unknown version")),
            _ => Ok(info),
        }
    }
}

/// Returns the filter that finds the document of a lock if it still has this version.
fn unchanged(name: &str, version: &str) -> Result<Document, StoreError> {
    let found = document::read_version(version);
    let mut found = found.ok_or_else(|| StoreError::permanent("the version is none that this provider wrote"))?;
    found.insert("_id", name);
    Ok(found)
}

impl Store for MongoDb {
    fn open(request: &Open) -> Result<(Self, Opened), StoreError> {
        let address = Address::parse(request)?;
        let opened = Opened { label: address.label.clone(), ..Opened::default() };
        Ok((Self { address, timeout: Duration::from_millis(request.timeout), session: None }, opened))
    }

    fn read(&mut self, name: &str) -> Result<Reading, StoreError> {
        let collection = self.address.collection.clone();
        let (now, found) = self.until_answered(|store, deadline| {
            let (now, _) = store.hello(deadline)?;
            let found = store.ask(RequestKind::Read, deadline, async |database| {
                database.collection::<Document>(&collection).find_one(doc! { "_id": name }).await
            })?;
            Ok((now, found))
        })?;
        let found =
            found.map(|found| (document::write_version(document::version(&found)), document::read_record(&found)));
        Ok(Reading { now, floor: now, found })
    }

    fn write(&mut self, name: &str, version: Option<&str>, record: &Record) -> Result<bool, StoreError> {
        let deadline = Deadline::of_write(self.timeout);
        let collection = self.address.collection.clone();
        let Some(version) = version else {
            let mut made = doc! { "_id": name };
            made.extend(document::fields(record, Some(&document::first_version())));
            return self.ask(RequestKind::Write, deadline, async |database| {
                match database.collection(&collection).insert_one(made).await {
                    Err(error) if errors::is_duplicate(&error) => Ok(false),
                    inserted => inserted.map(|_| true),
                }
            });
        };
        let found = unchanged(name, version)?;
        let set = doc! { "$set": document::fields(record, Some(&found)) };
        let updated = self.ask(RequestKind::Write, deadline, async |database| {
            database.collection::<Document>(&collection).update_one(found, set).await
        })?;
        Ok(updated.matched_count == 1)
    }

    fn remove(&mut self, name: &str, version: &str) -> Result<bool, StoreError> {
        let found = unchanged(name, version)?;
        let collection = self.address.collection.clone();
        let deleted = self.ask(RequestKind::Write, Deadline::of_write(self.timeout), async |database| {
            database.collection::<Document>(&collection).delete_one(found).await
        })?;
        Ok(deleted.deleted_count == 1)
    }

    fn list(&mut self, listing: Listing<'_>) -> Result<u64, StoreError> {
        let deadline = self.deadline();
        let (now, _) = self.until_answered(Self::hello)?;
        let collection = self.address.collection.clone();
        self.ask(RequestKind::Read, deadline, async |database| {
            let mut cursor = database.collection::<Document>(&collection).find(doc! {}).await?;
            while cursor.advance().await? {
                let found: Document = cursor.deserialize_current()?;
                if let Ok(name) = found.get_str("_id") {
                    listing(name, &document::read_record(&found))?;
                }
            }
            Ok(())
        })?;
        Ok(now)
    }

    fn make(&mut self) -> Result<Vec<String>, StoreError> {
        let deadline = self.deadline();
        let collection = self.address.collection.clone();
        // MongoDB 7 creates a collection that is there without an error. A user without further rights may list its own.
        let list = doc! {
            "listCollections": 1,
            "filter": { "name": &collection },
            "nameOnly": true,
            "authorizedCollections": true,
        };
        let listed = self.ask(RequestKind::Read, deadline, async |database| database.run_command(list).await)?;
        let found = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let is_made = match found.is_ok_and(|found| !found.is_empty()) {
            true => false,
            false => self.ask(RequestKind::Write, deadline, async |database| {
                match database.create_collection(&collection).await {
                    Err(error) if errors::is_there(&error) => Ok(false),
                    made => made.map(|()| true),
                }
            })?,
        };
        Ok(vec![match is_made {
            true => format!("created the collection {collection}"),
            false => format!("the collection {collection} is there"),
        }])
    }

    fn schema(&self) -> String {
        self.address.schema()
    }

    fn check(&mut self) -> Vec<Finding> {
        check::findings(self)
    }
}

fn main() -> ExitCode {
    serve::<MongoDb>(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}
