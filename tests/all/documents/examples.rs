//! The examples of the manual: each command line in them is run, in the order of a page, or it is named here why not.

use std::fs;
use std::path::Path;

use crate::support::process::write_script;
use crate::support::repository::{ROOT, text};
use crate::support::script;
use crate::support::{Place, finish};

/// Returns the blocks of a page's prose that are indented, as somebody would copy them.
fn examples(page: &str) -> Vec<String> {
    let prose = text(&format!("src/generate/{page}.md"));
    let (_, examples) = prose.split_once("# EXAMPLES\n").unwrap_or_else(|| panic!("{page} has no examples"));
    let examples = examples.split("# SEE ALSO").next().unwrap();
    let blocks = examples.split("\n\n").filter(|block| block.trim_start_matches('\n').starts_with("    "));
    blocks
        .map(|block| {
            block.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect::<String>()
        })
        .collect()
}

/// Returns the pages that have examples, by their names with the section.
fn pages() -> Vec<String> {
    let prose = fs::read_dir(Path::new(ROOT).join("src/generate")).unwrap();
    let names = prose.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.filter_map(|name| name.strip_suffix(".md").map(str::to_owned)).collect();
    pages.retain(|page| text(&format!("src/generate/{page}.md")).contains("# EXAMPLES"));
    pages.sort();
    pages
}

/// Returns a place with what the examples find: the programs that they call, and locks and runs.
fn scene() -> Place {
    let place = Place::new();
    for program in ["build", "switch-over", "pipeline", "deploy"] {
        write_script(&place, program, &format!("#!/bin/sh\necho {program}\n"));
    }
    fs::write(place.path("backend"), format!("sqlite:{}\n", place.database().display())).unwrap();
    let runs = "shedlock run --name nightly-report --at-most 1h true\n\
                shedlock run --name weekly-report --at-most 1h false || true\n\
                shedlock acquire --name import --at-most 1h > /dev/null";
    finish(&mut script(&place, runs)).is_silent_with(0);
    place
}

/// Returns the output of a block, in this place; the block has to end well, and to say nothing on stderr.
fn output(place: &Place, block: &str) -> String {
    let block = block
        .replace("/etc/shedlock/backend", "backend")
        // There is no terminal to ask on, and no manual page reader.
        .replace("shedlock unlock ", "shedlock unlock --force ")
        .replace("man -l -", "groff -ww -man -Tutf8");
    let finished =
        finish(&mut script(place, &format!("exec bash -euo pipefail -c '{}'", block.replace('\'', r"'\''"))));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{block}");
    finished.stdout
}

/// Runs a page's blocks in turn, each of which has to print its text.
fn pass(page: &str, shown: &[&[&str]]) {
    let (place, blocks) = (scene(), examples(page));
    assert_eq!(blocks.len(), shown.len(), "{page}: {blocks:#?}");
    for (block, shown) in blocks.iter().zip(shown) {
        // What is done with the lock of a job is done in one.
        let block = match page {
            "shedlock-verify.1" | "shedlock-extend.1" => format!(
                "shedlock run --name job --at-most 1m -- sh -euc 'PATH=$PATH:. files=200000\n{block}sleep 0.1\nshedlock status job'"
            ),
            "shedlock-unlock.1" => format!("shedlock acquire --name nightly-report --at-most 3h > /dev/null\n{block}"),
            "shedlock-forget.1" => {
                let runs =
                    "for name in nightly-reprot nightly_report; do shedlock run --name $name --at-most 1h true; done";
                format!("{runs}\n{block}")
            }
            "shedlock-resume.1" => format!("shedlock pause nightly-report > /dev/null\n{block}"),
            _ => block.clone(),
        };
        let printed = output(&place, &block);
        shown.iter().for_each(|text| assert!(printed.contains(text), "{page}: {text}: {block}{printed}"));
    }
}

#[test]
fn every_page_with_examples_has_them_run() {
    let run = include_str!("examples.rs");
    for page in pages() {
        // A file of settings and lines of a crontab have tests of their own.
        if page != "shedlock.toml.5" && page != "shedlock-run.1" {
            assert!(run.contains(&format!("pass(\"{page}\"")), "{page}");
        }
    }
}

#[test]
fn the_examples_that_show_locks_and_runs_work() {
    let locks = ["NAME", "weekly-report", "failure", "nobody has it\n", "nightly-report: last success 20", "import "];
    pass("shedlock-status.1", &[&locks]);
    pass("shedlock-history.1", &[&["nightly-report", "weekly-report", "running", "\"outcome\": \"failure\""]]);
    pass("shedlock-json.5", &[&["import "], &["\"name\":\"weekly-report\""]]);
}

