//! Measures what shedlock costs on servers, beside their own clients: `cargo bench --bench servers [-- ROUNDS]`;
//! with the word `history`, only what a run costs by the length of its lock's history; with `providers`, only what a provider
//! costs. With `BEFORE=/path/to/shedlock` the times
//! of that one are measured, too, in the same rounds.
//!
//! The servers are those of the tests, private, on 127.0.0.1, and write no disk for a commit. What is measured: whole processes from
//! start to end, every command once in every round; what goes over the network; what a server stands; and a herd, many
//! processes at once. Nothing is asserted. `benches/README.md` has results.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

mod files;
mod herd;
mod load;
#[path = "../measure/mod.rs"]
mod measure;
mod past;
mod providers;
mod relay;

use std::fs;
use std::process::{ExitCode, Stdio};

use load::{converse, keep_busy};
use measure::{
    JOB, SHEDLOCK, before, command, copied, hold, measure, print_machine, print_waiting, quantile, run, run_of, words,
};
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
    /// A port and the URL with it, where the conversation can be read along: not with TLS.
    plain: Option<(u16, String)>,
    /// The conversation can be had again word by word: it names no version and no lease.
    repeatable: bool,
}

/// What is measured of one command.
struct Subject {
    name: String,
    arguments: Vec<String>,
    times: Vec<f64>,
    peak_kib: Vec<i64>,
}

fn main() -> ExitCode {
    if let Some(code) = files::serve_by_name() {
        return code;
    }
    measure_all();
    ExitCode::SUCCESS
}

fn measure_all() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().unwrap();
    std::env::set_current_dir(directory.path()).unwrap();
    print_machine(directory.path());
    if std::env::args().any(|word| word == "providers") {
        return providers::print(rounds);
    }
    let places = places();
    if std::env::args().any(|word| word == "history") {
        return past::print(&places);
    }
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
    let at = |name, url: String, server: &'static Server| Place {
        name,
        plain: Some((server.port(), url.clone())),
        url,
        servers: vec![server],
        repeatable: true,
    };
    let once = |name, url, server: &'static Server| Place { repeatable: false, ..at(name, url, server) };
    let over_tls = |name, url: String, server, mode| Place {
        plain: None,
        ..at(name, format!("{url}?sslmode={mode}&sslrootcert={authority}"), server)
    };
    let secure = servers::postgres_tls().database_of("clerk").login("clerk:s3cret");
    let secure_mariadb = servers::mariadb_tls().database().login("clerk:s3cret");
    let (zookeeper, kubernetes) = (servers::zookeeper(), servers::kubernetes());
    let (namespace, plain) = (kubernetes.namespace(), kubernetes.plain_namespace());
    let database = postgres.database().url();
    let mut places = vec![
        Place {
            name: "SQLite",
            url: "sqlite:locks.db".to_owned(),
            servers: Vec::new(),
            plain: None,
            repeatable: false,
        },
        Place {
            // Without a schema the statements name the server's process, and no other process carries them out.
            plain: Some((postgres.port(), format!("{database}?table=public.shedlock"))),
            ..at("PostgreSQL", database, postgres)
        },
        Place {
            servers: vec![pgbouncer, postgres],
            ..at("PostgreSQL by PgBouncer", pgbouncer.url(&postgres.database()), pgbouncer)
        },
        over_tls("PostgreSQL, TLS, SCRAM", secure.url(), servers::postgres_tls(), "verify-full"),
        at("MariaDB", mariadb.database().url(), mariadb),
        over_tls("MariaDB, TLS", secure_mariadb.url(), servers::mariadb_tls(), "verify-full"),
        at("Redis", redis.database().url(), redis),
        over_tls("Redis, TLS", servers::redis_tls().database().url(), servers::redis_tls(), "verify-full"),
        once("etcd", servers::etcd().url(), servers::etcd()),
        once("ZooKeeper", format!("zookeeper://127.0.0.1:{}{}", zookeeper.port(), zookeeper.chroot()), zookeeper),
        Place {
            plain: Some((kubernetes.plain_port(), plain.url().replace(&plain.name, &namespace.name))),
            ..once("Kubernetes", namespace.url(), kubernetes)
        },
    ];
    servers::stores::install_mongodb();
    let mongodb = servers::mongodb();
    places.push(once("MongoDB's stand-in", format!("mongodb://127.0.0.1:{}/bench", mongodb.port()), mongodb));
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
    let shedlock = copied(SHEDLOCK, "shedlock");
    let former = before();
    let mut subjects = vec![
        Subject::new("flock -n FILE /bin/true", words(&format!("flock -n free.lock {JOB}"))),
        Subject::new("shedlock --version", vec![shedlock.clone(), "--version".to_owned()]),
    ];
    for place in places {
        let former = former.iter().map(|binary| (" (before)", binary));
        for (which, binary) in [("", &shedlock)].into_iter().chain(former) {
            let of = |what: &str, lock| {
                Subject::new(&format!("{what}, {}{which}", place.name), run_of(binary, &place.url, lock, &[JOB]))
            };
            subjects.extend([of("shedlock run", FREE), of("a skip", HELD)]);
        }
    }
    let (postgres, mariadb) = (servers::postgres().port(), servers::mariadb().port());
    let (redis, etcd, zookeeper) = (servers::redis().port(), servers::etcd().port(), servers::zookeeper());
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
        "etcdctl lock NAME /bin/true",
        words(&format!("etcdctl --endpoints http://127.0.0.1:{etcd} lock bench {JOB}")),
    ));
    fs::write("zkCli.sh", zookeeper.command_line_client()).unwrap();
    let create = format!("sh zkCli.sh -server 127.0.0.1:{} create -e -s /bench true 2>log", zookeeper.port());
    subjects.push(Subject::new("zkCli.sh create -e -s NODE", ["sh", "-c", &create].map(str::to_owned).into()));
    subjects.extend(kubectl());
    measure_in_turn(rounds, &mut subjects);
}

