//! Locks whose names no job may have: applications in Java make them, and an operator reaches them all the same.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::per_backend::{Site, on_every_backend};
use crate::support::process::under;
use crate::support::script;
use crate::support::{Finished, finish};
use servers::stores::{SqliteStore, Store};

const MINUTE: Duration = Duration::from_secs(60);

/// Names as the Java library allows them, and as shedlock shows them.
const NAMES: [(&str, &str); 5] = [
    ("report ", "$'report '"),
    ("a\tb", r"$'a\tb'"),
    ("\u{1b}[2Jx\n", r"$'\033[2Jx\n'"),
    ("it's\u{7f}\\", r"$'it\'s\177\\'"),
    (LONG, LONG),
];
const LONG: &str = "com-example-reports-a-name-that-is-longer-than-the-column-of-the-documented-table";

impl<S: Store> Site<S> {
    fn asked(&self, words: &[&str]) -> Finished {
        let finished = finish(&mut self.shedlock(words));
        let is_obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!finished.stdout.contains(is_obeyed) && !finished.stderr.contains(is_obeyed), "{finished:?}");
        finished
    }

    /// Asserts that the command says yes, in a line that begins like this.
    #[track_caller]
    fn agrees(&self, words: &[&str], text: &str) {
        let finished = self.asked(words);
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
        assert!(finished.stdout.starts_with(text), "{text} {finished:?}");
    }

    /// Asserts that the command says no, with this message and this hint.
    #[track_caller]
    fn refuses(&self, words: &[&str], text: &str, hint: &str) {
        let finished = self.asked(words);
        finished.complains(1, text);
        assert!(finished.stderr.lines().nth(1).unwrap_or_default().contains(hint), "{hint} is not in {finished:?}");
    }

    #[track_caller]
    fn java_takes(&self, name: &str) {
        assert!(self.store.java_take(name, "java-host", MINUTE), "{name:?}");
    }
}

on_every_backend! {
    what_java_holds_under_any_name_can_be_seen_freed_paused_and_forgotten
    a_name_is_copied_from_the_table_into_a_shell
    what_is_not_there_is_not_paused_under_a_name_that_no_job_may_have
}

fn what_java_holds_under_any_name_can_be_seen_freed_paused_and_forgotten<S: Store>(site: &Site<S>) {
    site.store.make_table();
    site.store.widen();
    for (name, shown) in NAMES {
        site.java_takes(name);
        finish(&mut site.run(name, &["touch", "ran"])).complains(125, "--name ");
        let locks: Value = serde_json::from_str(&site.asked(&["status", "--json", name]).stdout).unwrap();
        assert_eq!((locks[0]["name"].as_str(), locks[0]["state"].as_str()), (Some(name), Some("held")));
        assert_eq!(site.asked(&["status", "--exit-code", name]).code(), Some(1));
        let runs = site.asked(&["history", name]);
        assert_eq!((runs.code(), runs.stderr.as_str()), (Some(0), "shedlock: there are no runs to show\n"), "{runs:?}");
        site.refuses(&["unlock", name], &format!("the lock `{shown}` is held by "), "--force");
        site.refuses(
            &["forget", name],
            &format!("the lock `{shown}` is held by "),
            &format!("shedlock unlock {shown}`"),
        );
        site.refuses(&["pause", name], &format!("the lock `{shown}` is held by "), "--wait");
        site.agrees(&["unlock", name, "--force"], &format!("`{shown}` is free now; it was held by "));
        assert!(!site.is_held(name));
        site.agrees_to_pause(name, shown);
        assert!(!site.store.java_take(name, "java-host", MINUTE), "{name:?}");
        site.refuses(&["pause", name], &format!("the lock `{shown}` is paused"), &format!("shedlock resume {shown}`"));
        site.agrees(&["resume", name], &format!("`{shown}` is no longer paused; it is free"));
        site.refuses(&["resume", name], &format!("the lock `{shown}` is not paused"), "");
        site.java_takes(name);
        site.agrees(&["unlock", name, "--force"], &format!("`{shown}` is free now; it was held by "));
        match site.store.deletes_free_locks() {
            true => drop(site.asked(&["forget", name])),
            false => site.agrees(&["forget", name, "--force"], &format!("forgot `{shown}`")),
        }
        assert!(site.store.stored(name).is_none());
        assert!(site.store.things().is_empty() || !site.store.deletes_free_locks(), "{:?}", site.store.things());
        site.refuses(&["forget", name], &format!("neither the lock `{shown}` nor a run of it is known"), "");
    }
    assert!(!site.place.path("ran").exists());
}

