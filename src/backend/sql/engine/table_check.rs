//! Checks the tables, for `shedlock check`: their columns and keys, and the rights to them.

use super::columns::{Columns, NO_ENDS, NO_TOKENS};
use super::database::{CreateMissing, Database, Facts, Table};
use super::locks::SqlLocks;
use crate::backend::{Finding, FindingSink, Grade, LockTest};
use crate::lock::{BackendError, ErrorClass};

/// Columns of the history.
const HISTORY_COLUMNS: [&str; 8] = ["id", "name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

impl<D: Database> SqlLocks<D> {
    /// Checks everything that a run needs.
    pub(crate) fn check_all(&mut self, tell: FindingSink<'_>) -> LockTest {
        let checked = match self.database.check_server(&mut self.session, tell) {
            Ok(LockTest::Possible) => self.check_tables(tell).map(|()| LockTest::Possible),
            stopped => stopped,
        };
        checked.unwrap_or_else(|error| {
            tell(Finding::from_error(D::SUBJECT, error));
            LockTest::Pointless
        })
    }

    /// Checks both tables. The error means that the server no longer answers.
    fn check_tables(&mut self, tell: FindingSink<'_>) -> Result<(), BackendError> {
        let mut opened = match self.session.take() {
            Some(session) => Some(session),
            None => self.database.connect(CreateMissing::Yes)?,
        };
        let Some(session) = &mut opened else { return Ok(()) };
        let checked = self.check_locks(session, tell).and_then(|()| self.check_history(session, tell));
        self.database.finish_check(session, tell);
        let Err(failure) = checked else {
            self.session = opened;
            return Ok(());
        };
        if self.database.can_go_on(session, &failure) {
            self.session = opened;
        }
        // A server that refuses these queries for good may still allow an acquisition, so the check remains undecided.
        let error = self.database.explain(&failure).error;
        if error.class != ErrorClass::Permanent {
            return Err(error);
        }
        tell(Finding::refused("table", error));
        Ok(())
    }

    /// Describes a table, and creates it if it is missing. Returns the finding about the table as a whole; the caller
    /// may have a worse one to report instead.
    fn find_or_create(
        &mut self,
        session: &mut D::Session,
        table: Table,
        subject: &'static str,
    ) -> Result<(Finding, Option<Facts>), D::Failure> {
        let mut state = "is there";
        let mut facts = self.database.describe_table(session, table)?;
        if facts.is_none() {
            match Self::create_unless_elsewhere(&mut self.database, session, table) {
                Ok(true) => state = "was missing and has been created",
                Ok(false) => {}
                Err(failure) => {
                    let finding = Finding::from_error(subject, self.permanent_error(failure)?);
                    let worse = Finding {
                        grade: Grade::Unwise,
                        seen: format!("{}; {NO_TOKENS}", finding.seen),
                        ..finding.clone()
                    };
                    return Ok((if table == Table::Locks { finding } else { worse }, None));
                }
            }
            facts = self.database.describe_table(session, table)?;
        }
        let good = Finding::good(subject, format!("the table {} {state}", self.database.name(table)));
        Ok((facts.as_mut().and_then(|facts| facts.table_finding.take()).unwrap_or(good), facts))
    }

    fn check_locks(&mut self, session: &mut D::Session, tell: FindingSink<'_>) -> Result<(), D::Failure> {
        let (finding, facts) = self.find_or_create(session, Table::Locks, "table")?;
        let (name, grantee) = (self.database.name(Table::Locks), self.database.grantee());
        tell(finding);
        let Some(facts) = facts else { return Ok(()) };
        if !facts.columns.is_empty() {
            let columns = Columns { table: &name, all: facts.columns, dialect: &D::DIALECT };
            columns.judge().into_iter().chain(facts.more_findings).for_each(&mut *tell);
            if !facts.keys.iter().any(|key| key == "name") {
                let seen = "has neither a primary key nor a unique key on name alone: it could contain a lock twice";
                let add = D::DIALECT.add_key.replace("{table}", &name);
                tell(Finding::bad("key", format!("{name} {seen}"), add));
            }
        }
        match facts.missing_rights.map(|rights| rights.join(", ")) {
            None => {}
            Some(rights) if rights.is_empty() => {
                tell(Finding::good("rights", format!("SELECT, INSERT and UPDATE on {name}")));
            }
            Some(rights) => tell(Finding::bad(
                "rights",
                format!("{} has no right to {rights} on {name}", self.database.user()),
                format!("GRANT {rights} ON {name} TO {grantee}"),
            )),
        }
        Ok(())
    }

    /// Checks the history. Locks work without it, but have no tokens.
    fn check_history(&mut self, session: &mut D::Session, tell: FindingSink<'_>) -> Result<(), D::Failure> {
        let (finding, facts) = self.find_or_create(session, Table::Runs, "history")?;
        let (name, user) = (self.database.name(Table::Runs), self.database.user());
        let Some(facts) = facts else {
            tell(finding);
            return Ok(());
        };
        let has = |name: &str| facts.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        let denied = facts.missing_rights.unwrap_or_default();
        let mut more = facts.more_findings.into_iter();
        tell(if !denied.is_empty() {
            let is_only_for_ends = denied.iter().all(|right| facts.rights_for_ends.contains(&right.as_str()));
            let without = if is_only_for_ends { NO_ENDS } else { NO_TOKENS };
            let seen = format!("{user} has no right to {} on {name}; {without}", denied.join(", "));
            let grantee = self.database.grantee();
            Finding::unwise("history", seen, format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {grantee}"))
        } else if !HISTORY_COLUMNS.iter().all(|name| has(name)) || !facts.stores_runs {
            let seen =
                format!("the table {name} is not a table of runs; locks work without tokens and without a history");
            let create = self.database.create_statement(Table::Runs);
            Finding::unwise("history", seen, format!("rename it, and create instead: {create}"))
        } else {
            more.next().unwrap_or(finding)
        });
        more.for_each(tell);
        Ok(())
    }
}
