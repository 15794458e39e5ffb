//! Checks, for `shedlock check`, whether this host can lock in this file.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::boot::BOOT_ID;
use super::errors::{self, DAMAGED_HINT};
use super::execute::{Failure, ask};
use super::{Sqlite, mount};
use crate::backend::sql::engine::{Column, CreateMissing, Database, Facts, Row, Table};
use crate::backend::{Finding, FindingSink, LockTest};
use crate::lock::BackendError;
use crate::system::user;

const JOURNAL: &str = "PRAGMA journal_mode";
const QUICK_CHECK: &str = "PRAGMA quick_check(1)";
const COLUMNS: &str =
    "SELECT name, lower(type), NOT \"notnull\", dflt_value IS NOT NULL FROM pragma_table_info(:table)";
/// Queries the unique keys of a table, each as its columns in alphabetical order, separated by commas.
const KEYS: &str = "SELECT (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(list.name) ORDER BY name)) \
    FROM pragma_index_list(:table) AS list WHERE \"unique\" AND NOT partial";
const KIND: &str = "SELECT type FROM sqlite_schema WHERE name = :table";

/// Time to wait for other processes that have the file locked.
const FILE_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Free bytes below which the check warns; room for some logs and the file itself.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// File systems that do not outlive the machine or the container.
const SHORT_LIVED: [(&str, &str); 3] = [
    ("tmpfs", "a reboot loses at-least, every and the history"),
    ("ramfs", "a reboot loses at-least, every and the history"),
    ("overlay", "it is usually private to one container, and deleted with it"),
];

impl Sqlite {
    /// Reports on the file; fails if the file cannot be read.
    pub(crate) fn check_file(
        &mut self,
        session: &mut Option<Connection>,
        tell: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        self.file.follow_links()?;
        let there = !self.file.is_missing();
        if let Err(error) = self.file.refuse_network() {
            tell(Finding::from_error("file system", error));
            return Ok(LockTest::Pointless);
        }
        self.tell_file_system(tell);
        let Some(connection) = self.open_file(CreateMissing::Yes)? else { return Ok(LockTest::Pointless) };
        tell(self.judge_file(there));
        // Other processes may have the file locked for a moment: the check waits for them, but not longer.
        let found = connection.busy_timeout(FILE_LOCK_TIMEOUT).and_then(|()| judge_database(&connection));
        *session = Some(connection);
        found.map_err(|error| errors::explain_error(&self.file, &error))?.into_iter().for_each(tell);
        Ok(LockTest::Possible)
    }

    /// Describes a table, and adds the missing columns to one made by the Java library.
    pub(crate) fn table_facts(&mut self, session: &mut Connection, table: Table) -> Result<Option<Facts>, Failure> {
        let name = self.name(table);
        let kinds = ask(session, KIND, &name)?;
        let Some(kind) = kinds.first().and_then(|row| row.text(0)) else { return Ok(None) };
        if kind != "table" {
            let subject = if table == Table::Locks { "table" } else { "history" };
            let seen = format!("{name} is a {kind}, not a table");
            let table_finding = Some(Finding::bad(subject, seen, "name a table with ?table="));
            return Ok(Some(Facts { table_finding, ..Facts::default() }));
        }
        let mut more_findings = Vec::new();
        let columns: Vec<Column> = ask(session, COLUMNS, &name)?.iter().map(Row::column).collect();
        let has = |name: &&str| columns.iter().any(|column| column.name == **name);
        if table == Table::Locks && ["name", "lock_until", "locked_at", "locked_by"].iter().all(has) {
            more_findings.extend(self.upgrade_table(session, table)?.map(|line| Finding::good("columns", line)));
        }
        let keys: Vec<String> = ask(session, KEYS, &name)?.iter().filter_map(|row| row.text(0)).collect();
        // The statements on records need no key.
        Ok(Some(Facts { columns, more_findings, keys, stores_runs: true, ..Facts::default() }))
    }

    pub(crate) fn finish_checking(&self, session: &mut Connection, tell: FindingSink<'_>) {
        let _ = session.busy_timeout(Duration::ZERO);
        tell(self.judge_boot());
    }

    /// Reports on the file system, and on its free space.
    fn tell_file_system(&self, tell: FindingSink<'_>) {
        let kind = self.file.file_system().unwrap_or_else(|| "of unknown type".to_owned());
        tell(match SHORT_LIVED.iter().find(|(known, _)| *known == kind) {
            Some((_, why)) => {
                Finding::unwise("file system", format!("{kind}: {why}"), "name a file on a persistent disk")
            }
            None => Finding::good("file system", format!("{kind}, a local one")),
        });
        if let Some(free) = self.file.free_bytes().filter(|free| *free < MIN_FREE_BYTES) {
            let seen = format!("only {} KiB are free: without free space no lock can be taken", free / 1024);
            tell(Finding::unwise("space", seen, "free some space on the disk"));
        }
    }

    fn judge_file(&self, there: bool) -> Finding {
        let path = self.file.path().display();
        let (mode, owner) = self.file.mode_and_owner().unwrap_or_default();
        let owner = user::name_of(owner);
        let made = if there { "" } else { "was missing and has been created; it " };
        let seen = format!("{path} {made}has mode {mode:04o}, and belongs to user {owner}");
        match mode & 0o002 {
            0 => Finding::good("file", seen),
            _ => Finding::unwise(
                "file",
                format!("{seen}: every user on this host can free and take every lock"),
                format!("chmod o-w {path}"),
            ),
        }
    }

    fn judge_boot(&self) -> Finding {
        match self.boot.id {
            Some(_) if mount::is_point(Path::new(BOOT_ID)) => Finding::unwise(
                "boot",
                format!(
                    "something is mounted at {BOOT_ID}: between this container and others locks go by the wall clock"
                ),
                "do not set the clock while jobs run, or use a server as backend",
            ),
            Some(_) => Finding::good("boot", "this boot has an id: a reboot frees the locks of running jobs"),
            None => Finding::unwise(
                "boot",
                format!("{BOOT_ID} cannot be read: locks go by the wall clock, and outlive a reboot"),
                "mount /proc where jobs run",
            ),
        }
    }
}

fn judge_database(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let text = |statement: &str| connection.query_row(statement, (), |row| row.get::<_, String>(0));
    let (journal, sound) = (text(JOURNAL)?, text(QUICK_CHECK)?);
    let seen = format!("SQLite {}, journal in {journal} mode", rusqlite::version());
    let mut found = vec![match journal.as_str() {
        "wal" => Finding::good("version", seen),
        _ => Finding::unwise("version", format!("{seen}: readers block writers"), "PRAGMA journal_mode = WAL"),
    }];
    if sound != "ok" {
        found.push(Finding::bad("file", format!("it is damaged: {sound}"), DAMAGED_HINT));
    }
    Ok(found)
}
