//! The diagnosis of `check`: whether this host can lock on this server.

mod memory;
mod rights;

use std::collections::BTreeMap;

use ::redis::{Value, cmd};

use super::Redis;
use super::errors;
use super::link::Link;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::{BackendError, ErrorClass, Finding, Reached};

/// The oldest supported version; earlier servers have no users, and run scripts differently.
const OLDEST: (u32, u32) = (6, 0);

/// The fields of INFO by their names; empty if the user may not run it.
type Info = BTreeMap<String, String>;

impl Redis {
    /// Tries everything that a run needs.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        self.network.make_one_attempt();
        let distance = self.network.look(tell);
        if distance == Distance::Unreached {
            return Reached::No;
        }
        let (link, info) = match self.find_master(tell) {
            Ok(found) => found,
            Err(error) => {
                tell(Finding::of_trouble(probe::subject(&error), error));
                return Reached::No;
            }
        };
        match self.probe_server(link, &info, distance, tell) {
            Ok(reached) => reached,
            Err(error) => {
                tell(Finding::of_trouble("server", error));
                Reached::No
            }
        }
    }

    /// Logs in to the first of the URL's servers that is not a replica; to the last if all are replicas.
    fn find_master(&mut self, tell: Tell<'_>) -> Result<(Link, Info), BackendError> {
        let mut left = self.network.count();
        loop {
            left -= 1;
            let mut link = self.network.link()?;
            // PING itself may be refused, but a server that requires a password says so in reply to every command.
            let answer = link.one(cmd("PING"))?;
            if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOAUTH") {
                return Err(link
                    .check(answer)
                    .err()
                    .unwrap_or_else(|| BackendError::permanent("the server requires a password")));
            }
            let info = info(&mut link)?;
            if left == 0 || !is_replica(&info) {
                return Ok((link, info));
            }
            tell(Finding::good("writable", format!("{} is a replica, and is skipped", link.name())));
            self.network.look_elsewhere();
        }
    }

    /// Fails if the server stops answering.
    fn probe_server(
        &mut self,
        mut link: Link,
        info: &Info,
        distance: Distance,
        tell: Tell<'_>,
    ) -> Result<Reached, BackendError> {
        if let Some(master) = self.network.master() {
            tell(Finding::good("sentinel", format!("the master {master} is {}", link.name())));
        }
        // The driver does not report which TLS version was negotiated.
        let wanted = self.network.terms().tls.as_ref();
        tell(probe::tls(wanted, wanted.map(|_| "on"), distance));
        let user = self.network.terms().user.as_deref().unwrap_or("default");
        tell(Finding::good("login", format!("as the user {user} to {}", link.name())));
        tell(judge_version(info));
        if let Err(error) = probe::clock(|| clock(&mut link), tell) {
            // A missing right is reported below.
            if error.class != ErrorClass::Permanent {
                return Err(error);
            }
        }
        let writing = judge_writing(info);
        let reached = probe::reached(&writing);
        tell(writing);
        if reached == Reached::No {
            return Ok(reached);
        }
        if let Some(finding) = self.judge_cluster(&mut link, info)? {
            tell(finding);
        }
        let lacking = rights::lacking(&mut link, &self.space)?;
        rights::judge(&lacking, &self.space).into_iter().for_each(&mut *tell);
        memory::probe(&mut link, info, self.network.master().is_some(), tell)?;
        Ok(reached)
    }

    fn judge_cluster(&self, link: &mut Link, info: &Info) -> Result<Option<Finding>, BackendError> {
        let clustered = info.get("cluster_enabled").is_some_and(|enabled| enabled == "1");
        if clustered && !self.network.is_cluster() {
            let seen = "the server is a node of a cluster, and has only some of the locks";
            return Ok(Some(Finding::bad("cluster", seen, "write redis-cluster://HOST,HOST")));
        }
        if !self.network.is_cluster() {
            return Ok(None);
        }
        let answer = text(&link.one(cmd("CLUSTER").arg("INFO").clone())?);
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

/// Returns the text of an answer; empty for a refusal.
fn text(answer: &Value) -> String {
    match answer {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

fn info(link: &mut Link) -> Result<Info, BackendError> {
    let answer = text(&link.one(cmd("INFO"))?);
    let pair = |line: &str| line.trim().split_once(':').map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(answer.lines().filter_map(pair).collect())
}

fn clock(link: &mut Link) -> Result<u64, BackendError> {
    let answer = link.one(cmd("TIME"))?;
    let Value::Array(parts) = link.check(answer)? else {
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
        Some((kind, version)) if probe::version(version) < OLDEST && kind == "Redis" => {
            let seen = format!("{kind} {version}, older than shedlock supports");
            Finding::unwise("version", seen, "use Redis 6 or later, or Valkey")
        }
        Some((kind, version)) => Finding::good("version", format!("{kind} {version}")),
    }
}

fn judge_writing(info: &Info) -> Finding {
    match (info.get("role"), is_replica(info)) {
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
