//! Real servers for the tests: private, on free ports, gone with the test process however it ends.
//!
//! Shared by all tests of one process, started by the first that asks. A test takes a database of its own in them, and
//! changes nothing else:
//!
//! ```ignore
//! let database = servers::postgres().database();         // also mariadb(), redis()
//! database.url()                                         // postgres://postgres@127.0.0.1:PORT/NAME
//! database.psql("select name from shedlock")             // panics if it fails; try_psql gives a Result
//! database.login("clerk:s3cret").url_at("localhost")     // another login and name of the host in the URL
//! database.socket_url()                                  // PostgreSQL only; MariaDB's socket is database.socket()
//! servers::mariadb().database().mariadb("select 1")      // try_mariadb
//! servers::redis().database().cli(&["get", "job"])       // try_cli; a database is a number here
//! servers::redis().cli(&["info"])                        // the server's own database: psql(), mariadb(), cli()
//! servers::unique("job")                                 // a name that nothing else has
//! ```
//!
//! | shared | what |
//! | --- | --- |
//! | `postgres()`, `mariadb()`, `redis()` | without passwords or TLS, in UTC |
//! | `postgres_tls()` | TLS and SCRAM: `clerk:s3cret`, `postgres:s3cret`, and `jobs` with the client certificate; only `clerk` may do without TLS; `database_of("clerk")` |
//! | `mariadb_tls()` | TLS, at +02:00: `root`, `clerk:s3cret` only with TLS, `jobs` only with the client certificate |
//! | `redis_tls()`, `redis_mutual_tls()` | only TLS; the second wants the client certificate |
//! | `redis_users()` | `clerk:s3cret`, and `reader:s3cret`, who may only read |
//! | `redis_cluster()` | three masters: `url()`, `cli()`, `nodes` |
//! | `redis_sentinel()` | `url(&database)`, `master`, `replica`, `sentinel`, `master_port()`; databases are `master.database()` |
//! | `pgbouncer()` | transaction mode, before `postgres()`: `url(&database)` |
//! | `kubernetes()` | the API server with RBAC: a database is a `namespace()`, `request(…)` asks as its keeper |
//! | `zookeeper()` | without TLS: `chroot()` is a node of a test's own; `client()` is what the tests ask it by |
//! | `mongodb()` | a stand-in for MongoDB: `client()` is what the tests ask it by |
//! | `mongodb_users()` | another one, with users: the primary of a replica set of one |
//! | `mongodb_tls()`, `mongodb_mutual_tls()` | with TLS, the latter only for clients with a certificate |
//! | `wire()` | the example provider behind a port, for what breaks between shedlock and a provider |
//! | `zookeeper_tls()`, `zookeeper_mutual_tls()` | TLS on `port()`; the second wants the client certificate |
//! | `certificates()` | files: `authority()`, `stranger()`, `server()`, `client()`, `client_key()` |
//!
//! A server that a test harms is its own, and ends with the variable: `Postgres::fresh(&["max_connections=20"])`,
//! `MariaDb::fresh(&["--read-only"])`, `Redis::fresh(&["--appendonly", "yes"])`, `Postgres::fresh_with_tls(&[])`,
//! `MariaDb::fresh_with_tls(&[])`, `Redis::fresh_with_tls(ClientCertificates::Required)`, `Redis::fresh_with_users()`,
//! `Postgres::with_clock("-1h")`, `MariaDb::with_clock("+1h")`, `MariaDb::started_at("2037-01-01 12:00:00", &[])`,
//! `MariaDb::in_zone("CET-1CEST,M3.5.0,M10.5.0/3")`, and one whose clock `set_clock("+1h")` moves while it runs,
//! `Postgres::with_moving_clock()`, also MariaDB and Redis. `RedisCluster::fresh()`, `RedisSentinel::fresh()`,
//! `PgBouncer::fresh(port, &[])`, `ZooKeeper::fresh(&["maxClientCnxns=3"])`, `ZooKeeper::with_moving_clock()`,
//! `ZooKeeper::fresh_with_tls(ClientCertificates::Required)`, `ZooKeeperEnsemble::fresh()`. Every server can `stop()`, `kill()`, `start()` again with the same port and data,
//! `freeze()` and `thaw()`, and tells its `port()`, `pid()`, `log()`, `path()` (its directory, with the sockets) and
//! `processes()`. etcd has `Etcd::fresh()`, `Etcd::fresh_with_tls(ClientCertificates::Required)`,
//! `Etcd::fresh_with_users(schema)` and `EtcdCluster::fresh()`, with `leader()`; `fronts()` are ports before its members whose
//! clocks `set_clock(-60)` moves: the program is in Go, which asks the kernel for the time and not the library of faketime.
//! `Galera::fresh()` has two `nodes` of MariaDB, `Group::fresh()` two `members` of MySQL. `Rogue` is a port before a server, or before nobody, that lies; `Rewriter` one before Redis that changes the scripts,
//! `Disguise` one before `MongoDb::ferretdb()`, which shedlock refuses, that changes its name.
//!
//! `Party::start(zone, provider)` is an application of the Java library ShedLock, which takes locks in any of them.
//! `kit()` starts the tests that the library has for its providers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]
#![expect(missing_docs, reason = "fields and variants are named for what they are")]
#![expect(clippy::new_without_default, reason = "each new store is another, in a database of its own")]

mod certificates;
mod directory;
mod disguise;
mod etcd;
mod front;
mod galera;
mod group;
mod java;
mod kubernetes;
mod mariadb;
mod mongodb;
mod pgbouncer;
mod port;
mod postgres;
mod program;
mod redis;
mod rewriter;
mod rogue;
mod script;
mod server;
mod sockets;
pub mod stores;
mod wire;
mod zookeeper;

