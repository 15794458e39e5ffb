//! Whether this host can lock here, one thing after the other.

mod table;

use std::collections::BTreeMap;

use mysql::Value;
use mysql::prelude::Queryable;

use super::MySql;
use super::statements::Step;
use super::trouble::Failure;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::{Finding, Reached, Trouble};

const ABOUT: &str = "SELECT CURRENT_USER(), DATABASE(), VERSION()";

/// A server that knows one of them not leaves it out.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'transaction_read_only', \
    'tx_read_only', 'sql_mode', 'time_zone', 'system_time_zone', 'wsrep_on', 'group_replication_group_name', \
    'innodb_flush_log_at_trx_commit', 'wait_timeout')";

const ENCRYPTION: &str = "SHOW SESSION STATUS LIKE 'Ssl_version'";

const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Older servers call it otherwise, and most users may ask neither.
const REPLICA: [&str; 2] = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];

/// A year of months from now on: how far the session's time is ahead of UTC, in seconds.
const ZONE: &str = "SELECT DISTINCT TIMESTAMPDIFF(SECOND, '1970-01-01', FROM_UNIXTIME(moment)) - moment FROM \
    (SELECT UNIX_TIMESTAMP() DIV 1 + 2629800 * month AS moment FROM (SELECT 0 AS month UNION SELECT 1 UNION SELECT 2 \
     UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION \
     SELECT 10 UNION SELECT 11) AS months) AS moments";

/// A connection is kept for no longer than this, in seconds, between two requests.
const IDLE: u64 = 10;

/// The server's variables, by name.
type Variables = BTreeMap<String, String>;

/// Rows of texts.
type Rows = Vec<Vec<Option<String>>>;

