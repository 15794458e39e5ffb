//! The diagnosis of `check`: whether this host can lock on this server.

mod info;
mod memory;
mod rights;

use ::redis::{Value, cmd};

use super::Redis;
use super::connection::Connection;
use super::errors;
use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::backend::{Finding, LockTest};
use crate::lock::{BackendError, ErrorClass};
use info::{Info, read_info, text};

/// The oldest supported version; earlier servers have no users, and run scripts differently.
const OLDEST_VERSION: (u32, u32) = (6, 0);

/// What to write for a server that is a node of a cluster.
const CLUSTER_URL: &str = "write redis-cluster://HOST,HOST";

impl Redis {
    /// Tries everything that a run needs.
    pub(crate) fn probe(&mut self, report: FindingSink<'_>) -> LockTest {
        self.client.use_all_time_at_once();
        let distance = self.client.report_reachable_hosts(report);
        if distance == Distance::Unreached {
            return LockTest::Pointless;
        }
        let (connection, info) = match self.find_master(report) {
            Ok(found) => found,
            Err(error) => {
                report(Finding::from_error(diagnose::connection_subject(&error), error));
                return LockTest::Pointless;
            }
        };
        match self.probe_server(connection, &info, distance, report) {
            Ok(reached) => reached,
            Err(error) => {
                report(Finding::from_error("server", error));
                LockTest::Pointless
            }
        }
    }

    /// Logs in to the first of the URL's servers that is not a replica; to the last if all are replicas.
    fn find_master(&mut self, report: FindingSink<'_>) -> Result<(Connection, Info), BackendError> {
        let mut left = self.client.host_count();
        loop {
            left -= 1;
            let mut connection = self.client.connection()?;
            // PING itself may be refused, but a server that requires a password says so in reply to every command.
            let answer = connection.ask_one(cmd("PING"))?;
            if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOAUTH") {
                return Err(connection
                    .check(answer)
                    .err()
                    .unwrap_or_else(|| BackendError::permanent("the server requires a password")));
            }
            let info = read_info(&mut connection)?;
            if left == 0 || !is_replica(&info) {
                return Ok((connection, info));
            }
            report(Finding::good("writable", format!("{} is a replica, and is skipped", connection.name())));
            self.client.try_next_host();
        }
    }

    /// Fails if the server stops answering.
    fn probe_server(
        &mut self,
        mut connection: Connection,
        info: &Info,
        distance: Distance,
        report: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        if let Some(master) = self.client.master() {
            report(Finding::good("sentinel", format!("the master {master} is {}", connection.name())));
        }
        report(diagnose::tls(self.client.settings().tls.as_ref(), connection.tls_version(), distance));
        let user = self.client.settings().user.as_deref().unwrap_or("default");
        report(Finding::good("login", format!("as the user {user} to {}", connection.name())));
        report(judge_version(info));
        if let Err(error) = diagnose::clock(|| clock(&mut connection), report) {
            // A missing right is reported below.
            if error.class != ErrorClass::Permanent {
                return Err(error);
            }
        }
        let writing = self.judge_writing(info);
        let reached = diagnose::lock_test_after(&writing);
        report(writing);
        if reached == LockTest::Pointless {
            return Ok(reached);
        }
        if let Some(finding) = self.judge_cluster(&mut connection, info)? {
            report(finding);
        }
        let missing = rights::missing(&mut connection, &self.key_prefix)?;
        rights::judge(&missing, &self.key_prefix).into_iter().for_each(&mut *report);
        memory::probe(&mut connection, info, self.client.master().is_some(), report)?;
        Ok(reached)
    }

    /// Returns whether the server is a node of a cluster, and the URL does not say so.
    fn is_unnamed_cluster(&self, info: &Info) -> bool {
        info.get("cluster_enabled").is_some_and(|enabled| enabled == "1") && !self.client.is_cluster()
    }

    fn judge_writing(&self, info: &Info) -> Finding {
        match (info.get("role"), is_replica(info)) {
            (_, true) if self.client.is_cluster() => {
                Finding::good("writable", "the server is a replica, and names the nodes that have the locks")
            }
            (_, true) if self.is_unnamed_cluster(info) => {
                Finding::bad("writable", "the server is a replica in a cluster, and grants no locks", CLUSTER_URL)
            }
            (_, true) => Finding::bad(
                "writable",
                "the server is a replica, and grants no locks",
                "name the master, or all servers separated by commas, or ask sentinels with redis-sentinel://",
            ),
            (None, _) => {
                Finding::unwise("writable", "the user may not read whether it is a replica", "allow the user +info")
            }
            _ => Finding::good("writable", "the server is a master"),
        }
    }

    fn judge_cluster(&self, connection: &mut Connection, info: &Info) -> Result<Option<Finding>, BackendError> {
        if self.is_unnamed_cluster(info) {
            let seen = "the server is a node of a cluster, and has only some of the locks";
            return Ok(Some(Finding::bad("cluster", seen, CLUSTER_URL)));
        }
        if !self.client.is_cluster() {
            return Ok(None);
        }
        let answer = text(&connection.ask_one(cmd("CLUSTER").arg("INFO").clone())?);
        Ok(Some(match answer.lines().find_map(|line| line.trim().strip_prefix("cluster_state:")) {
            Some("ok") => Finding::good("cluster", "its state is ok"),
            Some(state) => Finding::bad(
                "cluster",
                format!("its state is {state}"),
                "find the missing nodes with redis-cli CLUSTER NODES",
            ),
            None => Finding::unwise("cluster", "the user may not read its state", "allow the user +cluster|info"),
        }))
    }
}

fn clock(connection: &mut Connection) -> Result<u64, BackendError> {
    let answer = connection.ask_one(cmd("TIME"))?;
    let Value::Array(parts) = connection.check(answer)? else {
        return Err(BackendError::permanent("the server's answer to TIME is not a time"));
    };
    let number = |at: usize| parts.get(at).and_then(|part| text(part).parse::<u64>().ok()).unwrap_or_default();
    Ok(number(0).saturating_mul(1_000_000).saturating_add(number(1)))
}

fn is_replica(info: &Info) -> bool {
    info.get("role").is_some_and(|role| role == "slave" || role == "replica")
}

fn judge_version(info: &Info) -> Finding {
    let found = info.get("valkey_version").map(|version| ("Valkey", version));
    match found.or_else(|| info.get("redis_version").map(|version| ("Redis", version))) {
        None => Finding::unwise(
            "version",
            "the user may not read it, so several tests below cannot tell",
            "allow this user +info and +config|get",
        ),
        Some((kind, version)) if diagnose::version(version) < OLDEST_VERSION && kind == "Redis" => {
            let seen = format!("{kind} {version}, older than shedlock supports");
            Finding::unwise("version", seen, "use Redis 6 or later, or Valkey")
        }
        Some((kind, version)) => Finding::good("version", format!("{kind} {version}")),
    }
}
