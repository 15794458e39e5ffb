//! `status` and `history` on every backend: what they say of locks in every state and of runs of every kind, and what they leave
//! alone.

#[cfg(feature = "default")]
mod broken_connection;
mod layout;
mod memory;
mod schemas;
mod unexpected_rows;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::per_backend::{Site, on_every_backend};
use crate::support::process::detached;
use crate::support::prometheus::is_accepted;
use crate::support::schema::Schema;
use crate::support::{Finished, finish, kill, wait_until};
use servers::stores::{Shift, Store};

const MINUTE: Duration = Duration::from_secs(60);

impl<S: Store> Site<S> {
    /// Returns how a run ended.
    fn ran(&self, name: &str, words: &[&str]) -> Finished {
        finish(&mut self.run(name, words))
    }

    /// Returns the output of a command that has nothing to complain of.
    #[track_caller]
    fn printed(&self, words: &[&str]) -> String {
        let finished = finish(&mut self.shedlock(words));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
        finished.stdout
    }

    /// Returns the JSON output of a command, which has to be as its schema says.
    #[track_caller]
    fn json(&self, words: &[&str]) -> Vec<Value> {
        let mut all = words.to_vec();
        all.push("--json");
        let printed: Value = serde_json::from_str(&self.printed(&all)).unwrap();
        Schema::of(words[0]).accepts(&printed);
        printed.as_array().unwrap().clone()
    }

    /// Returns the object that status prints for a lock.
    #[track_caller]
    fn status(&self, name: &str) -> Value {
        let [lock] = self.json(&["status", name]).try_into().unwrap();
        lock
    }

    /// Returns the cells of the line that begins like this.
    #[track_caller]
    fn line(&self, words: &[&str], first: &str) -> Vec<String> {
        let printed = self.printed(words);
        let line = printed.lines().find(|line| cells(line).any(|cell| cell == first));
        cells(line.unwrap_or_else(|| panic!("{first} is not in {printed}"))).map(str::to_owned).collect()
    }
}

/// Returns the cells of a line: at least two blanks separate them.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty())
}

