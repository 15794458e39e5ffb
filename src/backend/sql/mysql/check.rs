//! Checks a MySQL or MariaDB server and its tables, for `shedlock check`.

use std::collections::BTreeMap;

use super::MySql;
use super::answer;
use super::connect::{PORT, Servers};
use super::engines::{self, DESCRIBE_TABLE};
use super::errors::{DENIED, Failure, NOT_READY, Stage};
use super::link::{Extent, Link};
use super::tables::{DIALECT, quoted};
use crate::backend::diagnose::{self, Distance};
use crate::backend::sql::engine::{Facts, Row, ServerFacts, Table, check_server, finding_unless_refused};
use crate::backend::{Finding, FindingSink, LockTest};
use crate::lock::BackendError;

const DESCRIBE_SERVER: &str = "SELECT CURRENT_USER(), DATABASE(), VERSION()";

/// Reads the server's variables. A server omits those that it does not know.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'transaction_read_only', \
    'tx_read_only', 'sql_mode', 'time_zone', 'system_time_zone', 'wsrep_on', 'group_replication_group_name', \
    'innodb_flush_log_at_trx_commit', 'wait_timeout')";

const ENCRYPTION: &str = "SHOW SESSION STATUS LIKE 'Ssl_version'";

/// Statements that show replication. Older servers know only the second one, and most users may run neither.
const REPLICA: [&str; 2] = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];

/// Reads how many seconds the session's time zone is ahead of UTC, at twelve months from now on.
const ZONE: &str = "SELECT DISTINCT TIMESTAMPDIFF(SECOND, '1970-01-01', FROM_UNIXTIME(moment)) - moment FROM \
    (SELECT UNIX_TIMESTAMP() DIV 1 + 2629800 * month AS moment FROM (SELECT 0 AS month UNION SELECT 1 UNION SELECT 2 \
     UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION \
     SELECT 10 UNION SELECT 11) AS months) AS moments";

/// Seconds for which a connection of shedlock's may be idle between two requests.
const MIN_IDLE_SECONDS: i64 = 10;

const COLUMNS: &str = "SELECT column_name, LOWER(column_type), is_nullable = 'YES', column_default IS NOT NULL \
    OR extra LIKE '%auto_increment%' OR extra LIKE '%generated%', LOWER(extra), \
    character_set_name, collation_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position";

/// Lists the columns of each unique key. A part of a column does not count.
const KEYS: &str = "SELECT GROUP_CONCAT(IF(sub_part IS NULL, COALESCE(LOWER(column_name), '?'), '?') ORDER BY seq_in_index) \
    FROM information_schema.statistics WHERE {where} AND non_unique = 0 GROUP BY index_name";

/// Statements that need a right to the table of locks, and change no row.
const RIGHTS: [(&str, &str); 3] = [
    ("SELECT", "SELECT name, lock_until, locked_at, locked_by FROM {table} WHERE 1 = 0"),
    (
        "INSERT",
        "INSERT INTO {table} (name, lock_until, locked_at, locked_by) SELECT '', NOW(3), NOW(3), '' FROM DUAL WHERE 1 = 0",
    ),
    ("UPDATE", "UPDATE {table} SET lock_until = NOW(3), locked_at = NOW(3), locked_by = '' WHERE 1 = 0"),
];

/// Statements that need a right to the history, and change no row.
const HISTORY_RIGHTS: [(&str, &str); 4] = [
    ("SELECT", "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM {table} WHERE 1 = 0"),
    ("INSERT", "INSERT INTO {table} (name, owner, host, started_at) SELECT '', '', '', NOW(3) FROM DUAL WHERE 1 = 0"),
    ("UPDATE", "UPDATE {table} SET ended_at = NOW(3), exit_code = 0, outcome = '' WHERE 1 = 0"),
    ("DELETE", "DELETE FROM {table} WHERE 1 = 0"),
];

/// Holds the server's variables, by name.
type Variables = BTreeMap<String, String>;

/// Reads the server's time in microseconds since 1970.
const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