impl<S: Store> Site<S> {
    /// Pauses a lock that is free. Where a free lock leaves nothing behind, shedlock cannot know that the name is in use.
    #[track_caller]
    fn agrees_to_pause(&self, name: &str, shown: &str) {
        let finished = self.asked(&["pause", name]);
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        assert!(finished.stdout.starts_with(&format!("paused `{shown}` until ")), "{finished:?}");
        let warning = format!("shedlock: warning: no run of `{shown}` is known\n");
        assert!(finished.stderr.is_empty() || finished.stderr.starts_with(&warning), "{finished:?}");
        assert_eq!(!finished.stderr.is_empty(), self.store.deletes_free_locks(), "{finished:?}");
        assert!(self.is_held(name));
    }
}

fn a_name_is_copied_from_the_table_into_a_shell<S: Store>(site: &Site<S>) {
    site.store.make_table();
    for (name, _) in &NAMES[..4] {
        site.java_takes(name);
    }
    let table = site.asked(&["status"]).stdout;
    let mut copied: Vec<&str> = table.lines().skip(1).map(|line| line.split("  ").next().unwrap()).collect();
    let mut wanted: Vec<&str> = NAMES[..4].iter().map(|(_, shown)| *shown).collect();
    copied.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(copied, wanted);
    for words in copied {
        let script = format!("exec \"$@\" unlock --force {words}");
        let mut command: Command = under(&["bash", "-c", &script, "bash"], &site.shedlock(&[]));
        let freed = finish(command.env("SHEDLOCK_BACKEND", site.store.url()));
        assert_eq!((freed.code(), freed.stderr.as_str()), (Some(0), ""), "{freed:?}");
    }
    for (name, _) in &NAMES[..4] {
        assert!(!site.is_held(name), "{name:?}");
    }
}

fn what_is_not_there_is_not_paused_under_a_name_that_no_job_may_have<S: Store>(site: &Site<S>) {
    finish(&mut site.run("report", &["true"])).is_silent_with(0);
    site.refuses(&["unlock", "report ", "--force"], "the lock `$'report '` is free", "did you mean `report`?");
    site.refuses(&["resume", "report "], "the lock `$'report '` is not paused: it is free", "");
    site.refuses(&["history", "report "], "no run of `$'report '` is known", "did you mean `report`?");
    let unknown = "neither the lock `$'report '` nor a run of it is known";
    site.refuses(&["forget", "report "], unknown, "did you mean `report`?");
    assert!(site.asked(&["status", "report "]).stderr.contains("there is no lock `$'report '` yet"));
    assert_eq!(site.store.history("report").len(), 1);
    for name in ["report ", LONG] {
        match site.store.deletes_free_locks() {
            true => assert_eq!(site.asked(&["pause", name]).code(), Some(0)),
            false => site.refuses(
                &["pause", name],
                "; it is not paused",
                if name == LONG { "an application" } else { "did you mean `report`?" },
            ),
        }
    }
    finish(&mut site.run("report", &["-E", "75", "true"])).is_silent_with(0);
}

/// Where the server ignores spaces at the end, both are one lock for the application. An operator means what is typed.
fn a_space_too_many_reaches_no_other_lock<S: Store>(site: &Site<S>) {
    site.java_takes("report");
    assert!(!site.store.java_take("report ", "other-host", MINUTE));
    let before = site.stored("report");
    site.refuses(&["unlock", "report ", "--force"], "the lock `$'report '` is free", "did you mean `report`?");
    let all = [["pause", "report "].as_slice(), &["resume", "report "], &["forget", "report ", "--force"]];
    for words in all {
        assert_eq!(site.asked(words).code(), Some(1), "{words:?}");
    }
    let after = site.stored("report");
    assert_eq!((&after.owner, after.until), (&before.owner, before.until));
    site.store.java_release("report", "java-host", Duration::ZERO);
    for words in all {
        assert_eq!(site.asked(words).code(), Some(1), "{words:?}");
    }
    site.java_takes("report");
    site.agrees(&["unlock", "report", "--force"], "`report` is free now");
}