/// Returns a time of the JSON in milliseconds since the epoch.
fn millis(time: &Value) -> i64 {
    let time = humantime::parse_rfc3339(time.as_str().unwrap()).unwrap();
    i64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

on_every_backend! {
    where_nothing_is_yet_nothing_is_shown_and_nothing_made
    a_lock_that_we_hold_is_shown_as_it_is_stored
    a_lock_that_java_holds_is_shown
    a_paused_lock_says_by_whom_and_why
    a_lock_that_is_kept_after_its_run_is_held_by_it
    a_free_lock_says_how_its_last_run_ended
    a_lock_that_was_never_taken_is_free_and_unknown
    a_run_that_never_came_back_is_told_from_one_that_runs
    the_history_has_the_newest_runs_first
    the_history_begins_where_it_is_told_to
    a_run_that_never_came_back_is_not_for_ever_one_of_today
    a_name_that_nobody_has_heard_of_has_no_history
    the_exit_code_tells_whether_a_lock_is_held
    a_monitor_is_told_which_jobs_have_not_succeeded_lately
    prometheus_reads_the_locks_and_their_last_runs
    names_that_differ_in_case_are_both_shown
    an_acquisition_that_is_yet_to_come_is_remarked_upon
    what_a_check_has_used_is_not_in_the_way
    runs_are_drawn_as_a_picture
    a_shell_is_offered_the_names_of_all_locks
    whoever_reads_may_have_seen_enough
}

fn where_nothing_is_yet_nothing_is_shown_and_nothing_made<S: Store>(site: &Site<S>) {
    for (words, told) in [(["status"], "there is no lock yet in "), (["history"], "there are no runs to show")] {
        let finished = finish(&mut site.shedlock(&words));
        finished.complains(0, told);
        assert!(site.json(&words).is_empty());
    }
    assert!(site.printed(&["history", "--html", "-"]).contains("The backend has no locks."));
    assert_eq!(site.store.things(), [""; 0]);
    site.store.make_table();
    finish(&mut site.shedlock(&["status"])).complains(0, "there is no lock yet in ");
    // Java's table, and no history yet beside it.
    assert!(site.store.java_take("job", "java-host", MINUTE));
    assert_eq!(site.line(&["status"], "job")[..3], ["job", "held", &site.store.java_owner("java-host")]);
    finish(&mut site.shedlock(&["history", "job"])).complains(0, "there are no runs to show");
    assert!(!site.store.things().iter().any(|thing| thing.contains("history") || thing.contains("token")));
}

fn a_lock_that_we_hold_is_shown_as_it_is_stored<S: Store>(site: &Site<S>) {
    assert_eq!(site.ran("night shift", &["sh", "-c", "exit 3"]).code(), Some(3));
    let holder = site.hold("night shift", &[], "true");
    let (stored, runs) = (site.store.stored("night shift").unwrap(), site.store.history("night shift"));
    let lock = site.status("night shift");
    assert_eq!((&lock["held"], &lock["paused"], &lock["reason"]), (&json!(true), &json!(false), &Value::Null));
    assert_eq!((&lock["owner"], &lock["host"]), (&json!(stored.owner), &json!(runs[0].host)));
    assert!((millis(&lock["since"]) - stored.since).abs() < 1_000, "{lock} {stored:?}");
    assert!((millis(&lock["until"]) - stored.until).abs() < 1_000, "{lock} {stored:?}");
    assert_eq!(lock["token"], json!(runs[0].token));
    // The one before it, and not itself.
    let last = &lock["last"];
    assert_eq!(
        (&last["token"], &last["outcome"], &last["exit_code"]),
        (&json!(runs[1].token), &json!("failure"), &json!(3))
    );
    assert_eq!((millis(&last["started_at"]), millis(&last["ended_at"])), (runs[1].started, runs[1].ended.unwrap()));
    let line = site.line(&["status"], "night shift");
    assert_eq!(line[..3], ["night shift", "held", &runs[0].host]);
    assert!(
        line[3].contains("Z (") && line[5].ends_with(['s', 'm']) && line[6] == runs[0].token.to_string(),
        "{line:?}"
    );
    assert!(line[7].starts_with("failure 20"), "{line:?}");
    holder.end().is_silent_with(0);
    assert_eq!(site.status("night shift")["held"], json!(false));
}

fn a_lock_that_java_holds_is_shown<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    let token = site.store.history("job")[0].token;
    assert!(site.store.java_take("job", "java-host", MINUTE));
    let (lock, java) = (site.status("job"), json!(site.store.java_owner("java-host")));
    assert_eq!((&lock["held"], &lock["owner"], &lock["host"]), (&json!(true), &java, &java));
    assert_eq!((&lock["token"], &lock["last"]["token"]), (&Value::Null, &json!(token)));
    site.store.java_release("job", "java-host", Duration::ZERO);
    assert_eq!(site.status("job")["owner"], Value::Null);
}

fn a_paused_lock_says_by_whom_and_why<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    let owner = "paused:ada@ops1:the disk: replaced::00000000000000ff";
    site.taken_by("job", owner, MINUTE);
    let years = 86_400 * 3_650 * Duration::from_secs(1);
    site.taken_by("other", "paused:bob@ops2::1234:00000000000000ff", years);
    let lock = site.status("job");
    assert_eq!((&lock["state"], &lock["held"], &lock["paused"]), (&json!("paused"), &json!(false), &json!(true)));
    assert_eq!(lock["owner"], json!(owner));
    assert_eq!((&lock["host"], &lock["reason"]), (&json!("ops1"), &json!("the disk: replaced")));
    assert_eq!(lock["last"]["outcome"], json!("success"));
    assert_eq!(site.line(&["status"], "job")[..3], ["job", "paused", "ada@ops1: the disk: replaced"]);
    let line = site.line(&["status"], "other");
    assert_eq!(
        (&line[..3], &line[4..6]),
        (&["other", "paused", "bob@ops2"].map(str::to_owned)[..], &["resumed", "-"].map(str::to_owned)[..])
    );
    assert_eq!(site.status("other")["reason"], Value::Null);
}

