//! Where the cells of one fault and one backend are played: the store, private if the fault harms it, and the network.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::time::{Duration, Instant};

use super::faults::Fault;
use super::gate::Fate;
use super::network::Network;
use super::phases::Phase;
use crate::support::{Place, finish};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};
use servers::{Etcd, Kubernetes, MariaDb, Postgres, Redis, RedisDatabase, Server, ZooKeeper, unique};
#[cfg(feature = "provider")]
use servers::{MongoDb, Wire};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    Sqlite,
    Postgres,
    MariaDb,
    Redis,
    ZooKeeper,
    Kubernetes,
    Etcd,
    #[cfg(feature = "provider")]
    MongoDb,
    /// The provider in Python, which lives behind a port: it is what is killed, frozen and restarted.
    #[cfg(feature = "provider")]
    Example,
}

impl Backend {
    pub(super) const ALL: &[Self] = &[
        Self::Sqlite,
        Self::Postgres,
        Self::MariaDb,
        Self::Redis,
        Self::ZooKeeper,
        Self::Kubernetes,
        Self::Etcd,
        #[cfg(feature = "provider")]
        Self::MongoDb,
        #[cfg(feature = "provider")]
        Self::Example,
    ];
}

/// The shortest lease of a run.
const LEASE: Duration = Duration::from_secs(2);
/// The same where each renewal starts programs, for which a busy machine may need a second.
const LEASE_OF_PROGRAMS: Duration = Duration::from_secs(6);
/// How many runs there is time for in a lease, however busy the machine is.
const ANSWERS: u32 = 8;

/// The record of a lock as shedlock writes it.
const WRITING: &[u8] = b"\"owner\":";
/// In each write of a Lease.
const HOLDING: &[u8] = b"holderIdentity";
/// In each write of a document.
#[cfg(feature = "provider")]
const LOCKING: &[u8] = b"lockedBy";
/// In each request to write a record.
#[cfg(feature = "provider")]
const ASKING_TO_WRITE: &[u8] = br#""op":"write""#;

/// A server that all tests have, or one of this test's own.
enum Of<T: 'static> {
    All(&'static T),
    Own(T),
}

impl<T> Deref for Of<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::All(server) => server,
            Self::Own(server) => server,
        }
    }
}

impl<T> Of<T> {
    /// Returns the server that all scenes share, unless the fault harms it or moves its clock.
    fn fit(fault: Fault, all: fn() -> &'static T, own: impl FnOnce() -> T, moving: fn() -> T) -> Self {
        match fault {
            Fault::ClockMoved | Fault::ClockMovedBack => Self::Own(moving()),
            Fault::ServerKilled | Fault::ServerKilledAndBack | Fault::ServerFrozen | Fault::ServerRestarted => {
                Self::Own(own())
            }
            _ => Self::All(all()),
        }
    }
}

enum Host {
    File,
    Postgres(Of<Postgres>),
    MariaDb(Of<MariaDb>),
    Redis(Of<Redis>, RedisDatabase),
    ZooKeeper(Of<ZooKeeper>),
    Kubernetes(Of<Kubernetes>),
    Etcd(Of<Etcd>),
    #[cfg(feature = "provider")]
    MongoDb(Of<MongoDb>),
    #[cfg(feature = "provider")]
    Example(Of<Wire>),
}

pub(super) struct Environment {
    pub(super) place: Place,
    pub(super) fault: Fault,
    pub(super) backend: Backend,
    host: Host,
    store: Option<Box<dyn Store>>,
    network: Option<Network>,
    /// How long the server is away when it is restarted, with the first answer.
    restart: Duration,
    /// The lease of a run.
    pub(super) lease: Duration,
    /// In the environment of every process of this test.
    pub(super) marker: String,
}

