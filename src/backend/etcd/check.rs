//! The diagnosis of `check`: whether this host can lock in this cluster.

use serde_json::{Value, json};

use super::{Etcd, errors};
use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::backend::net::http::one_line;
use crate::backend::{Finding, LockTest};
use crate::lock::BackendError;

/// The oldest supported version; earlier servers have no gateway under /v3.
const OLDEST_VERSION: (u32, u32) = (3, 4);

impl Etcd {
    /// Tries everything that a run needs.
    pub(crate) fn probe(&mut self, report: FindingSink<'_>) -> LockTest {
        let timeout = self.timeout;
        let http = self.client.http();
        http.use_all_time_at_once();
        let distance = http.report_reachable_hosts(timeout, report);
        if distance == Distance::Unreached {
            return LockTest::Pointless;
        }
        match self.probe_server(distance, report) {
            Ok(()) => LockTest::Possible,
            Err(error) => {
                report(Finding::from_error(diagnose::connection_subject(&error), error));
                LockTest::Pointless
            }
        }
    }

    /// Reads a lock from the first member that is no learner, which is asked from here on.
    fn pass_over_learners(&mut self, report: FindingSink<'_>) -> Result<(), BackendError> {
        let mut learners: Vec<String> = Vec::new();
        while let Err(error) = self.read_lock("") {
            match errors::learner(&error) {
                Some(name) if !learners.iter().any(|known| known == name) => learners.push(name.to_owned()),
                _ => return Err(error),
            }
        }
        for name in learners {
            let name = name.trim_start_matches("backend ");
            report(Finding::good("writable", format!("{name} is a learner, and is skipped")));
        }
        Ok(())
    }

    /// Fails if a lock cannot be read.
    fn probe_server(&mut self, distance: Distance, report: FindingSink<'_>) -> Result<(), BackendError> {
        self.pass_over_learners(report)?;
        let http = self.client.http();
        report(diagnose::tls(http.tls(), http.tls_version(), distance));
        let server = http.server();
        let server = server.trim_start_matches("backend ");
        report(match self.client.user() {
            Some(user) => Finding::good("login", format!("as the user {user} to {server}")),
            None => Finding::good("login", format!("without a user to {server}")),
        });
        // A user without rights to the whole cluster may not read its state.
        if let Ok(status) = self.client.ask("/v3/maintenance/status", &json!({})) {
            report(judge_version(&one_line(status.body["version"].as_str().unwrap_or_default())));
        }
        diagnose::round_trips(|| self.read_lock("").map(drop), report)?;
        let clock = self.read_lock("")?.1;
        report(diagnose::clock_in_seconds(clock.earliest));
        if let Ok(members) = self.client.ask("/v3/cluster/member/list", &json!({})) {
            report(judge_members(&members.body));
        }
        if let Ok(alarms) = self.client.ask("/v3/maintenance/alarm", &json!({"action": "GET"})) {
            report(judge_alarms(&alarms.body));
        }
        Ok(())
    }
}

fn judge_version(version: &str) -> Finding {
    match diagnose::version(version) < OLDEST_VERSION {
        true => {
            Finding::unwise("version", format!("etcd {version}, older than shedlock supports"), "use etcd 3.4 or later")
        }
        false => Finding::good("version", format!("etcd {version}")),
    }
}

fn judge_members(body: &Value) -> Finding {
    let all = body["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let voters = all.iter().filter(|member| member["isLearner"] != json!(true)).count();
    match voters {
        1 => Finding::good("members", "one member; locks are granted while it is up"),
        _ if voters % 2 == 0 => Finding::unwise(
            "members",
            format!("{voters} members: no more of them may fail than of {}", voters - 1),
            "use an odd number of members",
        ),
        _ => Finding::good(
            "members",
            format!("{voters} members; locks are granted while {} of them are up", voters / 2 + 1),
        ),
    }
}

fn judge_alarms(body: &Value) -> Finding {
    let all = body["alarms"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named: Vec<&str> = all.iter().filter_map(|alarm| alarm["alarm"].as_str()).collect();
    match named.is_empty() {
        true => Finding::good("alarms", "none"),
        false => Finding::bad(
            "alarms",
            one_line(&named.join(", ")),
            "with NOSPACE etcd grants no locks: etcdctl compact REVISION, etcdctl defrag, etcdctl alarm disarm",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    #[test]
    fn an_odd_number_of_members_is_good() {
        let members = |count: usize| judge_members(&json!({"members": vec![json!({"ID": "1"}); count]}));
        for (count, grade) in [(1, Grade::Good), (2, Grade::Unwise), (3, Grade::Good), (4, Grade::Unwise)] {
            assert_eq!(members(count).grade, grade, "{count}");
        }
        let learner = judge_members(&json!({"members": [{"ID": "1"}, {"ID": "2", "isLearner": true}]}));
        assert_eq!(learner.grade, Grade::Good);
    }

    #[test]
    fn an_alarm_is_bad() {
        assert_eq!(judge_alarms(&json!({})).grade, Grade::Good);
        assert_eq!(judge_alarms(&json!({"alarms": [{"memberID": "1", "alarm": "NOSPACE"}]})).grade, Grade::Bad);
    }
}
