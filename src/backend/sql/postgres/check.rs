//! Checks a PostgreSQL server and its tables, for `shedlock check`.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::Postgres;
use super::admin_statements::SERVER_ONLY;
use super::answer::read_cells;
use super::connect::PORT;
use super::failure::Failure;
use super::sequence;
use super::session::Session;
use crate::backend::diagnose::{self, Distance};
use crate::backend::net::network::Host;
use crate::backend::net::tls::Mode;
use crate::backend::sql::engine::{
    Column, Database, Facts, Row, ServerFacts, Table, check_server, finding_unless_refused,
};
use crate::backend::{Finding, FindingSink, Grade, LockTest};
use crate::lock::BackendError;

/// Reads the user, the database and the server's settings. Every column is text.
const DESCRIBE_SERVER: &str = "SELECT current_user::text, current_database()::text, version(), \
    current_setting('server_version_num'), pg_is_in_recovery()::text, current_setting('transaction_read_only'), \
    current_setting('synchronous_commit')";

const ENCRYPTION: &str = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";

/// Queries for the console of PgBouncer.
const POOLER: &str = "SHOW VERSION";
const POOLER_CONFIG: &str = "SHOW CONFIG";

/// Oldest supported `server_version_num`. Earlier servers do not understand the statements.
const OLDEST_VERSION: u32 = 120_000;

/// Describes the table `$1`.
const DESCRIBE_TABLE: &str = "SELECT relkind::text, relpersistence::text, row_security_active(oid)::text \
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
const MISSING_RIGHTS: &str = "SELECT wanted FROM pg_catalog.unnest(string_to_array($2, ',')) AS wanted \
    WHERE NOT has_table_privilege(to_regclass($1)::oid, wanted) AND (wanted = 'DELETE' OR EXISTS \
        (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1)::oid AND attnum > 0::int2 AND NOT attisdropped \
         AND NOT has_column_privilege(attrelid, attnum, wanted) AND NOT (attname = 'name' AND wanted = 'UPDATE')))";

/// Finds a sequence that is behind the ids of the history, if the user may read it. `{history}` is the table.
const SEQUENCE: &str = "SELECT last::text, newest::text FROM (SELECT CASE WHEN has_sequence_privilege(sequence::oid, 'SELECT'::text) \
        THEN coalesce(pg_sequence_last_value(sequence), 0::int8) END AS last, \
        (SELECT id::int8 FROM {history} AS run ORDER BY run.id DESC LIMIT 1) AS newest \
    FROM (SELECT pg_get_serial_sequence('{history}'::text, 'id'::text)::regclass) AS own (sequence)) AS ids WHERE last < newest";

/// Says what is between shedlock and the server.
enum Intermediary {
    None,
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

/// Reads the server's time in microseconds since 1970.
const CLOCK: &str = "SELECT (date_part('epoch', clock_timestamp()) * 1000000::float8)::int8::text";

impl Postgres {
    /// Reports on the hosts, and on the first one that grants locks.
    pub(crate) fn check_hosts(
        &mut self,
        session: &mut Option<Session>,
        tell: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        let socket = |host: &Host| Path::new(&host.name).join(format!(".s.PGSQL.{}", host.port.unwrap_or(PORT)));
        let distance = diagnose::hosts(&self.servers.hosts.all, PORT, self.servers.login.timeout, socket, tell);
        if distance == Distance::Unreached {
            return Ok(LockTest::Pointless);
        }
        self.servers.hosts.attempts.make_one();
        let describe = |database: &mut Self, session: &mut Session| database.describe_server(session, distance);
        check_server(self, session, tell, describe, |database, session| database.query_text(session, CLOCK, &[]))
    }

