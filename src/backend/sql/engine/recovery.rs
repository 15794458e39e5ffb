//! Recovers an operation from a server that grants no locks, a missing table or a refused history, and explains what only a
//! person can mend.

use super::database::{CreateMissing, Database, Explanation, Fault, History, Table};
use super::locks::{IfMissing, SqlLocks};
use crate::lock::Removal;
use crate::lock::{BackendError, ErrorClass, Forgotten};

/// Rights to the history that acquiring a lock needs.
const HISTORY_RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE";

impl<D: Database> SqlLocks<D> {
    /// Performs an operation on one server after the other, as long as they grant no locks.
    pub(crate) fn try_servers<T>(
        &mut self,
        history: History,
        if_missing: IfMissing<T>,
        mut work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        let create_missing =
            if matches!(if_missing, IfMissing::Create) { CreateMissing::Yes } else { CreateMissing::No };
        // A server that is passed over may have executed the request: a node of a cluster can fail as it commits.
        let mut is_unclear = false;
        for left in (0..self.database.servers()).rev() {
            self.database.start_attempt();
            let opened = self.session.take().map_or_else(|| self.database.connect(create_missing), |it| Ok(Some(it)));
            let opened = opened.map_err(|error| BackendError { ambiguous: error.ambiguous || is_unclear, ..error })?;
            let Some(mut session) = opened else {
                return match if_missing {
                    IfMissing::Return(answer) | IfMissing::Error(answer) => Ok(answer),
                    IfMissing::Create => Err(self.gone()),
                };
            };
            let failure = match self.try_server(&mut session, history, create_missing, &mut work) {
                Ok(answer) => {
                    self.session = Some(session);
                    return match (answer, if_missing) {
                        (Some(answer), _) | (None, IfMissing::Return(answer)) => Ok(answer),
                        _ => Err(self.gone()),
                    };
                }
                Err(failure) => failure,
            };
            let Explanation { fault, error, .. } = self.database.explain(&failure);
            if fault == Fault::GrantsNoLocks {
                self.database.pass_over();
            } else if self.database.can_go_on(&session, &failure) {
                self.session = Some(session);
            }
            is_unclear |= error.ambiguous;
            if left == 0 || fault != Fault::GrantsNoLocks {
                return Err(BackendError { ambiguous: is_unclear, ..error });
            }
        }
        Err(BackendError::permanent("there is no server to connect to"))
    }

