//! The connection to the file, and the host's boot, which decides whether the lock of a running job is held.

use std::io::Read;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::Sqlite;
use crate::backend::sql::{Database, Making, TABLES};
use crate::backend::{BackendError, note_reached};
use crate::system::Moment;

/// Small pages: a commit writes whole pages, and each of our rows is far smaller than one.
const PAGE_SIZE: &str = "PRAGMA page_size = 1024";

impl Sqlite {
    /// Opens the file, and creates a missing one if `making` says so.
    pub(super) fn open_file(&mut self, making: Making) -> Result<Option<Connection>, BackendError> {
        if let Some(connection) = self.connect_to_file()? {
            return Ok(Some(connection));
        }
        if making == Making::No {
            return self.file.miss_directory().map(|()| None);
        }
        let [create, create_history] = TABLES.map(|table| self.creation(table));
        self.file.create(&format!("{PAGE_SIZE}; {create}; {create_history}"))?;
        self.made = true;
        self.connect_to_file()?.ok_or_else(|| self.file.explain_refusal()).map(Some)
    }

    /// Opens the file, or returns `None` if it is missing.
    fn connect_to_file(&mut self) -> Result<Option<Connection>, BackendError> {
        self.file.settle()?;
        self.file.refuse_network()?;
        if self.boot.is_none() {
            self.boot = boot_id();
            self.ahead_ms = ahead_ms();
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
        let connection = if again { open() } else { opened }.map_err(|error| self.explain_error(&error))?;
        note_reached();
        let prepare = || {
            // The caller waits for other writers: it knows the deadline and the signals.
            connection.busy_timeout(Duration::ZERO)?;
            // No automatic checkpoint: a commit has a deadline and must not wait for the log to be folded.
            connection.execute_batch("PRAGMA wal_autocheckpoint = 0")?;
            connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        };
        prepare().map_err(|error| self.explain_error(&error))?;
        Ok(Some(connection))
    }
}

/// File with the id of the host's current boot; a container may have another file mounted over it.
pub(super) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the id of the host's current boot, a UUID.
fn boot_id() -> Option<String> {
    let mut id = [0; 36];
    std::fs::File::open(BOOT_ID).ok()?.read_exact(&mut id).ok()?;
    String::from_utf8(id.to_vec()).ok()
}

pub(super) fn boot_ms() -> i64 {
    i64::try_from(Moment::now().since_boot().as_millis()).unwrap_or(i64::MAX)
}

/// Reads how far this process's boot clock is ahead of the host's. In a time namespace, as some containers have, it
/// has an offset of its own, but all processes that share the file must read one clock.
fn ahead_ms() -> i64 {
    std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |offsets| boot_offset_ms(&offsets))
}

/// Parses the boot clock's offset from lines of a clock's name, seconds and nanoseconds. A kernel without time
/// namespaces has no such file, and no offset.
fn boot_offset_ms(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime")).unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().unwrap_or_default());
    let (secs, nanos) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    secs.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(boot_offset_ms("monotonic           0         0\nboottime        86400         0\n"), 86_400_000);
        assert_eq!(boot_offset_ms("monotonic 0 0\nboottime -5 250000000\n"), -4_750);
        assert_eq!(boot_offset_ms(""), 0);
    }
}