    fn describe_server(&mut self, session: &mut Session, distance: Distance) -> Result<ServerFacts, Failure> {
        let intermediary = self.find_intermediary();
        let version = self.query_text(session, ENCRYPTION, &[]).map(|rows| rows.first().and_then(|row| row.text(0)));
        let tls = version.map(|version| self.judge_tls(&intermediary, version.as_deref(), distance));
        let rows = self.query_text(session, DESCRIBE_SERVER, &[])?;
        let value = |column| rows.first().map(|row| row.text_or_empty(column)).unwrap_or_default();
        let (is_standby, is_read_only) = (value(4) == "true", value(5) == "on");
        // The setting may belong to this role or to the URL: then another role could write on this server.
        let refusal = if is_read_only && !is_standby { self.explain_read_only(session) } else { None };
        Ok(ServerFacts {
            host: self.servers.hosts.first().to_string(),
            tls: finding_unless_refused(self, "TLS", tls)?,
            user: value(0),
            database: value(1),
            version: judge_version(&value(2), value(3).parse().unwrap_or_default()),
            grants_no_locks: (is_standby || is_read_only && refusal.is_none()).then_some("is read-only"),
            writing: match refusal {
                Some(error) => Finding::from_error("writable", error),
                None => judge_writing(is_standby, is_read_only, &value(6)),
            },
            more_findings: judge_pooler(&intermediary, self.timeout).into_iter().collect(),
        })
    }

    /// Describes a table, for its check.
    pub(crate) fn table_facts(&mut self, session: &mut Session, table: Table) -> Result<Option<Facts>, Failure> {
        // Settles which schemas the table names mean, as a run does.
        self.ask_writable(session, &SERVER_ONLY, &[], &mut |_| {})?;
        let name = self.name(table);
        let mut ask =
            |statement: &str, more: &[&str]| self.query_text(session, statement, &[&[name.as_str()], more].concat());
        let there = ask(DESCRIBE_TABLE, &[])?;
        let Some(kind) = there.first() else { return Ok(None) };
        let table_finding = match judge_table(table, &name, kind) {
            Ok(finding) => finding,
            Err(finding) => return Ok(Some(Facts { table_finding: Some(finding), ..Facts::default() })),
        };
        let columns = ask(COLUMNS, &[])?;
        let (key, rights) = match table {
            Table::Locks => ("name", "SELECT,INSERT,UPDATE"),
            Table::Runs => ("name,owner", "SELECT,INSERT,UPDATE,DELETE"),
        };
        let keys = if ask(KEYS, &[key])?.is_empty() { Vec::new() } else { vec![key.to_owned()] };
        let missing_rights: Vec<String> =
            ask(MISSING_RIGHTS, &[rights])?.iter().filter_map(|row| row.text(0)).collect();
        let ignores_case = table == Table::Locks
            && columns.iter().any(|row| row.text_or_empty(0) == "name" && row.text_or_empty(4) == "true");
        let columns: Vec<Column> = columns.iter().map(Row::column).collect();
        let stores_runs = !keys.is_empty() && columns.iter().any(|column| column.name == "id" && column.optional);
        let behind = match table {
            Table::Runs if stores_runs && !missing_rights.iter().any(|right| right == "SELECT") => self
                .query_text(session, &SEQUENCE.replace("{history}", &name), &[])?
                .first()
                .map(|row| judge_sequence(&name, row)),
            _ => None,
        };
        let more_findings = Vec::from_iter(behind.into_iter().chain(ignores_case.then(|| {
            let seen = "the collation or the type of name treats `Job` and `job` as one lock";
            Finding::bad("columns", seen, format!("ALTER TABLE {name} ALTER COLUMN name TYPE VARCHAR(64)"))
        })));
        Ok(Some(Facts {
            table_finding,
            stores_runs,
            columns,
            more_findings,
            keys,
            missing_rights: Some(missing_rights),
            // Acquiring a lock deletes nothing.
            rights_for_ends: &["DELETE"],
        }))
    }

    /// Judges the use of TLS. `version` is the TLS version that the server sees; behind a pooler that is the pooler's
    /// connection to the server, not shedlock's.
    fn judge_tls(&self, intermediary: &Intermediary, version: Option<&str>, distance: Distance) -> Finding {
        let wanted = &self.servers.login.tls;
        match (intermediary, wanted.mode) {
            (Intermediary::None, _) => diagnose::tls(Some(wanted), version, distance),
            (Intermediary::Pooler(_), Mode::Disable) => diagnose::tls(Some(wanted), None, distance),
            (Intermediary::Pooler(_), Mode::Require | Mode::VerifyCa | Mode::VerifyFull) => {
                diagnose::tls(Some(wanted), Some("on"), distance)
            }
            (Intermediary::Pooler(_), Mode::Allow | Mode::Prefer) if distance == Distance::Here => {
                Finding::good("TLS", "used if the pooler offers it; the connection stays on this host")
            }
            (Intermediary::Pooler(_), Mode::Allow | Mode::Prefer) => Finding::unwise(
                "TLS",
                "used if the pooler offers it, but not verified: an attacker in between could pose as the pooler",
                "use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
            ),
        }
    }