fn a_lock_that_is_kept_after_its_run_is_held_by_it<S: Store>(site: &Site<S>) {
    site.ran("job", &["--at-least", "50s", "true"]).is_silent_with(0);
    let (stored, run) = (site.store.stored("job").unwrap(), site.store.history("job").remove(0));
    let lock = site.status("job");
    assert_eq!((&lock["state"], &lock["held"], &lock["owner"]), (&json!("kept"), &json!(false), &json!(stored.owner)));
    assert!(stored.owner.ends_with(":ended"));
    assert_eq!((&lock["token"], &lock["last"]["token"]), (&json!(run.token), &json!(run.token)));
    assert_eq!((&lock["last"]["outcome"], &lock["last"]["running"]), (&json!("success"), &json!(false)));
    assert_eq!(site.line(&["status"], "job")[..3], ["job", "kept", &run.host]);
}

fn a_free_lock_says_how_its_last_run_ended<S: Store>(site: &Site<S>) {
    for (code, outcome) in [(0, "success"), (7, "failure")] {
        assert_eq!(site.ran("job", &["sh", "-c", &format!("exit {code}")]).code(), Some(code));
        let lock = site.status("job");
        for nothing in ["owner", "host", "since", "until", "token", "reason"] {
            assert_eq!(lock[nothing], Value::Null, "{nothing}");
        }
        assert_eq!((&lock["state"], &lock["last"]["outcome"]), (&json!("free"), &json!(outcome)));
    }
    let line = site.line(&["status"], "job");
    assert_eq!(line[..7], ["job", "free", "-", "-", "-", "-", "-"]);
    // Of all locks as well, whatever the store remembers of one that is free.
    assert_eq!(site.json(&["status"]).len(), 1);
}

fn a_lock_that_was_never_taken_is_free_and_unknown<S: Store>(site: &Site<S>) {
    site.ran("nightly-report", &["true"]).is_silent_with(0);
    let finished = finish(&mut site.shedlock(&["status", "nightly_report", "nightly-report", "vacuum"]));
    assert_eq!(finished.code(), Some(0));
    assert_eq!(
        finished.stderr,
        "shedlock: there is no lock `nightly_report` yet\nhint: did you mean `nightly-report`?\n\
         shedlock: there is no lock `vacuum` yet\n"
    );
    let names: Vec<&str> = finished.stdout.lines().skip(1).filter_map(|line| cells(line).next()).collect();
    assert_eq!(names, ["nightly-report", "nightly_report", "vacuum"]);
    assert_eq!(site.json(&["status"]).len(), 1, "to ask makes none");
}

