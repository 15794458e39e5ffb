//! The two tables: their names in statements, and the statements that create them.

use std::time::Duration;

use super::templates::{BEGINNING, CLOCK_WAS_AHEAD, HELD, IS_RUN, TIMES_ARE_WRONG};
use crate::backend::sql::engine::{Dialect, Table};

/// Creates the table of locks. Older servers give a `TIMESTAMP` without a default one of their own, which other
/// settings of theirs then refuse.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table}
    (name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    lock_until TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_by VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL) ENGINE = InnoDB";

/// Creates the history. The index finds a record, and all records of a name, which are read as a whole. It has as much of the
/// owner as servers take into an index, which is all of it but the at-least of `acquire`.
const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS {history}
    (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    host VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, started_at DATETIME(3) NOT NULL,
    ended_at DATETIME(3), exit_code INT, outcome VARCHAR(16) CHARACTER SET utf8mb4, INDEX name (name, owner(160))) ENGINE = InnoDB";

const SCHEMA: &str = "\
-- The tables that shedlock needs in MySQL or MariaDB. Run this in the database that the URL names. shedlock creates the tables
-- itself when it first takes a lock, if it may; tables that exist are left unchanged.

-- The locks, in the layout of the Java library ShedLock:
{create};

-- The runs of each lock, and the tokens. Without this table there are neither, but locks work:
{create_history};

-- The rights of a user who takes locks, from the hosts of the jobs; to list locks and runs, SELECT is enough:
-- GRANT SELECT, INSERT, UPDATE ON {table} TO {user}@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {history} TO {user}@'%';
-- `shedlock forget`, which removes locks that are no longer used, also needs DELETE on {table}.
";

/// Syntax of the statements that repair a table.
pub(crate) const DIALECT: Dialect = Dialect {
    change_type: "ALTER TABLE {table} MODIFY {column} {type} NOT NULL",
    not_null: "ALTER TABLE {table} MODIFY {column} {type} NOT NULL",
    text: ["VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "VARCHAR(255) CHARACTER SET utf8mb4"],
    time: "TIMESTAMP(3)",
    default_digits: 0,
    add_key: "ALTER TABLE {table} ADD PRIMARY KEY (name)",
    enforces_types: true,
};

/// Holds the names of the two tables, and the time to wait for their rows.
pub(crate) struct Tables {
    /// Names in backticks.
    names: [String; 2],
    /// How long the server may wait for another session's lock on a row.
    pub(crate) lock_wait: Duration,
    /// Set once the column of the end is known to hold any time, as a DATETIME does.
    pub(crate) holds_any_time: bool,
    /// Set until a server has refused to say into what kinds of tables a transaction writes.
    pub(crate) asks_written: bool,
}

impl Tables {
    /// Names the tables after the table of locks.
    pub(crate) fn new(table: &str, lock_wait: Duration) -> Self {
        let names = [table.to_owned(), format!("{table}_history")].map(|name| quoted(&name));
        Self { names, lock_wait, holds_any_time: false, asks_written: true }
    }

    /// Returns the table's name as statements write it.
    fn quoted(&self, table: Table) -> &str {
        &self.names[table as usize]
    }

    /// Returns the table's name as people write it.
    pub(crate) fn name(&self, table: Table) -> String {
        self.quoted(table).replace('`', "")
    }

    /// Returns the statement that creates a table, in one line.
    pub(crate) fn create_statement(&self, table: Table) -> String {
        let statement = if table == Table::Locks { CREATE } else { CREATE_HISTORY };
        self.fill(statement).lines().map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Returns the statements that create both tables, for a client of the server, and the rights that `user` needs.
    pub(crate) fn schema(&self, user: &str) -> String {
        let text = SCHEMA.replace("{create}", CREATE).replace("{create_history}", CREATE_HISTORY);
        self.fill(&text).replace("{user}", &format!("`{}`", user.replace('`', "``")))
    }

    /// Returns a statement that succeeds if the table can be read.
    pub(crate) fn read_nothing(&self, table: Table) -> String {
        format!("SELECT 1 FROM {} LIMIT 0", self.quoted(table))
    }

    /// Returns the condition for this table in the schema of information.
    pub(crate) fn condition(&self, table: Table) -> String {
        let name = self.name(table);
        match name.split_once('.') {
            Some((schema, table)) => format!("table_schema = '{schema}' AND table_name = '{table}'"),
            None => format!("table_schema = DATABASE() AND table_name = '{name}'"),
        }
    }

    /// Replaces the words in braces that mean the same in every statement.
    pub(crate) fn fill(&self, text: &str) -> String {
        let [table, history] = &self.names;
        let text = text.replace("{held}", HELD).replace("{beginning}", BEGINNING).replace("{wrong}", TIMES_ARE_WRONG);
        let text = text.replace("{ahead}", CLOCK_WAS_AHEAD);
        text.replace("{run}", IS_RUN).replace("{table}", table).replace("{history}", history)
    }
}

/// Puts a table's name in backticks. The name has only letters, digits, underscores, and perhaps a dot.
pub(crate) fn quoted(name: &str) -> String {
    name.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".")
}
