//! The tables: whether they are there, what they are made of, and what may be done with them.

use super::Variables;
use crate::backend::columns::{Column, Columns, Dialect, NO_ENDS, NO_TOKENS};
use crate::backend::mysql::MySql;
use crate::backend::probe::Tell;
use crate::backend::{Finding, Trouble};

/// `{where}` is which table; what a user has no right to is not shown.
const TABLE: &str = "SELECT table_type, engine FROM information_schema.tables WHERE {where}";

const COLUMNS: &str = "SELECT column_name, column_type, is_nullable, column_default IS NOT NULL OR extra LIKE '%auto_increment%' \
    OR extra LIKE '%generated%', extra, \
    character_set_name, collation_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position";

/// The unique keys, and which columns they are of; a part of a column does not count.
const KEYS: &str = "SELECT GROUP_CONCAT(IF(sub_part IS NULL, COALESCE(LOWER(column_name), '?'), '?') ORDER BY seq_in_index) \
    FROM information_schema.statistics WHERE {where} AND non_unique = 0 GROUP BY index_name";

/// What asks for a right to the table of locks, and changes no row.
const RIGHTS: [(&str, &str); 3] = [
    ("SELECT", "SELECT name, lock_until, locked_at, locked_by FROM {table} WHERE 1 = 0"),
    (
        "INSERT",
        "INSERT INTO {table} (name, lock_until, locked_at, locked_by) SELECT '', NOW(3), NOW(3), '' FROM DUAL WHERE 1 = 0",
    ),
    ("UPDATE", "UPDATE {table} SET lock_until = NOW(3), locked_at = NOW(3), locked_by = '' WHERE 1 = 0"),
];

/// The same for the history.
const HISTORY_RIGHTS: [(&str, &str); 4] = [
    ("SELECT", "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM {table} WHERE 1 = 0"),
    ("INSERT", "INSERT INTO {table} (name, owner, host, started_at) SELECT '', '', '', NOW(3) FROM DUAL WHERE 1 = 0"),
    ("UPDATE", "UPDATE {table} SET ended_at = NOW(3), exit_code = 0, outcome = '' WHERE 1 = 0"),
    ("DELETE", "DELETE FROM {table} WHERE 1 = 0"),
];

