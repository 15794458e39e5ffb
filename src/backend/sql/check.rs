//! Whether the tables are what locks need: what they are made of, and what may be done with them.

use super::columns::{Column, Columns, Dialect, NO_ENDS, NO_TOKENS};
use super::{Database, Making, SqlLocks, Table};
use crate::backend::{BackendError, ErrorClass, Finding, Grade, Reached, Tell};

/// Lists the columns of a history.
const RUNS: [&str; 8] = ["id", "name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

/// Describes a table as its server does.
#[derive(Default)]
pub(in crate::backend) struct Facts {
    /// Says what is wrong with the table as a whole.
    pub(in crate::backend) kind: Option<Finding>,
    pub(in crate::backend) columns: Vec<Column>,
    /// Adds what only this server says about the columns.
    pub(in crate::backend) more: Vec<Finding>,
    /// The columns of each unique key, by their names in the order of the alphabet, separated by commas.
    pub(in crate::backend) keys: Vec<String>,
    /// The rights that are missing; `None` where there are none to miss.
    pub(in crate::backend) lacking: Option<Vec<String>>,
    /// The rights without which runs have tokens, and their ends are not noted.
    pub(in crate::backend) rights_of_ends: &'static [&'static str],
    /// It can be a table of runs: a record finds its own kind, and is given an id.
    pub(in crate::backend) records: bool,
}

/// A database that can be checked.
pub(in crate::backend) trait Diagnose: Database {
    /// Names the subject of trouble with the whole backend, in the words of a check.
    const SUBJECT: &str;
    const DIALECT: Dialect;

    /// Tells of the server, before its tables. The error is that it does not answer any more.
    fn survey(&mut self, session: &mut Option<Self::Session>, tell: Tell<'_>) -> Result<Reached, BackendError>;
    /// Describes a table; `None` where there is none, or none for this user.
    fn describe(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure>;
    /// Tells what else a check finds after the tables.
    fn conclude(&self, _: &mut Self::Session, _: Tell<'_>) {}
}

impl<D: Diagnose> SqlLocks<D> {
    /// Tries what a run needs.
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

    /// The error is that the server does not answer any more.
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
        // One that refuses to be asked leaves open what a taking shows.
        let error = self.database.explain(&failure).error;
        if error.class != ErrorClass::Permanent {
            return Err(error);
        }
        tell(Finding::refused("table", error));
        Ok(())
    }

    /// Describes a table, which is made if it is missing. What is found is returned: it may be worth nothing.
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

    /// Without a history locks work, but have no tokens.
    fn probe_history(&mut self, session: &mut D::Session, tell: Tell<'_>) -> Result<(), D::Failure> {
        let (finding, facts) = self.look_for(session, Table::Runs, "history")?;
        let (name, user) = (self.database.name(Table::Runs), self.database.user());
        let Some(facts) = facts else {
            tell(finding);
            return Ok(());
        };
        let has = |name: &str| facts.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        let denied = facts.lacking.unwrap_or_default();
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
            finding
        });
        Ok(())
    }
}
