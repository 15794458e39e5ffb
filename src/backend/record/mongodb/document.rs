//! The document of a lock: `lockUntil`, `lockedAt` and `lockedBy` are the Java library's, `shedlock` has shedlock's own fields.

use ::mongodb::bson::{Bson, DateTime, Document, doc};

use crate::backend::record::engine::Record;
use crate::lock::{Holder, RunRecord};
use crate::system::Timestamp;

/// The fields that change with every write of any client; shedlock's counts its writes.
const VERSION_FIELDS: [&str; 4] = ["lockUntil", "lockedAt", "lockedBy", "shedlock.writes"];

/// The owner of a lock whose end another client has changed without a name: the Java library releases a lock without
/// checking its owner.
const UNKNOWN: &str = "unknown";

/// Reads the record of a lock, whatever wrote it.
pub(crate) fn read_record(found: &Document, name: &str) -> Record {
    let own_fields = found.get_document("shedlock").cloned().unwrap_or_default();
    let runs = own_fields.get_array("runs").cloned().unwrap_or_default();
    let owner = found.get_str("lockedBy").unwrap_or_default();
    let is_last_owner = own_fields.get_str("owner").is_ok_and(|last| last == owner);
    let is_changed = is_last_owner && own_fields.get("until") != found.get("lockUntil");
    Record {
        owner: if is_changed { UNKNOWN } else { owner }.to_owned(),
        since: found.get_datetime("lockedAt").ok().and_then(timestamp),
        until: found.get_datetime("lockUntil").ok().and_then(timestamp),
        set_at: own_fields.get_datetime("set").ok().and_then(timestamp).filter(|_| is_last_owner && !is_changed),
        token: number(&own_fields, "token").unwrap_or_default(),
        runs: runs.iter().filter_map(|run| self::run(run.as_document()?, name)).collect(),
    }
}

/// Returns the values that a write has to find unchanged.
pub(crate) fn version(found: &Document) -> Document {
    let own_fields = found.get_document("shedlock").ok();
    let value = |key: &str| match key.strip_prefix("shedlock.") {
        Some(key) => own_fields.and_then(|own_fields| own_fields.get(key)).cloned(),
        None => found.get(key).cloned(),
    };
    let wanted = |key: &str| value(key).unwrap_or_else(|| Bson::Document(doc! { "$exists": false }));
    VERSION_FIELDS.iter().map(|key| ((*key).to_owned(), wanted(key))).collect()
}

/// Returns the fields that a write sets, of which the Java library knows the first three.
pub(crate) fn fields(record: &Record, version: Option<&Document>) -> Document {
    let writes = version.and_then(|version| number(version, "shedlock.writes")).unwrap_or_default();
    let time = |time: Option<Timestamp>| time.map_or(Bson::Null, |time| Bson::DateTime(date(time)));
    let runs = record.runs.iter().map(|run| {
        Bson::Document(doc! {
            "token": signed(run.token),
            "owner": &run.owner,
            "started": time(run.started_at),
            "ended": time(run.ended_at),
            "exitCode": run.exit_code,
            "outcome": run.outcome.clone(),
        })
    });
    doc! {
        "lockUntil": time(record.until),
        "lockedAt": time(record.since),
        "lockedBy": &record.owner,
        "shedlock": {
            "writes": signed(writes.wrapping_add(1)),
            "owner": &record.owner,
            "until": time(record.until),
            "set": time(record.set_at),
            "token": signed(record.token),
            "runs": runs.collect::<Vec<_>>(),
        },
    }
}

fn run(run: &Document, name: &str) -> Option<RunRecord> {
    let owner = run.get_str("owner").ok()?;
    Some(RunRecord {
        token: number(run, "token")?,
        name: name.to_owned(),
        owner: owner.to_owned(),
        host: Holder::parse(owner).host().to_owned(),
        started_at: run.get_datetime("started").ok().and_then(timestamp),
        ended_at: run.get_datetime("ended").ok().and_then(timestamp),
        exit_code: run.get_i64("exitCode").ok(),
        outcome: run.get_str("outcome").ok().map(str::to_owned),
    })
}

/// Reads a number, which MongoDB's shell may have written as one with a fraction.
fn number(fields: &Document, key: &str) -> Option<u64> {
    match fields.get(key)? {
        Bson::Int64(number) => (*number).try_into().ok(),
        Bson::Int32(number) => (*number).try_into().ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the largest number")]
        Bson::Double(number) => Some(*number as u64),
        _ => None,
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn date(time: Timestamp) -> DateTime {
    DateTime::from_millis(signed(time.0))
}

/// Reads a time; one before 1970 is long past.
pub(crate) fn timestamp(date: &DateTime) -> Option<Timestamp> {
    Some(Timestamp(date.timestamp_millis().try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let run = RunRecord {
            token: 7,
            name: "job".to_owned(),
            owner: "host:1:00000000000000aa".to_owned(),
            host: "host".to_owned(),
            started_at: Some(Timestamp(1000)),
            ended_at: None,
            exit_code: Some(3),
            outcome: Some("failure".to_owned()),
        };
        let written = Record {
            owner: run.owner.clone(),
            since: Some(Timestamp(1000)),
            until: Some(Timestamp(61_000)),
            set_at: Some(Timestamp(1000)),
            token: 7,
            runs: vec![run],
        };
        assert_eq!(read_record(&fields(&written, None), "job"), written);
    }

    #[test]
    fn a_lock_that_another_client_has_prolonged_is_nobody_s() {
        let mut lock = fields(&Record { owner: "ours".to_owned(), ..Record::default() }, None);
        assert_eq!(read_record(&lock, "job").owner, "ours");
        lock.insert("lockUntil", DateTime::from_millis(5));
        assert_eq!(read_record(&lock, "job").owner, UNKNOWN);
        lock.insert("lockedBy", "java-host");
        assert_eq!(read_record(&lock, "job").owner, "java-host");
    }

    #[test]
    fn a_version_names_what_is_there_and_what_is_not() {
        let java = doc! { "_id": "job", "lockUntil": DateTime::from_millis(5), "lockedBy": "host" };
        let missing = doc! { "$exists": false };
        assert_eq!(
            version(&java),
            doc! { "lockUntil": DateTime::from_millis(5), "lockedAt": &missing, "lockedBy": "host", "shedlock.writes": &missing }
        );
        let written = fields(&Record::default(), Some(&doc! { "shedlock.writes": 41_i64 }));
        assert_eq!(version(&written).get_i64("shedlock.writes").unwrap(), 42);
    }

    #[test]
    fn what_others_wrote_is_read_or_left_out() {
        let odd =
            doc! { "lockUntil": "tomorrow", "lockedBy": 5, "shedlock": { "token": "x", "runs": [1, { "owner": 2 }] } };
        let read = read_record(&odd, "job");
        assert_eq!((read.until, read.owner.as_str(), read.token, read.runs.len()), (None, "", 0, 0));
        assert_eq!(read_record(&doc! { "shedlock": { "token": 5.0 } }, "job").token, 5);
    }
}