fn a_run_that_never_came_back_is_told_from_one_that_runs<S: Store>(site: &Site<S>) {
    let limited =
        site.shedlock(&["run", "--name", "job", "--at-most", "4s", "sh", "-c", "echo > began; exec sleep 100"]);
    assert_eq!(site.ran("job", &["sh", "-c", "exit 5"]).code(), Some(5));
    let run = detached(&site.place, "run", &limited);
    site.place.wait_for_lines("began", 1);
    kill(run.pid(), "KILL");
    wait_until("the lock to be free", || (site.status("job")["held"] == json!(false)).then_some(()));
    let last = &site.status("job")["last"];
    assert_eq!((&last["ended_at"], &last["outcome"], &last["running"]), (&Value::Null, &Value::Null, &json!(false)));
    assert!(site.line(&["status"], "job")[7].starts_with("never came back 20"));
    // What Prometheus is told of an end is of the run before: it ended before the last one started.
    let text = site.printed(&["status", "--prometheus"]);
    let value = |metric: &str| {
        let series = format!("shedlock_last_{metric}{{name=\"job\",source=\"backend\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok())
    };
    assert_eq!(value("exit_code"), Some(5.0), "{text}");
    assert!(
        value("end_timestamp_seconds") <= value("start_timestamp_seconds") && value("end_timestamp_seconds").is_some()
    );
    let holder = site.hold("job", &[], "true");
    let [running, gone, _] = site.json(&["history", "job"]).try_into().unwrap();
    assert_eq!((&running["running"], &running["ended_at"]), (&json!(true), &Value::Null));
    assert_eq!(&gone, last);
    let printed = site.printed(&["history"]);
    let outcomes: Vec<_> = printed.lines().skip(1).filter_map(|line| cells(line).nth(4)).collect();
    assert_eq!(outcomes, ["running", "never came back", "failure"], "{printed}");
    assert_eq!(site.status("job")["last"]["token"], gone["token"]);
    holder.end().is_silent_with(0);
}

fn the_history_has_the_newest_runs_first<S: Store>(site: &Site<S>) {
    for (name, code) in [("one", 0), ("two", 3), ("one", 5)] {
        assert_eq!(site.ran(name, &["sh", "-c", &format!("exit {code}")]).code(), Some(code));
        // No clock that is coarser tells which of two names was first.
        std::thread::sleep(site.store.grain());
    }
    let all = site.json(&["history"]);
    let seen: Vec<_> =
        all.iter().map(|run| (run["name"].as_str().unwrap(), run["exit_code"].as_i64().unwrap())).collect();
    assert_eq!(seen, [("one", 5), ("two", 3), ("one", 0)]);
    let stored = site.store.history("one");
    let first = &all[0];
    assert_eq!(
        (&first["token"], &first["owner"], &first["host"]),
        (&json!(stored[0].token), &json!(stored[0].owner), &json!(stored[0].host))
    );
    assert_eq!(
        (millis(&first["started_at"]), millis(&first["ended_at"])),
        (stored[0].started, stored[0].ended.unwrap())
    );
    assert_eq!(site.json(&["history", "--limit", "2"]), all[..2]);
    assert_eq!(site.json(&["history", "one"]).len(), 2);
    let printed = site.printed(&["history"]);
    assert_eq!(
        cells(printed.lines().next().unwrap()).collect::<Vec<_>>(),
        ["STARTED", "TOOK", "JOB", "HOST", "OUTCOME", "CODE", "TOKEN"]
    );
    let line: Vec<_> = cells(printed.lines().nth(1).unwrap()).collect();
    assert_eq!(line[2..], ["one", &stored[0].host, "failure", "5", &stored[0].token.to_string()]);
    assert!(!site.printed(&["history", "two"]).contains("JOB"), "it is known which");
}

fn the_history_begins_where_it_is_told_to<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    for (since, count) in
        [("1h", 1), ("1d", 1), ("2020-01-01", 1), ("2020-01-01 18:00", 1), ("2020-01-01T00:00:00+01:00", 1)]
    {
        assert_eq!(site.json(&["history", "--since", since]).len(), count, "{since}");
    }
    for wrong in ["soon", "2026-13-01", ""] {
        finish(&mut site.shedlock(&["history", "--since", wrong])).complains(125, "--since ");
    }
    let ended = humantime::parse_rfc3339(site.json(&["history"])[0]["ended_at"].as_str().unwrap()).unwrap();
    let after = humantime::format_rfc3339_millis(ended + Duration::from_millis(1)).to_string();
    let at = humantime::format_rfc3339_millis(ended).to_string();
    assert_eq!(site.json(&["history", "--since", &at]).len(), 1);
    assert_eq!(site.json(&["history", "--since", &after]).len(), 0);
    // That there are none in that time does not make the name unknown.
    finish(&mut site.shedlock(&["history", "job", "--since", &after])).complains(0, "there are no runs to show");
}

