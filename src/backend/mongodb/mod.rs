//! Locks in MongoDB: a document for each lock, as the Java library writes it, with fields of shedlock's own beside.
//!
//! The clock is the server's `localTime`, asked on the connection that reads the document. A write names the values that
//! were read, so that one in between by anybody is a conflict.

mod connect;
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

use super::cas::{CasLocks, CasStore, Read, Record, Take, Written};
use super::network::{self, Host};
use super::probe::{self, Distance, Tell};
use super::{Access, BackendError, Credentials, Finding, Opened, Reached, Url, note_reached};
use crate::system::{Moment, Timestamp};
use connect::{PORT, Place};
use errors::Effect;

/// Number that FerretDB 1 gives to each of its connections.
const FERRETDB_CONNECTION: i32 = 42;

/// The documents of a collection.
pub(super) struct MongoDb {
    place: Place,
    session: Option<Session>,
}

/// The driver and what runs it.
struct Session {
    database: Option<Database>,
    /// Why no server can be reached, as soon as each of them has been tried.
    unreachable: UnboundedReceiver<BackendError>,
    /// Set once the server has been found to be no FerretDB although it looked like one.
    is_vetted: bool,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The driver starts tasks when it goes.
        let _inside = self.runtime.enter();
        self.database = None;
    }
}

impl MongoDb {
    pub(super) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let place = Place::parse(url, access)?;
        let store = Self { place, session: None };
        Ok(Opened::server(CasLocks::new(store), url))
    }

    /// Performs an operation within the time of one attempt. After an error the connection is closed.
    fn ask<T>(
        &mut self,
        effect: Effect,
        operation: impl AsyncFnOnce(&Database) -> ::mongodb::error::Result<T>,
    ) -> Result<T, BackendError> {
        let bound = self.place.hosts.attempts.begin(Moment::now());
        let limit = bound.each(1);
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::new(&self.place, limit)?,
        };
        let Some(database) = &session.database else { return Err(errors::no_runtime("no driver")) };
        let unreachable = &mut session.unreachable;
        let answer = session.runtime.block_on(async {
            let mut operation = pin!(tokio::time::timeout(limit, operation(database)));
            poll_fn(|context| match operation.as_mut().poll(context) {
                Poll::Pending if effect == Effect::Reads => match unreachable.poll_recv(context) {
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
                note_reached();
                self.place.hosts.attempts.succeeded();
                self.session = Some(session);
                return Ok(answer);
            }
            Ok(Ok(Err(error))) if errors::is_answer(&error) => {
                self.place.hosts.attempts.succeeded();
                self.session = Some(session);
                return Err(errors::explain(&error, effect));
            }
            Ok(Ok(Err(error))) => errors::explain(&error, effect),
            Ok(Err(_)) if effect == Effect::Writes => network::said_nothing().ambiguous(),
            Ok(Err(_)) => network::said_nothing(),
        };
        self.place.hosts.attempts.failed(bound, Moment::now());
        Err(failure)
    }

    /// Reads the server's clock, and what else it says of itself. It is `hello` by its old name, which every server knows.
    ///
    /// FerretDB 1 is refused. Only `buildInfo` tells its name, but every connection of it has the same number, so no other
    /// server is asked for it, save the one whose connection has that number by chance.
    fn hello(&mut self) -> Result<(Timestamp, Document), BackendError> {
        let hello = self.ask(Effect::Reads, async |database| database.run_command(doc! { "isMaster": 1 }).await)?;
        let is_vetted = self.session.as_ref().is_some_and(|session| session.is_vetted);
        if !is_vetted && hello.get_i32("connectionId").is_ok_and(|number| number == FERRETDB_CONNECTION) {
            self.build_info()?;
            if let Some(session) = &mut self.session {
                session.is_vetted = true;
            }
        }
        Ok((errors::clock(&hello)?, hello))
    }

    /// Reads what the server was built from, and refuses FerretDB 1.
    fn build_info(&mut self) -> Result<Document, BackendError> {
        let info = self.ask(Effect::Reads, async |database| database.run_command(doc! { "buildInfo": 1 }).await)?;
        match info.get_str("ferretdbVersion").map(|version| version.trim_start_matches('v')) {
            Ok(version) if version.starts_with("0.") || version.starts_with("1.") => Err(errors::ferretdb(version)),
            _ => Ok(info),
        }
    }

    fn probe(&mut self, tell: Tell<'_>) -> Result<Reached, BackendError> {
        let hosts: &[Host] = &self.place.hosts.all;
        let distance = probe::hosts(hosts, PORT, self.place.patience, |host| host.name.clone().into(), tell);
        if distance == Distance::Unreached {
            return Ok(Reached::No);
        }
        self.place.hosts.attempts.make_one();
        let (_, hello) = self.hello()?;
        tell(probe::tls(self.place.tls.as_ref(), self.place.tls.is_some().then_some("TLS"), distance));
        let info = self.build_info()?;
        tell(Finding::good("server", format!("version {}", info.get_str("version").unwrap_or("unknown"))));
        tell(match hello.get_str("setName") {
            Ok(set) => Finding::good("replicas", format!("replica set {set}; writes wait for a majority")),
            Err(_) => Finding::unwise(
                "replicas",
                "a single server: while it is down, nobody gets a lock",
                "use a replica set of three members",
            ),
        });
        // Reading shows whether the login is good and the user may read.
        self.list(&mut |_, _| {})?;
        tell(Finding::good(
            "login",
            match &self.place.login {
                Some((user, _)) => format!("as {user}"),
                None => "without a user".to_owned(),
            },
        ));
        probe::clock(|| self.hello().map(|(now, _)| now.0 * 1000), tell)?;
        Ok(Reached::Yes)
    }
}

impl Session {
    fn new(place: &Place, limit: Duration) -> Result<Self, BackendError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| errors::no_runtime(&error.to_string()))?;
        place.hosts.all.iter().for_each(Host::prepare_lookup);
        let (tell, unreachable) = unbounded_channel();
        let database = {
            let _inside = runtime.enter();
            let (mut options, _files) = place.options(limit)?;
            let has_certificate = place.tls.as_ref().is_some_and(|tls| tls.identity.is_some());
            options.sdam_event_handler = Some(EventHandler::callback(move |event| {
                // The other end is gone with the session.
                let _ = errors::unreachable(&event, has_certificate).map(|why| tell.send(why));
            }));
            let client = ::mongodb::Client::with_options(options);
            client.map_err(|error| errors::explain(&error, Effect::Reads))?.database(&place.database)
        };
        Ok(Self { database: Some(database), unreachable, is_vetted: false, runtime })
    }
}

