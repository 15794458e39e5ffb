//! Goes on where a server, a table or the history is missing, and explains faults that only a person can fix.

use super::database::{Database, Explained, Fault, History, Making, Table};
use super::{Absent, SqlLocks};
use crate::backend::{BackendError, ErrorClass, Forgotten};
use crate::lock::Removal;

/// Rights to the history that taking a lock needs.
const ALL: &str = "SELECT, INSERT, UPDATE, DELETE";

impl<D: Database> SqlLocks<D> {
    /// Performs an operation on one server after the other, as long as they grant no locks.
    pub(super) fn ask_each<T>(
        &mut self,
        history: History,
        absent: Absent<T>,
        mut work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        let making = if matches!(absent, Absent::Made) { Making::Yes } else { Making::No };
        // A server that is passed over may have executed the request: a node of a cluster can fail as it commits.
        let mut is_unclear = false;
        for left in (0..self.database.servers()).rev() {
            self.database.begin();
            let opened = self.session.take().map_or_else(|| self.database.connect(making), |it| Ok(Some(it)));
            let opened = opened.map_err(|error| BackendError { ambiguous: error.ambiguous || is_unclear, ..error })?;
            let Some(mut session) = opened else {
                return match absent {
                    Absent::Answer(answer) | Absent::Gone(answer) => Ok(answer),
                    Absent::Made => Err(self.gone()),
                };
            };
            let failure = match self.mend(&mut session, history, making, &mut work) {
                Ok(answer) => {
                    self.session = Some(session);
                    return match (answer, absent) {
                        (Some(answer), _) | (None, Absent::Answer(answer)) => Ok(answer),
                        _ => Err(self.gone()),
                    };
                }
                Err(failure) => failure,
            };
            let Explained { fault, error, .. } = self.database.explain(&failure);
            if fault == Fault::Unfit {
                self.database.pass_over();
            } else if self.database.outlives(&session, &failure) {
                self.session = Some(session);
            }
            is_unclear |= error.ambiguous;
            if left == 0 || fault != Fault::Unfit {
                return Err(BackendError { ambiguous: is_unclear, ..error });
            }
        }
        Err(BackendError::permanent("there is no server to connect to"))
    }

    /// Performs an operation on one server. After a failure it creates the table or drops the history, and tries again.
    /// `None` means that the table of locks is missing.
    fn mend<T>(
        &mut self,
        session: &mut D::Session,
        history: History,
        making: Making,
        work: &mut impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<Option<T>, D::Failure> {
        let mut made = Vec::new();
        let mut refusal = None;
        loop {
            let is_barred = self.unrecorded.is_some() || refusal.is_some();
            let history = if is_barred { History::Without } else { history };
            let failure = match work(&mut self.database, session, history) {
                Ok(answer) => {
                    // Only the history was to blame.
                    self.unrecorded = refusal.or(self.unrecorded.take());
                    return Ok(Some(answer));
                }
                Err(failure) => failure,
            };
            let found = self.database.explain(&failure);
            match found.fault {
                Fault::Missing(table) if making == Making::Yes && !made.contains(&table) => {
                    made.push(table);
                    self.database.roll_back(session)?;
                    match (Self::create_first(&mut self.database, session, table), table) {
                        (Ok(_), _) => {}
                        (Err(failure), Table::Locks) => return Err(failure),
                        (Err(failure), Table::Runs) => self.unrecorded = Some(self.lasting(failure)?),
                    }
                }
                Fault::Missing(Table::Runs) if history == History::With => {
                    self.database.roll_back(session)?;
                    let why = "it does not exist, and only taking a lock creates it";
                    self.unrecorded = Some(Self::no_history(&self.database, why, Some(ALL)));
                }
                Fault::Missing(_) => return self.database.roll_back(session).map(|()| None),
                Fault::History if history == History::With => {
                    let error = Self::no_history(&self.database, &found.said, found.lacks(ALL));
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
    pub(super) fn remove(
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
            Fault::Missing(Table::Runs) | Fault::History if !found.is_denied => {
                database.roll_back(session)?;
                match database.forget(session, removal, History::Without) {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                }
            }
            _ => failure,
        };
        let found = database.explain(&failure);
        if !found.is_denied {
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
    pub(super) fn lasting(&self, failure: D::Failure) -> Result<BackendError, D::Failure> {
        match self.database.explain(&failure) {
            Explained { fault, error, .. } if error.class == ErrorClass::Permanent && fault != Fault::Unfit => {
                Ok(error)
            }
            _ => Err(failure),
        }
    }

    /// Creates a table that a taking needs, unless another schema has one of that name.
    pub(super) fn create_first(database: &mut D, session: &mut D::Session, table: Table) -> Result<bool, D::Failure> {
        let others = database.elsewhere(session, table)?;
        let Some(first) = others.first() else { return Self::create(database, session, table) };
        let why = format!("and it is not created, because there is {}", others.join(" and "));
        let mut error = Self::not_made(database, table, &why, Some(ALL));
        if let (Table::Locks, Some(hint)) = (table, &error.hint) {
            let hint = format!("select one, such as ?table={first}, or {hint}");
            error = error.hint(hint);
        }
        Err(error.into())
    }

    pub(super) fn create(database: &mut D, session: &mut D::Session, table: Table) -> Result<bool, D::Failure> {
        let failure = match database.create(session, table) {
            Ok(is_made) => return Ok(is_made),
            Err(failure) => failure,
        };
        let found = database.explain(&failure);
        if found.fault == Fault::Unfit {
            return Err(failure);
        }
        if found.error.class != ErrorClass::Permanent {
            // The operation itself has not been sent yet.
            return Err(BackendError { ambiguous: false, ..found.error }.into());
        }
        let why = format!("and it cannot be created: {}", found.said);
        let error = database.no_place(table, &failure);
        Err(error.unwrap_or_else(|| Self::not_made(database, table, &why, found.lacks(ALL))).into())
    }

    /// Explains that a table is missing, and that a person must create it.
    fn not_made(database: &D, table: Table, why: &str, lacking: Option<&str>) -> BackendError {
        if table == Table::Runs {
            return Self::no_history(database, &format!("it does not exist, {why}"), lacking);
        }
        BackendError::permanent(format!("there is no table {}, {why}", database.name(table)))
            .hint(format!("ask the database's owner to run: {}", database.creation(table)))
    }

    /// Explains that the table of locks existed and is gone.
    fn gone(&self) -> BackendError {
        BackendError::permanent(format!("there is no table {} any more", self.database.name(Table::Locks)))
            .hint("only taking a lock creates it: find out who dropped or renamed it")
    }

    /// Explains why there is no history. `lacking` names the rights that the user needs if the table or a right is
    /// missing; `None` means that something else has the table's name.
    pub(super) fn no_history(database: &D, why: &str, lacking: Option<&str>) -> BackendError {
        let (name, create) = (database.name(Table::Runs), database.creation(Table::Runs));
        BackendError::permanent(format!("no history in the table {name}: {why}")).hint(match lacking {
            Some(_) if database.user().is_empty() => format!("ask the database's owner to run: {create}"),
            Some(rights) => {
                format!("ask the database's owner to run: {create}; GRANT {rights} ON {name} TO {}", database.grantee())
            }
            None => format!("rename it, and create instead: {create}; or name other tables with ?table="),
        })
    }
}
