//! The diagnosis of `check`: whether this host can lock in this cluster.

use serde_json::{Value, json};

use super::Etcd;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::{BackendError, Finding, Reached};

/// The oldest supported version; earlier servers have no gateway under /v3.
const OLDEST: (u32, u32) = (3, 4);

impl Etcd {
    /// Tries everything that a run needs.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        let patience = self.patience;
        let http = self.client.http();
        http.make_one_attempt();
        let distance = http.look(patience, tell);
        if distance == Distance::Unreached {
            return Reached::No;
        }
        match self.probe_server(distance, tell) {
            Ok(()) => Reached::Yes,
            Err(error) => {
                tell(Finding::of_trouble(probe::subject(&error), error));
                Reached::No
            }
        }
    }

    /// Fails if a lock cannot be read.
    fn probe_server(&mut self, distance: Distance, tell: Tell<'_>) -> Result<(), BackendError> {
        self.look("")?;
        let http = self.client.http();
        tell(probe::tls(http.tls(), http.tls_version(), distance));
        let server = http.server();
        let server = server.trim_start_matches("backend ");
        tell(match self.client.user() {
            Some(user) => Finding::good("login", format!("as the user {user} to {server}")),
            None => Finding::good("login", format!("without a user to {server}")),
        });
        // A user without rights to the whole cluster may not read its state.
        if let Ok(status) = self.client.ask("/v3/maintenance/status", &json!({})) {
            tell(judge_version(status.body["version"].as_str().unwrap_or_default()));
        }
        probe::round_trips(|| self.look("").map(drop), tell)?;
        let clock = self.look("")?.1;
        tell(probe::whole_seconds(clock.earliest));
        if let Ok(members) = self.client.ask("/v3/cluster/member/list", &json!({})) {
            tell(judge_members(&members.body));
        }
        if let Ok(alarms) = self.client.ask("/v3/maintenance/alarm", &json!({"action": "GET"})) {
            tell(judge_alarms(&alarms.body));
        }
        Ok(())
    }
}

fn judge_version(version: &str) -> Finding {
    match probe::version(version) < OLDEST {
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
            named.join(", "),
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
