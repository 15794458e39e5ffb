//! Checks a PostgreSQL server and its tables for `shedlock check`.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::Postgres;
use super::connect::PORT;
use super::execute::cells;
use super::sequence;
use super::session::{Failure, Session};
use super::statements::NOW;
use crate::backend::hosts::Hosts;
use crate::backend::network::Host;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::sql::{About, Column, Database, Dialect, Facts, Row, Server, Table};
use crate::backend::tls::Mode;
use crate::backend::{Finding, Grade};

/// Reads the user, the database and the server's settings. Every column is text.
const ABOUT: &str = "SELECT current_user::text, current_database()::text, version(), \
    current_setting('server_version_num'), pg_is_in_recovery()::text, current_setting('transaction_read_only'), \
    current_setting('synchronous_commit')";

const ENCRYPTION: &str = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";

/// Queries for the console of PgBouncer.
const POOLER: &str = "SHOW VERSION";
const POOLER_CONFIG: &str = "SHOW CONFIG";

/// Oldest supported `server_version_num`. Earlier servers do not understand the statements.
const OLDEST: u32 = 120_000;

/// Describes the table `$1`.
const TABLE: &str = "SELECT relkind::text, relpersistence::text, row_security_active(oid)::text \
    FROM pg_class WHERE oid = to_regclass($1)::oid";

const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, atttypmod), NOT attnotnull, \
    atthasdef OR attidentity <> '', coalesce(NOT collisdeterministic OR typname = 'citext', false)::text \
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid LEFT JOIN pg_collation ON pg_collation.oid = attcollation \
    WHERE attrelid = to_regclass($1)::oid AND attnum > 0::int2 AND NOT attisdropped ORDER BY attnum";