fn a_run_that_never_came_back_is_not_for_ever_one_of_today<S: Store>(site: &Site<S>) {
    let limited =
        site.shedlock(&["run", "--name", "job", "--at-most", "4s", "sh", "-c", "echo > began; exec sleep 100"]);
    let run = detached(&site.place, "run", &limited);
    site.place.wait_for_lines("began", 1);
    kill(run.pid(), "KILL");
    wait_until("the lock to be free", || (site.status("job")["held"] == json!(false)).then_some(()));
    let gone = humantime::parse_rfc3339(site.json(&["history"])[0]["started_at"].as_str().unwrap()).unwrap();
    let after = |time| humantime::format_rfc3339_millis(time + Duration::from_millis(1)).to_string();
    // It may have lived on for as long as it held the lock, and was the last.
    assert_eq!(site.json(&["history", "--since", &after(gone)]).len(), 1);
    site.ran("job", &["true"]).is_silent_with(0);
    let [last, _] = site.json(&["history"]).try_into().unwrap();
    assert_eq!(site.json(&["history", "--since", &after(gone)]), std::slice::from_ref(&last));
    let ended = humantime::parse_rfc3339(last["ended_at"].as_str().unwrap()).unwrap();
    assert!(site.json(&["history", "--since", &after(ended)]).is_empty());
}

fn a_name_that_nobody_has_heard_of_has_no_history<S: Store>(site: &Site<S>) {
    site.ran("backup", &["true"]).is_silent_with(0);
    let finished = finish(&mut site.shedlock(&["history", "bakcup"]));
    finished.complains(1, "no run of `bakcup` is known");
    assert!(finished.stderr.ends_with("hint: did you mean `backup`?\n"), "{finished:?}");
    let finished = finish(&mut site.shedlock(&["history", "--json", "something else"]));
    finished.complains(1, "no run of `something else` is known");
    assert!(!finished.stderr.contains("hint"), "{finished:?}");
}

fn names_that_differ_in_case_are_both_shown<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    for words in [["status", "Job", "job"], ["status", "job", "Job"]] {
        let shown = finish(&mut site.shedlock(&words));
        assert_eq!(shown.stderr.lines().next(), Some("shedlock: there is no lock `Job` yet"), "{shown:?}");
        let names: Vec<&str> = shown.stdout.lines().skip(1).filter_map(|line| cells(line).next()).collect();
        assert_eq!(names, ["Job", "job"]);
    }
    site.ran("Job", &["true"]).is_silent_with(0);
    assert_eq!(site.json(&["status", "Job", "job"]).len(), 2);
}

fn an_acquisition_that_is_yet_to_come_is_remarked_upon<S: Store>(site: &Site<S>) {
    site.store.make_table();
    assert!(site.store.java_take("job", "java-host", MINUTE));
    assert_eq!(site.printed(&["status"]).lines().count(), 2);
    site.store.shift("job", Shift::Later(Duration::from_secs(2 * 3600)));
    for words in [&["status"][..], &["status", "--json"], &["status", "job"]] {
        let shown = finish(&mut site.shedlock(words));
        let remark = "shedlock: the lock `job` was taken ";
        assert!(
            shown.stderr.starts_with(remark) && shown.stderr.contains("after now, by the backend's clock"),
            "{shown:?}"
        );
    }
    let refused = finish(&mut site.run_or_75("job", &["-v", "true"]));
    refused.complains(75, "the lock is held by ");
    assert!(refused.stderr.contains("\nhint: the lock was taken "), "{refused:?}");
    let checked = finish(&mut site.shedlock(&["check"]));
    assert_eq!(checked.code(), Some(0), "{checked:?}");
    assert!(checked.stdout.contains("! times         the lock `job` was taken "), "{checked:?}");
}

