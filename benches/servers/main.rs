//! What shedlock costs on servers, beside their own clients: `cargo bench --bench servers [-- ROUNDS]`.
//!
//! The servers are Debian's, private, on 127.0.0.1, and write no disk for a commit. What is measured: whole processes from
//! start to end, every command once in every round; what goes over the network; what a server stands; and a herd, many
//! processes at once. Nothing is asserted. `benches/README.md` has results.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

mod herd;
mod load;
#[path = "../measure/mod.rs"]
mod measure;
mod relay;

use std::fs;
use std::process::Stdio;

use load::{converse, keep_busy};
use measure::{SHEDLOCK, command, hold, measure, print_machine, print_waiting, quantile, run, words};
use relay::{Conversation, Flight, Relay};
use servers::{MariaDb, Postgres, Server};

const ROUNDS: usize = 200;
const WARM_UP: usize = 5;

/// Names of one length, so that one can stand for another.
const HELD: &str = "lock-held-by-another";
const FREE: &str = "lock-of-the-benchmark";

/// A server, and a database in it.
struct Place {
    name: &'static str,
    url: String,
    /// Those that work for a client; none for SQLite.
    servers: Vec<&'static Server>,
    /// What the client connects to, if it can be read along there: not with TLS.
    port: Option<u16>,
}

/// What is measured of one command.
struct Subject {
    name: String,
    arguments: Vec<String>,
    times: Vec<f64>,
    peak_kib: Vec<i64>,
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().unwrap();
    std::env::set_current_dir(directory.path()).unwrap();
    print_machine(directory.path());
    let places = places();
    let holders: Vec<_> = places.iter().map(|place| (place.name, hold(&run(&place.url, HELD, &["cat"])))).collect();

    print_times(rounds, &places);
    print_round_trips(&places);
    print_load(&places);
    herd::print(&places);
    println!();
    print_waiting(holders);
}

