//! The schemas of the JSON are those of what is printed.

use serde_json::{Value, json};

use super::{MINUTE, Site};
use crate::support::schema::Schema;
use servers::stores::SqliteStore;
use servers::stores::Store;

/// Returns the value with each of its fields in turn missing, of another type, or joined by one that has no business there.
fn broken(object: &Value) -> Vec<Value> {
    let fields = object.as_object().unwrap();
    let without = fields.keys().map(|key| {
        let mut less = fields.clone();
        less.remove(key);
        Value::Object(less)
    });
    let changed = fields.keys().map(|key| {
        let mut other = fields.clone();
        other.insert(key.clone(), json!({}));
        Value::Object(other)
    });
    let mut more = fields.clone();
    more.insert("colour".to_owned(), json!("red"));
    without.chain(changed).chain([Value::Object(more)]).collect()
}

#[test]
fn a_schema_forbids_what_is_never_printed() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    assert!(site.store.java_take("java", "java-host", MINUTE));
    for (command, count) in [("status", 11), ("history", 9), ("check", 4)] {
        let schema = Schema::of(command);
        let printed = site.json(&[command]);
        assert_eq!(printed[0].as_object().unwrap().len(), count);
        for object in &printed {
            for value in broken(object) {
                assert!(!schema.is_kept_by(&json!([value])), "{command}: {value:#}");
            }
            assert!(!schema.is_kept_by(object), "it is an array");
        }
        // A check always says something.
        assert_eq!(schema.is_kept_by(&json!([])), command != "check");
    }
    // Also within a lock, and in times.
    let [_, job] = site.json(&["status"]).try_into().unwrap();
    let schema = Schema::of("status");
    for run in broken(&job["last"]) {
        let mut lock = job.clone();
        lock["last"] = run;
        assert!(!schema.is_kept_by(&json!([lock])), "{lock:#}");
    }
    let mut lock = job.clone();
    lock["last"]["started_at"] = json!("yesterday");
    assert!(!schema.is_kept_by(&json!([lock])));
}

#[test]
fn a_reader_of_this_version_understands_a_field_of_a_later_one() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    for command in ["status", "history", "check"] {
        let mut printed = Value::Array(site.json(&[command]));
        let schema = Schema::of(command);
        printed[0]["later"] = json!("field");
        if command == "status" {
            printed[0]["last"]["later"] = json!("field");
        }
        assert!(schema.is_understood(&printed) && !schema.is_kept_by(&printed), "{command}");
        printed[0].as_object_mut().unwrap().remove("name");
        printed[0].as_object_mut().unwrap().remove("subject");
        assert!(!schema.is_understood(&printed), "{command}");
    }
}
