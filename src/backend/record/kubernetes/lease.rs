//! The Lease of a lock: its `spec` is the lock, an annotation has the history.

use serde_json::{Map, Value, json};

use super::lease_name;
use crate::backend::record::engine::Record;
use crate::system::Timestamp;

const LABEL: &str = "app.kubernetes.io/managed-by";
const PROGRAM: &str = "shedlock";
const NAME: &str = "shedlock/name";
const RECORD: &str = "shedlock/record";
const WRITES: &str = "shedlock/writes";

/// The second at which 2020 began, from which tokens by the clock count.
const YEAR_2020: u64 = 1_577_836_800;
const MAX_SECONDS: u64 = i32::MAX as u64;
const MS_PER_SECOND: u64 = 1000;

/// Holds a Lease as it was read, which a write replaces.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) body: Value,
    /// The time at which it was read.
    pub(crate) read: Timestamp,
}

/// Returns the smallest token of a Lease that has none, which is larger than those of an earlier Lease of this name: its version,
/// which has grown by one at least with each write of any object. Where the version is no number, the token is the time.
pub(crate) fn first_token(lease: &Value, now: Timestamp) -> u64 {
    let version = lease["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    version.unwrap_or_else(|| token_from_clock(now))
}

/// Returns a number that grows with the time, and that `leaseTransitions` has room for until 2088.
fn token_from_clock(now: Timestamp) -> u64 {
    (now.0 / MS_PER_SECOND).saturating_sub(YEAR_2020).min(MAX_SECONDS)
}

/// Returns whether shedlock uses a Lease for a lock. A person, too, may label a Lease, for shedlock to show it.
pub(crate) fn is_lock(lease: &Value) -> bool {
    let metadata = &lease["metadata"];
    metadata["labels"][LABEL] == PROGRAM || metadata["annotations"][RECORD].is_string()
}

/// Returns the name of the lock that a Lease is for; `None` if this is no Lease.
pub(crate) fn read_name(lease: &Value) -> Option<String> {
    let metadata = lease.get("metadata")?;
    let annotated_name = metadata.pointer("/annotations").and_then(|all| all.get(NAME)).and_then(Value::as_str);
    Some(lease_name::lock_name(metadata.get("name")?.as_str()?, annotated_name))
}

/// Reads the record of a lock. The owner and the end are in the `spec`, which other programs write too.
pub(crate) fn read_record(lease: &Value, lock: &str) -> Record {
    let (metadata, spec) = (&lease["metadata"], &lease["spec"]);
    let annotated =
        metadata["annotations"][RECORD].as_str().and_then(|text| Record::parse(text, lock)).unwrap_or_default();
    let time = |value: &Value| value.as_str().and_then(Timestamp::parse);
    let owner = spec["holderIdentity"].as_str().unwrap_or_default();
    let since = time(&spec["acquireTime"]);
    let renewed = time(&spec["renewTime"]).or(since).or(time(&metadata["creationTimestamp"]));
    let until = match owner {
        "" => Some(Timestamp(0)),
        _ => renewed.map(|renewed| Timestamp(renewed.0 + seconds(&spec["leaseDurationSeconds"]) * MS_PER_SECOND)),
    };
    let token = annotated.token.max(seconds(&spec["leaseTransitions"]));
    let set_at = annotated.set_at.filter(|_| (annotated.owner.as_str(), annotated.until) == (owner, until));
    Record { owner: owner.to_owned(), since, until, set_at, token, runs: annotated.runs }
}

/// Reads a number that other programs may have written.
fn seconds(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default().min(MAX_SECONDS)
}

/// Returns the Lease with this record, which replaces `old`. The fields of other programs stay.
pub(crate) fn with_record(record: &Record, namespace: &str, lock: &str, old: Option<&Lease>) -> Value {
    let new_lease = || {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": lease_name::lease_name(lock), "namespace": namespace},
        })
    };
    let mut lease = old.map_or_else(new_lease, |old| old.body.clone());
    let metadata = &mut lease["metadata"];
    metadata["managedFields"].take();
    object(&mut metadata["labels"]).entry(LABEL).or_insert(json!(PROGRAM));
    let notes = object(&mut metadata["annotations"]);
    // The API server does not count a write that changes nothing: the version would stay, and with it a late write be valid.
    let writes =
        notes.get(WRITES).and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    notes.insert(WRITES.to_owned(), json!(writes.wrapping_add(1).to_string()));
    notes.insert(NAME.to_owned(), json!(lock));
    notes.insert(RECORD.to_owned(), json!(record.to_json()));
    let spec = object(&mut lease["spec"]);
    let now = old.map(|old| old.read).or(record.since);
    let (renewed, length) = renew_time_and_seconds(record.until, now);
    for (key, value) in [
        ("holderIdentity", json!(Some(&record.owner).filter(|owner| !owner.is_empty()))),
        ("acquireTime", json!(record.since.map(micro_time))),
        ("renewTime", json!(renewed.map(micro_time))),
        ("leaseDurationSeconds", json!(length)),
        ("leaseTransitions", json!(record.token.min(MAX_SECONDS))),
    ] {
        spec.insert(key.to_owned(), value);
    }
    lease
}

