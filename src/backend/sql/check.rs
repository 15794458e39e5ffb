//! Checks the tables for `shedlock check`: their columns and keys, and the rights to them.

use super::columns::{Column, Columns, Dialect, NO_ENDS, NO_TOKENS};
use super::{Database, Making, SqlLocks, Table};
use crate::backend::{BackendError, ErrorClass, Finding, Grade, Reached, Tell};

/// Columns of the history.
const RUNS: [&str; 8] = ["id", "name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

/// Description of a table by its server.
#[derive(Default)]
pub(in crate::backend) struct Facts {
    /// Finding about the table as a whole, if something is wrong with it.
    pub(in crate::backend) kind: Option<Finding>,
    pub(in crate::backend) columns: Vec<Column>,
    /// Findings about the columns that only this kind of server makes.
    pub(in crate::backend) more: Vec<Finding>,
    /// Columns of each unique key, as names separated by commas.
    pub(in crate::backend) keys: Vec<String>,
    /// Missing rights; `None` where the server knows no rights.
    pub(in crate::backend) lacking: Option<Vec<String>>,
    /// Rights without which runs still have tokens, but their ends are not recorded.
    pub(in crate::backend) rights_of_ends: &'static [&'static str],
    /// Set if the table can store runs: its key finds a record, and the server generates the ids.
    pub(in crate::backend) records: bool,
}

/// A database that `shedlock check` can examine.
pub(in crate::backend) trait Diagnose: Database {
    /// Subject of findings about the backend as a whole.
    const SUBJECT: &str;
    const DIALECT: Dialect;

    /// Reports on the server, before its tables. The error means that the server no longer answers.
    fn survey(&mut self, session: &mut Option<Self::Session>, tell: Tell<'_>) -> Result<Reached, BackendError>;
    /// Describes a table; `None` if it is missing or invisible to this user.
    fn describe(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure>;
    /// Reports what remains after the tables.
    fn conclude(&self, _: &mut Self::Session, _: Tell<'_>) {}
}

impl<D: Diagnose> SqlLocks<D> {
    /// Checks everything that a run needs.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        let surveyed = self.database.survey(&mut self.session, tell);
        let told = match surveyed {
            Ok(Reached::Yes) => self.probe_tables(tell).map(|()| Reached::Yes),
            surveyed => surveyed,
        };
        told.unwrap_or_else(|error| {
            tell(Finding::of_trouble(D::SUBJECT, error));
            Reached::No
        })
    }

    /// Checks both tables. The error means that the server no longer answers.
    fn probe_tables(&mut self, tell: Tell<'_>) -> Result<(), BackendError> {
        let mut opened = match self.session.take() {
            Some(session) => Some(session),
            None => self.database.connect(Making::Yes)?,
        };
        let Some(session) = &mut opened else { return Ok(()) };
        let told = self.probe_locks(session, tell).and_then(|()| self.probe_history(session, tell));
        self.database.conclude(session, tell);
        let Err(failure) = told else {
            self.session = opened;
            return Ok(());
        };
        if self.database.outlives(session, &failure) {
            self.session = opened;
        }
        // A server that refuses these queries for good may still allow a taking, so the check remains undecided.
        let error = self.database.explain(&failure).error;
        if error.class != ErrorClass::Permanent {
            return Err(error);
        }
        tell(Finding::refused("table", error));
        Ok(())
    }

    /// Describes a table, and creates it if it is missing. Returns the finding about the table as a whole; the caller
    /// may have a worse one to report instead.
    fn look_for(
        &mut self,
        session: &mut D::Session,
        table: Table,
        subject: &'static str,
    ) -> Result<(Finding, Option<Facts>), D::Failure> {
        let mut made = "is there";
        let mut facts = self.database.describe(session, table)?;
        if facts.is_none() {
            match Self::create_first(&mut self.database, session, table) {
                Ok(true) => made = "was missing and has been created",
                Ok(false) => {}
                Err(failure) => {
                    let finding = Finding::of_trouble(subject, self.lasting(failure)?);
                    let worse = Finding {
                        grade: Grade::Unwise,
                        seen: format!("{}; {NO_TOKENS}", finding.seen),
                        ..finding.clone()
                    };
                    return Ok((if table == Table::Locks { finding } else { worse }, None));
                }
            }
            facts = self.database.describe(session, table)?;
        }
        let good = Finding::good(subject, format!("the table {} {made}", self.database.name(table)));
        Ok((facts.as_mut().and_then(|facts| facts.kind.take()).unwrap_or(good), facts))
    }

    fn probe_locks(&mut self, session: &mut D::Session, tell: Tell<'_>) -> Result<(), D::Failure> {
        let (finding, facts) = self.look_for(session, Table::Locks, "table")?;
        let (name, grantee) = (self.database.name(Table::Locks), self.database.grantee());
        tell(finding);
        let Some(facts) = facts else { return Ok(()) };
        if !facts.columns.is_empty() {
            let columns = Columns { table: &name, all: facts.columns, dialect: &D::DIALECT };
            columns.judge().into_iter().chain(facts.more).for_each(&mut *tell);
            if !facts.keys.iter().any(|key| key == "name") {
                let seen = "has neither a primary key nor a unique key on name alone: it could contain a lock twice";
                let add = D::DIALECT.add_key.replace("{table}", &name);
                tell(Finding::bad("key", format!("{name} {seen}"), add));
            }
        }
        match facts.lacking.map(|lacking| lacking.join(", ")) {
            None => {}
            Some(lacking) if lacking.is_empty() => {
                tell(Finding::good("rights", format!("SELECT, INSERT and UPDATE on {name}")));
            }
            Some(lacking) => tell(Finding::bad(
                "rights",
                format!("{} has no right to {lacking} on {name}", self.database.user()),
                format!("GRANT {lacking} ON {name} TO {grantee}"),
            )),
        }
        Ok(())
    }

    /// Checks the history. Locks work without it, but have no tokens.
    fn probe_history(&mut self, session: &mut D::Session, tell: Tell<'_>) -> Result<(), D::Failure> {
        let (finding, facts) = self.look_for(session, Table::Runs, "history")?;
        let (name, user) = (self.database.name(Table::Runs), self.database.user());
        let Some(facts) = facts else {
            tell(finding);
            return Ok(());
        };
        let has = |name: &str| facts.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        let denied = facts.lacking.unwrap_or_default();
        let mut more = facts.more.into_iter();
        tell(if !denied.is_empty() {
            let is_of_ends = denied.iter().all(|right| facts.rights_of_ends.contains(&right.as_str()));
            let without = if is_of_ends { NO_ENDS } else { NO_TOKENS };
            let seen = format!("{user} has no right to {} on {name}; {without}", denied.join(", "));
            let grantee = self.database.grantee();
            Finding::unwise("history", seen, format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {grantee}"))
        } else if !RUNS.iter().all(|name| has(name)) || !facts.records {
            let seen =
                format!("the table {name} is not a table of runs; locks work without tokens and without a history");
            let create = self.database.creation(Table::Runs);
            Finding::unwise("history", seen, format!("rename it, and create instead: {create}"))
        } else {
            more.next().unwrap_or(finding)
        });
        more.for_each(tell);
        Ok(())
    }
}
