//! Checks a server that is reached over the network, for `shedlock check`, before its tables.

use super::database::{CreateMissing, Database};
use super::rows::Row;
use crate::backend::diagnose;
use crate::backend::{Finding, FindingSink, LockTest};
use crate::lock::{BackendError, ErrorClass};

/// Describes a server and its user, as findings where that is possible.
pub(crate) struct ServerFacts {
    /// Name of the server.
    pub(crate) host: String,
    pub(crate) tls: Finding,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) version: Finding,
    /// Why the server grants no locks, such as `is read-only`, if another server of the URL may.
    pub(crate) grants_no_locks: Option<&'static str>,
    pub(crate) writing: Finding,
    pub(crate) more_findings: Vec<Finding>,
}

/// Turns a permanent refusal of a query into a finding. The error means that the server no longer answers.
pub(crate) fn finding_unless_refused<D: Database>(
    database: &D,
    subject: &'static str,
    answer: Result<Finding, D::Failure>,
) -> Result<Finding, D::Failure> {
    answer.or_else(|failure| match database.explain(&failure).error {
        error if error.class == ErrorClass::Permanent => Ok(Finding::refused(subject, error)),
        _ => Err(failure),
    })
}

/// Reports on the first server that grants locks, or on the last one, and leaves its session in `kept`. `describe` asks a
/// server about itself, and `clock` for its time in microseconds since 1970. The error means that the server no longer
/// answers.
pub(crate) fn check_server<D: Database>(
    database: &mut D,
    kept: &mut Option<D::Session>,
    tell: FindingSink<'_>,
    mut describe: impl FnMut(&mut D, &mut D::Session) -> Result<ServerFacts, D::Failure>,
    mut clock: impl FnMut(&mut D, &mut D::Session) -> Result<Vec<Row>, D::Failure>,
) -> Result<LockTest, BackendError> {
    let mut opened = match database.connect(CreateMissing::No) {
        Ok(opened) => opened,
        Err(error) => {
            tell(Finding::from_error(diagnose::connection_subject(&error), error));
            return Ok(LockTest::Pointless);
        }
    };
    for left in (0..database.servers()).rev() {
        let Some(mut session) = opened.take() else { break };
        let facts = describe(database, &mut session).map_err(|failure| database.explain(&failure).error)?;
        if let (Some(why), 1..) = (facts.grants_no_locks, left) {
            tell(Finding::good("writable", format!("{} {why}, and is skipped", facts.host)));
            database.close(session);
            database.pass_over();
            opened = database.connect(CreateMissing::No)?;
            continue;
        }
        tell(facts.tls);
        tell(Finding::good("login", format!("as {} to the database {}", facts.user, facts.database)));
        tell(facts.version);
        let mut ask = || {
            let rows = clock(database, &mut session).map_err(|failure| database.explain(&failure).error)?;
            let time = rows.first().and_then(|row| row.number(0)).and_then(|micros| micros.try_into().ok());
            time.ok_or_else(|| BackendError::permanent("the server's time is not a number"))
        };
        diagnose::clock(&mut ask, tell)?;
        let lock_test = diagnose::lock_test_after(&facts.writing);
        tell(facts.writing);
        facts.more_findings.into_iter().for_each(tell);
        *kept = Some(session);
        return Ok(lock_test);
    }
    Ok(LockTest::Pointless)
}
