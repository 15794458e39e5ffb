//! Providers that answer wrongly: `check` and `prove` name the function that is to be mended, and find nothing wrong with one
//! that is whole.

use super::{Report, prove};
use crate::support::process::{copy_program, write_script};
use crate::support::{Finished, Place, finish};
use servers::stores::{ExampleStore, Store, program};

/// A place with the provider that answers wrongly in one way, and its URL.
struct Stage {
    place: Place,
    store: ExampleStore,
    url: String,
}

impl Stage {
    fn new(mode: &str) -> Self {
        let (place, store) = (Place::new(), ExampleStore::new());
        store.make_table();
        write_script(&place, "bad", include_str!("../../../servers/bad_provider.py"));
        copy_program(program("shedlock-provider-example"), place.path("example"));
        let url =
            format!("exec:{}?mode={mode}&op=none&directory={}", place.path("bad").display(), store.locks().display());
        Self { place, store, url }
    }

    fn check(&self) -> Finished {
        finish(self.place.shedlock(["check", "--json"]).env("SHEDLOCK_BACKEND", &self.url))
    }

    fn prove(&self, time: &str) -> Report {
        prove(&self.place, &self.url, &["--for", time])
    }
}

/// Fails unless both find that this is wrong with this function, and that nothing else is wrong with the functions.
#[track_caller]
fn is_found(mode: &str, function: &str, words: &str) -> Report {
    let stage = Stage::new(mode);
    let check = stage.check();
    assert_eq!(check.code(), Some(1), "{mode}: {check:?}");
    let json: serde_json::Value = serde_json::from_str(&check.stdout).unwrap();
    let found = json.as_array().unwrap().iter().find(|finding| finding["subject"] == function);
    let found = found.unwrap_or_else(|| panic!("{mode}: {check:?}"));
    assert_eq!(found["grade"], "bad", "{mode}: {check:?}");
    assert!(found["seen"].as_str().unwrap().contains(words), "{mode}: {check:?}");
    let report = stage.prove("4s");
    report.is_broken(function);
    assert!(report.line(function).1.contains(words), "{mode}: {:?}", report.finished);
    assert!(!report.subjects().contains(&"functions"), "{mode}: {:?}", report.finished);
    assert!(!report.finished.stdout.contains("proxy"), "{mode}: {:?}", report.finished);
    report
}

#[test]
fn a_remove_that_does_nothing_is_found() {
    is_found("removes-nothing", "remove", "it answered true, and the record is still there");
}

#[test]
fn a_list_that_leaves_out_records_is_found() {
    is_found("lists-nothing", "list", "it left out a record");
}

#[test]
fn a_record_that_comes_back_without_set_at_is_found() {
    is_found("drops-set-at", "read", "`set_at` of the record did not come back");
}

#[test]
fn versions_that_stay_are_found() {
    is_found("versions-of-names", "version", "came again after another write");
}

/// Such a version also lets a late request take effect, which a provider that was frozen sends.
#[test]
fn versions_that_repeat_are_found_and_so_are_requests_that_come_late() {
    is_found("versions-of-content", "version", "came again after another write");
    let report = Stage::new("versions-of-content").prove("20s");
    report.is_broken("cut off");
}

#[test]
fn a_write_that_compares_nothing_is_found() {
    is_found("compares-nothing", "write", "it answered true although there was a record");
}

#[test]
fn a_whole_provider_passes_and_nothing_is_left_behind() {
    let stage = Stage::new("none");
    let check = stage.check();
    assert_eq!(check.code(), Some(0), "{check:?}");
    let left = finish(stage.place.shedlock(["status", "--json"]).env("SHEDLOCK_BACKEND", stage.store.url()));
    assert_eq!(left.stdout, "[]\n");
    let report = stage.prove("5s");
    report.is_kept();
    assert_eq!(report.line("functions").0, "good", "{:?}", report.finished);
    assert!(report.figure("cuts").as_u64() > Some(0), "{:?}", report.finished);
}

/// Nothing is broken, and hardly anything was tried.
#[test]
fn a_provider_that_mostly_fails_does_not_pass_without_a_word() {
    let stage = Stage::new("fails-mostly");
    let report = prove(&stage.place, &stage.url, &["--for", "5s", "--backend-timeout", "1m"]);
    report.is_kept();
    let (grade, seen) = report.line("errors");
    assert_eq!(grade, "unwise", "{:?}", report.finished);
    assert!(seen.contains(" requests failed; ") && seen.contains("not now"), "{seen}");
}
