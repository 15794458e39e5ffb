//! The tables: whether they are there, what they are made of, and what may be done with them.

use crate::backend::columns::{Column, Columns, Dialect, NO_ENDS, NO_TOKENS};
use crate::backend::postgres::statements::{NOW, Table};
use crate::backend::postgres::{Postgres, trouble};
use crate::backend::probe::Tell;
use crate::backend::{Finding, Grade, Trouble};

/// `$1` the table.
const TABLE: &str = "SELECT relkind::text, relpersistence::text, row_security_active(oid)::text \
    FROM pg_class WHERE oid = to_regclass($1)::oid";

const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, atttypmod), (NOT attnotnull)::text, \
    (atthasdef OR attidentity <> '')::text, coalesce(NOT collisdeterministic OR typname = 'citext', false)::text \
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid LEFT JOIN pg_collation ON pg_collation.oid = attcollation \
    WHERE attrelid = to_regclass($1)::oid AND attnum > 0::int2 AND NOT attisdropped ORDER BY attnum";

/// `$2` the columns in the order of the alphabet. Which unique keys of just these there are.
const KEYS: &str = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = to_regclass($1)::oid \
    AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL \
    AND (SELECT string_agg(attname::text, ',' ORDER BY attname::text COLLATE \"C\") FROM pg_attribute \
         WHERE attrelid = indrelid AND attnum = ANY (indkey::int2[])) = $2";

/// Which of the rights `$2` to the table we have not. The name of a lock is never changed.
const LACKING: &str = "SELECT wanted FROM pg_catalog.unnest(string_to_array($2, ',')) AS wanted \
    WHERE NOT has_table_privilege(to_regclass($1)::oid, wanted) AND (wanted = 'DELETE' OR EXISTS \
        (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1)::oid AND attnum > 0::int2 AND NOT attisdropped \
         AND NOT has_column_privilege(attrelid, attnum, wanted) AND NOT (attname = 'name' AND wanted = 'UPDATE')))";

/// What a history has beside its id.
const RUNS: [&str; 7] = ["name", "owner", "host", "started_at", "ended_at", "exit_code", "outcome"];

const DIALECT: Dialect = Dialect {
    change: "ALTER TABLE {table} ALTER COLUMN {column} TYPE {type}",
    not_null: "ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL",
    text: ["VARCHAR(64)", "VARCHAR(255)"],
    time: "TIMESTAMP",
    digits: 6,
};

impl Postgres {
    /// The outer error is that the server does not answer any more.
    pub(super) fn probe_tables(&mut self, tell: Tell<'_>) -> Result<(), Trouble> {
        // From here on the names are as a run has them.
        self.look(Table::Locks, &NOW, &[])?;
        let table = self.tables.name(Table::Locks).to_owned();
        if self.probe_there(Table::Locks, tell)? {
            self.probe_columns(&table, tell)?;
            let (user, lacking) = (self.servers.user().to_owned(), self.lacking(&table, "SELECT,INSERT,UPDATE")?);
            tell(match lacking.is_empty() {
                true => Finding::good("rights", format!("SELECT, INSERT and UPDATE on {table}")),
                false => Finding::bad(
                    "rights",
                    format!("{user} has no right to {} on {table}", lacking.join(", ")),
                    format!("GRANT {} ON {table} TO {user}", lacking.join(", ")),
                ),
            });
        }
        self.probe_history(tell)
    }

    /// Tells what kind of table it is, and makes one that is missing. Whether there is one now.
    fn probe_there(&mut self, which: Table, tell: Tell<'_>) -> Result<bool, Trouble> {
        let (table, subject) = match which {
            Table::Locks => (self.tables.name(which).to_owned(), "table"),
            Table::Runs => (self.tables.name(which).to_owned(), "history"),
        };
        let Some(row) = self.text(TABLE, &[&table])?.into_iter().next() else {
            return self.probe_making(which, &table, subject, tell);
        };
        let [kind, persistence, secured] = [0, 1, 2].map(|at| row.get(at).cloned().flatten().unwrap_or_default());
        let name = format!("the table {table}");
        tell(match (kind.as_str(), persistence.as_str(), secured.as_str()) {
            ("r" | "p", "p", "false") => Finding::good(subject, format!("{name} is there")),
            ("r" | "p", "p", _) => Finding {
                grade: if which == Table::Locks { Grade::Bad } else { Grade::Unwise },
                ..Finding::unwise(
                    subject,
                    format!("{name} has row security: a row that we may not see or change is a lock that stays held"),
                    format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"),
                )
            },
            ("r" | "p", "u", _) => Finding::unwise(
                subject,
                format!("{name} is unlogged: a crash of the server empties it, and frees every lock"),
                format!("ALTER TABLE {table} SET LOGGED"),
            ),
            ("r" | "p", ..) => Finding::bad(subject, format!("{name} is temporary"), "name another table with ?table="),
            _ => Finding::bad(
                subject,
                format!("{table} is no table, but a view or the like"),
                "name a table with ?table=, such as ?table=ops.shedlock",
            ),
        });
        Ok(matches!(kind.as_str(), "r" | "p"))
    }

    fn probe_making(
        &mut self,
        which: Table,
        table: &str,
        subject: &'static str,
        tell: Tell<'_>,
    ) -> Result<bool, Trouble> {
        let (limit, statement) = (self.limit(), self.tables.create(which));
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let places = self.places(&mut session, limit);
        let elsewhere = places.as_ref().ok().and_then(|places| self.ambiguity(which, places));
        let made = match (places, &elsewhere) {
            (Ok(_), None) => session.execute(&statement, limit),
            (places, _) => places.map(drop),
        };
        if made.as_ref().err().is_none_or(trouble::is_answer) && !session.is_over() {
            self.session = Some(session);
        }
        if let Some(trouble) = elsewhere {
            let mut finding = Finding::of_trouble(subject, trouble);
            if which == Table::Runs {
                finding.grade = Grade::Unwise;
            }
            tell(finding);
            return Ok(false);
        }
        let failure = match made {
            Ok(()) => {
                tell(Finding::good(subject, format!("the table {table} was missing, and is made")));
                return Ok(true);
            }
            Err(failure) if trouble::is_answer(&failure) => failure,
            Err(failure) => return Err(self.explain(&failure)),
        };
        // Another may have made it meanwhile. The same is said where something else bears its name.
        if trouble::is_made_already(&failure) && !self.text(TABLE, &[table])?.is_empty() {
            tell(Finding::good(subject, format!("the table {table} is there")));
            return Ok(true);
        }
        let seen = format!("there is no table {table}, and it cannot be made: {}", trouble::said(&failure));
        let advice = format!("have somebody who may run: {statement}");
        tell(match which {
            Table::Locks => Finding::bad(subject, seen, advice),
            Table::Runs => Finding::unwise(subject, format!("{seen}; locks work without tokens"), advice),
        });
        Ok(false)
    }

    fn probe_columns(&mut self, table: &str, tell: Tell<'_>) -> Result<(), Trouble> {
        let rows = self.text(COLUMNS, &[table])?;
        let folds = rows.iter().any(|row| cell(row, 0) == "name" && cell(row, 4) == "true");
        Columns { table, all: rows.iter().map(|row| column(row)).collect(), dialect: &DIALECT }
            .judge()
            .into_iter()
            .for_each(&mut *tell);
        if folds {
            let seen = "the collation or the type of name takes `Job` and `job` for one lock";
            tell(Finding::bad("columns", seen, format!("ALTER TABLE {table} ALTER COLUMN name TYPE VARCHAR(64)")));
        }
        if self.text(KEYS, &[table, "name"])?.is_empty() {
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

    /// Without it locks work, but have no tokens.
    fn probe_history(&mut self, tell: Tell<'_>) -> Result<(), Trouble> {
        let mut about = Vec::new();
        let there = self.probe_there(Table::Runs, &mut |finding| about.push(finding))?;
        let table = self.tables.name(Table::Runs).to_owned();
        if !there {
            about.into_iter().for_each(tell);
            return Ok(());
        }
        let columns: Vec<Column> = self.text(COLUMNS, &[&table])?.iter().map(|row| column(row)).collect();
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        let draws = columns.iter().any(|column| column.name == "id" && column.optional);
        if !draws || !RUNS.iter().all(|name| has(name)) || self.text(KEYS, &[&table, "name,owner"])?.is_empty() {
            tell(Finding::unwise(
                "history",
                format!("the table {table} is not one of runs; locks work without tokens and without a history"),
                format!("rename it, and have made instead: {}", self.tables.create(Table::Runs)),
            ));
            return Ok(());
        }
        let (user, lacking) = (self.servers.user().to_owned(), self.lacking(&table, "SELECT,INSERT,UPDATE,DELETE")?);
        if !lacking.is_empty() {
            // The taking removes nothing.
            let without = if lacking == ["DELETE"] { NO_ENDS } else { NO_TOKENS };
            let seen = format!("{user} has no right to {} on {table}; {without}", lacking.join(", "));
            let advice = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user}");
            tell(Finding::unwise("history", seen, advice));
            return Ok(());
        }
        about.into_iter().for_each(tell);
        Ok(())
    }

    fn lacking(&mut self, table: &str, rights: &str) -> Result<Vec<String>, Trouble> {
        Ok(self.text(LACKING, &[table, rights])?.into_iter().flatten().flatten().collect())
    }
}

fn column(row: &[Option<String>]) -> Column {
    Column {
        name: cell(row, 0).to_owned(),
        kind: cell(row, 1).to_owned(),
        nullable: cell(row, 2) == "true",
        optional: cell(row, 3) == "true",
    }
}

fn cell(row: &[Option<String>], at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}