#[test]
fn in_sqlite_a_space_too_many_reaches_no_other_lock() {
    let site = Site::new(SqliteStore::new());
    site.store.carry_out(
        "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL COLLATE RTRIM PRIMARY KEY, lock_until TIMESTAMP NOT NULL, \
         locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)",
    );
    a_space_too_many_reaches_no_other_lock(&site);
}

#[cfg(feature = "mysql")]
#[test]
fn in_mariadb_a_space_too_many_reaches_no_other_lock() {
    let site = Site::new(servers::stores::MariaDbStore::new());
    site.store.make_table();
    a_space_too_many_reaches_no_other_lock(&site);
}

/// Completions are offered line by line, and typed as they are shown.
#[test]
fn a_shell_is_offered_the_names_that_it_can_show_for_the_commands_that_take_them() {
    let site = Site::new(SqliteStore::new());
    site.store.make_table();
    for name in ["report ", "report", "report\nx", "report\u{1b}", LONG] {
        site.java_takes(name);
    }
    let offered = |command: &str| site.asked(&["__names", "", "shedlock", command]).stdout;
    assert_eq!(offered("unlock"), format!("{LONG}\nreport\nreport \n"));
    assert_eq!(offered("run"), "report\n");
    let complete = r#"compopt() { :; }; source <(shedlock completions bash)
        COMP_WORDS=(shedlock unlock rep); COMP_CWORD=2; COMPREPLY=(); COMP_LINE="shedlock unlock rep"; COMP_POINT=19
        _shedlock shedlock rep unlock; printf '[%s]' "${COMPREPLY[@]}""#;
    let mut bash = script(&site.place, &format!("exec bash -c '{}'", complete.replace('\'', r"'\''")));
    let printed = finish(bash.env("SHEDLOCK_BACKEND", site.store.url()));
    assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), (r"[report][report\ ]", ""));
}

/// Another program has written runs, too.
#[test]
fn nothing_that_is_printed_of_a_name_is_obeyed_by_a_terminal() {
    let site = Site::new(SqliteStore::new());
    finish(&mut site.run("job", &["true"])).is_silent_with(0);
    site.store.carry_out(
        "UPDATE shedlock SET name = 'a' || char(27) || '[2J ' || char(9);
         UPDATE shedlock_history SET name = 'a' || char(27) || '[2J ' || char(9);",
    );
    let name = "a\u{1b}[2J \t";
    for words in [
        &["status"][..],
        &["status", "--prometheus"],
        &["status", "--max-age", "1h", name],
        &["history"],
        &["history", "--timeline"],
        &["history", "--svg", "-"],
        &["history", "--html", "-"],
    ] {
        let printed = site.asked(words);
        assert_eq!((printed.code(), printed.stderr.as_str()), (Some(0), ""), "{printed:?}");
        let text = printed.stdout.replace("&apos;", "'").replace("\\\\", "\\");
        assert!(text.contains(r"$'a\033[2J \t'"), "{words:?} {printed:?}");
    }
    for command in ["status", "history"] {
        let found: Value = serde_json::from_str(&site.asked(&[command, "--json", name]).stdout).unwrap();
        assert_eq!(found[0]["name"], name);
    }
}

#[test]
fn an_empty_name_and_bytes_that_are_no_text_are_bad_usage() {
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new(SqliteStore::new());
    for command in ["unlock", "pause", "resume", "status", "history", "forget"] {
        finish(&mut site.shedlock(&[command, ""])).complains(125, "NAME is empty; a lock needs a name");
        let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
        finish(site.shedlock(&[command]).arg(latin)).complains(125, "UTF-8");
    }
}
