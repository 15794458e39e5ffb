//! Measures what a provider costs: a run, and a skip, over each, beside the same over what is linked in. With `BEFORE` a shedlock
//! that has MongoDB built in, that is measured as well.

use std::fs;
use std::path::Path;

use crate::measure::{JOB, SHEDLOCK, before, copied, end, hold, quantile, run_of, words};
use crate::{FREE, HELD, Subject, files, measure_in_turn};

/// Where nothing waits for a disk.
const MEMORY: &str = "/dev/shm";
/// The providers that shedlock finds beside its own file.
const MONGODB: &str = "shedlock-provider-mongodb";
const EXAMPLE: &str = "shedlock-provider-example";

/// A store that is measured: its name and URL, and the row with which it is compared.
struct Row {
    name: &'static str,
    binary: String,
    url: String,
    peer: Option<usize>,
}

pub(crate) fn print(rounds: usize) {
    let memory = tempfile::tempdir_in(MEMORY).unwrap();
    let directory = |name: &str| {
        let path = memory.path().join(name);
        fs::create_dir(&path).unwrap();
        path.display().to_string()
    };
    let shedlock = copied(SHEDLOCK, "shedlock");
    let built = Path::new(SHEDLOCK).with_file_name(MONGODB);
    assert!(built.is_file(), "cargo build --release -p {MONGODB}");
    copied(&built.display().to_string(), MONGODB);
    copied(&servers::stores::program(EXAMPLE).display().to_string(), EXAMPLE);
    let files = files::install(&std::env::current_dir().unwrap());
    let mongodb = |database: &str| format!("mongodb://127.0.0.1:{}/{database}", servers::mongodb().port());
    let row = |name, url, peer| Row { name, binary: shedlock.clone(), url, peer };
    let mut rows = vec![
        row("SQLite", format!("sqlite:{}/locks.db", directory("sqlite")), None),
        row("files, provider in Rust", format!("exec:{}?directory={}", files.display(), directory("files")), Some(0)),
        row("files, example in Python", format!("example:{}", directory("example")), Some(0)),
    ];
    if let Some(former) = before() {
        rows.push(Row { binary: former, ..row("MongoDB's stand-in, built in", mongodb("before"), None) });
    }
    let built_in = rows.len() - 1;
    rows.push(row("MongoDB's stand-in, provider", mongodb("bench"), (built_in > 2).then_some(built_in)));

    let mut subjects = vec![Subject::new("flock -n FILE /bin/true", words(&format!("flock -n free.lock {JOB}")))];
    let mut holders = Vec::new();
    for Row { name, binary, url, .. } in &rows {
        holders.push(hold(&run_of(binary, url, HELD, &["cat"])));
        subjects.push(Subject::new(&format!("a run, {name}"), run_of(binary, url, FREE, &[JOB])));
        subjects.push(Subject::new(&format!("a skip, {name}"), run_of(binary, url, HELD, &[JOB])));
    }
    measure_in_turn(rounds, &mut subjects);
    println!("\n{:<42} {:>10} {:>10}", "more than, ms, median of the pairs", "a run", "a skip");
    for (place, row) in rows.iter().enumerate() {
        let Some(peer) = row.peer else { continue };
        let more = |offset: usize| {
            let [ours, theirs] = [place, peer].map(|place| &subjects[1 + 2 * place + offset].times);
            quantile(ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs).collect(), 0.5)
        };
        println!("{:<42} {:>10.2} {:>10.2}", format!("{}: {}", row.name, rows[peer].name), more(0), more(1));
    }
    holders.into_iter().for_each(end);
}
