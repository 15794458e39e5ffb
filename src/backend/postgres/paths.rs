//! Which tables are meant where the URL names no schema, and where else the database has tables of their names.
//!
//! Behind a pooler a session may carry the `search_path` and the temporary tables of another client. So the schema is
//! found by the `search_path` that the role has of its own. A session of our own needs none of this: each statement says
//! which process has to carry it out.

use tokio_postgres::types::Type;

use super::super::sql::{TABLES, Table};
use super::session::{Failure, Session};
use super::statements::PLACES;
use super::{BackendError, Postgres};

/// What the database says of the schemas. All names are quoted where they have to be.
pub(super) struct Places {
    /// The schemas of the role's own `search_path`, in their order.
    path: Vec<String>,
    /// The schema and the bare name of each table that has one of our names.
    found: Vec<(String, String)>,
}

impl Places {
    /// The schema in which the role by itself would find the table.
    pub(super) fn of(&self, name: &str) -> Option<&String> {
        self.path.iter().find(|schema| self.found.iter().any(|(place, table)| place == *schema && table == name))
    }

    /// The tables of this name, wherever they are.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        self.found.iter().filter(move |(_, table)| table == name).map(|(schema, table)| format!("{schema}.{table}"))
    }
}

impl Postgres {
    /// Has the statements name the schemas, if another client may have changed the session: [`Session::is_own`] is certain
    /// from then on, or the tables are placed.
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