    /// Performs an operation on one server. After a failure it creates the table or drops the history, and tries again.
    /// `None` means that the table of locks is missing.
    fn try_server<T>(
        &mut self,
        session: &mut D::Session,
        history: History,
        create_missing: CreateMissing,
        work: &mut impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<Option<T>, D::Failure> {
        let mut made = Vec::new();
        let mut refusal = None;
        loop {
            let has_no_history = self.history_error.is_some() || refusal.is_some();
            let history = if has_no_history { History::Without } else { history };
            let failure = match work(&mut self.database, session, history) {
                Ok(answer) => {
                    // Only the history was to blame.
                    self.history_error = refusal.or(self.history_error.take());
                    return Ok(Some(answer));
                }
                Err(failure) => failure,
            };
            let found = self.database.explain(&failure);
            match found.fault {
                Fault::TableMissing(table) if create_missing == CreateMissing::Yes && !made.contains(&table) => {
                    made.push(table);
                    self.database.roll_back(session)?;
                    match (Self::create_unless_elsewhere(&mut self.database, session, table), table) {
                        (Ok(_), _) => {}
                        (Err(failure), Table::Locks) => return Err(failure),
                        (Err(failure), Table::Runs) => self.history_error = Some(self.permanent_error(failure)?),
                    }
                }
                Fault::TableMissing(Table::Runs) if history == History::With => {
                    self.database.roll_back(session)?;
                    let why = "it does not exist, and only taking a lock creates it";
                    self.history_error = Some(Self::no_history(&self.database, why, Some(HISTORY_RIGHTS)));
                }
                Fault::TableMissing(_) => return self.database.roll_back(session).map(|()| None),
                Fault::HistoryRefused if history == History::With => {
                    let error =
                        Self::no_history(&self.database, &found.server_words, found.missing_rights(HISTORY_RIGHTS));
                    refusal = Some(match found.remedy {
                        Some(remedy) => error.hint(remedy),
                        None => error,
                    });
                    self.database.roll_back(session)?;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Removes a lock and its records; the lock alone if there is no history of shedlock's. A history that this user may not
    /// change is an error: the lock would be gone, and its runs would stay.
    pub(crate) fn forget_lock(
        database: &mut D,
        session: &mut D::Session,
        removal: &Removal,
    ) -> Result<Forgotten, D::Failure> {
        let failure = match database.forget(session, removal, History::With) {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let found = database.explain(&failure);
        let failure = match found.fault {
            Fault::TableMissing(Table::Runs) | Fault::HistoryRefused if !found.lacks_right => {
                database.roll_back(session)?;
                match database.forget(session, removal, History::Without) {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                }
            }
            _ => failure,
        };
        let found = database.explain(&failure);
        if !found.lacks_right {
            return Err(failure);
        }
        let (locks, runs) = (database.name(Table::Locks), database.name(Table::Runs));
        let hint = format!(
            "only `shedlock forget` needs DELETE on the tables {locks} and {runs}: run it as their owner, or grant that to {}",
            database.user()
        );
        Err(found.error.hint(hint).into())
    }

    /// Returns the error of a failure that only a person can fix. A failure that may pass, or that another server
    /// avoids, is passed on.
    pub(crate) fn permanent_error(&self, failure: D::Failure) -> Result<BackendError, D::Failure> {
        match self.database.explain(&failure) {
            Explanation { fault, error, .. }
                if error.class == ErrorClass::Permanent && fault != Fault::GrantsNoLocks =>
            {
                Ok(error)
            }
            _ => Err(failure),
        }
    }

    /// Creates a table that an acquisition needs, unless another schema has one of that name.
    pub(crate) fn create_unless_elsewhere(
        database: &mut D,
        session: &mut D::Session,
        table: Table,
    ) -> Result<bool, D::Failure> {
        let others = database.tables_elsewhere(session, table)?;
        let Some(first) = others.first() else { return Self::create(database, session, table) };
        let why = format!("and it is not created, because there is {}", others.join(" and "));
        let mut error = Self::no_table(database, table, &why, Some(HISTORY_RIGHTS));
        if let (Table::Locks, Some(hint)) = (table, &error.hint) {
            let hint = format!("select one, such as ?table={first}, or {hint}");
            error = error.hint(hint);
        }
        Err(error.into())
    }

    /// Creates a table, and explains to a person why it could not.
    pub(crate) fn create(database: &mut D, session: &mut D::Session, table: Table) -> Result<bool, D::Failure> {
        let failure = match database.create_table(session, table) {
            Ok(is_made) => return Ok(is_made),
            Err(failure) => failure,
        };
        let found = database.explain(&failure);
        if found.fault == Fault::GrantsNoLocks {
            return Err(failure);
        }
        if found.error.class != ErrorClass::Permanent {
            // The operation itself has not been sent yet.
            return Err(BackendError { ambiguous: false, ..found.error }.into());
        }
        let why = format!("and it cannot be created: {}", found.server_words);
        let error = database.explain_creation(table, &failure);
        Err(error.unwrap_or_else(|| Self::no_table(database, table, &why, found.missing_rights(HISTORY_RIGHTS))).into())
    }

    /// Explains that a table is missing, and that a person must create it.
    fn no_table(database: &D, table: Table, why: &str, lacking: Option<&str>) -> BackendError {
        if table == Table::Runs {
            return Self::no_history(database, &format!("it does not exist, {why}"), lacking);
        }
        BackendError::permanent(format!("there is no table {}, {why}", database.name(table)))
            .hint(format!("ask the database's owner to run: {}", database.create_statement(table)))
    }

    /// Explains that the table of locks existed and is gone.
    fn gone(&self) -> BackendError {
        BackendError::permanent(format!("there is no table {} any more", self.database.name(Table::Locks)))
            .hint("only taking a lock creates it: find out who dropped or renamed it")
    }

    /// Explains why there is no history. `lacking` names the rights that the user needs if the table or a right is
    /// missing; `None` means that something else has the table's name.
    pub(crate) fn no_history(database: &D, why: &str, lacking: Option<&str>) -> BackendError {
        let (name, create) = (database.name(Table::Runs), database.create_statement(Table::Runs));
        BackendError::permanent(format!("no history in the table {name}: {why}")).hint(match lacking {
            Some(_) if database.user().is_empty() => format!("ask the database's owner to run: {create}"),
            Some(rights) => {
                format!("ask the database's owner to run: {create}; GRANT {rights} ON {name} TO {}", database.grantee())
            }
            None => format!("rename it, and create instead: {create}; or name other tables with ?table="),
        })
    }
}
