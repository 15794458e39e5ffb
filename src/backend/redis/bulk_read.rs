//! Bulk reads on all servers: the keys that contain a text, and their values. They need read rights only. A cluster's
//! replicas redirect to their masters; only a script can tell whether a lone server is a replica.

use std::collections::{BTreeMap, BTreeSet};

use ::redis::{Cmd, Value, cmd, from_redis_value};

use super::client::{Asking, Client, REDIRECTIONS, redirect_target, redirection};
use super::connection::{Connection, Peer};
use super::errors;
use crate::backend::net::bounds::LISTING_BYTES;
use crate::backend::net::network::Host;
use crate::lock::BackendError;

/// Number of keys that a server scans per command, before it serves other clients.
const KEYS_PER_SCAN: usize = 1000;

/// Number of keys whose values are read in one go.
pub(crate) const VALUES_PER_READ: usize = 500;

/// Number of records that are read in one go, and of histories whose number of records is unknown.
pub(crate) const RECORDS_PER_READ: usize = 10_000;
pub(crate) const HISTORIES_PER_READ: usize = 10;

/// Hint with the rights needed besides those to locks.
const RIGHTS: &str = "to list all locks, the user needs more rights: ACL SETUSER USER +scan";
const CLUSTER_RIGHTS: &str = "to list all locks, the user needs more rights: ACL SETUSER USER +scan +cluster|slots";

impl Client {
    /// Returns all keys that contain `part`, each once, in no order.
    pub(crate) fn find_keys(&mut self, part: &str) -> Result<BTreeSet<String>, BackendError> {
        let mut connection = self.connection()?;
        let mut keys = BTreeSet::new();
        if !self.is_cluster() {
            scan(&mut connection, part, &mut keys, RIGHTS).inspect_err(|_| self.try_next_host())?;
            self.put_back(connection);
            return Ok(keys);
        }
        for host in masters(&mut connection)? {
            let mut node = Connection::open(&host, Peer::Server, self.settings(), self.settings().timeout)?;
            scan(&mut node, part, &mut keys, CLUSTER_RIGHTS)?;
        }
        self.put_back(connection);
        Ok(keys)
    }

    /// Reads from each key with the commands of `question`, this many in one go, and passes on the position of the key with
    /// the answers, in no order. Errors of the server are among them.
    pub(crate) fn read(
        &mut self,
        keys: &[String],
        at_once: usize,
        question: impl Fn(&str) -> Vec<Cmd>,
        mut take: impl FnMut(usize, Vec<Value>) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        // Hosts to query, each with the positions of its keys; the first round sends all to the current connection.
        let mut rounds = vec![(None, Asking::No, (0..keys.len()).collect::<Vec<_>>())];
        for _ in 0..=REDIRECTIONS {
            let mut moved: BTreeMap<(String, Option<u16>, bool), Vec<usize>> = BTreeMap::new();
            for (host, asking, positions) in std::mem::take(&mut rounds) {
                let mut connection = match &host {
                    None => self.connection()?,
                    Some(host) => Connection::open(host, Peer::Server, self.settings(), self.settings().timeout)?,
                };
                for positions in positions.chunks(at_once) {
                    let commands: Vec<Vec<Cmd>> = positions.iter().map(|position| question(&keys[*position])).collect();
                    let found = pipeline(&mut connection, &commands, asking).inspect_err(|_| self.try_next_host())?;
                    for (position, found) in positions.iter().zip(found) {
                        let elsewhere = match self.is_cluster() {
                            true => {
                                elsewhere(&found, connection.host()).map_err(|error| error.named(connection.name()))?
                            }
                            false => None,
                        };
                        match elsewhere {
                            Some((host, asking)) => {
                                moved.entry((host.name, host.port, asking == Asking::Yes)).or_default().push(*position);
                            }
                            None => take(*position, found)?,
                        }
                    }
                }
                self.put_back(connection);
            }
            if moved.is_empty() {
                return Ok(());
            }
            rounds = moved
                .into_iter()
                .map(|((name, port, asking), positions)| {
                    (Some(Host { name, port }), if asking { Asking::Yes } else { Asking::No }, positions)
                })
                .collect();
        }
        Err(BackendError::transient("the cluster's nodes redirect back and forth"))
    }
}