use std::sync::OnceLock;

pub use certificates::{CLUSTER, Certificates, SERVICE, certificates};
pub use disguise::Disguise;
pub use etcd::{Etcd, EtcdClient, EtcdCluster, EtcdEntry};
pub use front::{Deed, Front};
pub use galera::Galera;
pub use group::Group;
pub use java::{Party, kit};
pub use kubernetes::{KEEPER, Kubernetes, Namespace, STRANGER};
pub use mariadb::{MariaDb, MariaDbDatabase};
pub use mongodb::MongoDb;
pub use pgbouncer::PgBouncer;
pub use port::Port;
pub use postgres::{Postgres, PostgresDatabase};
pub use program::unique;
pub use redis::{ClientCertificates, Redis, RedisCluster, RedisDatabase, RedisSentinel};
pub use rewriter::Rewriter;
pub use rogue::{First, Lie, Rogue, Then};
pub use script::Script;
pub use server::{Server, tls_before};
pub use sockets::processes_with;
pub use wire::Wire;
pub use zookeeper::{ZooKeeper, ZooKeeperEnsemble};

/// PostgreSQL that trusts everybody.
pub fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::fresh(&[]))
}

/// PostgreSQL with TLS and passwords.
pub fn postgres_tls() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::fresh_with_tls(&[]))
}

/// MariaDB whose root has no password.
pub fn mariadb() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::fresh(&[]))
}

/// MariaDB with TLS, in another time zone.
pub fn mariadb_tls() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::fresh_with_tls(&["--default-time-zone=+02:00"]))
}

/// Redis without users or TLS.
pub fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh(&[]))
}

/// Redis that speaks only TLS.
pub fn redis_tls() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh_with_tls(ClientCertificates::Ignored))
}

/// Redis that speaks only TLS, and only with clients that have a certificate.
pub fn redis_mutual_tls() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh_with_tls(ClientCertificates::Required))
}

/// Redis that asks who you are.
pub fn redis_users() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(Redis::fresh_with_users)
}

/// A Redis cluster.
pub fn redis_cluster() -> &'static RedisCluster {
    static SERVER: OnceLock<RedisCluster> = OnceLock::new();
    SERVER.get_or_init(RedisCluster::fresh)
}

/// Redis with a sentinel.
pub fn redis_sentinel() -> &'static RedisSentinel {
    static SERVER: OnceLock<RedisSentinel> = OnceLock::new();
    SERVER.get_or_init(RedisSentinel::fresh)
}

/// etcd without users or TLS.
pub fn etcd() -> &'static Etcd {
    static SERVER: OnceLock<Etcd> = OnceLock::new();
    SERVER.get_or_init(Etcd::fresh)
}

/// etcd that speaks only TLS, and only with clients that have a certificate.
pub fn etcd_mutual_tls() -> &'static Etcd {
    static SERVER: OnceLock<Etcd> = OnceLock::new();
    SERVER.get_or_init(|| Etcd::fresh_with_tls(ClientCertificates::Required))
}

/// PgBouncer before the server of `postgres()`.
pub fn pgbouncer() -> &'static PgBouncer {
    static SERVER: OnceLock<PgBouncer> = OnceLock::new();
    SERVER.get_or_init(|| PgBouncer::fresh(postgres().port(), &[]))
}

/// The API server of Kubernetes.
pub fn kubernetes() -> &'static Kubernetes {
    static SERVER: OnceLock<Kubernetes> = OnceLock::new();
    SERVER.get_or_init(|| Kubernetes::fresh(&[]))
}

/// A server that speaks MongoDB's protocol.
pub fn mongodb() -> &'static MongoDb {
    static SERVER: OnceLock<MongoDb> = OnceLock::new();
    SERVER.get_or_init(MongoDb::fresh)
}

/// A server that speaks MongoDB's protocol and has users.
pub fn mongodb_users() -> &'static MongoDb {
    static SERVER: OnceLock<MongoDb> = OnceLock::new();
    SERVER.get_or_init(MongoDb::with_users)
}

/// A server that speaks MongoDB's protocol within TLS.
pub fn mongodb_tls() -> &'static MongoDb {
    static SERVER: OnceLock<MongoDb> = OnceLock::new();
    SERVER.get_or_init(|| MongoDb::fresh_with_tls(ClientCertificates::Ignored))
}

/// The same, and only for clients that have a certificate.
pub fn mongodb_mutual_tls() -> &'static MongoDb {
    static SERVER: OnceLock<MongoDb> = OnceLock::new();
    SERVER.get_or_init(|| MongoDb::fresh_with_tls(ClientCertificates::Required))
}

/// The example provider behind a port.
pub fn wire() -> &'static Wire {
    static WIRE: OnceLock<Wire> = OnceLock::new();
    WIRE.get_or_init(Wire::fresh)
}

/// ZooKeeper without TLS.
pub fn zookeeper() -> &'static ZooKeeper {
    static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
    SERVER.get_or_init(|| ZooKeeper::fresh(&[]))
}

/// ZooKeeper with TLS.
pub fn zookeeper_tls() -> &'static ZooKeeper {
    static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
    SERVER.get_or_init(|| ZooKeeper::fresh_with_tls(ClientCertificates::Ignored))
}

/// ZooKeeper with TLS, and only for clients that have a certificate.
pub fn zookeeper_mutual_tls() -> &'static ZooKeeper {
    static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
    SERVER.get_or_init(|| ZooKeeper::fresh_with_tls(ClientCertificates::Required))
}