/// Measures each subject once in each round, and prints a table. The first one is what the ratios are to.
fn measure_in_turn(rounds: usize, subjects: &mut [Subject]) {
    for round in 0..WARM_UP + rounds {
        // There and back: the first on a server finds its part of the caches cold.
        let mut order: Vec<_> = subjects.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for subject in order {
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
    for subject in subjects {
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
    println!("\nratio: to flock, median of the pairs of a round; jobs are `/bin/true`; peak: of the largest process");
}

/// Makes a lock as home-made scripts do, with an object that is created, and deleted after the job. kubectl keeps what it has
/// learned of the server in its cache.
fn kubectl() -> Option<Subject> {
    let program = std::env::current_exe().unwrap();
    let program = program.ancestors().map(|above| above.join("kube-apiserver/kubectl")).find(|path| path.is_file());
    let Some(program) = program else {
        println!("without kubectl: tests/kube-apiserver/build target/kube-apiserver kubectl");
        return None;
    };
    let lease = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "bench"}}"#;
    fs::write("lease.json", lease).unwrap();
    let namespace = servers::kubernetes().namespace();
    let kubectl = format!(
        "{} --server https://127.0.0.1:{} --certificate-authority {} --token {} --namespace {} --cache-dir kube",
        program.display(),
        namespace.port(),
        servers::certificates().authority(),
        servers::KEEPER,
        namespace.name,
    );
    let script = format!("{kubectl} create -f lease.json && true && {kubectl} delete lease bench");
    Some(Subject::new("kubectl create, true, kubectl delete", ["sh", "-c", &script].map(str::to_owned).into()))
}

/// What a run says to the server, and what it hears.
fn print_round_trips(places: &[Place]) {
    println!("\n{:<26} {:>31} {:>39}", "", "round trips", "bytes out and in");
    println!(
        "{:<26} {:>7} {:>7} {:>7} {:>7} {:>12} {:>12} {:>12}",
        "", "connect", "take", "release", "skip", "taking", "run", "skip"
    );
    for place in places {
        let Some(plain) = &place.plain else { continue };
        let run = listen(plain, FREE);
        let skip = listen(plain, HELD);
        let take = run.iter().position(|flight| flight.says(FREE)).unwrap_or(0);
        // The job sleeps in between.
        let release = (take + 1..run.len()).find(|index| run[*index].at - run[index - 1].at > SLEEP / 2);
        let release = release.unwrap_or(run.len());
        let count = |flights: &[Flight]| flights.iter().filter(|flight| flight.heard > 0).count();
        let bytes = |flights: &[Flight]| {
            let said: usize = flights.iter().map(|flight| flight.said.len()).sum();
            format!("{said} {:>5}", flights.iter().map(|flight| flight.heard).sum::<usize>())
        };
        println!(
            "{:<26} {:>7} {:>7} {:>7} {:>7} {:>12} {:>12} {:>12}",
            place.name,
            count(&run[..take]),
            count(&run[take..release]),
            count(&run[release..]),
            count(&skip),
            bytes(&run[..release]),
            bytes(&run),
            bytes(&skip),
        );
    }
    println!(
        "connect: without the handshake of TCP, and a server that speaks first counts as one; taking: with connecting;\n\
         bytes: without TCP's own, and as without TLS"
    );
}

/// How long the job of a run sleeps that is listened to: less than what shedlock keeps a connection for.
const SLEEP: std::time::Duration = std::time::Duration::from_millis(80);

/// The conversation of a run or of a skip.
fn listen(plain: &(u16, String), name: &str) -> Conversation {
    listen_with(plain, name, &[])
}

/// The conversation of a run with these options.
fn listen_with((port, url): &(u16, String), name: &str, options: &[&str]) -> Conversation {
    let relay = Relay::to(*port);
    let url = url.replace(&format!(":{port}"), &format!(":{}", relay.port));
    let sleep = SLEEP.as_secs_f64().to_string();
    let job = [options, &["sleep", &sleep]].concat();
    let status = command(&run(&url, name, &job)).status().unwrap();
    assert!(status.success());
    relay.conversation()
}

/// How much a server stands.
fn print_load(places: &[Place]) {
    println!(
        "\n{:<26} {:>10} {:>10} {:>11} {:>11} {:>11} {:>11}",
        "a busy server, in ms", "skip, all", "skip, CPU", "look, all", "look, CPU", "run, all", "run, CPU"
    );
    for place in places.iter().filter(|place| place.repeatable) {
        let Some(plain) = &place.plain else { continue };
        let port = plain.0;
        let skip = listen(plain, HELD);
        let look = skip.iter().position(|flight| flight.says(HELD)).unwrap();
        let mut looks = skip.clone();
        looks.splice(look..look, std::iter::repeat_n(skip[look].clone(), MORE));
        let run = listen(plain, FREE);
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
        let skip = listen(place.plain.as_ref().unwrap(), HELD);
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