/// What a history has.
const RUNS: [&str; 8] = ["id", "name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

const DIALECT: Dialect = Dialect {
    change: "ALTER TABLE {table} MODIFY {column} {type} NOT NULL",
    not_null: "ALTER TABLE {table} MODIFY {column} {type} NOT NULL",
    text: ["VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "VARCHAR(255) CHARACTER SET utf8mb4"],
    time: "TIMESTAMP(3)",
    digits: 0,
};

impl MySql {
    /// `leaps` is whether the session's clock jumps with daylight saving. The error is that the server does not answer any more.
    pub(super) fn probe_tables(
        &mut self,
        variables: &Variables,
        leaps: Option<bool>,
        tell: Tell<'_>,
    ) -> Result<(), Trouble> {
        let table = self.tables.table();
        let (mut there, mut made) = (self.text(&of(TABLE, &table))?, "is there");
        if there.is_empty() {
            // Also a table that is there, for a user who has no right to it.
            match self.try_text(&self.tables.create())? {
                Ok(_) => {
                    there = self.text(&of(TABLE, &table))?;
                    made = "was missing, and is made";
                }
                Err(failure) => {
                    let advice = format!("have somebody who may run: {}", self.tables.create());
                    let seen = format!("there is no table {table} for us, and it cannot be made: {}", failure.cause());
                    tell(Finding::bad("table", seen, advice));
                    return self.probe_history(tell);
                }
            }
        }
        tell(judge_table(&table, made, there.first().map(Vec::as_slice).unwrap_or_default()));
        let rows = self.text(&of(COLUMNS, &table))?;
        if !rows.is_empty() {
            let columns = rows.iter().map(|row| column(row)).collect();
            Columns { table: &table, all: columns, dialect: &DIALECT }.judge().into_iter().for_each(&mut *tell);
            rows.iter().filter_map(|row| judge_column(&table, row)).for_each(&mut *tell);
            self.probe_key(&table, tell)?;
        }
        tell(judge_zone(variables, leaps, rows.iter().any(|row| cell(row, 1).starts_with("timestamp"))));
        self.probe_rights(&table, tell)?;
        self.probe_history(tell)
    }

    fn probe_key(&mut self, table: &str, tell: Tell<'_>) -> Result<(), Trouble> {
        let keys = self.text(&of(KEYS, table))?;
        if !keys.iter().any(|row| cell(row, 0) == "name") {
            tell(Finding::bad(
                "key",
                format!(
                    "{table} has neither a primary key nor a unique one on name alone: a lock could be there twice"
                ),
                format!("ALTER TABLE {table} ADD PRIMARY KEY (name)"),
            ));
        }
        Ok(())
    }

    fn probe_rights(&mut self, table: &str, tell: Tell<'_>) -> Result<(), Trouble> {
        let (lacking, user) = (self.lacking(&RIGHTS, table)?, self.servers.user().to_owned());
        tell(match lacking.is_empty() {
            true => Finding::good("rights", format!("SELECT, INSERT and UPDATE on {table}")),
            false => Finding::bad(
                "rights",
                format!("{user} has no right to {} on {table}", lacking.join(", ")),
                format!("GRANT {} ON {table} TO {user}@HOST", lacking.join(", ")),
            ),
        });
        Ok(())
    }

    /// Without it locks work, but have no tokens.
    fn probe_history(&mut self, tell: Tell<'_>) -> Result<(), Trouble> {
        let (table, create) = (self.tables.history(), self.tables.create_history());
        let mut rows = self.text(&of(COLUMNS, &table))?;
        let mut made = "is there";
        if rows.is_empty() {
            if let Err(failure) = self.try_text(&create)? {
                let seen = format!(
                    "there is no table {table} for us, and it cannot be made: {}; locks work without tokens",
                    failure.cause()
                );
                tell(Finding::unwise("history", seen, format!("have somebody who may run: {create}")));
                return Ok(());
            }
            rows = self.text(&of(COLUMNS, &table))?;
            made = "was missing, and is made";
        }
        let has = |name: &str| rows.iter().any(|row| cell(row, 0).eq_ignore_ascii_case(name));
        let draws =
            rows.iter().any(|row| cell(row, 0).eq_ignore_ascii_case("id") && cell(row, 4).contains("auto_increment"));
        let denied = self.lacking(&HISTORY_RIGHTS, &table)?;
        let user = self.servers.user();
        tell(if !denied.is_empty() {
            // The taking removes its own record if it is taken again, and changes none.
            let without = if denied == ["UPDATE"] { NO_ENDS } else { NO_TOKENS };
            let seen = format!("{user} has no right to {} on {table}; {without}", denied.join(", "));
            Finding::unwise("history", seen, format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user}@HOST"))
        } else if !RUNS.iter().all(|name| has(name)) || !draws {
            let seen = format!("the table {table} is not one of runs; locks work without tokens and without a history");
            Finding::unwise("history", seen, format!("rename it, and have made instead: {create}"))
        } else {
            Finding::good("history", format!("the table {table} {made}"))
        });
        Ok(())
    }

    /// Which rights we have not; that a column is missing is another matter.
    fn lacking(&mut self, statements: &[(&'static str, &str)], table: &str) -> Result<Vec<&'static str>, Trouble> {
        let mut lacking = Vec::new();
        for (right, statement) in statements {
            if self.try_text(&statement.replace("{table}", &quoted(table)))?.is_err_and(|failure| failure.is_denied()) {
                lacking.push(*right);
            }
        }
        Ok(lacking)
    }
}

/// A question about this table. Its name has but letters, digits and underscores.
fn of(question: &str, table: &str) -> String {
    let clause = match table.split_once('.') {
        Some((schema, table)) => format!("table_schema = '{schema}' AND table_name = '{table}'"),
        None => format!("table_schema = DATABASE() AND table_name = '{table}'"),
    };
    question.replace("{where}", &clause)
}

fn quoted(table: &str) -> String {
    table.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".")
}

fn judge_table(table: &str, made: &str, row: &[Option<String>]) -> Finding {
    match (cell(row, 0), cell(row, 1)) {
        (kind, _) if kind.contains("VIEW") => {
            Finding::bad("table", format!("{table} is no table, but a view"), "name a table with ?table=")
        }
        (_, engine) if engine.eq_ignore_ascii_case("InnoDB") || engine.is_empty() => {
            Finding::good("table", format!("the table {table} {made}"))
        }
        (_, engine) => Finding::bad(
            "table",
            format!("the table {table} is kept by {engine}, which has no transactions: a lock and its token may part"),
            format!("ALTER TABLE {table} ENGINE = InnoDB"),
        ),
    }
}

/// What is wrong with a column beyond its type.
fn judge_column(table: &str, row: &[Option<String>]) -> Option<Finding> {
    let (name, kind) = (cell(row, 0).to_ascii_lowercase(), cell(row, 1));
    let (set, collation) = (cell(row, 5), cell(row, 6));
    let unwise = |seen: String, wanted: &str| {
        Some(Finding::unwise("columns", seen, format!("ALTER TABLE {table} MODIFY {name} {wanted}")))
    };
    match name.as_str() {
        "lock_until" | "locked_at" if cell(row, 4).to_ascii_lowercase().contains("on update") => unwise(
            format!("{name} is set to now with every change of a row that does not name it"),
            &format!("{kind} NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"),
        ),
        "name" if set != "utf8mb4" && set != "binary" && !set.is_empty() => {
            let seen = format!("{name} is in {set}, which has not all letters: some names cannot be locks");
            unwise(seen, &format!("{} NOT NULL", DIALECT.text[0]))
        }
        "name" if !is_exact(collation) => {
            let seen = format!("name is compared by {collation}, for which `Job` and `job` are one lock");
            unwise(seen, &format!("{} NOT NULL", DIALECT.text[0]))
        }
        _ => None,
    }
}

/// Whether a collation tells letters apart that differ only in case or accent.
fn is_exact(collation: &str) -> bool {
    collation.is_empty() || collation == "binary" || collation.ends_with("_bin") || collation.ends_with("_as_cs")
}

/// A time that is written goes through the session's zone; those of the hour that daylight saving leaves out cannot be.
fn judge_zone(variables: &Variables, leaps: Option<bool>, converted: bool) -> Finding {
    let named = variables.get("time_zone").map(String::as_str).unwrap_or_default();
    let zone = match (named, variables.get("system_time_zone")) {
        ("SYSTEM", Some(system)) => format!("that of the server's system, {system}"),
        (named, _) => named.to_owned(),
    };
    let advice = "set the server's default_time_zone to '+00:00'";
    match (leaps, converted) {
        (Some(false), _) => Finding::good("time zone", format!("{zone}, without daylight saving")),
        (_, false) => Finding::good("time zone", format!("{zone}; the columns are DATETIME, which no zone touches")),
        (Some(true), _) => Finding::bad(
            "time zone",
            format!("{zone} has daylight saving: in the hour that it leaves out no lock can be taken"),
            advice,
        ),
        (None, _) => {
            Finding::unwise("time zone", format!("{zone}; whether it has daylight saving cannot be known"), advice)
        }
    }
}

fn column(row: &[Option<String>]) -> Column {
    Column {
        name: cell(row, 0).to_owned(),
        kind: cell(row, 1).to_ascii_lowercase(),
        nullable: cell(row, 2) == "YES",
        optional: cell(row, 3) == "1",
    }
}

fn cell(row: &[Option<String>], at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}
