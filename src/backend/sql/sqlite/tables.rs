//! The two tables: their names, their columns, and the statements that create them.

use crate::backend::sql::engine::{Dialect, Table};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                      locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT) \
                      WITHOUT ROWID";

/// Creates the history, whose ids are the fencing tokens.
const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS {history} (id INTEGER NOT NULL, name VARCHAR(64) NOT NULL, \
                                 owner VARCHAR(255) NOT NULL, host VARCHAR(255) NOT NULL, started_at TEXT NOT NULL, \
                                 ended_at TEXT, exit_code INTEGER, outcome TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID";

const SCHEMA: &str = "\
-- The tables that shedlock needs in a SQLite file. shedlock creates the file with these tables when it first takes a lock;
-- use this to create the file beforehand. It must be in WAL mode, on a local disk. A user who takes locks must be able to
-- read and write the file and to write to its directory: SQLite has no other rights.
PRAGMA journal_mode = WAL;

-- The locks, in the layout of the Java library ShedLock, and the boot of the host that a running job belongs to:
";

/// Syntax of the statements that repair a table. SQLite cannot change a column.
pub(crate) const DIALECT: Dialect = Dialect {
    change_type: "move the file away; shedlock then creates a new one",
    not_null: "move the file away; shedlock then creates a new one",
    text: ["VARCHAR(64)", "VARCHAR(255)"],
    time: "TEXT",
    default_digits: 3,
    add_key: "CREATE UNIQUE INDEX {table}_name ON {table} (name)",
    enforces_types: false,
};

/// Names the columns from which a row is read, for `{columns}`.
const BOOT_COLUMNS: &str = "locked_by, locked_at, lock_until, boot_id, boot_until, boot_for";
const JAVA_COLUMNS: &str = "locked_by, locked_at, lock_until, NULL, NULL, NULL";

/// Assigns to the columns that shedlock adds, for `{boot}`.
const SET_BOOT: &str = ", boot_id = :boot, boot_until = :boot_until, boot_for = :boot_for";

/// Finds the id of the owner's record, for `{own}`.
const OWN_RECORD: &str = "(SELECT id FROM {history} WHERE name = :name AND owner = :owner ORDER BY id DESC LIMIT 1)";

/// Says which columns the table of locks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// The columns of the Java library, and those that shedlock adds.
    WithBoot,
    /// Only the columns of the Java library.
    JavaOnly,
}

/// Holds the names of the two tables, by that of the table of locks.
pub(crate) struct Tables<'a> {
    pub(crate) locks: &'a str,
    pub(crate) columns: Columns,
}

impl Tables<'_> {
    /// Returns a table's name as people write it.
    pub(crate) fn name(&self, table: Table) -> String {
        match table {
            Table::Locks => self.locks.to_owned(),
            Table::Runs => format!("{}_history", self.locks),
        }
    }

    /// Returns the statement that creates a table.
    pub(crate) fn create_statement(&self, table: Table) -> String {
        self.fill(if table == Table::Locks { CREATE } else { CREATE_HISTORY })
    }

    /// Returns the statements that create both tables, with comments for an operator.
    pub(crate) fn schema(&self) -> String {
        let [create, create_history] = [CREATE, CREATE_HISTORY].map(|statement| self.fill(statement));
        format!("{SCHEMA}{create};\n\n-- The runs of each lock, and the tokens:\n{create_history};\n")
    }

    /// Returns a statement with the words in braces replaced.
    pub(crate) fn fill(&self, statement: &str) -> String {
        let mut text = String::with_capacity(256);
        self.fill_into(&mut text, statement);
        text
    }

    fn fill_into(&self, text: &mut String, statement: &str) {
        let mut rest = statement;
        while let Some((plain, from)) = rest.split_once('{') {
            let (word, after) = from.split_once('}').unwrap_or((from, ""));
            text.push_str(plain);
            match (word, self.columns) {
                ("table", _) => text.extend(["\"", self.locks, "\""]),
                ("history", _) => text.extend(["\"", self.locks, "_history\""]),
                ("columns", Columns::WithBoot) => text.push_str(BOOT_COLUMNS),
                ("columns", Columns::JavaOnly) => text.push_str(JAVA_COLUMNS),
                ("boot", Columns::WithBoot) => text.push_str(SET_BOOT),
                ("boot", Columns::JavaOnly) => {}
                ("own", _) => self.fill_into(text, OWN_RECORD),
                (other, _) => text.extend(["{", other, "}"]),
            }
            rest = after;
        }
        text.push_str(rest);
    }
}