/// Every backend that this build has.
fn places() -> Vec<Place> {
    let (postgres, mariadb, redis) = (servers::postgres(), servers::mariadb(), servers::redis());
    let pgbouncer = servers::pgbouncer();
    let authority = servers::certificates().authority();
    let at = |name, url, server: &'static Server| Place { name, url, servers: vec![server], port: Some(server.port()) };
    let over_tls = |name, url: String, server, mode| Place {
        port: None,
        ..at(name, format!("{url}?sslmode={mode}&sslrootcert={authority}"), server)
    };
    let secure = servers::postgres_tls().database_of("clerk").login("clerk:s3cret");
    let secure_mariadb = servers::mariadb_tls().database().login("clerk:s3cret");
    let mut places = vec![
        Place { name: "SQLite", url: "sqlite:locks.db".to_owned(), servers: Vec::new(), port: None },
        at("PostgreSQL", postgres.database().url(), postgres),
        Place {
            servers: vec![pgbouncer, postgres],
            ..at("PostgreSQL by PgBouncer", pgbouncer.url(&postgres.database()), pgbouncer)
        },
        over_tls("PostgreSQL, TLS, SCRAM", secure.url(), servers::postgres_tls(), "verify-full"),
        at("MariaDB", mariadb.database().url(), mariadb),
        over_tls("MariaDB, TLS", secure_mariadb.url(), servers::mariadb_tls(), "verify-full"),
        at("Redis", redis.database().url(), redis),
        at("etcd", servers::etcd().url(), servers::etcd()),
        over_tls("Redis, TLS", servers::redis_tls().database().url(), servers::redis_tls(), "verify-full"),
    ];
    places.retain(|place| {
        let output = command(&run(&place.url, FREE, &["true"])).stderr(Stdio::piped()).output().unwrap();
        if !output.status.success() {
            println!("without {}: {}", place.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        output.status.success()
    });
    places
}

/// Measures all commands in turn.
fn print_times(rounds: usize, places: &[Place]) {
    let mut subjects = vec![
        Subject::new("flock -n FILE true", words("flock -n free.lock true")),
        Subject::new("shedlock --version", [SHEDLOCK, "--version"].map(str::to_owned).into()),
    ];
    for place in places {
        subjects.push(Subject::new(&format!("shedlock run, {}", place.name), run(&place.url, FREE, &["true"])));
        subjects.push(Subject::new(&format!("a skip, {}", place.name), run(&place.url, HELD, &["true"])));
    }
    let (postgres, mariadb) = (servers::postgres().port(), servers::mariadb().port());
    let (redis, etcd) = (servers::redis().port(), servers::etcd().port());
    // Debian's psql in PATH is a script that looks for this one.
    let psql = newest_psql();
    let login = format!("-h 127.0.0.1 -p {postgres} -U postgres");
    let [postgres_client, mariadb_client] = [
        (format!("{psql} -X {login} -c"), "select 1"),
        (format!("mariadb --no-defaults -h 127.0.0.1 -P {mariadb} -u root -e"), "select 1"),
    ]
    .map(|(head, sql)| words(&head).into_iter().chain([sql.to_owned()]).collect());
    subjects.push(Subject::new("psql -X -c 'select 1'", postgres_client));
    subjects.push(Subject::new("mariadb -e 'select 1'", mariadb_client));
    subjects
        .push(Subject::new("redis-cli SET k v NX PX 1000", words(&format!("redis-cli -p {redis} SET k v NX PX 1000"))));
    subjects.push(Subject::new(
        "etcdctl lock NAME true",
        words(&format!("etcdctl --endpoints http://127.0.0.1:{etcd} lock bench true")),
    ));
    for round in 0..WARM_UP + rounds {
        for subject in &mut subjects {
            let (time, peak) = measure(&subject.arguments);
            if round >= WARM_UP {
                subject.times.push(time.as_secs_f64() * 1e3);
                subject.peak_kib.push(peak);
            }
        }
    }
    println!("\n{rounds} rounds, interleaved\n");
    println!("{:<42} {:>9} {:>20} {:>8} {:>8}", "", "median ms", "10th to 90th", "ratio", "peak MB");
    let reference = subjects[0].times.clone();
    for subject in &subjects {
        let pairs = subject.times.iter().zip(&reference).map(|(ours, theirs)| ours / theirs).collect();
        println!(
            "{:<42} {:>9.2} {:>8.2} to {:>8.2} {:>8.2} {:>8.1}",
            subject.name,
            quantile(subject.times.clone(), 0.5),
            quantile(subject.times.clone(), 0.1),
            quantile(subject.times.clone(), 0.9),
            quantile(pairs, 0.5),
            subject.peak_kib.iter().max().copied().unwrap_or_default() as f64 / 1024.0,
        );
    }
    println!("\nratio: to flock, median of the pairs of a round; jobs are `true`; peak: of the largest process");
}

/// What a run says to the server, and what it hears.
fn print_round_trips(places: &[Place]) {
    println!(
        "\n{:<26} {:>8} {:>6} {:>8} {:>6} {:>12} {:>12}",
        "round trips of a run", "connect", "take", "release", "skip", "bytes out", "bytes in"
    );
    for place in places {
        let Some(port) = place.port else { continue };
        let run = listen(place, port, FREE);
        let skip = listen(place, port, HELD);
        let take = run.iter().position(|flight| flight.says(FREE)).unwrap_or(0);
        // The job sleeps in between.
        let release = (take + 1..run.len()).find(|index| run[*index].at - run[index - 1].at > SLEEP / 2);
        let release = release.unwrap_or(run.len());
        let count = |flights: &[Flight]| flights.iter().filter(|flight| flight.heard > 0).count();
        println!(
            "{:<26} {:>8} {:>6} {:>8} {:>6} {:>12} {:>12}",
            place.name,
            count(&run[..take]),
            count(&run[take..release]),
            count(&run[release..]),
            count(&skip),
            run.iter().map(|flight| flight.said.len()).sum::<usize>(),
            run.iter().map(|flight| flight.heard).sum::<usize>(),
        );
    }
    println!(
        "connect: without the handshake of TCP, and a server that speaks first counts as one; bytes: without TCP's own"
    );
}

/// How long the job of a run sleeps that is listened to: less than what shedlock keeps a connection for.
const SLEEP: std::time::Duration = std::time::Duration::from_millis(80);

/// The conversation of a run or of a skip.
fn listen(place: &Place, port: u16, name: &str) -> Conversation {
    let relay = Relay::to(port);
    let url = place.url.replace(&format!(":{port}/"), &format!(":{}/", relay.port));
    let status = command(&run(&url, name, &["sleep", &SLEEP.as_secs_f64().to_string()])).status().unwrap();
    assert!(status.success());
    relay.conversations().into_iter().flatten().collect()
}

/// How much a server stands.
fn print_load(places: &[Place]) {
    println!(
        "\n{:<26} {:>10} {:>10} {:>11} {:>11} {:>11} {:>11}",
        "a busy server, in ms", "skip, all", "skip, CPU", "look, all", "look, CPU", "run, all", "run, CPU"
    );
    for place in places {
        let Some(port) = place.port else { continue };
        let skip = listen(place, port, HELD);
        let look = skip.iter().position(|flight| flight.says(HELD)).unwrap();
        let mut looks = skip.clone();
        looks.splice(look..look, std::iter::repeat_n(skip[look].clone(), MORE));
        let run = listen(place, port, FREE);
        let one = keep_busy(port, &place.servers, &skip, None);
        let many = keep_busy(port, &place.servers, &looks, None);
        let full = keep_busy(port, &place.servers, &run, Some(FREE));
        let milliseconds = |load: &load::Load| 1e3 / load.rate;
        println!(
            "{:<26} {:>10.3} {:>10.3} {:>11.3} {:>11.3} {:>11.3} {:>11.3}",
            place.name,
            milliseconds(&one),
            one.cpu,
            (milliseconds(&many) - milliseconds(&one)) / MORE as f64,
            (many.cpu - one.cpu) / MORE as f64,
            milliseconds(&full),
            full.cpu,
        );
    }
    for (name, server, conversation) in full_servers(places) {
        // What is held is what the server has room for; whoever comes then is refused.
        let _held: Vec<_> = (0..LIMIT + 5).map(|_| converse(server.port(), &conversation)).collect();
        let load = keep_busy(server.port(), &[server], &conversation, None);
        println!("{name:<26} {:>10.3} {:>10.3}", 1e3 / load.rate, load.cpu);
    }
    println!(
        "all: a second by how many the server manages in it, with 16 clients that are no processes, on the same cores; \
         CPU: of the server for each;\nskip: connect, look, hang up; look: each further statement; run: take and release, \
         each of another name"
    );
}

/// So many more statements are said on a connection to tell their cost from that of connecting.
const MORE: usize = 20;

/// The fewest connections that MariaDB can be limited to.
const LIMIT: usize = 10;

impl Subject {
    fn new(name: &str, arguments: Vec<String>) -> Self {
        Self { name: name.to_owned(), arguments, times: Vec::new(), peak_kib: Vec::new() }
    }
}

/// Servers with few connections, and what is said to them until they let one in.
fn full_servers(places: &[Place]) -> Vec<(&'static str, &'static Server, Conversation)> {
    let mut servers: Vec<(&'static str, &'static Server, Conversation)> = Vec::new();
    for place in places {
        let create = format!("create database {}", place.url.rsplit('/').next().unwrap());
        // They live as long as this process, as the shared servers do.
        let (name, server): (_, &'static Server) = match place.name {
            "PostgreSQL" => {
                let postgres = Box::leak(Box::new(Postgres::fresh(&[&format!("max_connections={LIMIT}")])));
                postgres.psql(&create);
                ("PostgreSQL refuses", postgres)
            }
            "MariaDB" => {
                let mariadb = Box::leak(Box::new(MariaDb::fresh(&[&format!("--max-connections={LIMIT}")])));
                mariadb.mariadb(&create);
                ("MariaDB refuses", mariadb)
            }
            _ => continue,
        };
        let skip = listen(place, place.port.unwrap(), HELD);
        let look = skip.iter().position(|flight| flight.says(HELD)).unwrap();
        servers.push((name, server, skip[..look].to_vec()));
    }
    servers
}

fn newest_psql() -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").unwrap().flatten();
    let newest = versions.map(|entry| entry.path()).max().unwrap();
    newest.join("bin/psql").display().to_string()
}
