//! Many processes at once on a server with few places.

use std::fs::File;
use std::process::Command;
use std::time::Instant;

use super::{Site, row};
use crate::support::process::{Started, stat, under};
use crate::support::{turn_of_a_herd, wait_until};
use servers::{Postgres, PostgresDatabase};

/// Returns a server with few places, and a site of it whose table is there.
fn narrow() -> (Postgres, PostgresDatabase, Site) {
    let server = Postgres::fresh(&["max_connections=20"]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    (server, database, site)
}

/// Starts commands behind a gate, and opens it once all are there: so they begin in the same moment.
fn stampede(site: &Site, commands: impl IntoIterator<Item = Command>) -> Vec<Started> {
    let gate = site.place.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let wait = ["sh", "-c", "read line < gate; exec \"$@\"", "sh"];
    let start =
        |(index, command): (usize, Command)| Started::new(&site.place, &index.to_string(), &mut under(&wait, &command));
    let herd: Vec<_> = commands.into_iter().enumerate().map(start).collect();
    wait_until("all at the gate", || {
        herd.iter().all(|run| stat(run.pid()).is_some_and(|stat| stat.state == 'S')).then_some(())
    });
    drop(File::options().write(true).open(gate).unwrap());
    herd
}

#[test]
fn of_300_processes_on_one_name_one_runs_its_job() {
    let _turn = turn_of_a_herd();
    let (server, database, site) = narrow();
    let job = "echo $$ >> runs; while [ ! -e done ] && [ -e runs ]; do sleep 0.02; done";
    let run = || {
        let mut run = site.place.shedlock(["run", "--name", "herd", "--at-most", "1m", "sh", "-c", job]);
        run.env("SHEDLOCK_BACKEND", &site.url);
        run
    };
    let mut herd = stampede(&site, (0..300).map(|_| run()));
    let begun = Instant::now();
    // The job runs until all others have had their answer.
    wait_until("299 answers", || {
        (herd.iter_mut().map(Started::has_ended).filter(|ended| !ended).count() <= 1).then_some(())
    });
    eprintln!("299 answers after {:?}, with {} refusals", begun.elapsed(), server.log().matches("FATAL:").count());
    std::fs::write(site.place.path("done"), "").unwrap();
    for run in herd {
        run.finish().is_silent_with(0);
    }
    assert_eq!(site.place.lines("runs").len(), 1);
    assert!(!row(&database, "herd").held);
}

#[test]
fn of_100_processes_on_100_names_all_run_their_jobs() {
    let _turn = turn_of_a_herd();
    let (server, _, site) = narrow();
    let job = |index| site.run(&format!("job-{index}"), ["sh", "-c", &format!("echo {index} >> runs")]);
    let herd = stampede(&site, (0..100).map(job));
    let begun = Instant::now();
    for run in herd {
        run.finish().is_silent_with(0);
    }
    eprintln!("100 jobs after {:?}, with {} refusals", begun.elapsed(), server.log().matches("FATAL:").count());
    let mut runs: Vec<usize> = site.place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..100).collect::<Vec<_>>());
}