    /// Detects PgBouncer by connecting to its console. A server has no such database and refuses; other errors say
    /// nothing about a pooler.
    fn find_intermediary(&mut self) -> Intermediary {
        let mut session = match self.servers.connect_to_console() {
            Ok(session) => session,
            Err(error) if error.message.contains("not allowed") || error.message.contains("admin") => {
                return Intermediary::Pooler(None);
            }
            Err(_) => return Intermediary::None,
        };
        let limit = self.limit(&session);
        let is_pooler = session.simple_query(POOLER, limit).is_ok_and(|rows| {
            rows.first().and_then(|row| row.get(0)).is_some_and(|version| version.contains("PgBouncer"))
        });
        if !is_pooler {
            return Intermediary::None;
        }
        let rows = session.simple_query(POOLER_CONFIG, limit).unwrap_or_default();
        let value = |key| rows.iter().find(|row| row.get(0) == Some(key)).and_then(|row| row.get(1));
        let retry = value("server_login_retry").and_then(|secs| secs.parse().ok());
        let pooler = value("pool_mode").map(|mode| Pooler { mode: mode.to_owned(), retry });
        session.close();
        Intermediary::Pooler(pooler)
    }

    /// Sends a query whose parameters are texts.
    fn query_text(&mut self, session: &mut Session, statement: &str, values: &[&str]) -> Result<Vec<Row>, Failure> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
        Ok(self.send(session, statement, &values)?.iter().map(|row| read_cells(row, 0)).collect())
    }
}

/// Judges a table as a whole. The error is the finding about a view or the like, which cannot be used at all.
fn judge_table(table: Table, name: &str, row: &Row) -> Result<Option<Finding>, Finding> {
    let subject = if table == Table::Locks { "table" } else { "history" };
    let said = format!("the table {name}");
    match (row.text_or_empty(0).as_str(), row.text_or_empty(1).as_str(), row.text_or_empty(2).as_str()) {
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

/// Judges a sequence that is behind the ids of the history. The next acquisition would advance it.
fn judge_sequence(history: &str, row: &Row) -> Finding {
    let seen = format!(
        "the sequence of {history} is at {}, behind the id {} in the table",
        row.text_or_empty(0),
        row.text_or_empty(1)
    );
    Finding::unwise("history", seen, sequence::advance_statement(history))
}

fn judge_version(version: &str, number: u32) -> Finding {
    let version = version.split(" on ").next().unwrap_or_default();
    match number < OLDEST_VERSION {
        false => Finding::good("version", version),
        true => Finding::bad("version", version, "locks need PostgreSQL 12 or later"),
    }
}

fn judge_writing(is_standby: bool, is_read_only: bool, commits: &str) -> Finding {
    match commits {
        _ if is_standby => Finding::bad(
            "writable",
            "the server is a read-only standby",
            "name the primary, or all servers separated by commas: postgres://USER@HOST,HOST/DATABASE",
        ),
        _ if is_read_only => Finding::bad(
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

fn judge_pooler(intermediary: &Intermediary, timeout: Duration) -> Option<Finding> {
    let Intermediary::Pooler(pooler) = intermediary else { return None };
    let Some(Pooler { mode, retry }) = pooler else {
        let seen = "PgBouncer is in between, and every operation is one statement; after its server was away, it may refuse connections for longer than --backend-timeout (server_login_retry)";
        return Some(Finding::good("pooler", seen));
    };
    let seen = format!("PgBouncer is in between, in {mode} mode, and every operation is one statement");
    Some(match retry.filter(|retry| *retry >= timeout.as_secs_f64()) {
        None => Finding::good("pooler", seen),
        Some(retry) => Finding::unwise(
            "pooler",
            format!("{seen}; after its server was away, it refuses connections for {retry} s (server_login_retry)"),
            "set server_login_retry in pgbouncer.ini to less than --backend-timeout, such as 1",
        ),
    })
}
