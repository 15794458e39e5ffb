//! MongoDB as a store of records: a document for each lock, as the Java library writes it, with fields of shedlock's own.
//!
//! The clock is the server's `localTime`, asked on the connection that reads the document. A write names the values that
//! were read, so that any write in between is a conflict. Nothing here decides when a lock is free.

mod address;
mod document;
mod errors;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::mongodb::Database;
use ::mongodb::bson::{Document, doc};
use ::mongodb::event::EventHandler;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::backend::net::network::{self, Host};
use crate::backend::record::engine::{ReadResult, Record, RecordLocks, RecordSink, RecordStore, WriteResult};
use crate::backend::{Access, Credentials, Finding, LockTest, Opened, Url};
use crate::lock::BackendError;
use crate::system::{Moment, Timestamp};
use address::{DatabaseAddress, PORT};
use errors::RequestKind;

/// Number that FerretDB 1 gives to each of its connections.
const FERRETDB_CONNECTION: i32 = 42;

/// Stores records as the documents of a collection.
pub(crate) struct MongoDb {
    address: DatabaseAddress,
    session: Option<Session>,
}

/// Holds the driver, with the runtime that runs it.
struct Session {
    database: Option<Database>,
    /// Receives the reason why no server can be reached, once each of them has been tried.
    unreachable: UnboundedReceiver<BackendError>,
    /// Set once the server has been found to be no FerretDB although it looked like one.
    is_known_server: bool,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The driver starts tasks when it is dropped.
        let _inside = self.runtime.enter();
        self.database = None;
    }
}

impl MongoDb {
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let address = DatabaseAddress::parse(url, access)?;
        let store = Self { address, session: None };
        Ok(Opened::server(RecordLocks::new(store), url, access))
    }

    /// Performs an operation within the time of one attempt. After an error the connection is closed.
    fn ask<T>(
        &mut self,
        kind: RequestKind,
        operation: impl AsyncFnOnce(&Database) -> ::mongodb::error::Result<T>,
    ) -> Result<T, BackendError> {
        let bound = self.address.hosts.attempts.begin(Moment::now());
        let limit = bound.each(1);
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::new(&self.address, limit)?,
        };
        let Some(database) = &session.database else { return Err(errors::no_runtime("no driver")) };
        let unreachable = &mut session.unreachable;
        let answer = session.runtime.block_on(async {
            let mut operation = pin!(tokio::time::timeout(limit, operation(database)));
            poll_fn(|context| match operation.as_mut().poll(context) {
                Poll::Pending if kind == RequestKind::Read => match unreachable.poll_recv(context) {
                    Poll::Ready(Some(why)) => Poll::Ready(Err(why)),
                    _ => Poll::Pending,
                },
                operation => operation.map(Ok),
            })
            .await
        });
        let failure = match answer {
            Err(why) => why,
            Ok(Ok(Ok(answer))) => {
                self.address.contact.reached();
                self.address.hosts.attempts.succeeded();
                self.session = Some(session);
                return Ok(answer);
            }
            Ok(Ok(Err(error))) if errors::is_answer(&error) => {
                self.address.hosts.attempts.succeeded();
                self.session = Some(session);
                return Err(errors::explain(&error, kind));
            }
            Ok(Ok(Err(error))) => errors::explain(&error, kind),
            Ok(Err(_)) if kind == RequestKind::Write => network::said_nothing().ambiguous(),
            Ok(Err(_)) => network::said_nothing(),
        };
        self.address.hosts.attempts.failed(bound, Moment::now());
        Err(failure)
    }

    /// Reads the server's clock, and the description that comes with it. It is `hello` by its old name, which every server knows.
    ///
    /// FerretDB 1 is refused. Only `buildInfo` has its name, but every connection of it has the same number, so no other
    /// server is asked for it, save the one whose connection has that number by chance.
    fn hello(&mut self) -> Result<(Timestamp, Document), BackendError> {
        let hello = self.ask(RequestKind::Read, async |database| database.run_command(doc! { "isMaster": 1 }).await)?;
        let is_known_server = self.session.as_ref().is_some_and(|session| session.is_known_server);
        if !is_known_server && hello.get_i32("connectionId").is_ok_and(|number| number == FERRETDB_CONNECTION) {
            self.build_info()?;
            if let Some(session) = &mut self.session {
                session.is_known_server = true;
            }
        }
        Ok((errors::clock(&hello)?, hello))
    }

    /// Reads what the server was built from, and refuses FerretDB 1.
    fn build_info(&mut self) -> Result<Document, BackendError> {
        let info = self.ask(RequestKind::Read, async |database| database.run_command(doc! { "buildInfo": 1 }).await)?;
        match info.get_str("ferretdbVersion").map(|version| version.trim_start_matches('v')) {
            Ok(version) if version.starts_with("0.") || version.starts_with("1.") => {
                Err(errors::ferretdb(&format!("FerretDB {version}")))
            }
            // Within another program it does not know its version.
            Ok("unknown") => Err(errors::ferretdb("FerretDB of an unknown version")),
            _ => Ok(info),
        }
    }

    fn probe(&mut self, report: FindingSink<'_>) -> Result<LockTest, BackendError> {
        let hosts: &[Host] = &self.address.hosts.all;
        let distance = diagnose::hosts(hosts, PORT, self.address.timeout, |host| host.name.clone().into(), report);
        if distance == Distance::Unreached {
            return Ok(LockTest::Pointless);
        }
        self.address.hosts.attempts.make_one();
        let (_, hello) = self.hello()?;
        report(diagnose::tls(self.address.tls.as_ref(), self.address.tls.is_some().then_some("TLS"), distance));
        let info = self.build_info()?;
        report(Finding::good("server", format!("version {}", info.get_str("version").unwrap_or("unknown"))));
        report(match hello.get_str("setName") {
            Ok(set) => Finding::good("replicas", format!("replica set {set}; writes wait for a majority")),
            Err(_) => Finding::unwise(
                "replicas",
                "a single server: while it is down, nobody gets a lock",
                "use a replica set of three members",
            ),
        });
        // Reading shows whether the login is good and the user may read.
        self.list(&mut |_, _| {})?;
        report(Finding::good(
            "login",
            match &self.address.login {
                Some((user, _)) => format!("as {user}"),
                None => "without a user".to_owned(),
            },
        ));
        diagnose::clock(|| self.hello().map(|(now, _)| now.0 * 1000), report)?;
        Ok(LockTest::Possible)
    }
}

