//! The store of the lock: a private server that outlives its own death, or a file; and what can be done to it.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::plan::NAME;
use super::world::ADDRESS;
use servers::stores::{KubernetesStore, MongoDbStore, Store as _, ZooKeeperLocks};
use servers::{
    EtcdCluster, Front, Kubernetes, MariaDb, MariaDbDatabase, MongoDb, Postgres, PostgresDatabase, Redis,
    RedisDatabase, Script, Server, ZooKeeperEnsemble,
};

/// Who takes the lock away.
const THIEF: &str = "thief:1:0123456789abcdef";

/// By how many seconds the clock of etcd's first member is ahead, which is the one that every run asks first: half of the
/// longest lease.
const AHEAD: i64 = 3;
/// What a cluster consists of.
const MEMBERS: usize = 3;

pub(crate) enum Store {
    Sqlite {
        url: String,
        file: String,
        busy: Option<Connection>,
    },
    Postgres(Postgres, PostgresDatabase),
    MariaDb(MariaDb, MariaDbDatabase),
    Redis(Redis, RedisDatabase),
    /// Its members, and the ports before them that tell their clocks.
    Etcd(EtcdCluster, Vec<Front>),
    ZooKeeper(ZooKeeperEnsemble, Script),
    Kubernetes(Kubernetes, KubernetesStore),
    MongoDb(MongoDb, MongoDbStore),
}

/// What is struck of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    /// One of those that make a cluster.
    Member(usize),
}

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    Stop,
    Freeze,
}

impl Store {
    /// Makes the store. A server still knows after kill -9 what it has answered: no more is asked of its disk.
    pub(crate) fn new(kind: &str, directory: &Path) -> Option<Self> {
        Some(match kind {
            "sqlite" => {
                let file = directory.join("locks.db").display().to_string();
                Self::Sqlite { url: format!("sqlite:{file}"), file, busy: None }
            }
            "postgres" => {
                let server = Postgres::fresh(&["listen_addresses=*"]);
                let access = server.path().join("data/pg_hba.conf");
                let text = std::fs::read_to_string(&access).unwrap();
                std::fs::write(&access, format!("{text}\nhost all all 10.99.0.0/24 trust\n")).unwrap();
                server.psql("select pg_reload_conf()");
                let database = server.database();
                Self::Postgres(server, database)
            }
            "mariadb" => {
                let server = MariaDb::fresh(&[
                    "--bind-address=*",
                    "--innodb-flush-log-at-trx-commit=1",
                    "--innodb-doublewrite=1",
                ]);
                server.mariadb("create user root@'10.99.0.%'; grant all on *.* to root@'10.99.0.%'");
                let database = server.database();
                Self::MariaDb(server, database)
            }
            "redis" => {
                let lasting = ["--appendonly", "yes", "--appendfsync", "always"];
                let open = ["--bind", "127.0.0.1", ADDRESS, "--protected-mode", "no"];
                let server = Redis::fresh(&[open.as_slice(), &lasting].concat());
                let database = server.database();
                Self::Redis(server, database)
            }
            // What it has answered outlives the process also without waiting for the disk.
            "etcd" => {
                let cluster = EtcdCluster::fresh();
                let fronts = cluster.fronts("0.0.0.0");
                fronts[0].set_clock(AHEAD);
                Self::Etcd(cluster, fronts)
            }
            "zookeeper" => {
                let ensemble = ZooKeeperEnsemble::for_everybody();
                let client = ensemble.client();
                Self::ZooKeeper(ensemble, client)
            }
            "kubernetes" => {
                let server = Kubernetes::fresh(&["--bind-address=0.0.0.0", &format!("--advertise-address={ADDRESS}")]);
                let store = KubernetesStore(server.namespace());
                Self::Kubernetes(server, store)
            }
            "mongodb" => {
                let server = MongoDb::for_everybody();
                let store = MongoDbStore::of(&server);
                Self::MongoDb(server, store)
            }
            _ => return None,
        })
    }

