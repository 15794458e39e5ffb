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
//! | `certificates()` | files: `authority()`, `stranger()`, `server()`, `client()`, `client_key()` |
//!
//! A server that a test harms is its own, and ends with the variable: `Postgres::fresh(&["max_connections=20"])`,
//! `MariaDb::fresh(&["--read-only"])`, `Redis::fresh(&["--appendonly", "yes"])`, `Postgres::fresh_with_tls(&[])`,
//! `MariaDb::fresh_with_tls(&[])`, `Redis::fresh_with_tls(ClientCertificates::Required)`, `Redis::fresh_with_users()`,
//! `Postgres::with_clock("-1h")`, `MariaDb::with_clock("+1h")`, `MariaDb::started_at("2037-01-01 12:00:00", &[])`,
//! `MariaDb::in_zone("CET-1CEST,M3.5.0,M10.5.0/3")`, and one whose clock `set_clock("+1h")` moves while it runs,
//! `Postgres::with_moving_clock()`, also MariaDB and Redis. `RedisCluster::fresh()`, `RedisSentinel::fresh()`,
//! `PgBouncer::fresh(port, &[])`. Every server can `stop()`, `kill()`, `start()` again with the same port and data,
//! `freeze()` and `thaw()`, and tells its `port()`, `pid()`, `log()`, `path()` (its directory, with the sockets) and
//! `processes()`. `Etcd::fresh()` is for the benchmark alone.
//!
//! This directory is compiled into the tests of the program and into the unit tests of the backends, so it uses nothing
//! but std, nix and tempfile.

mod certificates;
mod directory;
mod etcd;
mod mariadb;
mod pgbouncer;
mod postgres;
mod program;
mod redis;
mod server;
pub(crate) mod stores;

use std::sync::OnceLock;

pub(crate) use certificates::{CLUSTER, Certificates, SERVICE, certificates};
pub(crate) use etcd::Etcd;
pub(crate) use mariadb::{MariaDb, MariaDbDatabase};
pub(crate) use pgbouncer::PgBouncer;
pub(crate) use postgres::{Postgres, PostgresDatabase};
pub(crate) use program::unique;
pub(crate) use redis::{ClientCertificates, Redis, RedisCluster, RedisDatabase, RedisSentinel};
pub(crate) use server::Server;

/// PostgreSQL that trusts everybody.
pub(crate) fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::fresh(&[]))
}

/// PostgreSQL with TLS and passwords.
pub(crate) fn postgres_tls() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::fresh_with_tls(&[]))
}

/// MariaDB whose root has no password.
pub(crate) fn mariadb() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::fresh(&[]))
}

/// MariaDB with TLS, in another time zone.
pub(crate) fn mariadb_tls() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::fresh_with_tls(&["--default-time-zone=+02:00"]))
}

/// Redis without users or TLS.
pub(crate) fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh(&[]))
}

/// Redis that speaks only TLS.
pub(crate) fn redis_tls() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh_with_tls(ClientCertificates::Ignored))
}

/// Redis that speaks only TLS, and only with clients that have a certificate.
pub(crate) fn redis_mutual_tls() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::fresh_with_tls(ClientCertificates::Required))
}

/// Redis that asks who you are.
pub(crate) fn redis_users() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(Redis::fresh_with_users)
}

/// A Redis cluster.
pub(crate) fn redis_cluster() -> &'static RedisCluster {
    static SERVER: OnceLock<RedisCluster> = OnceLock::new();
    SERVER.get_or_init(RedisCluster::fresh)
}

/// Redis with a sentinel.
pub(crate) fn redis_sentinel() -> &'static RedisSentinel {
    static SERVER: OnceLock<RedisSentinel> = OnceLock::new();
    SERVER.get_or_init(RedisSentinel::fresh)
}

/// PgBouncer before the server of `postgres()`.
pub(crate) fn pgbouncer() -> &'static PgBouncer {
    static SERVER: OnceLock<PgBouncer> = OnceLock::new();
    SERVER.get_or_init(|| PgBouncer::fresh(postgres().port(), &[]))
}

/// Names all that this directory offers. Each of the two crates uses another part of it, and neither is to be warned of
/// what only the other one uses.
const _: fn() = || {
    let _ = (postgres, postgres_tls, mariadb, mariadb_tls, redis, redis_tls, redis_mutual_tls, redis_users);
    let _ = (redis_cluster, redis_sentinel, pgbouncer, certificates, unique);
    let _ = (Server::pid, Server::log, Server::start, Server::stop, Server::kill, Server::freeze, Server::thaw);
    let _ = (Server::processes, Etcd::fresh, Postgres::with_clock, MariaDb::with_clock);
    let _ = (MariaDb::in_zone, MariaDb::started_at);
    let _ = (Postgres::with_moving_clock, MariaDb::with_moving_clock, Redis::with_moving_clock, Server::set_clock);
    let _ = (Postgres::fresh, Postgres::fresh_with_tls, Postgres::database, Postgres::database_of, Postgres::psql);
    let _ = (PostgresDatabase::url, PostgresDatabase::socket_url, PostgresDatabase::login, PostgresDatabase::psql);
    let _ = (PostgresDatabase::try_psql, |database: PostgresDatabase| database.name);
    let _ = (MariaDb::fresh, MariaDb::fresh_with_tls, MariaDb::database, MariaDb::mariadb);
    let _ = (MariaDbDatabase::url, MariaDbDatabase::socket, MariaDbDatabase::login, MariaDbDatabase::mariadb);
    let _ = (MariaDbDatabase::try_mariadb, |database: MariaDbDatabase| database.name);
    let _ = (Redis::fresh, Redis::fresh_with_tls, Redis::fresh_with_users, Redis::database, Redis::cli);
    let _ = (RedisDatabase::url, RedisDatabase::login, RedisDatabase::try_cli);
    let _ = (RedisCluster::url, RedisCluster::cli, |cluster: RedisCluster| cluster.nodes);
    let _ = (RedisSentinel::url, RedisSentinel::master_port, |sentinel: RedisSentinel| sentinel.master);
    let _ = (|sentinel: RedisSentinel| sentinel.replica, ClientCertificates::Required);
    let _ = (PgBouncer::fresh, PgBouncer::url, certificates);
    let _ = (stores::MariaDbStore::new, stores::PostgresStore::new, stores::RedisStore::new, stores::RedisStore::of);
    let _ = <stores::PostgresStore as stores::Store>::make_table;
    let _ = <stores::PostgresStore as stores::Store>::connections;
    let _ = (<stores::PostgresStore as stores::Store>::things, <stores::PostgresStore as stores::Store>::carry_out);
    let _ = (SERVICE, CLUSTER);
    let _ = (Certificates::authority, Certificates::stranger, Certificates::client, Certificates::client_key);
};
