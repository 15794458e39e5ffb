//! The document of a lock: `lockUntil`, `lockedAt` and `lockedBy` are the Java library's, `shedlock` has shedlock's own fields.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use shedlock_provider::{Record, Run};

/// The fields that change with every write of any client; shedlock's counts its writes.
const VERSION_FIELDS: [&str; 4] = ["lockUntil", "lockedAt", "lockedBy", "shedlock.writes"];

/// The owner of a lock whose end another client has changed without a name: the Java library releases a lock without
/// checking its owner.
const UNKNOWN: &str = "unknown";

/// Reads the record of a lock, whatever wrote it.
pub(crate) fn read_record(found: &Document) -> Record {
    let own_fields = found.get_document("shedlock").cloned().unwrap_or_default();
    let runs = own_fields.get_array("runs").cloned().unwrap_or_default();
    let owner = found.get_str("lockedBy").unwrap_or_default();
    let is_last_owner = own_fields.get_str("owner").is_ok_and(|last| last == owner);
    let is_changed = is_last_owner && own_fields.get("until") != found.get("lockUntil");
    Record {
        owner: if is_changed { UNKNOWN } else { owner }.to_owned(),
        since: time(found, "lockedAt"),
        until: time(found, "lockUntil"),
        set_at: time(&own_fields, "set").filter(|_| is_last_owner && !is_changed),
        token: number(&own_fields, "token").unwrap_or_default(),
        runs: runs.iter().filter_map(|run| read_run(run.as_document()?)).collect(),
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

/// Returns what a new document's version follows. A document that is removed and made again must not get a version that it had: so
/// the count of its writes begins anywhere.
pub(crate) fn first_version() -> Document {
    let [_, _, _, _, a, b, c, d, e, f, g, h] = ObjectId::new().bytes();
    // The count, which grows within this process, comes first: the writes that follow must not reach the next one's.
    let number = i64::from_be_bytes([0, f, g, h, a, b, c, d]) << 6 | i64::from(e >> 2);
    doc! { "shedlock.writes": number }
}

/// Returns a version as a text: MongoDB's canonical JSON, which keeps the kind of each value.
pub(crate) fn write_version(version: Document) -> String {
    Bson::Document(version).into_canonical_extjson().to_string()
}

/// Reads the text of a version. It has these fields and no other, so that no text makes a write match more than it should.
pub(crate) fn read_version(text: &str) -> Option<Document> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    match Bson::try_from(value).ok()? {
        Bson::Document(version)
            if version.len() == VERSION_FIELDS.len() && VERSION_FIELDS.iter().all(|key| version.contains_key(key)) =>
        {
            Some(version)
        }
        _ => None,
    }
}

/// Returns the fields that a write sets, of which the Java library knows the first three.
pub(crate) fn fields(record: &Record, version: Option<&Document>) -> Document {
    let writes = version.and_then(|version| number(version, "shedlock.writes")).unwrap_or_default();
    let time = |time: Option<u64>| time.map_or(Bson::Null, |time| Bson::DateTime(DateTime::from_millis(signed(time))));
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

fn read_run(run: &Document) -> Option<Run> {
    Some(Run {
        token: number(run, "token")?,
        owner: run.get_str("owner").ok()?.to_owned(),
        started_at: time(run, "started"),
        ended_at: time(run, "ended"),
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

/// Reads a time, in milliseconds since 1970; one before that is long past.
pub(crate) fn time(fields: &Document, key: &str) -> Option<u64> {
    let time = fields.get_datetime(key).ok()?;
    Some(time.timestamp_millis().try_into().unwrap_or_default())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let run = Run {
            token: 7,
            owner: "host:1:00000000000000aa".to_owned(),
            started_at: Some(1000),
            ended_at: None,
            exit_code: Some(3),
            outcome: Some("failure".to_owned()),
        };
        Record {
            owner: run.owner.clone(),
            since: Some(1000),
            until: Some(61_000),
            set_at: Some(1000),
            token: 7,
            runs: vec![run],
        }
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        assert_eq!(read_record(&fields(&record(), None)), record());
    }

    /// Written out, since every version of shedlock has to read what another one wrote.
    #[test]
    fn a_document_has_these_fields_in_this_order() {
        let (date, owner) = (DateTime::from_millis, "host:1:00000000000000aa");
        let run = doc! {
            "token": 7_i64,
            "owner": owner,
            "started": date(1000),
            "ended": null,
            "exitCode": 3_i64,
            "outcome": "failure",
        };
        let wanted = doc! {
            "lockUntil": date(61_000),
            "lockedAt": date(1000),
            "lockedBy": owner,
            "shedlock": {
                "writes": 42_i64,
                "owner": owner,
                "until": date(61_000),
                "set": date(1000),
                "token": 7_i64,
                "runs": [run],
            },
        };
        let written = fields(&record(), Some(&doc! { "shedlock.writes": 41_i64 }));
        assert_eq!(written.to_vec().unwrap(), wanted.to_vec().unwrap(), "{written:?}");
    }

    #[test]
    fn a_lock_that_another_client_has_prolonged_is_nobody_s() {
        let mut lock = fields(&Record { owner: "ours".to_owned(), ..Record::default() }, None);
        assert_eq!(read_record(&lock).owner, "ours");
        lock.insert("lockUntil", DateTime::from_millis(5));
        assert_eq!(read_record(&lock).owner, UNKNOWN);
        lock.insert("lockedBy", "java-host");
        assert_eq!(read_record(&lock).owner, "java-host");
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
    fn a_version_is_the_same_after_it_was_a_text() {
        let odd = [
            Bson::Int32(5),
            Bson::Int64(5),
            Bson::Double(5.0),
            Bson::Double(f64::NEG_INFINITY),
            Bson::Null,
            Bson::String("{\"$exists\": false}".to_owned()),
            Bson::Array(vec![Bson::Int32(1), Bson::Null]),
            Bson::DateTime(DateTime::MIN),
            Bson::Document(doc! { "a": { "b": 1_i64 } }),
        ];
        for value in odd {
            let document = doc! { "lockUntil": value, "lockedBy": "é\u{0}\"", "shedlock": { "writes": 1_i64 } };
            let version = version(&document);
            let text = write_version(version.clone());
            let mut read = read_version(&text).unwrap();
            assert!(!text.contains('\n') && read.len() == version.len());
            for (key, value) in version {
                assert_eq!(read.remove(&key), Some(value), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in
            ["", "5", "{}", "null", r#"{"lockUntil":1,"lockedAt":1,"lockedBy":"a","other":1}"#, r#"{"$date":"x"}"#]
        {
            assert_eq!(read_version(text), None, "{text}");
        }
    }

    #[test]
    fn what_others_wrote_is_read_or_left_out() {
        let odd =
            doc! { "lockUntil": "tomorrow", "lockedBy": 5, "shedlock": { "token": "x", "runs": [1, { "owner": 2 }] } };
        let read = read_record(&odd);
        assert_eq!((read.until, read.owner.as_str(), read.token, read.runs.len()), (None, "", 0, 0));
        assert_eq!(read_record(&doc! { "shedlock": { "token": 5.0 } }).token, 5);
        assert_eq!(read_record(&doc! { "lockUntil": DateTime::from_millis(-5) }).until, Some(0));
    }
}
