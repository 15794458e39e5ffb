//! The diagnosis of `check`: whether this host can lock on this server. It does not ask commands of four letters, which
//! most servers refuse.

use super::wire::{self, Answer, Request};
use super::{ZooKeeper, connection, errors};
use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::backend::{Finding, LockTest};
use crate::lock::{BackendError, ErrorClass};

/// The node in which a server shows the members of its ensemble.
const MEMBERS_NODE: &str = "/zookeeper/config";

impl ZooKeeper {
    /// Tries what a run needs, up to the lock itself.
    pub(crate) fn probe(&mut self, report: FindingSink<'_>) -> LockTest {
        self.hosts.attempts.make_one();
        let distance = diagnose::hosts(
            &self.hosts.all,
            connection::PORT,
            self.settings.answer_timeout,
            |host| host.name.clone().into(),
            report,
        );
        if distance == Distance::Unreached {
            return LockTest::Pointless;
        }
        let root = self.root.clone();
        let answers = match self.ask(&[Request::get(MEMBERS_NODE), Request::exists(&root), Request::rights(&root)]) {
            Ok(answers) => answers,
            Err(error) => {
                report(Finding::from_error(diagnose::connection_subject(&error), error));
                return LockTest::Pointless;
            }
        };
        match self.probe_server(answers, distance, report) {
            Ok(reached) => reached,
            Err(error) => {
                report(Finding::from_error("server", error));
                LockTest::Pointless
            }
        }
    }

    fn probe_server(
        &mut self,
        answers: Vec<Answer>,
        distance: Distance,
        report: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        let [members, root, rights] = <[Answer; 3]>::try_from(answers).map_err(|_| errors::unexpected_answer())?;
        let version = self.connection.as_ref().and_then(connection::Connection::tls_version);
        report(diagnose::tls(self.settings.tls.as_ref(), version, distance));
        report(self.judge_login());
        if let Some(node) = members.ok().and_then(|body| wire::read_node(&body)) {
            report(self.judge_members(&String::from_utf8_lossy(&node.data)));
        }
        if let Err(error) = diagnose::clock(|| self.micros(), report) {
            let finding = if error.class == ErrorClass::Permanent { "rights" } else { "server" };
            report(Finding::from_error(finding, error));
            return Ok(LockTest::Pointless);
        }
        match root {
            Ok(_) => report(Finding::good("node", format!("{} is there", self.root))),
            Err(_) => report(Finding::good("node", format!("{} will be created by the first lock", self.root))),
        }
        if let Some(rights) = rights.ok().and_then(|body| wire::read_rights(&body)) {
            report(self.judge_rights(&rights));
        }
        Ok(LockTest::Possible)
    }

    fn judge_login(&self) -> Finding {
        match &self.settings.login {
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
        let may_write = |right: &wire::Right| right.numbers & wire::WRITE_RIGHTS != 0;
        let open = rights.iter().any(|right| right.scheme == "world" && may_write(right));
        match (open, self.settings.login.is_some()) {
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
        let time = match self.ask_one(self.clock_request())? {
            Ok(body) => wire::read_stat(&body).ok_or_else(errors::unexpected_answer)?,
            Err(errors::NO_NODE) => self.time_without_root()?,
            Err(code) => return Err(self.node_error(code, &self.root)),
        };
        Ok(time.written_at.0.saturating_mul(1000))
    }
}
