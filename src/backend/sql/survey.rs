//! Checks a server that is reached over the network, before its tables.

use super::check::{Diagnose, Facts};
use super::{Database, Dialect, Making, Row, Table};
use crate::backend::hosts::Hosts;
use crate::backend::probe::{self, Distance};
use crate::backend::{BackendError, ErrorClass, Finding, Reached, Tell};

/// A database on one of several servers.
pub(in crate::backend) trait Server: Database {
    /// Query for the server's time in microseconds since 1970.
    const CLOCK: &str;
    const DIALECT: Dialect;

    fn hosts(&mut self) -> &mut Hosts;
    /// Reports which hosts can be reached.
    fn look(&self, tell: Tell<'_>) -> Distance;
    fn ask(&mut self, session: &mut Self::Session, question: &str) -> Result<Vec<Row>, Self::Failure>;
    fn about(&mut self, session: &mut Self::Session, distance: Distance) -> Result<About, Self::Failure>;
    /// Describes a table; `None` if it is missing or invisible to this user.
    fn facts(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure>;

    /// Turns a permanent refusal into a finding. The error means that the server no longer answers.
    fn if_told(&self, subject: &'static str, told: Result<Finding, Self::Failure>) -> Result<Finding, Self::Failure> {
        told.or_else(|failure| match self.explain(&failure).error {
            error if error.class == ErrorClass::Permanent => Ok(Finding::refused(subject, error)),
            _ => Err(failure),
        })
    }
}

/// Description of a server and its user.
pub(in crate::backend) struct About {
    pub(in crate::backend) tls: Finding,
    pub(in crate::backend) user: String,
    pub(in crate::backend) database: String,
    pub(in crate::backend) version: Finding,
    /// Why the server grants no locks, such as `is read-only`, if another server of the URL may.
    pub(in crate::backend) unfit: Option<&'static str>,
    pub(in crate::backend) writing: Finding,
    pub(in crate::backend) more: Vec<Finding>,
}

impl<S: Server> Diagnose for S {
    const SUBJECT: &str = "server";
    const DIALECT: Dialect = <S as Server>::DIALECT;

    fn survey(&mut self, session: &mut Option<Self::Session>, tell: Tell<'_>) -> Result<Reached, BackendError> {
        survey(self, session, tell)
    }

    fn describe(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure> {
        self.facts(session, table)
    }
}

/// Reports on the first server that grants locks, or on the last one. The error means that the server no longer answers.
fn survey<S: Server>(server: &mut S, kept: &mut Option<S::Session>, tell: Tell<'_>) -> Result<Reached, BackendError> {
    let distance = server.look(tell);
    if distance == Distance::Unreached {
        return Ok(Reached::No);
    }
    server.hosts().attempts.make_one();
    let mut opened = match server.connect(Making::No) {
        Ok(opened) => opened,
        Err(error) => {
            tell(Finding::of_trouble(probe::subject(&error), error));
            return Ok(Reached::No);
        }
    };
    for left in (0..server.servers()).rev() {
        let Some(mut session) = opened.take() else { break };
        let about = server.about(&mut session, distance).map_err(|failure| server.explain(&failure).error)?;
        if let (Some(unfit), 1..) = (about.unfit, left) {
            let seen = format!("{} {unfit}, and is skipped", server.hosts().first());
            tell(Finding::good("writable", seen));
            server.close(session);
            server.pass_over();
            opened = server.connect(Making::No)?;
            continue;
        }
        tell(about.tls);
        tell(Finding::good("login", format!("as {} to the database {}", about.user, about.database)));
        tell(about.version);
        probe::clock(|| clock(server, &mut session), tell)?;
        let reached = probe::reached(&about.writing);
        tell(about.writing);
        about.more.into_iter().for_each(tell);
        *kept = Some(session);
        return Ok(reached);
    }
    Ok(Reached::No)
}

fn clock<S: Server>(server: &mut S, session: &mut S::Session) -> Result<u64, BackendError> {
    let rows = server.ask(session, S::CLOCK).map_err(|failure| server.explain(&failure).error)?;
    let time = rows.first().and_then(|row| row.number(0)).and_then(|micros| micros.try_into().ok());
    time.ok_or_else(|| BackendError::permanent("the server's time is not a number"))
}