    /// Returns the URL by which the hosts reach it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite { url, .. } => url.clone(),
            Self::Postgres(_, database) => database.url_at(ADDRESS),
            Self::MariaDb(_, database) => database.url_at(ADDRESS),
            Self::Redis(_, database) => database.url_at(ADDRESS),
            Self::Etcd(_, fronts) => {
                let hosts: Vec<_> = fronts.iter().map(|front| format!("{ADDRESS}:{}", front.port())).collect();
                format!("etcd://{}", hosts.join(","))
            }
            Self::ZooKeeper(ensemble, _) => format!("zookeeper://{}", ensemble.hosts()).replace("127.0.0.1", ADDRESS),
            Self::MongoDb(_, store) => store.url().replace("127.0.0.1", ADDRESS),
            // The certificate is for other addresses.
            Self::Kubernetes(_, store) => store.url().replace("127.0.0.1", ADDRESS) + "&sslmode=verify-ca",
        }
    }

    /// Returns whether there is a network before the store.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, Self::Sqlite { .. })
    }

    /// Returns how many servers there are that fail each by itself.
    pub(crate) fn members(&self) -> usize {
        if matches!(self, Self::Etcd(..) | Self::ZooKeeper(..)) { MEMBERS } else { 0 }
    }

    pub(crate) fn strike(&self, part: Part, blow: Blow) {
        for place in part.places(self) {
            match blow {
                Blow::Kill => self.server(place).kill(),
                Blow::Stop => self.server(place).stop(),
                Blow::Freeze => self.server(place).freeze(),
            }
        }
    }

    /// Brings back what was struck.
    pub(crate) fn mend(&self, part: Part, blow: Blow) {
        for place in part.places(self) {
            match blow {
                Blow::Freeze => self.server(place).thaw(),
                _ => self.server(place).start(),
            }
        }
        // Members start before they have found each other.
        match self {
            Self::Etcd(cluster, _) => drop(cluster.leader()),
            Self::ZooKeeper(ensemble, _) => drop(ensemble.leader()),
            _ => {}
        }
    }

    /// Sets the clock of one of etcd's members to so many seconds behind that of the first; says whether that was done.
    pub(crate) fn set_clock(&self, member: u64, behind: u64) -> bool {
        let Self::Etcd(_, fronts) = self else { return false };
        fronts[usize::try_from(member).unwrap()].set_clock(AHEAD - i64::try_from(behind).unwrap());
        true
    }

    /// Returns one of the store's servers, which can be reached as long as it runs.
    fn server(&self, place: usize) -> &Server {
        match self {
            Self::Sqlite { .. } => unreachable!("a file has no server"),
            Self::Etcd(cluster, _) => cluster.members[place].deref(),
            Self::Postgres(server, _) => server.deref(),
            Self::MariaDb(server, _) => server.deref(),
            Self::Redis(server, _) => server.deref(),
            Self::ZooKeeper(ensemble, _) => ensemble.members[place].deref(),
            Self::Kubernetes(server, _) => server.deref(),
            Self::MongoDb(server, _) => server.deref(),
        }
    }

    /// Sets another owner for a lock that is held, until the same time; says whether it was held.
    pub(crate) fn steal(&self) -> bool {
        let stolen = match self {
            Self::Sqlite { .. } => self.write(&format!(
                "UPDATE shedlock SET locked_by = '{THIEF}' WHERE name = '{NAME}' \
                 AND lock_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') RETURNING 'done'"
            )),
            Self::Postgres(_, database) => database.try_psql(&format!(
                "set lock_timeout = '1s'; update shedlock set locked_by = '{THIEF}' where name = '{NAME}' \
                 and lock_until > timezone('utc', clock_timestamp()) returning 'done'"
            )),
            Self::MariaDb(_, database) => database.try_mariadb(&format!(
                "set innodb_lock_wait_timeout = 1; update shedlock set locked_by = '{THIEF}', lock_until = lock_until, locked_at = locked_at \
                 where name = '{NAME}' and lock_until > utc_timestamp(3); select if(row_count() = 1, 'done', '')"
            )),
            Self::Redis(_, database) => database.try_cli(&[
                "eval",
                "local v = redis.call('get', KEYS[1]) if not v then return '' end \
                 redis.call('set', KEYS[1], string.match(v, '^[^@]*@') .. ARGV[1], 'keepttl') return 'done'",
                "1",
                &format!("job-lock:default:{NAME}"),
                THIEF,
            ]),
            Self::Etcd(cluster, _) => cluster.members[0].client().try_steal(&format!("shedlock:default:{NAME}"), THIEF),
            Self::ZooKeeper(_, client) => ZooKeeperLocks { client, chroot: "" }.try_steal(NAME, THIEF),
            Self::Kubernetes(_, store) => store.try_steal(NAME, THIEF),
            Self::MongoDb(_, store) => store.try_steal(NAME, THIEF),
        };
        stolen.is_ok_and(|answer| answer.contains("done"))
    }

    /// Has the store forget that the lock is held, as Redis does when it is flushed; says whether that was done.
    pub(crate) fn forget(&self) -> bool {
        match self {
            Self::Sqlite { .. } => self.write(&format!(
                "UPDATE shedlock SET lock_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE name = '{NAME}' RETURNING 'done'"
            )),
            Self::Postgres(_, database) => database.try_psql(&format!(
                "set lock_timeout = '1s'; update shedlock set lock_until = timezone('utc', clock_timestamp()) where name = '{NAME}'"
            )),
            Self::MariaDb(_, database) => database.try_mariadb(&format!(
                "set innodb_lock_wait_timeout = 1; update shedlock set lock_until = utc_timestamp(3), locked_at = locked_at where name = '{NAME}'"
            )),
            Self::Redis(_, database) => database.try_cli(&["flushall"]),
            Self::Etcd(cluster, _) => cluster.members[0].client().try_delete(&format!("shedlock:default:{NAME}")),
            // As an application of the Java library does that releases too late.
            Self::ZooKeeper(_, client) => ZooKeeperLocks { client, chroot: "" }.try_free(NAME),
            Self::MongoDb(_, store) => store.try_free(NAME),
            Self::Kubernetes(_, store) => store.try_free(NAME),
        }
        .is_ok()
    }

    /// Keeps everybody from writing to a file, until [`Store::let_go`]; no other store.
    pub(crate) fn keep_busy(&mut self) -> bool {
        let Self::Sqlite { file, busy, .. } = self else { return false };
        let connection = Connection::open(&*file).unwrap();
        connection.busy_timeout(Duration::from_secs(1)).unwrap();
        let kept = connection.execute_batch("BEGIN IMMEDIATE").is_ok();
        *busy = kept.then_some(connection);
        kept
    }

    pub(crate) fn let_go(&mut self) {
        if let Self::Sqlite { busy, .. } = self {
            *busy = None;
        }
    }

    fn write(&self, sql: &str) -> Result<String, String> {
        let Self::Sqlite { file, .. } = self else { return Err("not a file".to_owned()) };
        let connection = Connection::open(file).unwrap();
        connection.busy_timeout(Duration::from_secs(1)).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).map_err(|error| error.to_string())
    }
}

impl Part {
    /// Returns which of the servers the part is; a single one is the first.
    fn places(self, store: &Store) -> std::ops::Range<usize> {
        match self {
            Self::All => 0..store.members().max(1),
            Self::Member(place) => place..place + 1,
        }
    }
}