fn what_a_check_has_used_is_not_in_the_way<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    let check = finish(&mut site.shedlock(&["check"]));
    assert_eq!(check.code(), Some(0), "{check:?}");
    let names = |lines: &str| lines.matches("shedlock-check").count();
    assert_eq!((names(&site.printed(&["status"])), names(&site.printed(&["history"]))), (0, 0));
    assert!(site.store.java_take("shedlock-check", "java-host", MINUTE));
    assert_eq!(names(&site.printed(&["status"])), 1, "it is in the way of every check");
}

fn the_exit_code_tells_whether_a_lock_is_held<S: Store>(site: &Site<S>) {
    let code = |words: &[&str]| finish(site.shedlock(&["status", "--exit-code"]).args(words)).code();
    assert_eq!(code(&[]), Some(0));
    site.ran("free", &["true"]).is_silent_with(0);
    assert!(site.store.java_take("held", "java-host", MINUTE));
    for (words, wanted) in [
        (&[][..], 1),
        (&["held"], 1),
        (&["free"], 0),
        (&["free", "held"], 1),
        (&["other"], 1),
        (&["free", "other"], 1),
        (&["held", "--json"], 1),
    ] {
        assert_eq!(code(words), Some(wanted), "{words:?}");
    }
    assert_eq!(finish(&mut site.shedlock(&["status", "held"])).code(), Some(0));
}

fn a_monitor_is_told_which_jobs_have_not_succeeded_lately<S: Store>(site: &Site<S>) {
    let asked = |age: &str, names: &[&str]| {
        let finished = finish(&mut site.shedlock(&[&["status", "--max-age", age], names].concat()));
        (finished.code(), finished.stdout.lines().map(str::to_owned).collect::<Vec<_>>(), finished.stderr)
    };
    site.ran("good", &["true"]).is_silent_with(0);
    site.ran("bad", &["false"]);
    site.ran("good", &["false"]);
    // The last run has failed, and the success is recent enough.
    let (code, lines, stderr) = asked("1h", &["good"]);
    assert_eq!((code, stderr.as_str(), lines.len()), (Some(0), "", 1), "{lines:?}");
    assert!(lines[0].starts_with("good: last success 20") && lines[0].ends_with(')'), "{lines:?}");
    let (code, lines, stderr) = asked("1h", &["good", "bad"]);
    assert_eq!((code, stderr.as_str(), lines.len()), (Some(1), "", 2), "{lines:?}");
    assert!(lines[1].starts_with("bad: no success is recorded; last run: failure 20"), "{lines:?}");
    let old = wait_until("the success to be too old", || {
        let (code, lines, _) = asked("1s", &["good"]);
        (code == Some(1)).then_some(lines)
    });
    assert!(old[0].starts_with("good: no success for 1s, the last was 20"), "{old:?}");
    assert!(old[0].contains("; last run: failure 20"), "{old:?}");
    let (code, lines, stderr) = asked("1h", &["goood"]);
    assert_eq!((code, lines), (Some(1), vec!["goood: no success is recorded; no run is recorded".to_owned()]));
    assert_eq!(stderr, "shedlock: there is no lock `goood` yet\nhint: did you mean `good`?\n");
}