impl CasStore for MongoDb {
    /// The values that a write has to find unchanged.
    type Version = Document;

    const GRAIN: Duration = Duration::from_millis(1);

    fn label(&self) -> String {
        self.place.label.clone()
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.session = None;
        self.place.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.place.login.is_some()
    }

    fn read(&mut self, name: &str) -> Result<Read<Document>, BackendError> {
        let (now, _) = self.hello()?;
        let collection = self.place.collection.clone();
        let found = self.ask(Effect::Reads, async |database| {
            database.collection::<Document>(&collection).find_one(doc! { "_id": name }).await
        })?;
        let found = found.map(|found| (document::record(&found, name), document::version(&found)));
        Ok(Read { now, floor: now.0, found })
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&Document>) -> Result<Written, BackendError> {
        let fields = document::fields(record, version);
        let collection = self.place.collection.clone();
        let Some(version) = version else {
            let mut made = doc! { "_id": name };
            made.extend(fields);
            let inserted = self.ask(Effect::Writes, async |database| {
                match database.collection(&collection).insert_one(made).await {
                    Err(error) if errors::is_duplicate(&error) => Ok(Written::Conflict),
                    inserted => inserted.map(|_| Written::Done),
                }
            });
            return inserted;
        };
        let mut found = version.clone();
        found.insert("_id", name);
        let updated = self.ask(Effect::Writes, async |database| {
            database.collection::<Document>(&collection).update_one(found, doc! { "$set": fields }).await
        })?;
        Ok(if updated.matched_count == 1 { Written::Done } else { Written::Conflict })
    }

    fn remove(&mut self, name: &str, version: &Document) -> Result<Written, BackendError> {
        let collection = self.place.collection.clone();
        let mut found = version.clone();
        found.insert("_id", name);
        let deleted = self.ask(Effect::Writes, async |database| {
            database.collection::<Document>(&collection).delete_one(found).await
        })?;
        Ok(if deleted.deleted_count == 1 { Written::Done } else { Written::Conflict })
    }

    fn list(&mut self, take: Take<'_>) -> Result<Timestamp, BackendError> {
        let (now, _) = self.hello()?;
        let collection = self.place.collection.clone();
        self.ask(Effect::Reads, async |database| {
            let mut cursor = database.collection::<Document>(&collection).find(doc! {}).await?;
            while cursor.advance().await? {
                let found: Document = cursor.deserialize_current()?;
                if let Ok(name) = found.get_str("_id") {
                    take(name.to_owned(), document::record(&found, name));
                }
            }
            Ok(())
        })?;
        Ok(now)
    }

    fn disconnect(&mut self) {
        self.session = None;
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        let collection = self.place.collection.clone();
        // MongoDB 7 creates a collection that is there without an error. A user without further rights may list its own.
        let list = doc! {
            "listCollections": 1,
            "filter": { "name": &collection },
            "nameOnly": true,
            "authorizedCollections": true,
        };
        let listed = self.ask(Effect::Reads, async |database| database.run_command(list).await)?;
        let found = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let made = match found.is_ok_and(|found| !found.is_empty()) {
            true => false,
            false => {
                self.ask(Effect::Writes, async |database| match database.create_collection(&collection).await {
                    Err(error) if errors::is_there(&error) => Ok(false),
                    made => made.map(|()| true),
                })?
            }
        };
        let name = &self.place.collection;
        Ok(vec![if made {
            format!("created the collection {name}")
        } else {
            format!("the collection {name} is there")
        }])
    }

    fn schema(&self) -> String {
        self.place.schema()
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        match self.probe(tell) {
            Ok(reached) => reached,
            Err(error) => {
                tell(Finding::of_trouble(probe::subject(&error), error));
                Reached::No
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use servers::stores::MongoDbStore;

    crate::backend::conformance::conformance!(servers::stores::MongoDbStore::new);

    #[test]
    fn a_removal_waits_until_the_clock_has_passed_the_last_token() {
        let store = MongoDbStore::new();
        crate::backend::conformance::a_removal_waits_until_the_clock_has_passed_the_last_token(&store, &|token| {
            let set = json!({"$set": {"shedlock.token": token}});
            store.command("update", "shedLock", &json!({"updates": [{"q": {"_id": "job"}, "u": set}]}));
        });
    }
}
