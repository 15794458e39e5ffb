//! Generates the lists of backends in the documents from one table, which has a row for each backend of the program.

use std::path::Path;

use super::shown::is_shown;
use crate::support::{Place, finish};

/// What the documents say of a backend.
struct Backend {
    scheme: &'static str,
    name: &'static str,
    /// When to choose it.
    choose: &'static str,
    /// What may make it forget a lock while a job runs.
    forgets: &'static str,
    /// The clock by which its locks end.
    clock: &'static str,
    /// The oldest version that it supports, and the versions that the tests use.
    versions: [&'static str; 2],
}

const BACKENDS: [Backend; 8] = [
    Backend {
        scheme: "sqlite",
        name: "SQLite",
        choose: "one host, no server; the default",
        forgets: "nothing; a power cut may lose what stays held after a job",
        clock: "the host's; for a running job the time since boot",
        versions: ["built in", "a local file system"],
    },
    Backend {
        scheme: "postgres",
        name: "PostgreSQL",
        choose: "you have one",
        forgets: "a failover, unless replication is synchronous",
        clock: "the primary's",
        versions: ["12", "15, PgBouncer 1.18"],
    },
    Backend {
        scheme: "mysql",
        name: "MySQL, MariaDB",
        choose: "you have one",
        forgets: "a failover, unless replication is synchronous and never falls back",
        clock: "the primary's; Galera, group replication: the first node in the URL that answers",
        versions: ["8; 10.5", "MySQL 9.7, MariaDB 10.11, Galera"],
    },
    Backend {
        scheme: "redis",
        name: "Redis, Valkey",
        choose: "you have only that, and can bear two runs at once",
        forgets: "**a failover, a restart, eviction**",
        clock: "the master's",
        versions: ["6", "Redis 7.0, Valkey 9.1"],
    },
    Backend {
        scheme: "etcd",
        name: "etcd",
        choose: "you have one",
        forgets: "nothing",
        clock: "none: leases count down, anew after a change of leader",
        versions: ["3.4", "3.4.23, 3.5.30"],
    },
    Backend {
        scheme: "kubernetes",
        name: "Kubernetes",
        choose: "all hosts are pods of one cluster: no server, no password",
        forgets: "nothing",
        clock: "that of the API server that answers",
        versions: ["1.19", "API server 1.34, etcd 3.4"],
    },
    Backend {
        scheme: "zookeeper",
        name: "ZooKeeper",
        choose: "you have one",
        forgets: "nothing, unless `forceSync=no`",
        clock: "the leader's",
        versions: ["3.5", "3.8"],
    },
    Backend {
        scheme: "mongodb",
        name: "MongoDB",
        choose: "you have one; it needs the package `shedlock-provider-mongodb`",
        forgets: "unknown: not tested on MongoDB",
        clock: "the primary's",
        versions: ["4.4; not FerretDB 1", "mongo-java-server 1.47, SecantusDB 0.7; not MongoDB itself"],
    },
];

fn table<const N: usize>(head: [&str; N], cells: impl Fn(&Backend) -> [&'static str; N]) -> String {
    let line = |cells: [&str; N]| format!("| {} |\n", cells.join(" | "));
    line(head)
        + &format!("|{}\n", " --- |".repeat(N))
        + &BACKENDS.iter().map(|row| line(cells(row))).collect::<String>()
}

#[test]
fn the_lists_of_backends_in_the_documents_are_those_of_the_program() {
    let head = ["backend", "choose it if", "may lose a lock by", "the clock that counts"];
    let choosing = table(head, |row| [row.name, row.choose, row.forgets, row.clock]);
    is_shown("docs/choosing.md", "choices of backends", &choosing);
    let versions = table(["backend", "from", "tested with"], |row| [row.name, row.versions[0], row.versions[1]]);
    is_shown("docs/compatibility.md", "versions of backends", &versions);

    let refused = finish(&mut Place::new().shedlock(["check", "--backend", "none:of-these"]));
    let (_, known) = refused.stderr.split_once("; known are ").unwrap_or_else(|| panic!("{refused:?}"));
    let known: Vec<&str> = known.trim_end().split(", ").filter_map(|url| Some(url.split_once(':')?.0)).collect();
    // Providers come after what is built in.
    let program = Path::new(env!("CARGO_BIN_EXE_shedlock"));
    let is_provider = |scheme: &str| program.with_file_name(format!("shedlock-provider-{scheme}")).exists();
    let known: Vec<&str> = known.into_iter().filter(|scheme| !is_provider(scheme)).collect();
    // A build with fewer backends names no more than it has.
    let listed = BACKENDS.map(|row| row.scheme).into_iter().filter(|scheme| known.contains(scheme));
    assert_eq!(known, listed.collect::<Vec<_>>());
    // All but MongoDB.
    assert!(known.len() + 1 == BACKENDS.len() || cfg!(not(feature = "default")), "{known:?}");
}
