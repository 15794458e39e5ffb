//! Which server to talk to: one of a list, the master that a sentinel names, or the cluster's node that has the lock.
//!
//! The driver's own clients for sentinels and clusters are not used. They connect to every node, and ask it for the whole
//! map, before the first command; here a redirection leads to the one node that matters.

use std::time::Duration;

use ::redis::{Script, ServerError, Value, cmd};

use super::super::hosts::{Bound, Hosts};
use super::super::network::Host;
use super::super::probe::{self, Distance, Tell};
use super::super::{BackendError, ErrorClass};
use super::errors;
use super::link::{self, Link, Login, Peer, Terms};
use super::route::{Kind, Route};
use crate::system::Moment;

/// How often a cluster may send us on within one request.
pub(super) const REDIRECTIONS: usize = 5;

/// Refusals that a call with one key may not meet: no rights to the others; some of them are on one node, while their slot is
/// on its way, and some on another; the braces of the lock's name put them elsewhere.
const DISPENSABLE: [&str; 3] = ["NOPERM", "TRYAGAIN", "CROSSSLOT"];

/// Whether the same call with its first keys alone may be answered.
pub(super) fn is_dispensable(error: &ServerError) -> bool {
    DISPENSABLE.contains(&errors::code(error))
}

/// A script, its keys and its arguments. The first key is the lock's; it can do without the others. With all of it a command
/// has at most ten parts: a server that wants a password would not say so of a longer one.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) script: &'static str,
    pub(super) keys: &'a [String],
    pub(super) arguments: &'a [&'a str],
}

/// The way to the servers, with at most one connection.
pub(super) struct Network {
    kind: Kind,
    /// The one that had trouble last is the last to be tried.
    hosts: Hosts,
    /// How many servers share the time of one attempt.
    places: usize,
    terms: Terms,
    link: Option<Link>,
    /// The cluster's node that had the lock last.
    node: Option<Host>,
    /// The attempt to be let in that is under way. Redis says nothing until it is asked, so it ends with the first answer.
    attempt: Option<Bound>,
}

impl Network {
    /// Makes the way to servers, one of which is to answer within `patience`.
    pub(super) fn new(route: Route, terms: Terms, patience: Duration) -> Self {
        let (places, hosts) = (route.places(), Hosts::new(route.hosts, patience));
        Self { kind: route.kind, hosts, places, terms, link: None, node: None, attempt: None }
    }

    /// Lets the next attempt to be let in take all the time there is.
    pub(super) fn make_one_attempt(&mut self) {
        self.hosts.attempts.make_one();
    }

    /// Returns how long each of so many servers may take.
    pub(super) fn share(patience: Duration, servers: usize) -> Duration {
        (patience / u32::try_from(servers.max(1)).unwrap_or(u32::MAX)).max(Duration::from_secs(1))
    }

    /// Tells whether a name in braces would mean something.
    pub(super) fn is_cluster(&self) -> bool {
        self.kind == Kind::Cluster
    }

    pub(super) fn disconnect(&mut self) {
        self.link = None;
    }

    /// Tells which of the URL's hosts can be reached: servers, sentinels or nodes.
    pub(super) fn look(&self, tell: Tell<'_>) -> Distance {
        let peer = if let Kind::Sentinels(_) = self.kind { Peer::Sentinel(Login::Without) } else { Peer::Server };
        let (hosts, port) = (&self.hosts.all, link::port_of(peer));
        probe::hosts(hosts, port, self.terms.timeout, |host| host.name.clone().into(), tell)
    }

    /// Returns the master that sentinels are asked for.
    pub(super) fn master(&self) -> Option<&str> {
        if let Kind::Sentinels(master) = &self.kind { Some(master) } else { None }
    }

    /// Returns how many servers may stand in for each other.
    pub(super) fn count(&self) -> usize {
        if self.kind == Kind::Servers { self.hosts.count() } else { 1 }
    }

    /// The connection to go on with, which is opened if there is none. Who does not give it back closes it.
    pub(super) fn link(&mut self) -> Result<Link, BackendError> {
        match self.link.take() {
            Some(link) => Ok(link),
            None => self.connect(),
        }
    }

