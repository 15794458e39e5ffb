//! The matrix: applications of the Java library beside shedlock, each a row that a test asserts. `docs/java.md` shows it.

use std::sync::OnceLock;

use super::cases;
use servers::MariaDb;
use servers::stores::{EtcdStore, MariaDbStore, MongoDbStore, PostgresStore, RedisStore, ZooKeeperStore};

/// A way to set up an application and its store, and what comes of it.
pub(super) struct Row {
    pub(super) provider: Provider,
    pub(super) setting: Setting,
    pub(super) store: Kept,
    /// The time zone of the application's JVM.
    pub(super) zone: &'static str,
    pub(super) table: Table,
    /// Where another application lives that counts beside it.
    pub(super) beside: Option<&'static str>,
    pub(super) promise: Promise,
}

/// A provider of the library: its name in the documents, that in tests/java/Providers.java, and where its version is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Provider {
    pub(super) shown: &'static str,
    party: &'static str,
    /// Its artifact, and the file in tests/java that names the version; none for one that cannot be fetched, whose
    /// statements are replayed.
    pub(super) version: Option<(&'static str, &'static str)>,
    extends: bool,
}

/// The settings of an application, and the mode in tests/java/Providers.java that makes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) shown: &'static str,
    mode: &'static str,
}

/// Where the locks are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Postgres,
    /// The columns are `timestamptz`.
    PostgresWithZones,
    /// A server in a time zone.
    MariaDb(&'static str),
    /// The same, and it may be MySQL.
    MySql(&'static str),
    Redis,
    /// It may be Valkey.
    Valkey,
    MongoDb,
    ZooKeeper,
    Etcd,
}

/// The side that has made the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Ours,
    Java,
    /// The store has none.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Both exclude each other in all cases, as far as the application is not late.
    Exclude(Late),
    /// The application's clock is ahead: it runs beside our jobs, and its locks last too long for us.
    Ahead,
    /// The application's clock is behind: our jobs run beside it, and our locks last too long for it.
    Behind,
}

/// The effect of a late application on the lock of the next holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    Harmless,
    /// It frees the lock when it releases its own.
    Frees,
    /// It does that, and takes the lock over when it extends its own.
    Takes,
}

const fn provider(shown: &'static str, party: &'static str, artifact: &'static str, file: &'static str) -> Provider {
    Provider { shown, party, version: Some((artifact, file)), extends: true }
}

const fn replayed(shown: &'static str, party: &'static str) -> Provider {
    Provider { shown, party, version: None, extends: true }
}

const fn without_extension(provider: Provider) -> Provider {
    Provider { extends: false, ..provider }
}

const TEMPLATE: Provider = provider("JdbcTemplate", "jdbc-template", "shedlock-provider-jdbc-template", "pom.xml");
const JDBC: Provider = provider("plain JDBC", "jdbc", "shedlock-provider-jdbc", "older.xml");
const SPRING_JEDIS: Provider =
    provider("Spring Data Redis over Jedis", "spring-jedis", "shedlock-provider-redis-spring", "pom.xml");
const SPRING_LETTUCE: Provider =
    provider("Spring Data Redis over Lettuce", "spring-lettuce", "shedlock-provider-redis-spring", "pom.xml");
const JEDIS: Provider = provider("Jedis", "jedis", "shedlock-provider-redis-jedis4", "jedis.xml");
const MONGODB: Provider = provider("MongoDB's driver", "mongodb", "shedlock-provider-mongo", "pom.xml");
const CURATOR: Provider =
    without_extension(provider("Curator", "zookeeper", "shedlock-provider-zookeeper-curator", "zookeeper.xml"));
const JOOQ: Provider = replayed("jOOQ", "jooq");
const EXPOSED: Provider = replayed("Exposed", "exposed");
const JETCD: Provider = without_extension(replayed("jetcd", "etcd"));