impl MySql {
    /// Tries what a run needs.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        let distance = self.servers.look(tell);
        if distance == Distance::Unreached {
            return Reached::No;
        }
        self.servers.make_one_attempt();
        match self.servers.connect() {
            Ok(connection) => self.connection = Some(connection),
            Err(trouble) => {
                tell(Finding::of_trouble(probe::subject(&trouble), trouble));
                return Reached::No;
            }
        }
        match self.probe_server(distance, tell) {
            Ok(reached) => reached,
            Err(trouble) => {
                tell(Finding::of_trouble("server", trouble));
                Reached::No
            }
        }
    }

    /// The error is that the server does not answer any more.
    fn probe_server(&mut self, distance: Distance, tell: Tell<'_>) -> Result<Reached, Trouble> {
        if let Some(rows) = probe::if_told("TLS", self.text(ENCRYPTION), tell)? {
            let version = rows.into_iter().flatten().nth(1).flatten().filter(|version| !version.is_empty());
            tell(probe::tls(Some(self.servers.tls()), version.as_deref(), distance));
        }
        let mut variables = self.variables()?;
        for _ in 1..self.servers.count() {
            if !is_read_only(&variables) {
                break;
            }
            tell(Finding::good("writable", format!("{} can only be read, and is passed over", self.servers.first())));
            self.connection = None;
            self.servers.pass_over();
            variables = self.variables()?;
        }
        let about: Vec<String> = self.text(ABOUT)?.into_iter().flatten().map(Option::unwrap_or_default).collect();
        let [user, database, version] = [0, 1, 2].map(|at| about.get(at).map(String::as_str).unwrap_or_default());
        tell(Finding::good("login", format!("as {user} to the database {database}")));
        tell(judge_version(version));
        probe::clock(|| self.clock(), tell)?;
        let writing = self.judge_writing(&variables)?;
        let reached = probe::reached(&writing);
        tell(writing);
        self.probe_settings(&variables, tell);
        if reached == Reached::No {
            return Ok(reached);
        }
        let leaps = self.zone_leaps()?;
        let told = self.probe_tables(&variables, leaps, tell);
        probe::if_told("table", told, tell)?;
        Ok(reached)
    }

    fn variables(&mut self) -> Result<Variables, Trouble> {
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            Some((row.next()?.to_lowercase(), row.next()?))
        };
        Ok(self.text(VARIABLES)?.into_iter().filter_map(pair).collect())
    }

    fn clock(&mut self) -> Result<u64, Trouble> {
        let text = self.text(CLOCK)?.into_iter().flatten().flatten().next().unwrap_or_default();
        text.parse().map_err(|_| Trouble::lasting(format!("the server's time is `{text}`, which is no number")))
    }

    fn judge_writing(&mut self, variables: &Variables) -> Result<Finding, Trouble> {
        if is_read_only(variables) {
            return Ok(Finding::bad(
                "writable",
                "the server is set to be read only, as a replica is",
                "name the one that is written, or all servers with commas between them: mysql://USER@HOST,HOST/DATABASE",
            ));
        }
        for statement in REPLICA {
            if self.try_text(statement)?.is_ok_and(|rows| !rows.is_empty()) {
                return Ok(Finding::unwise(
                    "writable",
                    "the server is a replica of another one that can be written: a lock taken there is not seen here in time",
                    "have all hosts use the same server",
                ));
            }
        }
        Ok(match variables.get("innodb_flush_log_at_trx_commit").map(String::as_str) {
            None | Some("1") => Finding::good("writable", "the server takes changes"),
            Some(other) => Finding::unwise(
                "writable",
                format!(
                    "yes, but with innodb_flush_log_at_trx_commit={other}: a crash forgets what was locked just before"
                ),
                "set innodb_flush_log_at_trx_commit=1 on the server",
            ),
        })
    }

    fn probe_settings(&self, variables: &Variables, tell: Tell<'_>) {
        let is = |name: &str, wanted: &str| variables.get(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        let has = |name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
        if is("wsrep_on", "ON") || has("group_replication_group_name") {
            tell(Finding::unwise(
                "cluster",
                "the server is one of a cluster: what is locked on one node may be seen on another a moment later",
                "name the same node first on all hosts",
            ));
        }
        let mode = variables.get("sql_mode").map(String::as_str).unwrap_or_default();
        if !mode.to_ascii_uppercase().contains("STRICT_") {
            tell(Finding::unwise(
                "sql_mode",
                "it is not strict: the server cuts what does not fit instead of refusing it",
                "add STRICT_TRANS_TABLES to the server's sql_mode",
            ));
        }
        if let Some(idle) =
            variables.get("wait_timeout").and_then(|secs| secs.parse::<u64>().ok()).filter(|s| *s < IDLE)
        {
            tell(Finding::unwise(
                "wait_timeout",
                format!("the server hangs up after {idle} s of silence, perhaps between two requests of a run"),
                format!("set wait_timeout to {IDLE} or more"),
            ));
        }
    }

    /// Whether the session's clock jumps within a year; `None` where that cannot be known.
    fn zone_leaps(&mut self) -> Result<Option<bool>, Trouble> {
        Ok(match self.try_text(ZONE)? {
            Ok(rows) if rows.iter().flatten().all(Option::is_some) && !rows.is_empty() => Some(rows.len() > 1),
            _ => None,
        })
    }

    /// Asks for rows of texts.
    fn text(&mut self, statement: &str) -> Result<Rows, Trouble> {
        self.try_text(statement)?.map_err(|failure| self.explain(&failure))
    }

    /// The outer error is that the server does not answer any more, the inner one what it answers.
    fn try_text(&mut self, statement: &str) -> Result<Result<Rows, Failure>, Trouble> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.servers.connect()?,
        };
        let answer = connection.query::<mysql::Row, _>(statement);
        if matches!(&answer, Ok(_) | Err(mysql::Error::MySqlError(_))) {
            self.connection = Some(connection);
        }
        match answer {
            Ok(rows) => Ok(Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())),
            Err(error @ mysql::Error::MySqlError(_)) => Ok(Err(Failure::new(error, Step::Lock))),
            Err(error) => Err(self.explain(&Failure::new(error, Step::Lock))),
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
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
    match probe::version(version) < oldest {
        false => Finding::good("version", format!("{kind} {version}")),
        true => Finding::unwise(
            "version",
            format!("{kind} {version}, older than what shedlock is made for"),
            format!("use {kind} {}.{} or later", oldest.0, oldest.1),
        ),
    }
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