    /// Goes on with a connection on which the server has answered.
    pub(super) fn keep(&mut self, link: Link) {
        self.link = Some(link);
        self.attempt = None;
        self.hosts.attempts.succeeded();
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Runs a script where it can be run. A refusal of what it can do without is an answer.
    pub(super) fn run(&mut self, call: &Call<'_>) -> Result<Value, BackendError> {
        self.run_unless(call, |error| call.keys.len() > 1 && is_dispensable(error))
    }

    /// Runs a script where it can be run. A refusal that is an answer is returned.
    pub(super) fn run_unless(
        &mut self,
        call: &Call<'_>,
        is_answer: impl Fn(&ServerError) -> bool,
    ) -> Result<Value, BackendError> {
        let mut replicas = 0;
        let mut redirections = 0;
        let mut asking = Asking::No;
        loop {
            let mut link = match self.link.take() {
                Some(link) => link,
                None if redirections > 0 => self.follow()?,
                None => self.connect()?,
            };
            let answer = run_script(&mut link, call, asking).inspect_err(|_| self.look_elsewhere())?;
            let Value::ServerError(error) = &answer else {
                self.keep(link);
                return Ok(answer);
            };
            let code = errors::code(error);
            if is_answer(error) {
                self.keep(link);
                return Ok(answer);
            }
            match (&self.kind, code) {
                (Kind::Cluster, "MOVED" | "ASK") if redirections < REDIRECTIONS => {
                    redirections += 1;
                    asking = if code == "ASK" { Asking::Yes } else { Asking::No };
                    self.node = redirection(error.details().unwrap_or_default(), link.host());
                }
                (Kind::Cluster, "MOVED" | "ASK") => {
                    self.node = None;
                    return Err(
                        BackendError::transient("the cluster's nodes redirect back and forth").named(link.name())
                    );
                }
                (Kind::Servers, "READONLY" | "MASTERDOWN" | "LOADING") if replicas + 1 < self.hosts.count() => {
                    replicas += 1;
                    self.look_elsewhere();
                }
                _ => {
                    self.look_elsewhere();
                    return link.check(answer);
                }
            }
        }
    }

    /// Begins the next connection with another host: this one may be frozen, or not be the master any more.
    pub(super) fn look_elsewhere(&mut self) {
        self.hosts.pass_over();
        self.node = None;
        self.fail();
    }

    /// Notes that the attempt to be let in has failed.
    fn fail(&mut self) {
        if let Some(bound) = self.attempt.take() {
            self.hosts.attempts.failed(bound, Moment::now());
        }
    }

    /// Returns how long each server may take.
    fn limit(&mut self) -> Duration {
        self.attempt.get_or_insert_with(|| self.hosts.attempts.begin(Moment::now())).each(self.places)
    }

    /// Connects to the node that the cluster sent us to. If that cannot be done no other one can help.
    fn follow(&mut self) -> Result<Link, BackendError> {
        let Some(node) = self.node.take() else { return self.connect() };
        let limit = self.limit();
        let link = Link::open(&node, Peer::Server, &self.terms, limit)?;
        self.node = Some(node);
        Ok(link)
    }

    fn connect(&mut self) -> Result<Link, BackendError> {
        // The node that had the lock last may have it still, and may be gone.
        if self.node.is_some()
            && let Ok(link) = self.follow()
        {
            return Ok(link);
        }
        let limit = self.limit();
        let mut met = None;
        for _ in 0..self.hosts.count() {
            let host = self.hosts.first();
            let found = match self.master() {
                Some(master) => ask_sentinel(host, master, &self.terms, limit),
                None => Link::open(host, Peer::Server, &self.terms, limit),
            };
            match found {
                Ok(link) => return Ok(link),
                Err(error) => met = Some(both(met, error)),
            }
            self.hosts.pass_over();
        }
        self.fail();
        Err(met.unwrap_or_else(|| BackendError::permanent("the URL names no host")))
    }
}

/// Two servers' troubles as one: it may pass if one of them may, and tells what does not pass.
fn both(one: Option<BackendError>, other: BackendError) -> BackendError {
    let Some(one) = one else { return other };
    match (one.class, other.class) {
        (_, ErrorClass::Overloaded) => other,
        (ErrorClass::Permanent, ErrorClass::Transient) => BackendError { class: ErrorClass::Transient, ..one },
        (ErrorClass::Transient, ErrorClass::Permanent) => BackendError { class: ErrorClass::Transient, ..other },
        _ => one,
    }
}

/// Whether the node is told that the cluster sent us, as it wants to hear while a slot is on its way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    No,
    Yes,
}

