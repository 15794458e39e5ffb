//! Many processes at once on one lock that is held.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::measure::{SHEDLOCK, before, command, end, hold, quantile, run, run_of};
use crate::{HELD, Place};
use servers::{MariaDb, PgBouncer, Postgres, Server};

const PROCESSES: usize = 300;

/// What the limited servers are limited to.
const CONNECTIONS: usize = 20;

pub(crate) fn print(places: &[Place]) {
    println!(
        "\n{:<34} {:>8} {:>8} {:>8} {:>8} {:>5}",
        format!("{PROCESSES} at once, seconds until"),
        "p50",
        "p99",
        "last",
        "refused",
        "125"
    );
    stampede("shedlock --version", None, || {
        let mut command = Command::new(SHEDLOCK);
        command.arg("--version");
        command
    });
    let former = before();
    for place in places {
        stampede(place.name, None, || command(&run(&place.url, HELD, &["true"])));
        if let Some(former) = &former {
            let name = format!("{} (before)", place.name);
            stampede(&name, None, || command(&run_of(former, &place.url, HELD, &["true"])));
        }
    }
    let has = |name: &str| places.iter().any(|place| place.name == name);
    if has("PostgreSQL") {
        let postgres = Postgres::fresh(&[&format!("max_connections={CONNECTIONS}")]);
        let database = postgres.database();
        limited(&format!("PostgreSQL, {CONNECTIONS} connections"), &postgres, &database.url());
        let pgbouncer = PgBouncer::fresh(postgres.port(), &["default_pool_size=10"]);
        limited(&format!("PgBouncer before these {CONNECTIONS}"), &postgres, &pgbouncer.url(&database));
    }
    if has("MariaDB") {
        let mariadb = MariaDb::fresh(&[&format!("--max-connections={CONNECTIONS}")]);
        limited(&format!("MariaDB, {CONNECTIONS} connections"), &mariadb, &mariadb.database().url());
    }
    println!(
        "each finds the lock held; 125: so many gave up after 10 s; refused: so many lines of that in the server's log"
    );
}

fn limited(name: &str, server: &Server, url: &str) {
    let holder = hold(&run(url, HELD, &["cat"]));
    stampede(name, Some(server), || command(&run(url, HELD, &["true"])));
    end(holder);
}

fn stampede(name: &str, server: Option<&Server>, command: impl Fn() -> Command) {
    let refusals = || {
        server.map_or(0, |server| {
            let log = server.log();
            log.lines().filter(|line| line.contains("too many clients") || line.contains("Too many")).count()
        })
    };
    let before = refusals();
    let begun = Instant::now();
    let (mut times, mut failures) = (Vec::new(), 0);
    thread::scope(|scope| {
        let wait = |mut child: Child| (child.wait().unwrap(), begun.elapsed().as_secs_f64());
        let start = || command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let threads: Vec<_> = (0..PROCESSES).map(|_| start()).map(|child| scope.spawn(move || wait(child))).collect();
        for thread in threads {
            let (status, time) = thread.join().unwrap();
            times.push(time);
            failures += usize::from(!status.success());
        }
    });
    let at = |share| quantile(times.clone(), share);
    println!("{name:<34} {:>8.2} {:>8.2} {:>8.2} {:>8} {failures:>5}", at(0.5), at(0.99), at(1.0), refusals() - before);
}