impl MySql {
    /// Reports on the hosts, and on the first one that grants locks.
    pub(crate) fn check_hosts(
        &mut self,
        session: &mut Option<Link>,
        tell: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        let Servers { hosts, login, .. } = &self.servers;
        let distance = diagnose::hosts(&hosts.all, PORT, login.share, |host| host.name.clone().into(), tell);
        if distance == Distance::Unreached {
            return Ok(LockTest::Pointless);
        }
        self.servers.hosts.attempts.make_one();
        let describe = |database: &mut Self, session: &mut Link| database.describe_server(session, distance);
        check_server(self, session, tell, describe, |_, session| rows(session, CLOCK))
    }

    fn describe_server(&mut self, session: &mut Link, distance: Distance) -> Result<ServerFacts, Failure> {
        let version = |rows: Vec<Row>| rows.first().and_then(|row| row.text(1)).filter(|version| !version.is_empty());
        let tls = rows(session, ENCRYPTION)
            .map(|rows| diagnose::tls(Some(&self.servers.login.tls), version(rows).as_deref(), distance));
        let pair = |row: &Row| Some((row.text(0)?.to_lowercase(), row.text(1)?));
        let variables: Variables = rows(session, VARIABLES)?.iter().filter_map(pair).collect();
        let about = rows(session, DESCRIBE_SERVER)?;
        // A node of Galera that is not ready shows its variables and those of the schema, and reads no other table.
        let statement = self.tables.read_nothing(Table::Locks);
        let is_ready = !rows(session, &statement).is_err_and(|failure| failure.is(&NOT_READY));
        let about = |column| about.first().map(|row| row.text_or_empty(column)).unwrap_or_default();
        Ok(ServerFacts {
            host: self.servers.hosts.first().to_string(),
            tls: finding_unless_refused(self, "TLS", tls)?,
            user: about(0),
            database: about(1),
            version: judge_version(&about(2)),
            grants_no_locks: match (is_read_only(&variables), is_ready) {
                (true, _) => Some("is read-only"),
                (false, false) => Some("is not ready"),
                (false, true) => None,
            },
            writing: judge_writing(session, &variables, is_ready)?,
            more_findings: judge_settings(&variables),
        })
    }

    /// Describes a table, for its check.
    pub(crate) fn table_facts(&mut self, session: &mut Link, table: Table) -> Result<Option<Facts>, Failure> {
        let name = self.tables.name(table);
        let clause = self.tables.condition(table);
        let mut ask = |question: &str| rows(session, &question.replace("{where}", &clause));
        let there = ask(DESCRIBE_TABLE)?;
        let Some(kind) = there.first() else { return Ok(None) };
        let columns = ask(COLUMNS)?;
        let keys = ask(KEYS)?.iter().filter_map(|row| row.text(0)).collect();
        let draws = |row: &Row| {
            row.text(0).is_some_and(|name| name.eq_ignore_ascii_case("id"))
                && row.text_or_empty(4).contains("auto_increment")
        };
        let mut more_findings: Vec<Finding> = Vec::new();
        if table == Table::Locks {
            more_findings.extend(columns.iter().filter_map(|row| judge_column(&name, row)));
            more_findings
                .push(judge_zone(session, columns.iter().any(|row| row.text_or_empty(1).starts_with("timestamp")))?);
        }
        let rights: &[_] = if table == Table::Locks { &RIGHTS } else { &HISTORY_RIGHTS };
        let mut missing_rights = Vec::new();
        for (right, statement) in rights {
            // A missing column is another finding.
            let answer = rows(session, &statement.replace("{table}", &quoted(&name)));
            if answer.is_err_and(|failure| failure.is(&DENIED)) {
                missing_rights.push((*right).to_owned());
            }
        }
        Ok(Some(Facts {
            table_finding: judge_table(&name, table, kind),
            // A repeated acquisition deletes its own record, and changes none.
            stores_runs: columns.iter().any(draws),
            rights_for_ends: &["UPDATE"],
            columns: columns.iter().map(Row::column).collect(),
            more_findings,
            keys,
            missing_rights: Some(missing_rights),
        }))
    }
}