/// Sends the commands for several keys in one go, and returns the answers for each.
fn pipeline(
    connection: &mut Connection,
    questions: &[Vec<Cmd>],
    asking: Asking,
) -> Result<Vec<Vec<Value>>, BackendError> {
    let with_asking = |command: &Cmd| match asking {
        Asking::No => vec![command.clone()],
        Asking::Yes => vec![cmd("ASKING"), command.clone()],
    };
    let commands: Vec<Cmd> = questions.iter().flatten().flat_map(with_asking).collect();
    let answers = connection.ask(&commands, LISTING_BYTES)?;
    if answers.len() < commands.len() {
        let last = answers.into_iter().last().unwrap_or_default();
        return Err(connection
            .check(last)
            .err()
            .unwrap_or_else(|| BackendError::transient("the server stopped answering").named(connection.name())));
    }
    // Each ASKING has an answer of its own.
    let step = if asking == Asking::Yes { 2 } else { 1 };
    let mut answers = answers.into_iter().skip(step - 1).step_by(step);
    Ok(questions.iter().map(|commands| answers.by_ref().take(commands.len()).collect()).collect())
}

/// Returns the node that the cluster redirects to for a key.
fn elsewhere(answers: &[Value], from: &Host) -> Result<Option<(Host, Asking)>, BackendError> {
    let found = answers.iter().find_map(|answer| {
        let Value::ServerError(error) = answer else { return None };
        match errors::code(error) {
            "MOVED" => Some((error, Asking::No)),
            "ASK" => Some((error, Asking::Yes)),
            _ => None,
        }
    });
    found.map(|(error, asking)| Ok((redirection(error, from)?, asking))).transpose()
}

fn scan(
    connection: &mut Connection,
    part: &str,
    keys: &mut BTreeSet<String>,
    rights: &str,
) -> Result<(), BackendError> {
    let pattern = format!("*{}*", escaped(part));
    let mut cursor = "0".to_owned();
    loop {
        let command = cmd("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_PER_SCAN).clone();
        let answer = connection.ask(&[command], LISTING_BYTES)?.pop().unwrap_or_default();
        let answer = permitted(connection, answer, rights)?;
        let Ok((next, found)) = from_redis_value::<(String, Vec<Vec<u8>>)>(answer) else {
            return Err(BackendError::permanent("not an answer to SCAN").named(connection.name()));
        };
        // A key that is not text is not a lock's.
        keys.extend(found.into_iter().filter_map(|key| String::from_utf8(key).ok()));
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Returns the masters of the cluster that have slots.
fn masters(connection: &mut Connection) -> Result<Vec<Host>, BackendError> {
    let answer = connection.ask(&[cmd("CLUSTER").arg("SLOTS").clone()], LISTING_BYTES)?.pop().unwrap_or_default();
    if matches!(&answer, Value::ServerError(error) if error.details().is_some_and(|text| text.contains("support disabled")))
    {
        // This server has all keys.
        return Ok(vec![connection.host().clone()]);
    }
    let answer = permitted(connection, answer, CLUSTER_RIGHTS)?;
    let mut hosts: Vec<Host> = Vec::new();
    let Value::Array(ranges) = answer else {
        return Err(BackendError::permanent("not an answer to CLUSTER SLOTS").named(connection.name()));
    };
    for range in ranges {
        // FIRST SLOT, LAST SLOT, MASTER, REPLICA ...; each node is HOST, PORT, and more.
        let Value::Array(range) = range else { continue };
        let Some(Value::Array(node)) = range.into_iter().nth(2) else { continue };
        let mut node = node.into_iter();
        let name = from_redis_value::<Option<String>>(node.next().unwrap_or_default()).ok().flatten();
        let Ok(port) = from_redis_value::<u16>(node.next().unwrap_or_default()) else { continue };
        let name = name.unwrap_or_default();
        let host = redirect_target(&name, port, connection.host())
            .ok_or_else(|| errors::from_redirection(&format!("{name}:{port}")).named(connection.name()))?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Turns a refusal into an error that names the missing rights.
fn permitted(connection: &Connection, answer: Value, rights: &str) -> Result<Value, BackendError> {
    let is_denied = matches!(&answer, Value::ServerError(error) if errors::is_denied(error));
    connection.check(answer).map_err(|error| if is_denied { error.hint(rights) } else { error })
}

/// Escapes the characters that have a meaning in a pattern.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}