impl Environment {
    pub(super) fn new(fault: Fault, backend: Backend) -> Self {
        let (host, store): (_, Option<Box<dyn Store>>) = match backend {
            Backend::Sqlite => (Host::File, None),
            Backend::Postgres => {
                let own = || Postgres::fresh(&[]);
                let server = Of::fit(fault, servers::postgres, own, Postgres::with_moving_clock);
                let store = PostgresStore(server.database());
                (Host::Postgres(server), Some(Box::new(store)))
            }
            Backend::MariaDb => {
                // What is committed outlives the server.
                let own = || MariaDb::fresh(&["--innodb-flush-log-at-trx-commit=2"]);
                let server = Of::fit(fault, servers::mariadb, own, MariaDb::with_moving_clock);
                let store = MariaDbStore(server.database());
                (Host::MariaDb(server), Some(Box::new(store)))
            }
            Backend::Redis => {
                // The same.
                let own = || Redis::fresh(&["--appendonly", "yes"]);
                let server = Of::fit(fault, servers::redis, own, Redis::with_moving_clock);
                let database = server.database();
                let store = RedisStore::of(database.clone());
                (Host::Redis(server, database), Some(Box::new(store)))
            }
            Backend::Etcd => {
                // Its clock is never moved.
                let server = Of::fit(fault, servers::etcd, Etcd::fresh, Etcd::fresh);
                let store = EtcdStore::of(&server);
                (Host::Etcd(server), Some(Box::new(store)))
            }
            Backend::ZooKeeper => {
                let own = || ZooKeeper::fresh(&[]);
                let server = Of::fit(fault, servers::zookeeper, own, ZooKeeper::with_moving_clock);
                let store = ZooKeeperStore::of(&server);
                (Host::ZooKeeper(server), Some(Box::new(store)))
            }
            Backend::Kubernetes => {
                let own = || Kubernetes::fresh(&[]);
                // Its clock is that of the machine.
                let server = Of::fit(fault, servers::kubernetes, own, || Kubernetes::fresh(&[]));
                let store = KubernetesStore(server.plain_namespace());
                (Host::Kubernetes(server), Some(Box::new(store)))
            }
            #[cfg(feature = "provider")]
            Backend::MongoDb => {
                let server = Of::fit(fault, servers::mongodb, MongoDb::fresh, MongoDb::with_moving_clock);
                let store = MongoDbStore::of(&server);
                (Host::MongoDb(server), Some(Box::new(store)))
            }
            #[cfg(feature = "provider")]
            Backend::Example => {
                let server = Of::fit(fault, servers::wire, Wire::fresh, Wire::with_moving_clock);
                let store = WireStore::of(&server);
                (Host::Example(server), Some(Box::new(store)))
            }
        };
        let network = (fault == Fault::NetworkCut).then(Network::new);
        let place = Place::new();
        let marker = unique("matrix");
        let mut site =
            Self { place, fault, backend, host, store, network, restart: Duration::ZERO, lease: LEASE, marker };
        if site.backend != Backend::Sqlite {
            // The first one makes the tables, and lets a server in Java load its classes.
            let took = [(); 3].map(|()| site.warm(&site.url("")));
            let starts_programs = site.store().is_some_and(Store::starts_programs);
            let least = if starts_programs { LEASE_OF_PROGRAMS } else { LEASE };
            site.lease = least.max(*took[1..].iter().max().unwrap() * ANSWERS);
            if matches!(fault, Fault::ServerRestarted | Fault::ServerKilledAndBack) {
                let begun = Instant::now();
                site.server().stop();
                site.server().start();
                site.warm(&site.url(""));
                site.restart = begun.elapsed();
            }
        }
        site
    }

    /// Lets the tables be made, so that no later request is about them, and says how long a whole run takes.
    pub(super) fn warm(&self, url: &str) -> Duration {
        let begun = Instant::now();
        finish(self.place.run("warm", ["true"]).env("SHEDLOCK_BACKEND", url)).is_silent_with(0);
        begun.elapsed()
    }

    /// Returns a lease that outlasts a restart of the server, which begins with a renewal: after a third of the lease. The job
    /// is ended before the last fifth.
    pub(super) fn outage(&self) -> Duration {
        (self.lease * 8).max(self.restart * 8)
    }

    /// Returns the URL of the lock of a scene.
    pub(super) fn url(&self, scene: &str) -> String {
        match &self.store {
            Some(store) => store.url(),
            None => format!("sqlite:{}", self.place.path(scene).join("locks.db").display()),
        }
    }

    /// Returns the URL of the lock of a scene through another port of the host, where a relay listens.
    pub(super) fn url_through(&self, port: u16) -> String {
        self.url("").replace(&format!("127.0.0.1:{}", self.port()), &format!("{}:{port}", self.address()))
    }

    /// Returns the address at which the run finds this host.
    pub(super) fn address(&self) -> IpAddr {
        self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, |network| network.address).into()
    }

    pub(super) fn port(&self) -> u16 {
        match &self.host {
            Host::Kubernetes(server) => server.plain_port(),
            _ => self.server().port(),
        }
    }

    pub(super) fn server(&self) -> &Server {
        match &self.host {
            Host::File => panic!("a file has no server"),
            Host::Postgres(server) => server,
            Host::MariaDb(server) => server,
            Host::Redis(server, _) => server,
            Host::ZooKeeper(server) => server,
            Host::Kubernetes(server) => server,
            Host::Etcd(server) => server,
            #[cfg(feature = "provider")]
            Host::MongoDb(server) => server,
            #[cfg(feature = "provider")]
            Host::Example(server) => server,
        }
    }

    /// Returns the store; a file has none.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        self.store.as_deref()
    }

    pub(super) fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Returns the words in which every request names the lock; where a lock is read before, those of every write.
    pub(super) fn needle(&self, name: &str) -> Vec<u8> {
        match self.backend {
            // MySQL gets the name in hexadecimal digits.
            Backend::MariaDb => name.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
            Backend::ZooKeeper => WRITING.to_vec(),
            Backend::Kubernetes => HOLDING.to_vec(),
            #[cfg(feature = "provider")]
            Backend::MongoDb => LOCKING.to_vec(),
            #[cfg(feature = "provider")]
            Backend::Example => ASKING_TO_WRITE.to_vec(),
            // etcd gets the name in base64.
            Backend::Etcd => b"request_put".to_vec(),
            _ => name.as_bytes().to_vec(),
        }
    }

    /// Returns what becomes of a request in flight. A store that is read before it is written gets its own old time with a
    /// release that was decided before its clock moved, and keeps the lock until then. In this matrix such a release is lost on
    /// its way, and decided again.
    pub(super) fn fate(&self, phase: Phase) -> Fate {
        let reads_first = self.store().is_some_and(Store::in_one_record);
        match (self.fault, phase) {
            (Fault::ClockMovedBack, Phase::Releasing) if reads_first => Fate::Broken,
            (fault, _) => fault.fate(),
        }
    }

    /// Makes the server forget every lock; a row is deleted by name.
    pub(super) fn forget(&self, names: &[&str]) {
        match (&self.host, &self.store) {
            (Host::Redis(_, database), _) => drop(database.cli(&["flushdb"])),
            (_, Some(store)) => names.iter().for_each(|name| store.delete(name)),
            (_, None) => {}
        }
    }
}