fn judge_writing(session: &mut Link, variables: &Variables, is_ready: bool) -> Result<Finding, Failure> {
    if !is_ready {
        return Ok(Finding::bad(
            "writable",
            "the node of the cluster is not ready",
            "see `SHOW STATUS LIKE 'wsrep%'` there, or name all nodes separated by commas: mysql://USER@HOST,HOST/DATABASE",
        ));
    }
    if is_read_only(variables) {
        return Ok(Finding::bad(
            "writable",
            "the server is read-only, as replicas are",
            "name the primary, or all servers separated by commas: mysql://USER@HOST,HOST/DATABASE",
        ));
    }
    for statement in REPLICA {
        match rows(session, statement) {
            Ok(rows) if !rows.is_empty() => {
                return Ok(Finding::unwise(
                    "writable",
                    "the server is a replica of another writable server: a lock taken there is not visible here in time",
                    "use the same server on all hosts",
                ));
            }
            Err(failure) if !failure.is_answer() => return Err(failure),
            _ => {}
        }
    }
    Ok(match variables.get("innodb_flush_log_at_trx_commit").map(String::as_str) {
        None | Some("1") => Finding::good("writable", "the server accepts writes"),
        Some(other) => Finding::unwise(
            "writable",
            format!(
                "yes, but with innodb_flush_log_at_trx_commit={other}: a crash may lose the locks taken just before"
            ),
            "set innodb_flush_log_at_trx_commit=1 on the server",
        ),
    })
}

fn rows(session: &mut Link, statement: &str) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    answer::read(session, statement, Extent::Answer, |row| rows.push(row))
        .map_err(|trouble| Failure::new(trouble, Stage::Lock))?;
    Ok(rows)
}