/// Returns a start and a number of whole seconds that together make the end, since a Lease has no field for it. Another program
/// waits for that number of seconds, which is one where the lock is free.
fn renew_time_and_seconds(until: Option<Timestamp>, now: Option<Timestamp>) -> (Option<Timestamp>, u64) {
    let Some(until) = until else { return (None, MAX_SECONDS) };
    let left = until.0.saturating_sub(now.unwrap_or(until).0);
    let length = left.div_ceil(MS_PER_SECOND).clamp(1, MAX_SECONDS);
    (until.0.checked_sub(length * MS_PER_SECOND).map(Timestamp), length)
}

/// Formats a time with the six digits that Kubernetes insists on.
fn micro_time(time: Timestamp) -> String {
    time.to_string().replace('Z', "000Z")
}

/// Returns the object in a field, and creates it if there is none.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it has just become one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::RunRecord;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn held(until: u64) -> Record {
        let run = RunRecord {
            token: 7,
            name: "a job".to_owned(),
            owner: "web1:1:00000000000000ff".to_owned(),
            host: "web1".to_owned(),
            started_at: Some(NOW),
            ended_at: None,
            exit_code: None,
            outcome: None,
        };
        let owner = run.owner.clone();
        let (since, until) = (Some(NOW), Some(Timestamp(NOW.0 + until)));
        Record { owner, since, until, set_at: Some(NOW), token: 7, runs: vec![run] }
    }

    fn read(body: Value) -> Lease {
        Lease { body, read: NOW }
    }

    #[test]
    fn a_new_lease_says_what_others_can_read() {
        let lease = with_record(&held(61_500), "jobs", "a job", None);
        assert_eq!(lease["metadata"]["name"], "lock--a-20job");
        assert_eq!(lease["metadata"]["namespace"], "jobs");
        assert_eq!(lease["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "shedlock"}));
        let spec = json!({
            "holderIdentity": "web1:1:00000000000000ff",
            "acquireTime": "2026-09-21T14:13:20.000000Z",
            // The end is in one minute and a half second.
            "renewTime": "2026-09-21T14:13:19.500000Z",
            "leaseDurationSeconds": 62,
            "leaseTransitions": 7,
        });
        assert_eq!(lease["spec"], spec);
        assert_eq!(read_name(&lease).as_deref(), Some("a job"));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for until in [0, 1, 999, 1000, 1001, 60_000, 10 * 365 * 86_400_000] {
            let again = |written: &Record| read_record(&with_record(written, "jobs", "a job", None), "a job");
            assert_eq!(again(&held(until)), held(until), "{until}");
        }
        let nothing = Record::default();
        assert_eq!(read_record(&with_record(&nothing, "jobs", "job", None), "job"), nothing);
    }

    #[test]
    fn every_write_is_another() {
        let first = with_record(&held(1000), "jobs", "a job", None);
        let again = with_record(&held(1000), "jobs", "a job", Some(&read(first.clone())));
        assert_ne!(first, again);
        assert_eq!(read_record(&first, "a job"), read_record(&again, "a job"));
    }

    #[test]
    fn what_others_have_added_stays() {
        let mut lease = with_record(&held(1000), "jobs", "a job", None);
        lease["metadata"]["resourceVersion"] = json!("17");
        lease["metadata"]["uid"] = json!("u");
        lease["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
        lease["metadata"]["annotations"]["other"] = json!("x");
        lease["metadata"]["managedFields"] = json!([{}]);
        lease["spec"]["strategy"] = json!("OldestEmulationVersion");
        let written = with_record(&held(2000), "jobs", "a job", Some(&read(lease)));
        let metadata = &written["metadata"];
        assert_eq!((&metadata["resourceVersion"], &metadata["uid"]), (&json!("17"), &json!("u")));
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!((&metadata["annotations"]["other"], &metadata["managedFields"]), (&json!("x"), &Value::Null));
        assert_eq!(written["spec"]["strategy"], "OldestEmulationVersion");
    }

    #[test]
    fn other_programs_write_the_spec_alone() {
        let mut lease = with_record(&held(1000), "jobs", "a job", None);
        let theirs = json!({
            "holderIdentity": "pod-1",
            "acquireTime": "2026-09-21T14:13:21.000001Z",
            "renewTime": "2026-09-21T14:13:25.000000Z",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 9,
        });
        lease["spec"] = theirs.clone();
        let found = read_record(&lease, "a job");
        assert_eq!((found.owner.as_str(), found.token, found.runs), ("pod-1", 9, held(0).runs));
        assert_eq!(found.until, Some(Timestamp(NOW.0 + 20_000)));
        let foreign = json!({"metadata": {"name": "job"}, "spec": theirs});
        assert_eq!(
            (read_name(&foreign).as_deref(), read_record(&foreign, "job").owner.as_str()),
            (Some("job"), "pod-1")
        );
        // client-go releases a Lease in this way.
        lease["spec"]["holderIdentity"] = json!("");
        assert_eq!(read_record(&lease, "a job").until, Some(Timestamp(0)));
    }

    #[test]
    fn what_is_no_lease_is_read_as_nothing() {
        for body in [
            json!(null),
            json!("x"),
            json!([]),
            json!({"spec": 3, "metadata": []}),
            json!({"spec": {"leaseTransitions": -1}}),
        ] {
            assert_eq!(read_record(&body, "job"), Record::default(), "{body}");
            assert_eq!(read_name(&body), None);
        }
    }

    #[test]
    fn a_number_by_the_clock_fits_for_sixty_years() {
        assert_eq!(token_from_clock(NOW), 212_163_200);
        assert_eq!(token_from_clock(Timestamp::parse("2088-01-01T00:00:00Z").unwrap()), 2_145_916_800);
        assert_eq!((token_from_clock(Timestamp(0)), token_from_clock(Timestamp(u64::MAX))), (0, MAX_SECONDS));
    }

    /// A busy cluster counts further than the field does.
    #[test]
    fn a_token_that_the_field_has_no_room_for_is_kept_beside_it() {
        assert_eq!(first_token(&json!({"metadata": {"resourceVersion": "7000000000"}}), NOW), 7_000_000_000);
        let taken = Record { token: 7_000_000_001, ..held(1000) };
        let lease = with_record(&taken, "jobs", "a job", None);
        assert_eq!(lease["spec"]["leaseTransitions"], MAX_SECONDS);
        assert_eq!(read_record(&lease, "a job").token, 7_000_000_001);
        assert_eq!(first_token(&json!({"metadata": {"resourceVersion": "w-7"}}), NOW), token_from_clock(NOW));
    }
}
