//! The diagnosis of `check`: whether this host can lock on this server. It does not ask commands of four letters, which
//! most servers refuse.

use super::super::probe::{self, Distance, Tell};
use super::super::{BackendError, ErrorClass, Finding, Reached};
use super::wire::{self, Answer, Request};
use super::{ZooKeeper, errors, link};

/// The node in which a server shows the members of its ensemble.
const MEMBERS: &str = "/zookeeper/config";

impl ZooKeeper {
    /// Tries what a run needs, up to the lock itself.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        self.hosts.attempts.make_one();
        let distance =
            probe::hosts(&self.hosts.all, link::PORT, self.terms.share, |host| host.name.clone().into(), tell);
        if distance == Distance::Unreached {
            return Reached::No;
        }
        let root = self.root.clone();
        let answers = match self.ask(&[Request::get(MEMBERS), Request::exists(&root), Request::rights(&root)]) {
            Ok(answers) => answers,
            Err(error) => {
                tell(Finding::of_trouble(probe::subject(&error), error));
                return Reached::No;
            }
        };
        match self.probe_server(answers, distance, tell) {
            Ok(reached) => reached,
            Err(error) => {
                tell(Finding::of_trouble("server", error));
                Reached::No
            }
        }
    }

    fn probe_server(
        &mut self,
        answers: Vec<Answer>,
        distance: Distance,
        tell: Tell<'_>,
    ) -> Result<Reached, BackendError> {
        let [members, root, rights] = <[Answer; 3]>::try_from(answers).map_err(|_| errors::strange())?;
        let version = self.link.as_ref().and_then(link::Link::tls_version);
        tell(probe::tls(self.terms.tls.as_ref(), version, distance));
        tell(self.judge_login());
        if let Some(node) = members.ok().and_then(|body| wire::read_node(&body)) {
            tell(self.judge_members(&String::from_utf8_lossy(&node.data)));
        }
        if let Err(error) = probe::clock(|| self.micros(), tell) {
            let finding = if error.class == ErrorClass::Permanent { "rights" } else { "server" };
            tell(Finding::of_trouble(finding, error));
            return Ok(Reached::No);
        }
        match root {
            Ok(_) => tell(Finding::good("node", format!("{} is there", self.root))),
            Err(_) => tell(Finding::good("node", format!("{} will be created by the first lock", self.root))),
        }
        if let Some(rights) = rights.ok().and_then(|body| wire::read_rights(&body)) {
            tell(self.judge_rights(&rights));
        }
        Ok(Reached::Yes)
    }

    fn judge_login(&self) -> Finding {
        match &self.terms.login {
            Some((user, _)) => {
                Finding::good("login", format!("as the user {user}; ZooKeeper checks the password at each node"))
            }
            None => Finding::good("login", "without a user"),
        }
    }

    /// Judges whether the URL names enough servers. A server that is alone shows no members.
    fn judge_members(&self, text: &str) -> Finding {
        let members = text.lines().filter(|line| line.starts_with("server.")).count();
        let named = self.hosts.count();
        match (members, named) {
            (0, _) => Finding::unwise(
                "ensemble",
                "the server is alone: while it is down, no lock can be taken",
                "run an ensemble of three servers or more",
            ),
            (_, 1) if members > 1 => Finding::unwise(
                "ensemble",
                format!("it has {members} servers, and the URL names one"),
                "name all of them, separated by commas: zookeeper://HOST,HOST,HOST",
            ),
            _ => Finding::good("ensemble", format!("{members} servers; the URL names {named}")),
        }
    }

    fn judge_rights(&self, rights: &[wire::Right]) -> Finding {
        let may_write = |right: &wire::Right| right.numbers & wire::WRITING != 0;
        let open = rights.iter().any(|right| right.scheme == "world" && may_write(right));
        match (open, self.terms.login.is_some()) {
            (true, true) => Finding::unwise(
                "rights",
                format!("every client may write {}, in spite of the login", self.root),
                format!("after addauth in zkCli.sh: setAcl {} auth::cdrwa", self.root),
            ),
            (true, false) => Finding::good("rights", format!("every client may write {}", self.root)),
            (false, _) => Finding::good("rights", format!("only some users may write {}", self.root)),
        }
    }

    /// Reads the server's clock.
    fn micros(&mut self) -> Result<u64, BackendError> {
        let time = match self.ask_one(self.clock())? {
            Ok(body) => wire::read_stat(&body).ok_or_else(errors::strange)?,
            Err(errors::NO_NODE) => self.time_without_root()?,
            Err(code) => return Err(self.refused(code, &self.root)),
        };
        Ok(time.written_at.0.saturating_mul(1000))
    }
}
