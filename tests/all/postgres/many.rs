//! Many processes at once on a server with few places.

use std::time::{Duration, Instant};

use super::{Site, row};
use crate::servers::Postgres;
use crate::support::process::Started;
use crate::support::wait_until;

#[test]
fn of_300_processes_on_one_name_one_runs_its_job() {
    let server = Postgres::fresh(&["max_connections=20"]);
    let database = server.database();
    let site = Site::new(database.url());
    let job = "echo $$ >> runs; while [ ! -e done ] && [ -e runs ]; do sleep 0.02; done";
    let begun = Instant::now();
    let mut herd: Vec<_> = (0..300)
        .map(|index| {
            let mut run = site.place.shedlock(["run", "--name", "herd", "--at-most", "1m", "sh", "-c", job]);
            Started::new(&site.place, &index.to_string(), run.env("SHEDLOCK_BACKEND", &site.url))
        })
        .collect();
    eprintln!("started after {:?}", begun.elapsed());
    // The job runs until all others have had their answer.
    wait_until("299 answers", || {
        (herd.iter_mut().map(Started::has_ended).filter(|ended| !ended).count() <= 1).then_some(())
    });
    eprintln!("answered after {:?}; {} refusals", begun.elapsed(), server.log().matches("FATAL:").count());
    std::fs::write(site.place.path("done"), "").unwrap();
    for run in herd {
        run.finish().is_silent_with(0);
    }
    assert_eq!(site.place.lines("runs").len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!row(&database, "herd").held);
}

#[test]
fn of_100_processes_on_100_names_all_run_their_jobs() {
    let server = Postgres::fresh(&["max_connections=20"]);
    let site = Site::new(server.database().url());
    let begun = Instant::now();
    let herd: Vec<_> = (0..100)
        .map(|index| {
            let mut run = site.run(&format!("job-{index}"), ["sh", "-c", &format!("echo {index} >> runs")]);
            Started::new(&site.place, &index.to_string(), &mut run)
        })
        .collect();
    for run in herd {
        run.finish().is_silent_with(0);
    }
    eprintln!("all after {:?}; {} refusals", begun.elapsed(), server.log().matches("FATAL:").count());
    let mut runs: Vec<usize> = site.place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..100).collect::<Vec<_>>());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