/// One round trip; two where the server has not seen the script since it started.
fn run_script(link: &mut Link, call: &Call<'_>, asking: Asking) -> Result<Value, BackendError> {
    let mut ask = |command: &str, script: &str| {
        let mut evaluate = cmd(command);
        evaluate.arg(script).arg(call.keys.len()).arg(call.keys).arg(call.arguments);
        let commands = match asking {
            Asking::Yes => vec![cmd("ASKING"), evaluate],
            Asking::No => vec![evaluate],
        };
        link.ask(&commands).map(|mut answers| answers.pop().unwrap_or_default())
    };
    let answer = ask("EVALSHA", Script::new(call.script).get_hash())?;
    match &answer {
        Value::ServerError(error) if errors::code(error) == "NOSCRIPT" => ask("EVAL", call.script),
        _ => Ok(answer),
    }
}

/// Reads `SLOT HOST:PORT`. A node that does not know its own name leaves it out, and is where the answer came from.
pub(super) fn redirection(text: &str, from: &Host) -> Option<Host> {
    let (_, place) = text.split_once(' ')?;
    let (name, port) = place.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" { from.name.clone() } else { name.to_owned() };
    Some(Host { name, port: Some(port.parse().ok()?) })
}

/// Connects to the master that this sentinel names.
fn ask_sentinel(host: &Host, master: &str, terms: &Terms, limit: Duration) -> Result<Link, BackendError> {
    let question = || cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).clone();
    let mut link = Link::open(host, Peer::Sentinel(Login::Without), terms, limit)?;
    let mut answer = link.one(question())?;
    if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOAUTH") {
        link = Link::open(host, Peer::Sentinel(Login::With), terms, limit)?;
        answer = link.one(question())?;
    }
    let answer = link.check(answer)?;
    match ::redis::from_redis_value::<Option<(String, u16)>>(answer) {
        Ok(Some((name, port))) => Link::open(&Host { name, port: Some(port) }, Peer::Server, terms, limit),
        Ok(None) => Err(BackendError::permanent(format!("the sentinel knows no master `{master}`"))
            .hint("list its masters with redis-cli SENTINEL MASTERS")
            .named(link.name())),
        Err(_) => Err(BackendError::permanent("the sentinel names no master").named(link.name())),
    }
    .map_err(|error| BackendError { ambiguous: false, ..error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port: Some(port) }
    }

    #[test]
    fn a_redirection_names_a_host_or_means_the_same() {
        let from = host("db", 1);
        assert_eq!(redirection("3999 127.0.0.1:6381", &from), Some(host("127.0.0.1", 6381)));
        assert_eq!(redirection("3999 ::1:6381", &from), Some(host("::1", 6381)));
        assert_eq!(redirection("3999 :6381", &from), Some(host("db", 6381)));
        assert_eq!(redirection("3999", &from), None);
        assert_eq!(redirection("3999 db:x", &from), None);
    }

    #[test]
    fn of_two_troubles_the_one_that_stays_is_told_and_the_one_that_passes_is_tried_again() {
        let (passing, lasting) = (BackendError::transient("down"), BackendError::permanent("wrong password"));
        let full = BackendError::new(ErrorClass::Overloaded, "full");
        let told = BackendError::transient("wrong password");
        assert_eq!(both(Some(passing.clone()), lasting.clone()), told);
        assert_eq!(both(Some(lasting.clone()), passing.clone()), told);
        assert_eq!(both(Some(lasting.clone()), lasting.clone()), lasting);
        assert_eq!(both(Some(passing), full.clone()), full);
        assert_eq!(both(Some(full.clone()), lasting), full);
        assert_eq!(both(None, full.clone()), full);
    }

    #[test]
    fn every_server_gets_its_share_of_the_time_and_at_least_a_second() {
        assert_eq!(Network::share(Duration::from_secs(10), 2), Duration::from_secs(5));
        assert_eq!(Network::share(Duration::from_secs(2), 5), Duration::from_secs(1));
        assert_eq!(Network::share(Duration::from_secs(2), 0), Duration::from_secs(2));
    }
}
