//! Hundreds of processes at once on a server that has room for a few.

use std::process::{Child, Command};

use crate::support::fixtures::Holder;
use crate::support::process::{under, wait_for_state};
use crate::support::{Finished, Place, finish_child, start, turn_of_a_herd, wait_until};
use servers::{MariaDb, Postgres, Redis};

/// Those who fire together.
const HERD: usize = 300;
/// Names that are fired together.
const NAMES: usize = 100;

fn run(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Asserts that one run gets the lock and runs its job, until all others have had their answer; these say nothing.
fn of_a_herd_one_runs(url: &str) {
    let place = Place::new();
    let job = "echo $$ >> runs; while [ ! -e done ]; do sleep 0.02; done";
    let mut children: Vec<Child> =
        (0..HERD).map(|_| start(&mut run(&place, url, "herd", &["sh", "-c", job]))).collect();
    wait_until("the answers of all but one", || {
        let answered = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        (answered >= HERD - 1).then_some(())
    });
    std::fs::write(place.path("done"), "").unwrap();
    let ends: Vec<Finished> = children.into_iter().map(finish_child).collect();
    ends.iter().for_each(|end| end.is_silent_with(0));
    assert_eq!(place.lines("runs").len(), 1);
}

fn all_names_run(url: &str) {
    let place = Place::new();
    let children: Vec<Child> = (0..NAMES)
        .map(|number| {
            start(&mut run(&place, url, &format!("job {number}"), &["sh", "-c", &format!("echo {number} >> runs")]))
        })
        .collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let mut runs: Vec<usize> = place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..NAMES).collect::<Vec<_>>());
}

/// Runs fifty jobs that sleep; `connections` counts what the server has of theirs.
fn fifty_jobs_have_no_connection(url: &str, connections: impl Fn() -> usize) {
    let place = Place::new();
    let jobs: Vec<Holder> = (0..50)
        .map(|number| Holder::start(&place, &mut run(&place, url, &format!("sleeper {number}"), &[]), "true"))
        .collect();
    wait_until("the connections to be closed", || (connections() == 0).then_some(()));
    for job in jobs {
        job.end().is_silent_with(0);
    }
}

#[test]
fn postgresql_with_20_connections() {
    let _turn = turn_of_a_herd();
    let server = Postgres::fresh(&["max_connections=20"]);
    let database = server.database();
    of_a_herd_one_runs(&database.url());
    all_names_run(&database.url());
    let count = "select count(*) from pg_stat_activity where application_name = 'shedlock'";
    fifty_jobs_have_no_connection(&database.url(), || server.psql(count).parse().unwrap());
}

/// Others have all places until somebody was refused, and then most of them.
#[test]
fn postgresql_that_is_full_with_others() {
    let _turn = turn_of_a_herd();
    let server = Postgres::fresh(&["max_connections=20", "log_connections=on"]);
    let database = server.database();
    // Three places are for superusers, as which the program must not come.
    server.psql("create role jobs login");
    database.psql("grant all on schema public to jobs");
    let others: Vec<Child> = (0..17)
        .map(|_| {
            let mut client = Command::new("psql");
            start(client.args(["-X", "-q", "-d", &database.login("jobs").url(), "-c", "select pg_sleep(600)"]))
        })
        .collect();
    // Whoever asked the server how many there are would have one of the places.
    let are_there = || server.log().matches("authorized: user=jobs").count() == 17;
    wait_until("the others to be there", || are_there().then_some(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It says the second where those that are on their way in have taken the reserved places too.
            let full = ["remaining connection slots are reserved", "too many clients already"];
            let refused = || full.iter().any(|words| server.log().contains(words)).then_some(());
            wait_until("somebody to be refused", refused);
            // A server process that sleeps does not notice that its client is gone.
            let sleeping =
                "select pid from pg_stat_activity where usename = 'jobs' and query like '%pg_sleep%' limit 4";
            let ended = format!("select pg_terminate_backend(pid) from ({sleeping}) as sleepers");
            // Whoever is on the way in may have the reserved places at this instant, so we may be refused too.
            wait_until("a place to free others from", || database.try_psql(&ended).ok());
        });
        of_a_herd_one_runs(&database.login("jobs").url());
    });
    all_names_run(&database.login("jobs").url());
    end(others);
}

fn end(others: Vec<Child>) {
    for mut other in others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

#[test]
fn mariadb_with_20_connections() {
    let _turn = turn_of_a_herd();
    let server = MariaDb::fresh(&["--max-connections=20"]);
    let database = server.database();
    of_a_herd_one_runs(&database.url());
    all_names_run(&database.url());
    let count = format!("select count(*) from information_schema.processlist where db = '{}'", database.name);
    fifty_jobs_have_no_connection(&database.url(), || server.mariadb(&count).parse().unwrap());
}

/// All are let go at the same instant, and the queue overflows: some clients then wait for a greeting on a connection that the
/// server has dropped.
#[test]
fn mariadb_whose_queue_overflows() {
    let _turn = turn_of_a_herd();
    let server = MariaDb::fresh(&["--max-connections=20", "--back-log=5"]);
    let database = server.database();
    let place = Place::new();
    let gate = place.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let opens = format!(": < {}; exec \"$@\"", gate.display());
    let children: Vec<Child> = (0..HERD)
        .map(|number| {
            let name = format!("job {}", number % NAMES);
            let job = run(&place, &database.url(), &name, &["--backend-timeout", "30s", "true"]);
            start(&mut under(&["sh", "-c", &opens, "sh"], &job))
        })
        .collect();
    for child in &children {
        wait_for_state(child.id().try_into().unwrap(), "S");
    }
    std::fs::write(&gate, "").unwrap();
    let ends: Vec<Finished> = children.into_iter().map(finish_child).collect();
    let complaints: Vec<&Finished> =
        ends.iter().filter(|end| end.code() != Some(0) || !end.stderr.is_empty()).collect();
    assert!(complaints.is_empty(), "{} complain: {:?}", complaints.len(), complaints.first());
}

#[test]
fn mariadb_that_is_full_with_others() {
    let _turn = turn_of_a_herd();
    let server = MariaDb::fresh(&["--max-connections=20"]);
    let database = server.database();
    server.mariadb(
        "create user jobs@'127.0.0.1'; grant all on *.* to jobs@'127.0.0.1'; revoke super on *.* from jobs@'127.0.0.1'",
    );
    let port = server.port().to_string();
    let others: Vec<Child> = (0..18)
        .map(|_| {
            let mut client = Command::new("mariadb");
            client.args(["--no-defaults", "-h", "127.0.0.1", "-P", &port, "-u", "jobs", "-e", "select sleep(600)"]);
            start(&mut client)
        })
        .collect();
    let count = "select count(*) from information_schema.processlist where user = 'jobs'";
    wait_until("the others to be there", || (server.mariadb(count) == "18").then_some(()));
    of_a_herd_one_runs(&database.login("jobs").url());
    all_names_run(&database.login("jobs").url());
    let full = server.mariadb("show global status like 'Connection_errors_max_connections'");
    assert!(!full.ends_with("\t0"), "it was never full: {full}");
    end(others);
}

#[test]
fn redis_with_20_connections() {
    let _turn = turn_of_a_herd();
    let server = Redis::fresh(&["--maxclients", "20"]);
    let database = server.database_number(0);
    of_a_herd_one_runs(&database.url());
    all_names_run(&database.url());
    // The one that counts has not chosen another database.
    let connections = || server.cli(&["client", "list"]).lines().count() - 1;
    fifty_jobs_have_no_connection(&database.url(), connections);
}
