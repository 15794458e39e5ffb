//! Finds the schemas of the tables where the URL names none, and other tables of the same names in the database.
//!
//! Behind a pooler a session may carry the `search_path` and the temporary tables of another client. So shedlock finds
//! the schema by the role's own `search_path`. A session of its own needs none of this: each statement says which
//! server process must execute it.

use tokio_postgres::types::Type;

use super::super::sql::{TABLES, Table};
use super::session::{Failure, Session};
use super::statements::PLACES;
use super::{BackendError, Postgres};

/// Schemas and tables that the database reports. All names are quoted where they have to be.
pub(super) struct Places {
    /// Schemas of the role's own `search_path`, in order.
    path: Vec<String>,
    /// Schema and bare name of each table that is named like one of shedlock's.
    found: Vec<(String, String)>,
}

impl Places {
    /// Returns the schema in which the role by itself would find the table.
    pub(super) fn of(&self, name: &str) -> Option<&String> {
        self.path.iter().find(|schema| self.found.iter().any(|(place, table)| place == *schema && table == name))
    }

    /// Returns the tables of this name in all schemas.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        self.found.iter().filter(move |(_, table)| table == name).map(|(schema, table)| format!("{schema}.{table}"))
    }
}

impl Postgres {
    /// Adds schemas to the table names if another client may have changed the session. From then on [`Session::is_own`]
    /// is certain, or the tables are placed.
    pub(super) fn place(&mut self, session: &mut Session) -> Result<Places, Failure> {
        let places = self.places(session)?;
        if session.is_own() || self.tables.are_placed() {
            return Ok(places);
        }
        let [locks, runs] = TABLES.map(|table| places.of(&self.tables.bare(table)));
        let Some(locks) = locks.or_else(|| places.path.iter().find(|schema| !schema.starts_with("pg_"))) else {
            let name = self.tables.name(Table::Locks);
            let message = format!("there is no schema for the table {name} in the search_path of the role");
            return Err(BackendError::permanent(message).hint(format!("name the schema: ?table=SCHEMA.{name}")).into());
        };
        self.tables.place(locks, runs.unwrap_or(locks));
        Ok(places)
    }

    fn places(&mut self, session: &mut Session) -> Result<Places, Failure> {
        let names = TABLES.map(|table| self.tables.bare(table));
        let rows = self.send(session, PLACES, &[(&names.as_slice(), Type::TEXT_ARRAY)])?;
        let mut places = Places { path: Vec::new(), found: Vec::new() };
        for row in rows {
            session.served_by(row.try_get(0)?);
            places.path = row.try_get(1)?;
            if let (Some(schema), Some(name)) = (row.try_get(2)?, row.try_get(3)?) {
                places.found.push((schema, name));
            }
        }
        Ok(places)
    }
}