const fn setting(shown: &'static str, mode: &'static str) -> Setting {
    Setting { shown, mode }
}

const DATABASE_TIME: Setting = setting(", `usingDbTime()`", "database-time");
const CONNECTOR_J: Setting = setting(", `usingDbTime()`, Connector/J", "database-time connector-j");
const FORCED_UTC: Setting = setting(", `forceUtcTimeZone()`", "forced-utc");
const ZONE_UTC: Setting = setting(", `withTimeZone()` of UTC", "zone-utc");
const OWN_TIME: Setting = setting("", "own-time");
const EAST: Setting =
    setting(", `usingDbTime()`, `sessionVariables=time_zone='+02:00'`", "database-time session +02:00");
const UTC: Setting =
    setting(", `usingDbTime()`, `sessionVariables=time_zone='+00:00'`", "database-time session +00:00");
const FORCED_EAST: Setting = setting(
    ", `usingDbTime()`, Connector/J with `forceConnectionTimeZoneToSession=true&connectionTimeZone=+02:00`",
    "database-time connector-j forced +02:00",
);
const SAFE: Setting = setting(", `safeUpdate(true)`", "safe");
const NONE: Setting = setting("", "");

const TOKYO: &str = "Asia/Tokyo";
const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const IN_UTC: &str = "UTC";
/// The same by another name, for another JVM.
const IN_UTC_TOO: &str = "Etc/UTC";

/// Returns a row with shedlock's own table, if there is one, and where a late application does no harm.
const fn row(provider: Provider, setting: Setting, store: Kept, zone: &'static str) -> Row {
    let table = match store {
        Kept::Postgres | Kept::PostgresWithZones | Kept::MariaDb(_) | Kept::MySql(_) => Table::Ours,
        _ => Table::None,
    };
    Row { provider, setting, store, zone, table, beside: None, promise: Promise::Exclude(Late::Harmless) }
}

impl Row {
    const fn in_a_table_of_java(self) -> Self {
        Self { table: Table::Java, ..self }
    }

    const fn beside(self, zone: &'static str) -> Self {
        Self { beside: Some(zone), ..self }
    }

    const fn late(self, late: Late) -> Self {
        Self { promise: Promise::Exclude(late), ..self }
    }

    const fn ahead(self) -> Self {
        Self { promise: Promise::Ahead, ..self }
    }

    const fn behind(self) -> Self {
        Self { promise: Promise::Behind, ..self }
    }

    /// Returns the words that start the application.
    pub(super) fn party(&self) -> [&'static str; 2] {
        [self.provider.party, self.setting.mode]
    }

    /// Returns whether the provider can extend a lock.
    pub(super) fn extends(&self) -> bool {
        self.provider.extends
    }

    /// Returns a name in other scripts than the Latin one; ZooKeeper has only those of its basic plane.
    pub(super) fn scripts(&self) -> &'static str {
        if self.store == Kept::ZooKeeper { "naïve 日本語" } else { "naïve 日本語 😀" }
    }

    /// Asserts what it says.
    fn check(&self) {
        match self.store {
            Kept::Postgres => cases::check(self, PostgresStore::new(), |_| ()),
            Kept::PostgresWithZones => cases::check(self, PostgresStore::new(), |store| {
                for column in ["lock_until", "locked_at"] {
                    store.0.psql(&format!("alter table shedlock alter {column} type timestamptz"));
                }
            }),
            Kept::MariaDb(zone) | Kept::MySql(zone) => cases::check(self, mariadb_at(zone), |_| ()),
            // It has no setting for the prefix.
            Kept::Redis if self.provider == JEDIS => cases::check(self, RedisStore::with_usual_prefix(), |_| ()),
            Kept::Redis | Kept::Valkey => cases::check(self, RedisStore::new(), |_| ()),
            Kept::MongoDb => cases::check(self, MongoDbStore::new(), |_| ()),
            Kept::ZooKeeper => cases::check(self, ZooKeeperStore::new(), |_| ()),
            Kept::Etcd => cases::check(self, EtcdStore::new(), |_| ()),
        }
    }
}

