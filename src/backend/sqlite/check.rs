//! Whether this host can lock here, one thing after the other.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::connect::BOOT_ID;
use super::statements::{ADD_COLUMNS, CREATE};
use super::{Sqlite, history, mount};
use crate::backend::sql::{Column, Columns, Dialect};
use crate::backend::{Finding, Reached};
use crate::home;

const JOURNAL: &str = "PRAGMA journal_mode";
const SOUND: &str = "PRAGMA quick_check(1)";
const COLUMNS: &str =
    "SELECT name, lower(type), NOT \"notnull\", dflt_value IS NOT NULL, pk FROM pragma_table_info(?1)";
/// The unique keys of a table, as their columns with commas between them, in the order of the alphabet.
const KEYS: &str = "SELECT (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(list.name) ORDER BY name)) \
    FROM pragma_index_list(?1) AS list WHERE \"unique\" AND NOT partial";
const KIND: &str = "SELECT type FROM sqlite_schema WHERE name = ?1";

/// What a table of ours has beside the Java library's columns.
const OURS: [&str; 3] = ["boot_id", "boot_until", "boot_for"];
const RUNS: [&str; 8] = ["id", "name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

/// How long to wait for others that have the file locked.
const PATIENCE: Duration = Duration::from_secs(2);
/// Free bytes below which it is unwise to go on: some logs and the file itself.
const ROOM: u64 = 16 << 20;

/// File systems that are gone with the machine or the container.
const SHORT_LIVED: [(&str, &str); 3] = [
    ("tmpfs", "a reboot forgets at-least, every and the history"),
    ("ramfs", "a reboot forgets at-least, every and the history"),
    ("overlay", "it mostly is a container's own, which no other container sees and which goes with it"),
];

/// The types that are written mean nothing to SQLite.
const DIALECT: Dialect = Dialect {
    change: "move the file away, and have a new one made",
    not_null: "move the file away, and have a new one made",
    text: ["VARCHAR(64)", "VARCHAR(255)"],
    time: "TEXT",
    digits: 3,
    add_key: "",
};

impl Sqlite {
    /// Tries what a run needs.
    pub(super) fn probe(&mut self, tell: &mut dyn FnMut(Finding)) -> Reached {
        if let Err(trouble) = self.file.settle() {
            tell(Finding::of_trouble("file", trouble));
            return Reached::No;
        }
        let there = !self.file.is_missing();
        match self.file.refuse_network() {
            Err(trouble) => {
                tell(Finding::of_trouble("file system", trouble));
                return Reached::No;
            }
            Ok(()) => self.tell_file_system(tell),
        }
        let connection = match self.connect() {
            Ok(connection) => connection,
            Err(trouble) => {
                tell(Finding::of_trouble("file", trouble));
                return Reached::No;
            }
        };
        tell(self.judge_file(there));
        // Others may be at work, and here nobody waits for more.
        let outcome = connection.busy_timeout(PATIENCE).and_then(|()| self.probe_database(&connection, tell));
        let _ = connection.busy_timeout(Duration::ZERO);
        self.connection = Some(connection);
        self.tell_boot(tell);
        match outcome {
            Ok(()) => Reached::Yes,
            Err(error) => {
                let trouble = self.explain(&error);
                tell(Finding::of_trouble("file", trouble));
                Reached::No
            }
        }
    }

    fn tell_file_system(&self, tell: &mut dyn FnMut(Finding)) {
        let kind = self.file.file_system().unwrap_or_else(|| "of a kind that cannot be known".to_owned());
        tell(match SHORT_LIVED.iter().find(|(known, _)| *known == kind) {
            Some((_, why)) => {
                Finding::unwise("file system", format!("{kind}: {why}"), "name a file on a disk that stays")
            }
            None => Finding::good("file system", format!("{kind}, a local one")),
        });
        if let Some(free) = self.file.free().filter(|free| *free < ROOM) {
            let seen = format!("only {} KiB are free: when nothing is left no lock can be taken", free / 1024);
            tell(Finding::unwise("space", seen, "make room on the disk"));
        }
    }

    fn judge_file(&self, there: bool) -> Finding {
        let path = self.file.path().display();
        let (mode, owner) = self.file.mode_and_owner().unwrap_or_default();
        let owner = home::name_of(owner);
        let made = if there { "" } else { "was missing, and is made; it " };
        let seen = format!("{path} {made}has mode {mode:04o}, and belongs to user {owner}");
        match mode & 0o002 {
            0 => Finding::good("file", seen),
            _ => Finding::unwise(
                "file",
                format!("{seen}: everybody on this host can free and take every lock"),
                format!("chmod o-w {path}"),
            ),
        }
    }

    fn probe_database(&mut self, connection: &Connection, tell: &mut dyn FnMut(Finding)) -> rusqlite::Result<()> {
        let text = |statement: &str| connection.query_row(statement, (), |row| row.get::<_, String>(0));
        let (journal, sound) = (text(JOURNAL)?, text(SOUND)?);
        let seen = format!("SQLite {}, journal in {journal} mode", rusqlite::version());
        tell(match journal.as_str() {
            "wal" => Finding::good("version", seen),
            _ => Finding::unwise(
                "version",
                format!("{seen}: whoever reads keeps others from writing"),
                "PRAGMA journal_mode = WAL",
            ),
        });
        if sound != "ok" {
            let advice = super::DAMAGED;
            tell(Finding::bad("file", format!("it is damaged: {sound}"), advice));
        }
        let table = self.table.clone();
        if self.probe_there(connection, &table, CREATE, "table", tell)? {
            self.probe_columns(connection, &table, tell)?;
        }
        let runs = format!("{table}_history");
        let mut about = Vec::new();
        if self.probe_there(connection, &runs, history::CREATE, "history", &mut |finding| about.push(finding))? {
            let (columns, keys) = (columns(connection, &runs)?, keys(connection, &runs)?);
            let has = |name: &str| columns.iter().any(|(column, _)| column.name == name);
            if !RUNS.iter().all(|name| has(name)) || !keys.iter().any(|key| key == "name,owner") {
                about = vec![Finding::unwise(
                    "history",
                    format!("{runs} is not the table of runs; locks work without tokens and without a history"),
                    format!("rename it, for instance with `ALTER TABLE {runs} RENAME TO old`; a new one is made"),
                )];
            }
        }
        about.into_iter().for_each(tell);
        Ok(())
    }

    /// Tells of a table, and makes one that is missing. Whether there is one now.
    fn probe_there(
        &self,
        connection: &Connection,
        table: &str,
        create: &str,
        subject: &'static str,
        tell: &mut dyn FnMut(Finding),
    ) -> rusqlite::Result<bool> {
        let mut kind = connection.prepare(KIND)?;
        let kind: Option<String> = kind.query_map([table], |row| row.get(0))?.next().transpose()?;
        let Some(kind) = kind else {
            connection.execute_batch(&self.statements().fill(create))?;
            tell(Finding::good(subject, format!("the table {table} was missing, and is made")));
            return Ok(true);
        };
        if kind == "table" {
            tell(Finding::good(subject, format!("the table {table} is there")));
            return Ok(true);
        }
        tell(Finding::bad(subject, format!("{table} is no table, but a {kind}"), "name a table with ?table="));
        Ok(false)
    }

    fn probe_columns(
        &self,
        connection: &Connection,
        table: &str,
        tell: &mut dyn FnMut(Finding),
    ) -> rusqlite::Result<()> {
        let found = columns(connection, table)?;
        let alone = found.iter().filter(|(_, key)| *key).count() == 1;
        let is_key = alone && found.iter().any(|(column, key)| *key && column.name == "name");
        let all: Vec<Column> = found.into_iter().map(|(column, _)| column).collect();
        let has = |name: &str| all.iter().any(|column| column.name == name);
        let older = !OURS.iter().all(|name| has(name));
        let has_all = ["name", "lock_until", "locked_at", "locked_by"].iter().all(|name| has(name));
        if older && has_all {
            connection.execute_batch(&self.statements().fill(ADD_COLUMNS))?;
            tell(Finding::good("columns", "those of the Java library; ours for the boot clock are added"));
        } else {
            // What is written as a type does not bind SQLite.
            let lax = |column: Column| match column.name.as_str() {
                "lock_until" | "locked_at" => Column { kind: "timestamp".to_owned(), ..column },
                _ => Column { kind: "text".to_owned(), ..column },
            };
            let all = all.into_iter().map(lax).collect();
            let good = "those that locks need".to_owned();
            for finding in (Columns { table, all, dialect: &DIALECT }).judge() {
                let seen = if finding.advice.is_none() { good.clone() } else { finding.seen };
                tell(Finding { seen, ..finding });
            }
        }
        if !is_key && !keys(connection, table)?.iter().any(|key| key == "name") {
            tell(Finding::bad(
                "key",
                format!(
                    "{table} has neither a primary key nor a unique one on name alone: a lock could be there twice"
                ),
                format!("CREATE UNIQUE INDEX {table}_name ON {table} (name)"),
            ));
        }
        Ok(())
    }

    fn tell_boot(&self, tell: &mut dyn FnMut(Finding)) {
        tell(match self.boot {
            Some(_) if mount::is_point(Path::new(BOOT_ID)) => Finding::unwise(
                "boot",
                format!(
                    "something is mounted at {BOOT_ID}: between this container and others locks go by the wall clock"
                ),
                "do not set the clock while jobs run, or name a server",
            ),
            Some(_) => Finding::good("boot", "this boot has an id: a reboot frees the locks of jobs that ran"),
            None => Finding::unwise(
                "boot",
                format!("{BOOT_ID} cannot be read: locks go by the wall clock, and outlive a reboot"),
                "mount /proc where jobs run",
            ),
        });
    }
}

/// The columns of a table, and which of them are its primary key.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(Column, bool)>> {
    let mut question = connection.prepare(COLUMNS)?;
    let read = |row: &rusqlite::Row<'_>| {
        let column = Column { name: row.get(0)?, kind: row.get(1)?, nullable: row.get(2)?, optional: row.get(3)? };
        Ok((column, row.get::<_, i64>(4)? > 0))
    };
    question.query_map([table], read)?.collect()
}

fn keys(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut question = connection.prepare(KEYS)?;
    question.query_map([table], |row| row.get::<_, Option<String>>(0).map(Option::unwrap_or_default))?.collect()
}