impl Session {
    fn new(address: &DatabaseAddress, limit: Duration) -> Result<Self, BackendError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| errors::no_runtime(&error.to_string()))?;
        address.hosts.all.iter().for_each(Host::prepare_lookup);
        let (report, unreachable) = unbounded_channel();
        let database = {
            let _inside = runtime.enter();
            let (mut options, _files) = address.options(limit)?;
            let has_certificate = address.tls.as_ref().is_some_and(|tls| tls.identity.is_some());
            options.sdam_event_handler = Some(EventHandler::callback(move |event| {
                // The other end is gone with the session.
                let _ = errors::unreachable(&event, has_certificate).map(|why| report.send(why));
            }));
            let client = ::mongodb::Client::with_options(options);
            client.map_err(|error| errors::explain(&error, RequestKind::Read))?.database(&address.database)
        };
        Ok(Self { database: Some(database), unreachable, is_known_server: false, runtime })
    }
}

impl RecordStore for MongoDb {
    /// Holds the values that a write has to find unchanged.
    type Version = Document;

    fn label(&self) -> String {
        self.address.label.clone()
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.session = None;
        self.address.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.address.login.is_some()
    }

    fn read(&mut self, name: &str) -> Result<ReadResult<Document>, BackendError> {
        let (now, _) = self.hello()?;
        let collection = self.address.collection.clone();
        let found = self.ask(RequestKind::Read, async |database| {
            database.collection::<Document>(&collection).find_one(doc! { "_id": name }).await
        })?;
        let found = found.map(|found| (document::read_record(&found, name), document::version(&found)));
        Ok(ReadResult { now, min_token: now.0, found })
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&Document>) -> Result<WriteResult, BackendError> {
        let fields = document::fields(record, version);
        let collection = self.address.collection.clone();
        let Some(version) = version else {
            let mut made = doc! { "_id": name };
            made.extend(fields);
            let inserted = self.ask(RequestKind::Write, async |database| {
                match database.collection(&collection).insert_one(made).await {
                    Err(error) if errors::is_duplicate(&error) => Ok(WriteResult::Conflict),
                    inserted => inserted.map(|_| WriteResult::Done),
                }
            });
            return inserted;
        };
        let mut found = version.clone();
        found.insert("_id", name);
        let updated = self.ask(RequestKind::Write, async |database| {
            database.collection::<Document>(&collection).update_one(found, doc! { "$set": fields }).await
        })?;
        Ok(if updated.matched_count == 1 { WriteResult::Done } else { WriteResult::Conflict })
    }

    fn remove(&mut self, name: &str, version: &Document) -> Result<WriteResult, BackendError> {
        let collection = self.address.collection.clone();
        let mut found = version.clone();
        found.insert("_id", name);
        let deleted = self.ask(RequestKind::Write, async |database| {
            database.collection::<Document>(&collection).delete_one(found).await
        })?;
        Ok(if deleted.deleted_count == 1 { WriteResult::Done } else { WriteResult::Conflict })
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        let (now, _) = self.hello()?;
        let collection = self.address.collection.clone();
        self.ask(RequestKind::Read, async |database| {
            let mut cursor = database.collection::<Document>(&collection).find(doc! {}).await?;
            while cursor.advance().await? {
                let found: Document = cursor.deserialize_current()?;
                if let Ok(name) = found.get_str("_id") {
                    sink(name.to_owned(), document::read_record(&found, name));
                }
            }
            Ok(())
        })?;
        Ok(now)
    }

    fn disconnect(&mut self) {
        self.session = None;
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        let collection = self.address.collection.clone();
        // MongoDB 7 creates a collection that is there without an error. A user without further rights may list its own.
        let list = doc! {
            "listCollections": 1,
            "filter": { "name": &collection },
            "nameOnly": true,
            "authorizedCollections": true,
        };
        let listed = self.ask(RequestKind::Read, async |database| database.run_command(list).await)?;
        let found = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let made = match found.is_ok_and(|found| !found.is_empty()) {
            true => false,
            false => {
                self.ask(RequestKind::Write, async |database| match database.create_collection(&collection).await {
                    Err(error) if errors::is_there(&error) => Ok(false),
                    made => made.map(|()| true),
                })?
            }
        };
        let name = &self.address.collection;
        Ok(vec![if made {
            format!("created the collection {name}")
        } else {
            format!("the collection {name} is there")
        }])
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(self.address.schema())
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        match self.probe(report) {
            Ok(reached) => reached,
            Err(error) => {
                report(Finding::from_error(diagnose::connection_subject(&error), error));
                LockTest::Pointless
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