#[test]
fn the_examples_that_change_locks_work() {
    let until = ["paused `nightly-report` until", "the disk is being replaced", "no longer paused"];
    pass("shedlock-pause.1", &[&until]);
    pass("shedlock-resume.1", &[&["no longer paused; it is free"]]);
    pass("shedlock-unlock.1", &[&["held", "`nightly-report` is free now"]]);
    let gone = ["nightly-report`: the lock and 1 run", "forgot `nightly-reprot`", "forgot `nightly_report`"];
    pass("shedlock-forget.1", &[&gone]);
    pass("shedlock-acquire.1", &[&["build\nswitch-over\n"]]);
    pass("shedlock-release.1", &[&["pipeline\n"]]);
    // The job's lock is held for the three hours that it has asked for.
    pass("shedlock-extend.1", &[&["2h"]]);
    pass("shedlock-verify.1", &[&["switch-over\n", "held"]]);
}

#[test]
fn the_examples_that_prepare_a_backend_work() {
    pass("shedlock-check.1", &[&["this host can lock here"]]);
    pass("shedlock-prove.1", &[&["this backend kept the rules of a lock"]]);
    pass("shedlock-init.1", &[&["the table shedlock_history is there"]]);
    if cfg!(feature = "postgres") {
        pass("shedlock-schema.1", &[&["CREATE TABLE IF NOT EXISTS ops.locks_history"]]);
    }
}

#[test]
fn the_examples_of_the_first_pages_work() {
    let shown = ["weekly-report", "success", "no run"];
    let paused = ["paused `nightly-report`", "no longer paused"];
    pass("shedlock.1", &[&["hello\n"], &shown, &["this host can lock here"], &paused, &["shedlock - run a command"]]);
    // The others are crontabs and a pod, which have tests of their own.
    let script = examples("shedlock-run.1").into_iter().find(|block| block.contains("./deploy")).unwrap();
    assert_eq!(output(&scene(), &script), "deploy\n");
}

/// Returns the blocks of a backend's section in the page of the backends, for a person without shedlock.
fn by_hand(section: &str) -> Vec<String> {
    let page = text("src/generate/shedlock-backends.7.md");
    let (_, section) = page.split_once(&format!("# {section}\n")).unwrap();
    let section = section.split("\n# ").next().unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = ["sqlite3 ", "SELECT ", "UPDATE ", "redis-cli ", "etcdctl "];
    let lines: Vec<String> =
        lines.filter(|line| commands.iter().any(|word| line.starts_with(word))).map(str::to_owned).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    lines
}

/// Shows a lock that is held, and its run, and frees it, by hand.
fn is_shown_and_freed(section: &str, url: &str, client: impl Fn(&Place, &str) -> String) {
    let place = Place::new();
    let shedlock = |line: &str| finish(script(&place, line).env("SHEDLOCK_BACKEND", url));
    let handle = shedlock("shedlock acquire --name job --at-most 1h").stdout;
    let owner = handle.trim().strip_prefix("job@").unwrap();
    let mut lines = by_hand(section);
    let freeing = lines.pop().unwrap();
    let shown: Vec<String> = lines.iter().map(|line| client(&place, &line.replace("NAME", "job"))).collect();
    assert!(shown.first().unwrap().contains(owner) && shown.last().unwrap().contains(owner), "{lines:?} {shown:?}");
    assert_eq!(shedlock("shedlock status --exit-code job").code(), Some(1));
    client(&place, &freeing.replace("NAME", "job"));
    assert_eq!(shedlock("shedlock status --exit-code job").code(), Some(0), "{freeing}");
}

#[test]
fn a_lock_in_sqlite_is_shown_and_freed_by_hand() {
    is_shown_and_freed("SQLITE", "sqlite:by-hand.db", |place, line| output(place, &line.replace("FILE", "by-hand.db")));
}

#[cfg(feature = "etcd")]
#[test]
fn a_lock_in_etcd_is_shown_and_freed_by_hand() {
    let server = servers::Etcd::fresh();
    is_shown_and_freed("ETCD", &server.url(), |_, line| server.etcdctl(&line.split(' ').skip(1).collect::<Vec<_>>()));
}

#[cfg(feature = "postgres")]
#[test]
fn a_lock_in_postgres_is_shown_and_freed_by_hand() {
    let database = servers::postgres().database();
    is_shown_and_freed("POSTGRESQL", &database.url(), |_, line| database.psql(line));
}

#[cfg(feature = "mysql")]
#[test]
fn a_lock_in_mariadb_is_shown_and_freed_by_hand() {
    let database = servers::mariadb().database();
    is_shown_and_freed("MYSQL AND MARIADB", &database.url(), |_, line| database.mariadb(line));
}

#[cfg(feature = "redis")]
#[test]
fn a_lock_in_redis_is_shown_and_freed_by_hand() {
    let database = servers::redis().database();
    is_shown_and_freed("REDIS", &database.url(), |_, line| {
        let words: Vec<String> = line.split_whitespace().skip(1).map(|word| word.replace('\'', "")).collect();
        database.cli(&words.iter().map(String::as_str).collect::<Vec<_>>())
    });
}