/// Finds the unique keys of exactly the columns `$2`, whose names are sorted and separated by commas.
const KEYS: &str = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = to_regclass($1)::oid \
    AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL \
    AND (SELECT string_agg(attname::text, ',' ORDER BY attname::text COLLATE \"C\") FROM pg_attribute \
         WHERE attrelid = indrelid AND attnum = ANY (indkey::int2[])) = $2";

/// Lists those of the rights `$2` to the table `$1` that the user lacks. shedlock never changes a lock's name, so
/// UPDATE of the column `name` is not needed.
const LACKING: &str = "SELECT wanted FROM pg_catalog.unnest(string_to_array($2, ',')) AS wanted \
    WHERE NOT has_table_privilege(to_regclass($1)::oid, wanted) AND (wanted = 'DELETE' OR EXISTS \
        (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1)::oid AND attnum > 0::int2 AND NOT attisdropped \
         AND NOT has_column_privilege(attrelid, attnum, wanted) AND NOT (attname = 'name' AND wanted = 'UPDATE')))";

/// Finds a sequence that is behind the ids of the history, if the user may read it. `{history}` is the table.
const SEQUENCE: &str = "SELECT last::text, newest::text FROM (SELECT CASE WHEN has_sequence_privilege(sequence::oid, 'SELECT'::text) \
        THEN coalesce(pg_sequence_last_value(sequence), 0::int8) END AS last, \
        (SELECT id::int8 FROM {history} AS run ORDER BY run.id DESC LIMIT 1) AS newest \
    FROM (SELECT pg_get_serial_sequence('{history}'::text, 'id'::text)::regclass) AS own (sequence)) AS ids WHERE last < newest";

/// Intermediary between shedlock and the server.
enum Between {
    Nothing,
    /// PgBouncer, with its settings if its console shows them.
    Pooler(Option<Pooler>),
}

/// Settings of PgBouncer that matter for locks.
struct Pooler {
    /// Mode in which PgBouncer shares its connections.
    mode: String,
    /// Seconds for which PgBouncer refuses every client after it could not reach the server.
    retry: Option<f64>,
}

impl Server for Postgres {
    const CLOCK: &str = "SELECT (date_part('epoch', clock_timestamp()) * 1000000::float8)::int8::text";
    const DIALECT: Dialect = Dialect {
        change: "ALTER TABLE {table} ALTER COLUMN {column} TYPE {type}",
        not_null: "ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL",
        text: ["VARCHAR(64)", "VARCHAR(255)"],
        time: "TIMESTAMP",
        digits: 6,
        add_key: "ALTER TABLE {table} ADD PRIMARY KEY (name)",
        binding: true,
    };

    fn hosts(&mut self) -> &mut Hosts {
        &mut self.servers.hosts
    }

    fn look(&self, tell: Tell<'_>) -> Distance {
        let socket = |host: &Host| Path::new(&host.name).join(format!(".s.PGSQL.{}", host.port.unwrap_or(PORT)));
        probe::hosts(&self.servers.hosts.all, PORT, self.servers.login.patience, socket, tell)
    }

    fn ask(&mut self, session: &mut Session, question: &str) -> Result<Vec<Row>, Failure> {
        self.text(session, question, &[])
    }

    fn about(&mut self, session: &mut Session, distance: Distance) -> Result<About, Failure> {
        let between = self.between();
        let version = self.ask(session, ENCRYPTION).map(|rows| rows.first().and_then(|row| row.text(0)));
        let tls = version.map(|version| self.judge_tls(&between, version.as_deref(), distance));
        let rows = self.ask(session, ABOUT)?;
        let value = |column| rows.first().map(|row| row.word(column)).unwrap_or_default();
        let (standby, only_reads) = (value(4) == "true", value(5) == "on");
        // The setting may belong to this role or to the URL: then another role could write on this server.
        let refusal = if only_reads && !standby { self.only_reads(session) } else { None };
        Ok(About {
            tls: self.if_told("TLS", tls)?,
            user: value(0),
            database: value(1),
            version: judge_version(&value(2), value(3).parse().unwrap_or_default()),
            unfit: (standby || only_reads && refusal.is_none()).then_some("is read-only"),
            writing: match refusal {
                Some(error) => Finding::of_trouble("writable", error),
                None => judge_writing(standby, only_reads, &value(6)),
            },
            more: judge_pooler(&between, self.patience).into_iter().collect(),
        })
    }

    fn facts(&mut self, session: &mut Session, table: Table) -> Result<Option<Facts>, Failure> {
        // Settles which schemas the table names mean, as a run does.
        self.look(session, &NOW, &[], &mut |_| {})?;
        let name = self.name(table);
        let mut ask =
            |statement: &str, more: &[&str]| self.text(session, statement, &[&[name.as_str()], more].concat());
        let there = ask(TABLE, &[])?;
        let Some(kind) = there.first() else { return Ok(None) };
        let kind = match judge_table(table, &name, kind) {
            Ok(kind) => kind,
            Err(kind) => return Ok(Some(Facts { kind: Some(kind), ..Facts::default() })),
        };
        let columns = ask(COLUMNS, &[])?;
        let (key, rights) = match table {
            Table::Locks => ("name", "SELECT,INSERT,UPDATE"),
            Table::Runs => ("name,owner", "SELECT,INSERT,UPDATE,DELETE"),
        };
        let keys = if ask(KEYS, &[key])?.is_empty() { Vec::new() } else { vec![key.to_owned()] };
        let lacking: Vec<String> = ask(LACKING, &[rights])?.iter().filter_map(|row| row.text(0)).collect();
        let folds = table == Table::Locks && columns.iter().any(|row| row.word(0) == "name" && row.word(4) == "true");
        let columns: Vec<Column> = columns.iter().map(Row::column).collect();
        let records = !keys.is_empty() && columns.iter().any(|column| column.name == "id" && column.optional);
        let behind = match table {
            Table::Runs if records && !lacking.iter().any(|right| right == "SELECT") => {
                self.ask(session, &SEQUENCE.replace("{history}", &name))?.first().map(|row| judge_sequence(&name, row))
            }
            _ => None,
        };
        let more = Vec::from_iter(behind.into_iter().chain(folds.then(|| {
            let seen = "the collation or the type of name treats `Job` and `job` as one lock";
            Finding::bad("columns", seen, format!("ALTER TABLE {name} ALTER COLUMN name TYPE VARCHAR(64)"))
        })));
        Ok(Some(Facts {
            kind,
            records,
            columns,
            more,
            keys,
            lacking: Some(lacking),
            // Taking a lock deletes nothing.
            rights_of_ends: &["DELETE"],
        }))
    }
}

impl Postgres {
    /// Judges the use of TLS. `version` is the TLS version that the server sees; behind a pooler that is the pooler's
    /// connection to the server, not shedlock's.
    fn judge_tls(&self, between: &Between, version: Option<&str>, distance: Distance) -> Finding {
        let wanted = &self.servers.login.tls;
        match (between, wanted.mode) {
            (Between::Nothing, _) => probe::tls(Some(wanted), version, distance),
            (Between::Pooler(_), Mode::Disable) => probe::tls(Some(wanted), None, distance),
            (Between::Pooler(_), Mode::Require | Mode::VerifyCa | Mode::VerifyFull) => {
                probe::tls(Some(wanted), Some("on"), distance)
            }
            (Between::Pooler(_), Mode::Allow | Mode::Prefer) if distance == Distance::Here => {
                Finding::good("TLS", "used if the pooler offers it; the connection stays on this host")
            }
            (Between::Pooler(_), Mode::Allow | Mode::Prefer) => Finding::unwise(
                "TLS",
                "used if the pooler offers it, but not verified: an attacker in between could pose as the pooler",
                "use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
            ),
        }
    }

    /// Detects PgBouncer by connecting to its console. A server has no such database and refuses; other errors say
    /// nothing about a pooler.
    fn between(&mut self) -> Between {
        let mut session = match self.servers.connect_to_console() {
            Ok(session) => session,
            Err(error) if error.message.contains("not allowed") || error.message.contains("admin") => {
                return Between::Pooler(None);
            }
            Err(_) => return Between::Nothing,
        };
        let limit = self.limit(&session);
        let is_pooler = session.ask(POOLER, limit).is_ok_and(|rows| {
            rows.first().and_then(|row| row.get(0)).is_some_and(|version| version.contains("PgBouncer"))
        });
        if !is_pooler {
            return Between::Nothing;
        }
        let rows = session.ask(POOLER_CONFIG, limit).unwrap_or_default();
        let value = |key| rows.iter().find(|row| row.get(0) == Some(key)).and_then(|row| row.get(1));
        let retry = value("server_login_retry").and_then(|secs| secs.parse().ok());
        let pooler = value("pool_mode").map(|mode| Pooler { mode: mode.to_owned(), retry });
        session.close();
        Between::Pooler(pooler)
    }

    /// Sends a query whose parameters are texts.
    fn text(&mut self, session: &mut Session, statement: &str, values: &[&str]) -> Result<Vec<Row>, Failure> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
        Ok(self.send(session, statement, &values)?.iter().map(|row| cells(row, 0)).collect())
    }
}

/// Judges a table as a whole. The error is the finding about a view or the like, which cannot be used at all.
fn judge_table(table: Table, name: &str, row: &Row) -> Result<Option<Finding>, Finding> {
    let subject = if table == Table::Locks { "table" } else { "history" };
    let said = format!("the table {name}");
    match (row.word(0).as_str(), row.word(1).as_str(), row.word(2).as_str()) {
        ("r" | "p", "p", "false") => Ok(None),
        ("r" | "p", "p", _) => Ok(Some(Finding {
            grade: if table == Table::Locks { Grade::Bad } else { Grade::Unwise },
            ..Finding::unwise(
                subject,
                format!("{said} has row security: a lock stays held if shedlock may not see or change its row"),
                format!("ALTER TABLE {name} DISABLE ROW LEVEL SECURITY"),
            )
        })),
        ("r" | "p", "u", _) => Ok(Some(Finding::unwise(
            subject,
            format!("{said} is unlogged: a crash of the server empties it, and frees every lock"),
            format!("ALTER TABLE {name} SET LOGGED"),
        ))),
        ("r" | "p", ..) => {
            Ok(Some(Finding::bad(subject, format!("{said} is temporary"), "name another table with ?table=")))
        }
        _ => Err(Finding::bad(
            subject,
            format!("{name} is a view or similar, not a table"),
            "name a table with ?table=, such as ?table=ops.shedlock",
        )),
    }
}

/// Judges a sequence that is behind the ids of the history. The next taking would advance it.
fn judge_sequence(history: &str, row: &Row) -> Finding {
    let seen = format!("the sequence of {history} is at {}, behind the id {} in the table", row.word(0), row.word(1));
    Finding::unwise("history", seen, sequence::statement(history))
}

fn judge_version(version: &str, number: u32) -> Finding {
    let version = version.split(" on ").next().unwrap_or_default();
    match number < OLDEST {
        false => Finding::good("version", version),
        true => Finding::bad("version", version, "locks need PostgreSQL 12 or later"),
    }
}

fn judge_writing(standby: bool, only_reads: bool, commits: &str) -> Finding {
    match commits {
        _ if standby => Finding::bad(
            "writable",
            "the server is a read-only standby",
            "name the primary, or all servers separated by commas: postgres://USER@HOST,HOST/DATABASE",
        ),
        _ if only_reads => Finding::bad(
            "writable",
            "transactions are read-only here",
            "turn default_transaction_read_only off for the server, the database or the role",
        ),
        "off" => Finding::unwise(
            "writable",
            "yes, but with synchronous_commit=off: a crash of the server may lose the locks taken just before",
            "add options=-csynchronous_commit%3Don to the URL, or set it for the role",
        ),
        _ => Finding::good("writable", "the server accepts writes"),
    }
}

fn judge_pooler(between: &Between, patience: Duration) -> Option<Finding> {
    let Between::Pooler(pooler) = between else { return None };
    let Some(Pooler { mode, retry }) = pooler else {
        let seen = "PgBouncer is in between, and every operation is one statement; after its server was away, it may refuse connections for longer than --backend-timeout (server_login_retry)";
        return Some(Finding::good("pooler", seen));
    };
    let seen = format!("PgBouncer is in between, in {mode} mode, and every operation is one statement");
    Some(match retry.filter(|retry| *retry >= patience.as_secs_f64()) {
        None => Finding::good("pooler", seen),
        Some(retry) => Finding::unwise(
            "pooler",
            format!("{seen}; after its server was away, it refuses connections for {retry} s (server_login_retry)"),
            "set server_login_retry in pgbouncer.ini to less than --backend-timeout, such as 1",
        ),
    })
}
