//! Bulk reads on all servers: the keys that contain a text, and their values. They need read rights only. A cluster's
//! replicas redirect to their masters; only a script can tell whether a lone server is a replica.

use std::collections::{BTreeMap, BTreeSet};

use ::redis::{Cmd, Value, cmd, from_redis_value};

use super::super::BackendError;
use super::super::network::Host;
use super::connect::{Asking, Network, REDIRECTIONS, redirection};
use super::errors;
use super::link::{Link, Peer};

/// Number of keys that a server scans per command, before it serves other clients.
const STRIDE: usize = 1000;

/// Number of keys whose values are read in one go.
pub(super) const VALUES: usize = 500;

/// Number of records that are read in one go, and of histories whose number of records is unknown.
pub(super) const RECORDS: usize = 10_000;
pub(super) const HISTORIES: usize = 10;

/// Hint with the rights needed besides those to locks.
const RIGHTS: &str = "to list all locks, the user needs more rights: ACL SETUSER USER +scan";
const CLUSTER_RIGHTS: &str = "to list all locks, the user needs more rights: ACL SETUSER USER +scan +cluster|slots";

impl Network {
    /// Returns all keys that contain `part`, each once, in no order.
    pub(super) fn keys_with(&mut self, part: &str) -> Result<BTreeSet<String>, BackendError> {
        let mut link = self.link()?;
        let mut keys = BTreeSet::new();
        if !self.is_cluster() {
            scan(&mut link, part, &mut keys, RIGHTS).inspect_err(|_| self.look_elsewhere())?;
            self.keep(link);
            return Ok(keys);
        }
        for host in masters(&mut link)? {
            let mut node = Link::open(&host, Peer::Server, self.terms(), self.terms().timeout)?;
            scan(&mut node, part, &mut keys, CLUSTER_RIGHTS)?;
        }
        self.keep(link);
        Ok(keys)
    }

    /// Reads from each key with the commands of `question`, this many in one go, and passes on the position of the key with
    /// the answers, in no order. Errors of the server are among them.
    pub(super) fn read(
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
            for (host, asking, places) in std::mem::take(&mut rounds) {
                let mut link = match &host {
                    None => self.link()?,
                    Some(host) => Link::open(host, Peer::Server, self.terms(), self.terms().timeout)?,
                };
                for places in places.chunks(at_once) {
                    let commands: Vec<Vec<Cmd>> = places.iter().map(|place| question(&keys[*place])).collect();
                    let found = pipeline(&mut link, &commands, asking).inspect_err(|_| self.look_elsewhere())?;
                    for (place, found) in places.iter().zip(found) {
                        match self.is_cluster().then(|| elsewhere(&found, link.host())).flatten() {
                            Some((host, asking)) => {
                                moved.entry((host.name, host.port, asking == Asking::Yes)).or_default().push(*place);
                            }
                            None => take(*place, found)?,
                        }
                    }
                }
                self.keep(link);
            }
            if moved.is_empty() {
                return Ok(());
            }
            rounds = moved
                .into_iter()
                .map(|((name, port, asking), places)| {
                    (Some(Host { name, port }), if asking { Asking::Yes } else { Asking::No }, places)
                })
                .collect();
        }
        Err(BackendError::transient("the cluster's nodes redirect back and forth"))
    }
}

/// Sends the commands for several keys in one go, and returns the answers for each.
fn pipeline(link: &mut Link, questions: &[Vec<Cmd>], asking: Asking) -> Result<Vec<Vec<Value>>, BackendError> {
    let asked = |command: &Cmd| match asking {
        Asking::No => vec![command.clone()],
        Asking::Yes => vec![cmd("ASKING"), command.clone()],
    };
    let commands: Vec<Cmd> = questions.iter().flatten().flat_map(asked).collect();
    let answers = link.ask(&commands)?;
    if answers.len() < commands.len() {
        let last = answers.into_iter().last().unwrap_or_default();
        return Err(link
            .check(last)
            .err()
            .unwrap_or_else(|| BackendError::transient("the server stopped answering").named(link.name())));
    }
    // Each ASKING has an answer of its own.
    let step = if asking == Asking::Yes { 2 } else { 1 };
    let mut answers = answers.into_iter().skip(step - 1).step_by(step);
    Ok(questions.iter().map(|commands| answers.by_ref().take(commands.len()).collect()).collect())
}

/// Returns the node that the cluster redirects to for a key.
fn elsewhere(answers: &[Value], from: &Host) -> Option<(Host, Asking)> {
    answers.iter().find_map(|answer| {
        let Value::ServerError(error) = answer else { return None };
        let asking = match errors::code(error) {
            "MOVED" => Asking::No,
            "ASK" => Asking::Yes,
            _ => return None,
        };
        Some((redirection(error.details().unwrap_or_default(), from)?, asking))
    })
}

fn scan(link: &mut Link, part: &str, keys: &mut BTreeSet<String>, rights: &str) -> Result<(), BackendError> {
    let pattern = format!("*{}*", escaped(part));
    let mut cursor = "0".to_owned();
    loop {
        let command = cmd("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STRIDE).clone();
        let answer = link.one(command)?;
        let answer = permitted(link, answer, rights)?;
        let Ok((next, found)) = from_redis_value::<(String, Vec<Vec<u8>>)>(answer) else {
            return Err(BackendError::permanent("not an answer to SCAN").named(link.name()));
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
fn masters(link: &mut Link) -> Result<Vec<Host>, BackendError> {
    let answer = link.one(cmd("CLUSTER").arg("SLOTS").clone())?;
    if matches!(&answer, Value::ServerError(error) if error.details().is_some_and(|text| text.contains("support disabled")))
    {
        // This server has all keys.
        return Ok(vec![link.host().clone()]);
    }
    let answer = permitted(link, answer, CLUSTER_RIGHTS)?;
    let mut hosts: Vec<Host> = Vec::new();
    let Value::Array(ranges) = answer else {
        return Err(BackendError::permanent("not an answer to CLUSTER SLOTS").named(link.name()));
    };
    for range in ranges {
        // FIRST SLOT, LAST SLOT, MASTER, REPLICA ...; each node is HOST, PORT, and more.
        let Value::Array(range) = range else { continue };
        let Some(Value::Array(node)) = range.into_iter().nth(2) else { continue };
        let mut node = node.into_iter();
        let name = from_redis_value::<Option<String>>(node.next().unwrap_or_default()).ok().flatten();
        let Ok(port) = from_redis_value::<u16>(node.next().unwrap_or_default()) else { continue };
        // A node that does not know its own name is the one that answered.
        let name = name.filter(|name| !name.is_empty() && name != "?").unwrap_or_else(|| link.host().name.clone());
        let host = Host { name, port: Some(port) };
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Turns a refusal into an error that names the missing rights.
fn permitted(link: &Link, answer: Value, rights: &str) -> Result<Value, BackendError> {
    let is_denied = matches!(&answer, Value::ServerError(error) if errors::is_denied(error));
    link.check(answer).map_err(|error| if is_denied { error.hint(rights) } else { error })
}

/// Escapes the characters that have a meaning in a pattern.
pub(super) fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}
