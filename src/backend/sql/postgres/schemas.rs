//! Finds the schemas of the tables where the URL names none, and other tables of the same names in the database.
//!
//! Behind a pooler a session may carry the `search_path` and the temporary tables of another client. So shedlock finds the schema
//! by the role's own `search_path`. A session that only shedlock uses needs none of this: each statement says which server
//! process must execute it.

use tokio_postgres::types::Type;

use super::Postgres;
use super::admin_statements::SCHEMAS;
use super::failure::Failure;
use super::session::Session;
use crate::backend::sql::engine::{TABLES, Table};
use crate::lock::BackendError;

/// Lists the tables with shedlock's names, in all schemas. Names are quoted where they have to be.
pub(crate) struct FoundTables {
    /// Schemas of the role's own `search_path`, in order.
    path: Vec<String>,
    /// Schema and bare name of each table that is named like one of shedlock's.
    found: Vec<(String, String)>,
}

impl FoundTables {
    /// Returns the schema in which the role by itself would find the table.
    pub(crate) fn schema_of(&self, name: &str) -> Option<&String> {
        self.path.iter().find(|schema| self.found.iter().any(|(found, table)| found == *schema && table == name))
    }

    /// Returns the tables of this name in all schemas.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        self.found.iter().filter(move |(_, table)| table == name).map(|(schema, table)| format!("{schema}.{table}"))
    }
}

impl Postgres {
    /// Adds schemas to the table names if another client may have changed the session. From then on [`Session::is_own`]
    /// is certain, or the names have their schemas.
    pub(crate) fn find_tables(&mut self, session: &mut Session) -> Result<FoundTables, Failure> {
        let found = self.query_tables(session)?;
        if session.is_own() || self.tables.are_qualified() {
            return Ok(found);
        }
        let [locks, runs] = TABLES.map(|table| found.schema_of(&self.tables.bare(table)));
        let Some(locks) = locks.or_else(|| found.path.iter().find(|schema| !schema.starts_with("pg_"))) else {
            let name = self.tables.name(Table::Locks);
            let message = format!("there is no schema for the table {name} in the search_path of the role");
            return Err(BackendError::permanent(message).hint(format!("name the schema: ?table=SCHEMA.{name}")).into());
        };
        self.tables.qualify(locks, runs.unwrap_or(locks));
        Ok(found)
    }

    fn query_tables(&mut self, session: &mut Session) -> Result<FoundTables, Failure> {
        let names = TABLES.map(|table| self.tables.bare(table));
        let rows = self.send(session, SCHEMAS, &[(&names.as_slice(), Type::TEXT_ARRAY)])?;
        let mut tables = FoundTables { path: Vec::new(), found: Vec::new() };
        for row in rows {
            session.note_process(row.try_get(0)?);
            tables.path = row.try_get(1)?;
            if let (Some(schema), Some(name)) = (row.try_get(2)?, row.try_get(3)?) {
                tables.found.push((schema, name));
            }
        }
        Ok(tables)
    }
}
