//! Opens connections to the file, and creates a missing one.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::Sqlite;
use super::boot::Boot;
use super::errors;
use crate::backend::sql::engine::{CreateMissing, Database, TABLES};
use crate::lock::BackendError;

/// Makes pages small: a commit writes whole pages, and each row of shedlock's is far smaller than one.
const PAGE_SIZE: &str = "PRAGMA page_size = 1024";

impl Sqlite {
    /// Opens the file, and creates a missing one if `create_missing` says so.
    pub(crate) fn open_file(&mut self, create_missing: CreateMissing) -> Result<Option<Connection>, BackendError> {
        if let Some(connection) = self.connect_to_file()? {
            return Ok(Some(connection));
        }
        if create_missing == CreateMissing::No {
            return self.file.check_directory().map(|()| None);
        }
        let [create, create_history] = TABLES.map(|table| self.create_statement(table));
        self.file.create(&format!("{PAGE_SIZE}; {create}; {create_history}"))?;
        self.has_created_file = true;
        self.connect_to_file()?.ok_or_else(|| self.file.explain_open_error()).map(Some)
    }

    /// Opens the file, or returns `None` if it is missing.
    fn connect_to_file(&mut self) -> Result<Option<Connection>, BackendError> {
        self.file.follow_links()?;
        self.file.refuse_network()?;
        if self.boot.id.is_none() {
            self.boot = Boot::current();
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let open = || Connection::open_with_flags(self.file.path(), flags);
        let opened = match open() {
            Err(_) if self.file.is_missing() => return Ok(None),
            // Another process may have created the file since this one found none.
            Err(_) => open(),
            Ok(connection) => Ok(connection),
        };
        // SQLite falls back to opening read-only. By now another process may have created the file, and it is
        // writable.
        let again = opened.as_ref().is_ok_and(|found| found.is_readonly("main") == Ok(true)) && self.file.is_writable();
        let connection =
            if again { open() } else { opened }.map_err(|error| errors::explain_error(&self.file, &error))?;
        self.contact.reached();
        let prepare = || {
            // The caller waits for other writers: it knows the deadline and the signals.
            connection.busy_timeout(Duration::ZERO)?;
            // No automatic checkpoint: a commit has a deadline and must not wait for one.
            connection.execute_batch("PRAGMA wal_autocheckpoint = 0")?;
            connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        };
        prepare().map_err(|error| errors::explain_error(&self.file, &error))?;
        Ok(Some(connection))
    }
}
