//! Goes on where a server, a table or the history is missing, and explains what only a person can mend.

use super::database::{Database, Explained, Fault, History, Making, Table};
use super::{Absent, SqlLocks};
use crate::backend::{BackendError, ErrorClass};

/// Names the rights to the history that taking a lock needs.
const ALL: &str = "SELECT, INSERT, UPDATE, DELETE";

impl<D: Database> SqlLocks<D> {
    /// Asks one server after the other, as long as they can only be read.
    pub(super) fn ask_each<T>(
        &mut self,
        history: History,
        absent: Absent<T>,
        mut work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        let making = if matches!(absent, Absent::Made) { Making::Yes } else { Making::No };
        for left in (0..self.database.servers()).rev() {
            self.database.begin();
            let Some(mut session) =
                self.session.take().map_or_else(|| self.database.connect(making), |it| Ok(Some(it)))?
            else {
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
            if fault == Fault::ReadOnly {
                self.database.pass_over();
            } else if self.database.outlives(&session, &failure) {
                self.session = Some(session);
            }
            if left == 0 || fault != Fault::ReadOnly {
                return Err(error);
            }
        }
        Err(BackendError::permanent("there is no server to connect to"))
    }

    /// Asks a server, and again with its tables made or without the history; `None` where the table of locks is missing.
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
                    // The fault was the history's.
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
                    refusal = Some(Self::no_history(&self.database, &found.said, found.lacks(ALL)));
                    self.database.roll_back(session)?;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Returns trouble that only a person mends. The error is a failure that may pass, or that another server mends.
    pub(super) fn lasting(&self, failure: D::Failure) -> Result<BackendError, D::Failure> {
        match self.database.explain(&failure) {
            Explained { fault, error, .. } if error.class == ErrorClass::Permanent && fault != Fault::ReadOnly => {
                Ok(error)
            }
            _ => Err(failure),
        }
    }

    /// Makes a table that a taking misses.
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
        if found.fault == Fault::ReadOnly {
            return Err(failure);
        }
        if found.error.class != ErrorClass::Permanent {
            // Nothing was asked for yet.
            return Err(BackendError { ambiguous: false, ..found.error }.into());
        }
        let why = format!("and it cannot be created: {}", found.said);
        let error = database.no_place(table, &failure);
        Err(error.unwrap_or_else(|| Self::not_made(database, table, &why, found.lacks(ALL))).into())
    }

    /// Explains that a table is missing, and has to be made by a person.
    fn not_made(database: &D, table: Table, why: &str, lacking: Option<&str>) -> BackendError {
        if table == Table::Runs {
            return Self::no_history(database, &format!("it does not exist, {why}"), lacking);
        }
        BackendError::permanent(format!("there is no table {}, {why}", database.name(table)))
            .hint(format!("ask the database's owner to run: {}", database.creation(table)))
    }

    /// Explains that the table of locks was there, and is not any more.
    fn gone(&self) -> BackendError {
        BackendError::permanent(format!("there is no table {} any more", self.database.name(Table::Locks)))
            .hint("only taking a lock creates it: find out who dropped or renamed it")
    }

    /// Explains why the table of runs is of no use. `lacking` are the rights that are needed where it, or one of them, is missing;
    /// otherwise something else is in its place.
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