fn judge_settings(variables: &Variables) -> Vec<Finding> {
    let is = |name: &str, wanted: &str| variables.get(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
    let has = |name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
    let mut found = Vec::new();
    if is("wsrep_on", "ON") || has("group_replication_group_name") {
        found.push(Finding::unwise(
            "cluster",
            "the server is a cluster node: other nodes may see its locks a moment later",
            "name the same node first on all hosts",
        ));
    }
    let mode = variables.get("sql_mode").map(String::as_str).unwrap_or_default();
    if !mode.to_ascii_uppercase().contains("STRICT_") {
        found.push(Finding::unwise(
            "sql_mode",
            "not strict: the server truncates values that do not fit instead of refusing them",
            "add STRICT_TRANS_TABLES to the server's sql_mode",
        ));
    }
    let idle = variables.get("wait_timeout").and_then(|secs| secs.parse::<i64>().ok());
    if let Some(idle) = idle.filter(|idle| *idle < MIN_IDLE_SECONDS) {
        found.push(Finding::unwise(
            "wait_timeout",
            format!("the server closes connections after {idle} s without a request, perhaps between two requests of one run"),
            format!("set wait_timeout to {MIN_IDLE_SECONDS} or more"),
        ));
    }
    found
}

fn is_read_only(variables: &Variables) -> bool {
    ["read_only", "super_read_only", "transaction_read_only", "tx_read_only"].iter().any(|name| {
        variables
            .get(*name)
            .is_some_and(|value| !value.eq_ignore_ascii_case("OFF") && !matches!(value.as_str(), "" | "0"))
    })
}

fn judge_version(version: &str) -> Finding {
    let (kind, oldest) = match version.to_ascii_lowercase().contains("mariadb") {
        true => ("MariaDB", (10, 5)),
        false => ("MySQL", (8, 0)),
    };
    match diagnose::version(version) < oldest {
        false => Finding::good("version", format!("{kind} {version}")),
        true => Finding::unwise(
            "version",
            format!("{kind} {version}, older than shedlock supports"),
            format!("use {kind} {}.{} or later", oldest.0, oldest.1),
        ),
    }
}

fn judge_table(name: &str, table: Table, row: &Row) -> Option<Finding> {
    if row.text_or_empty(0).contains("VIEW") {
        return Some(Finding::bad("table", format!("{name} is a view, not a table"), "name a table with ?table="));
    }
    let subject = if table == Table::Locks { "table" } else { "history" };
    engines::explain(name, table, row).map(|error| Finding::from_error(subject, error))
}

/// Finds faults of a column beyond its type.
fn judge_column(table: &str, row: &Row) -> Option<Finding> {
    let (name, kind) = (row.text_or_empty(0).to_ascii_lowercase(), row.text_or_empty(1));
    let (set, collation) = (row.text_or_empty(5), row.text_or_empty(6));
    let (seen, wanted) = match name.as_str() {
        "lock_until" | "locked_at" if row.text_or_empty(4).contains("on update") => (
            format!("{name} is set to the current time by every update that does not set it"),
            format!("{kind} NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"),
        ),
        "name" if set != "utf8mb4" && set != "binary" && !set.is_empty() => (
            format!("{name} is in {set}, which lacks some characters: some names cannot be locks"),
            format!("{} NOT NULL", DIALECT.text[0]),
        ),
        "name" if !is_exact(&collation) => (
            format!("name has the collation {collation}, which treats `Job` and `job` as one lock"),
            format!("{} NOT NULL", DIALECT.text[0]),
        ),
        _ => return None,
    };
    Some(Finding::unwise("columns", seen, format!("ALTER TABLE {table} MODIFY {name} {wanted}")))
}

/// Returns whether a collation distinguishes letters that differ only in case or accent.
fn is_exact(collation: &str) -> bool {
    collation.is_empty() || collation == "binary" || collation.ends_with("_bin") || collation.ends_with("_as_cs")
}

/// Judges the session's time zone, through which written times go: a time of the hour that daylight saving skips cannot
/// be written. `converted` is true if a column is a TIMESTAMP.
fn judge_zone(session: &mut Link, converted: bool) -> Result<Finding, Failure> {
    let named = rows(session, "SELECT @@session.time_zone, @@system_time_zone")?;
    let named = |column| named.first().map(|row| row.text_or_empty(column)).unwrap_or_default();
    let zone = match named(0).as_str() {
        "SYSTEM" => format!("the time zone of the server's system, {}", named(1)),
        named => named.to_owned(),
    };
    let leaps = match rows(session, ZONE) {
        Ok(rows) if rows.iter().all(|row| row.number(0).is_some()) && !rows.is_empty() => Some(rows.len() > 1),
        _ => None,
    };
    let advice = "set the server's default_time_zone to '+00:00'";
    Ok(match (leaps, converted) {
        (Some(false), _) => Finding::good("time zone", format!("{zone}, without daylight saving")),
        (_, false) => {
            Finding::good("time zone", format!("{zone}; the columns are DATETIME, which no time zone affects"))
        }
        (Some(true), _) => Finding::bad(
            "time zone",
            format!("{zone} has daylight saving: no lock can be taken in the hour that it skips"),
            advice,
        ),
        (None, _) => {
            Finding::unwise("time zone", format!("{zone}; shedlock cannot tell whether it has daylight saving"), advice)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    #[test]
    fn old_versions_are_unwise() {
        for (version, grade) in [
            ("10.11.6-MariaDB", Grade::Good),
            ("10.4.30-MariaDB-log", Grade::Unwise),
            ("8.0.36", Grade::Good),
            ("5.7.44", Grade::Unwise),
        ] {
            assert_eq!(judge_version(version).grade, grade, "{version}");
        }
    }

    #[test]
    fn a_server_is_read_only_whatever_its_variable_is_called() {
        let with = |name: &str, value: &str| is_read_only(&[(name.to_owned(), value.to_owned())].into());
        assert!(with("read_only", "ON") && with("tx_read_only", "1") && with("read_only", "NO_LOCK"));
        assert!(!with("read_only", "OFF") && !with("super_read_only", "0") && !is_read_only(&Variables::new()));
    }
}
