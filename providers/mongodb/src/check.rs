//! Checks a MongoDB for `shedlock check`. Clock and round trip are measured by shedlock.

use std::net::SocketAddr;
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::ServerAddress;
use shedlock_provider::{Class, Finding, Grade, StoreError};
use tokio::net::TcpStream;

use crate::MongoDb;
use crate::address::is_name;
use crate::errors::{RequestKind, error_text};

/// The part of the time for finding out which servers answer.
const ADDRESS_TIME_SHARE: f64 = 0.4;

const NOT_REACHED: &str =
    "check that the server is running, that host and port are right, and that no firewall is in between";

/// Returns the findings, the last of which is bad if it cannot be locked here.
pub(crate) fn findings(store: &mut MongoDb) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = probe(store, &mut findings) {
        let has = |part| error.error.contains(part);
        let subject = match has("TLS") || has("certificate") {
            true => "TLS",
            false if has("the DNS") => "address",
            false => "login",
        };
        let passes = "it may be temporary: try again, and check that the backend is healthy";
        let advice = error.hint.or_else(|| (error.class != Class::Permanent).then(|| passes.to_owned()));
        findings.push(Finding { grade: Grade::Bad, subject: subject.to_owned(), text: error.error, advice });
    }
    findings
}

fn probe(store: &mut MongoDb, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let deadline = store.deadline();
    let session = store.session(deadline)?;
    let limit = deadline.left().mul_f64(ADDRESS_TIME_SHARE);
    let reached = session.perform(connect_to_all(session.hosts.clone(), limit)).unwrap_or_default();
    let (answering, count) = (reached.iter().flatten().count(), reached.len());
    let is_here = reached.iter().flatten().all(|(_, address)| address.ip().is_loopback());
    findings.extend(reached.into_iter().map(|host| match host {
        Ok((text, _)) => good("address", text),
        Err(text) if count > 1 => unwise("address", text, NOT_REACHED),
        Err(text) => bad("address", text, NOT_REACHED),
    }));
    if answering == 0 {
        if count > 1 {
            let advice = "check that the servers are running, and the network in between";
            findings.push(bad("address", "no host answers", advice));
        }
        return Ok(());
    }
    let (_, hello) = store.hello(deadline)?;
    findings.push(match &store.address.tls {
        Some(tls) if tls.verifies => good("TLS", "TLS; the server's certificate and name are verified"),
        Some(_) => unwise(
            "TLS",
            "TLS, but the server is not verified: an attacker in between could pose as it",
            "use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
        ),
        None if is_here => good("TLS", "off; the connection stays on this host"),
        None => unwise(
            "TLS",
            "off: the password and the locks cross the network unencrypted",
            "turn on TLS on the server, and use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
        ),
    });
    let info = store.build_info(deadline)?;
    findings.push(good("server", format!("version {}", info.get_str("version").unwrap_or("unknown"))));
    findings.push(match (hello.get_str("setName"), hello.get_str("msg")) {
        (Ok(set), _) => good("replicas", format!("replica set {set}; writes wait for a majority")),
        (_, Ok("isdbgrid")) => good("replicas", "a sharded cluster; writes wait for a majority"),
        _ => unwise(
            "replicas",
            "a single server: while it is down, nobody gets a lock",
            "use a replica set of three members",
        ),
    });
    // Reading shows whether the login is good and the user may read.
    let collection = store.address.collection.clone();
    store.ask(RequestKind::Read, deadline, async |database| {
        database.collection::<Document>(&collection).find_one(doc! {}).await
    })?;
    let user = match (&store.address.user, &store.address.mechanism) {
        (Some(user), _) => format!("as {user}"),
        (None, Some(_)) => "by the client's certificate".to_owned(),
        (None, None) => "without a user".to_owned(),
    };
    findings.push(good("login", user));
    Ok(())
}

/// Says of a host that it answers, with its address, or that it does not.
type Reached = Result<(String, SocketAddr), String>;

/// Connects to all hosts at once, and disconnects.
async fn connect_to_all(hosts: Vec<ServerAddress>, limit: Duration) -> Vec<Reached> {
    let tasks: Vec<_> = hosts.into_iter().map(|host| tokio::spawn(connect(host, limit))).collect();
    let mut reached = Vec::new();
    for task in tasks {
        reached.extend(task.await);
    }
    reached
}

async fn connect(host: ServerAddress, limit: Duration) -> Reached {
    let why = match tokio::time::timeout(limit, TcpStream::connect(host.to_string())).await {
        Ok(Ok(stream)) => match stream.peer_addr() {
            Ok(address) if is_name(&host) => return Ok((format!("{host}, which is {address}, answers"), address)),
            Ok(address) => return Ok((format!("{address} answers"), address)),
            Err(error) => error,
        },
        Ok(Err(error)) if error.to_string().starts_with("failed to lookup address") => {
            return Err(format!("{host} has no address"));
        }
        Ok(Err(error)) => error,
        Err(_) => return Err(format!("{host} does not answer in time")),
    };
    Err(format!("{host} does not answer: {}", error_text(&why)))
}

fn good(subject: &str, text: impl Into<String>) -> Finding {
    Finding { grade: Grade::Good, subject: subject.to_owned(), text: text.into(), advice: None }
}

fn unwise(subject: &str, text: impl Into<String>, advice: &str) -> Finding {
    Finding { grade: Grade::Unwise, ..bad(subject, text, advice) }
}

fn bad(subject: &str, text: impl Into<String>, advice: &str) -> Finding {
    let advice = Some(advice.to_owned());
    Finding { grade: Grade::Bad, subject: subject.to_owned(), text: text.into(), advice }
}