/// Returns a database of a server in this zone, which can have all names.
fn mariadb_at(zone: &str) -> MariaDbStore {
    static WEST: OnceLock<MariaDb> = OnceLock::new();
    let database = match zone {
        "+00:00" => servers::mariadb().database(),
        "+02:00" => servers::mariadb_tls().database(),
        _ => WEST.get_or_init(|| MariaDb::fresh(&["--default-time-zone=-05:00"])).database(),
    };
    // In Debian's latin1 the library inserts a name as `???` and takes that for its own.
    database.mariadb(&format!("alter database {} character set utf8mb4", database.name));
    assert_eq!(database.mariadb("select @@time_zone"), zone);
    MariaDbStore(database)
}

/// Makes a test of each row, and the list of them, so that no row is shown that is not tested, and none tested that is not
/// shown. What is in the modules `mariadb`, `redis` and `etcd` also runs on other servers, see tests/run.
macro_rules! matrix {
    ($($(#[$feature:meta])? $module:ident { $($test:ident: $row:expr;)* })*) => {
        $(
            $(#[$feature])?
            mod $module {
                use super::*;
                $(
                    #[test]
                    fn $test() {
                        $row.check();
                    }
                )*
            }
        )*

        /// All rows.
        pub(super) const MATRIX: &[Row] = &[$($($row),*),*];
    };
}

matrix! {
    // In databases and keys of their own, on the servers that the tests begin with.
    postgres {
        database_time_in_tokyo: row(TEMPLATE, DATABASE_TIME, Kept::Postgres, TOKYO).beside(NEW_YORK);
        database_time_in_berlin: row(TEMPLATE, DATABASE_TIME, Kept::Postgres, BERLIN).in_a_table_of_java();
        database_time_in_new_york: row(TEMPLATE, DATABASE_TIME, Kept::Postgres, NEW_YORK).in_a_table_of_java();
        forced_utc: row(TEMPLATE, FORCED_UTC, Kept::Postgres, NEW_YORK).in_a_table_of_java();
        own_time_in_utc: row(TEMPLATE, OWN_TIME, Kept::Postgres, IN_UTC);
        own_time_in_tokyo: row(TEMPLATE, OWN_TIME, Kept::Postgres, TOKYO).ahead();
        own_time_in_new_york: row(TEMPLATE, OWN_TIME, Kept::Postgres, NEW_YORK).behind();
        plain_jdbc: row(JDBC, NONE, Kept::Postgres, IN_UTC).in_a_table_of_java().late(Late::Frees).beside(IN_UTC_TOO);
        zones_and_own_time: row(TEMPLATE, OWN_TIME, Kept::PostgresWithZones, TOKYO);
        zones_and_database_time_in_utc: row(TEMPLATE, DATABASE_TIME, Kept::PostgresWithZones, IN_UTC);
        zones_and_database_time_in_tokyo: row(TEMPLATE, DATABASE_TIME, Kept::PostgresWithZones, TOKYO).behind();
        zones_and_database_time_in_new_york: row(TEMPLATE, DATABASE_TIME, Kept::PostgresWithZones, NEW_YORK).ahead();
    }
    mariadb {
        database_time: row(TEMPLATE, DATABASE_TIME, Kept::MySql("+00:00"), BERLIN).in_a_table_of_java().beside(TOKYO);
        database_time_with_mysql_s_driver: row(TEMPLATE, CONNECTOR_J, Kept::MySql("+00:00"), NEW_YORK);
        session_forced_east_of_the_server: row(TEMPLATE, FORCED_EAST, Kept::MySql("+00:00"), IN_UTC).behind();
        session_east_of_the_server: row(TEMPLATE, EAST, Kept::MySql("+00:00"), IN_UTC).behind();
    }
    only_mariadb {
        database_time_in_tokyo: row(TEMPLATE, DATABASE_TIME, Kept::MariaDb("+00:00"), TOKYO);
        database_time_in_new_york: row(TEMPLATE, DATABASE_TIME, Kept::MariaDb("+02:00"), NEW_YORK).in_a_table_of_java();
        zone_utc: row(TEMPLATE, ZONE_UTC, Kept::MariaDb("+00:00"), TOKYO);
        own_time_in_tokyo: row(TEMPLATE, OWN_TIME, Kept::MariaDb("+00:00"), TOKYO).ahead();
        own_time_in_new_york: row(TEMPLATE, OWN_TIME, Kept::MariaDb("+00:00"), NEW_YORK).behind();
        plain_jdbc: row(JDBC, NONE, Kept::MariaDb("+00:00"), IN_UTC).late(Late::Frees);
        session_west_of_the_server: row(TEMPLATE, UTC, Kept::MariaDb("+02:00"), IN_UTC).ahead();
    }
    redis {
        spring_safe: row(SPRING_JEDIS, SAFE, Kept::Valkey, BERLIN);
    }
    only_redis {
        spring: row(SPRING_JEDIS, NONE, Kept::Redis, TOKYO).late(Late::Takes).beside(NEW_YORK);
        spring_over_lettuce: row(SPRING_LETTUCE, SAFE, Kept::Redis, NEW_YORK);
        jedis: row(JEDIS, NONE, Kept::Redis, TOKYO).late(Late::Takes);
    }
    #[cfg(feature = "provider")]
    only_mongodb {
        driver: row(MONGODB, NONE, Kept::MongoDb, NEW_YORK).late(Late::Frees).beside(TOKYO);
    }
    #[cfg(feature = "zookeeper")]
    only_zookeeper {
        curator: row(CURATOR, NONE, Kept::ZooKeeper, TOKYO).late(Late::Frees).beside(BERLIN);
    }
    replayed {
        jooq_in_tokyo: row(JOOQ, NONE, Kept::Postgres, TOKYO).ahead();
        jooq_in_new_york: row(JOOQ, NONE, Kept::Postgres, NEW_YORK).behind();
        jooq_in_utc: row(JOOQ, NONE, Kept::Postgres, IN_UTC);
        jooq_and_zones: row(JOOQ, NONE, Kept::PostgresWithZones, TOKYO);
        jooq_and_a_server_in_utc: row(JOOQ, NONE, Kept::MariaDb("+00:00"), TOKYO);
        jooq_and_a_server_in_the_east: row(JOOQ, NONE, Kept::MariaDb("+02:00"), IN_UTC).ahead();
        jooq_and_a_server_in_the_west: row(JOOQ, NONE, Kept::MariaDb("-05:00"), IN_UTC).behind();
        exposed_in_tokyo: row(EXPOSED, NONE, Kept::Postgres, TOKYO).ahead();
        exposed_in_new_york: row(EXPOSED, NONE, Kept::Postgres, NEW_YORK).behind();
        exposed_in_utc: row(EXPOSED, NONE, Kept::Postgres, IN_UTC);
        exposed_and_zones: row(EXPOSED, NONE, Kept::PostgresWithZones, TOKYO);
        exposed_and_a_server_in_utc: row(EXPOSED, NONE, Kept::MariaDb("+00:00"), TOKYO);
        exposed_and_a_server_in_the_east: row(EXPOSED, NONE, Kept::MariaDb("+02:00"), IN_UTC).ahead();
        exposed_and_a_server_in_the_west: row(EXPOSED, NONE, Kept::MariaDb("-05:00"), IN_UTC).behind();
    }
    #[cfg(feature = "etcd")]
    only_etcd {
        jetcd: row(JETCD, NONE, Kept::Etcd, TOKYO);
    }
}