fn prometheus_reads_the_locks_and_their_last_runs<S: Store>(site: &Site<S>) {
    assert_eq!(site.printed(&["status", "--prometheus"]), "");
    site.ran("one", &["true"]).is_silent_with(0);
    let succeeded = &site.json(&["history", "one"])[0];
    // What comes after it counts neither as a success nor hides the one before.
    for _ in 0..3 {
        assert_eq!(site.ran("one", &["sh", "-c", "exit 4"]).code(), Some(4));
    }
    let holder = site.hold("two \"2\"", &[], "true");
    site.ran("three", &["true"]).is_silent_with(0);
    site.printed(&["pause", "three", "--for", "1h"]);
    let text = site.printed(&["status", "--prometheus"]);
    is_accepted(&text);
    let value = |metric: &str, name: &str| {
        let source = if metric.starts_with("last_") { ",source=\"backend\"" } else { "" };
        let series = format!("shedlock_{metric}{{name=\"{name}\"{source}}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok())
    };
    let held = |name: &str| (value("lock_held", name), value("lock_paused", name));
    assert_eq!(held("one"), (Some(0.0), Some(0.0)));
    assert_eq!(held(r#"two \"2\""#), (Some(1.0), Some(0.0)));
    assert_eq!(held("three"), (Some(1.0), Some(1.0)));
    assert_eq!(value("last_exit_code", "one"), Some(4.0));
    let success = value("last_success_timestamp_seconds", "one").unwrap();
    assert!((success * 1000.0 - millis(&succeeded["ended_at"]) as f64).abs() < 1.0, "{success} {succeeded}");
    assert!(value("last_end_timestamp_seconds", "one") >= Some(success));
    assert_eq!(value("last_success_timestamp_seconds", r#"two \"2\""#), None);
    let started = value("last_start_timestamp_seconds", r#"two \"2\""#).unwrap();
    let until = value("lock_until_timestamp_seconds", r#"two \"2\""#).unwrap();
    assert!(started < until, "{text}");
    holder.end().is_silent_with(0);
}

fn runs_are_drawn_as_a_picture<S: Store>(site: &Site<S>) {
    site.ran("one", &["true"]).is_silent_with(0);
    assert_eq!(site.ran("two <b>", &["false"]).code(), Some(1));
    let picture = site.printed(&["history", "--timeline", "--since", "2m"]);
    let lane =
        |label: &str| picture.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{picture}"));
    assert!(lane("Runs by job, 20").ends_with("Z (UTC)"));
    assert!(lane("one").contains(['█', '▌']) && lane("two <b>").contains('╳'), "{picture}");
    let host = site.store.history("one")[0].host.clone();
    assert!(site.printed(&["history", "--timeline", "one"]).lines().any(|line| line.starts_with(&format!("{host}  "))));
    let drawing = site.printed(&["history", "--svg", "-"]);
    assert!(drawing.starts_with("<svg ") && drawing.contains("two &lt;b&gt; on ") && !drawing.contains("<b>"));
    let page = site.printed(&["history", "--html", "-"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n") && !page.contains("<b>"), "{page}");
    assert!(page.contains("last run went wrong: 1</p>") && page.contains("\"JOB\">two &lt;b&gt;</td>"), "{page}");
    assert!(page.contains("\"NAME\">one</td>") && page.contains("<title>one on "), "{page}");
    let of_one = site.printed(&["history", "--html", "-", "one"]);
    assert!(of_one.contains("Runs by host") && of_one.contains("None since") && !of_one.contains("two"), "{of_one}");
}

fn a_shell_is_offered_the_names_of_all_locks<S: Store>(site: &Site<S>) {
    let offered = |beginning: &str| site.printed(&["__names", beginning, "shedlock", "status"]);
    assert_eq!(offered(""), "");
    // Some backends know a free lock only from its history, and those of Java not even then.
    site.ran("backup of a", &["true"]).is_silent_with(0);
    site.ran("backup b", &["true"]).is_silent_with(0);
    assert!(site.store.java_take("java", "java-host", MINUTE));
    assert_eq!(offered(""), "backup b\nbackup of a\njava\n");
    assert_eq!(offered("backup o"), "backup of a\n");
    assert_eq!(offered("c"), "");
}

fn whoever_reads_may_have_seen_enough<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["history"],
        &["history", "--timeline"],
        &["history", "--svg", "-"],
        &["history", "--html", "-"],
        &["status", "--watch"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        finish(site.shedlock(words).stdout(writer)).is_silent_with(0);
    }
}
