//! The tests that the Java library has for its own providers, over a provider that calls `shedlock acquire`, `extend` and
//! `release`: which of them pass on each backend, and why the others cannot. Version 6.6.1 has the sixteen that are named
//! here. Later ones have `unlockedLockShouldSurviveCacheClearingInTheMiddle` too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use crate::documents::shown::is_shown;
use crate::support::per_backend::Site;
use crate::support::process::under;
use crate::support::repository::text;
use crate::support::{finish_in_time, finish_within};
use servers::stores::{MariaDbStore, PostgresStore, RedisStore, SqliteStore, Store};

/// The library's tests.
const TESTS: [&str; 16] = [
    "fuzzTestShouldPass",
    "lockCanNotBeExtendedTwice",
    "lockCanNotBeUnlockedAfterExtending",
    "lockShouldSurviveCacheClearingInTheMiddle",
    "shouldBeAbleToExtendAtLeast",
    "shouldBeAbleToExtendLock",
    "shouldBeAbleToExtendMultipleTimes",
    "shouldBeAbleToLockRightAfterUnlock",
    "shouldCreateLock",
    "shouldCreateTwoIndependentLocks",
    "shouldLockAtLeastFor",
    "shouldLockTwiceInARow",
    "shouldNotBeAbleToExtendExpiredLock",
    "shouldNotBeAbleToExtendUnlockedLock",
    "shouldNotReturnSecondLock",
    "shouldTimeout",
];

/// How many locks each thread of the fuzz test takes one after the other.
const ROUNDS: u32 = 10;

/// How many it takes with the library's own providers.
const ROUNDS_OF_THE_LIBRARY: u32 = 100;

/// How long the tests may take. They are done in seconds unless something is broken.
const PATIENCE: Duration = Duration::from_secs(180);

/// A test that cannot pass.
struct Cannot {
    test: &'static str,
    /// The message of the failed test.
    says: &'static str,
    why: &'static str,
}

const EXTEND_AT_LEAST: Cannot = Cannot {
    test: "shouldBeAbleToExtendAtLeast",
    says: "failed: expected: <held> but was: <free>",
    why: "`shedlock extend` does not move at-least",
};

const FUZZ: Cannot = Cannot {
    test: "fuzzTestShouldPass",
    says: "aborted: Assumption failed: not run",
    why: "not run where each of its hundreds of locks lasts a second or two",
};

/// The expected results of the library's tests on a backend.
struct Kit {
    backend: &'static str,
    /// How much later than asked for its locks may end, for which the tests then wait.
    late: Duration,
    rounds: u32,
    cannot: &'static [Cannot],
}

const SQLITE: Kit = exact("SQLite");
const POSTGRES: Kit = exact("PostgreSQL");
const MARIADB: Kit = exact("MariaDB");
const REDIS: Kit = exact("Redis");
const ETCD: Kit = in_seconds("etcd");
const KUBERNETES: Kit = in_seconds("Kubernetes");
const MONGODB: Kit = exact("MongoDB");
const ZOOKEEPER: Kit = exact("ZooKeeper");

/// Returns a backend whose locks end at the millisecond.
const fn exact(backend: &'static str) -> Kit {
    Kit { backend, late: Duration::ZERO, rounds: ROUNDS, cannot: &[EXTEND_AT_LEAST] }
}

/// Returns a backend whose locks end up to two seconds late.
const fn in_seconds(backend: &'static str) -> Kit {
    Kit { backend, late: Duration::from_secs(2), rounds: 0, cannot: &[EXTEND_AT_LEAST, FUZZ] }
}

impl Kit {
    /// Returns each test with what has to come of it.
    fn expected(&self) -> BTreeMap<String, String> {
        let line = |test: &str| match self.cannot.iter().find(|cannot| cannot.test == test) {
            Some(cannot) => cannot.says.to_owned(),
            None => "passed".to_owned(),
        };
        TESTS.iter().map(|&test| (test.to_owned(), line(test))).collect()
    }

    /// Runs the library's tests: each passes that can, and each that cannot says so.
    fn passes<S: Store>(&self, store: S) {
        let site = Site::new(store);
        let made = finish_in_time(&mut site.shedlock(&["init"]));
        assert_eq!(made.code(), Some(0), "{made:?}");
        let words = [self.late.as_millis().to_string(), self.rounds.to_string()];
        let java: Vec<String> = servers::kit().into_iter().chain(words).collect();
        let told = finish_within(PATIENCE, &mut under(&java, &site.shedlock(&[])));
        assert_eq!((told.code(), told.stderr.as_str()), (Some(0), ""), "{}", told.stdout);
        let told: BTreeMap<String, String> = told.stdout.lines().map(outcome).collect();
        assert_eq!(told, self.expected());
    }
}

/// Returns the name of a test, and what came of it.
fn outcome(line: &str) -> (String, String) {
    let (outcome, test) = line.split_once(' ').unwrap_or((line, ""));
    let (test, why) = test.split_once(": ").map_or((test, String::new()), |(test, why)| (test, format!(": {why}")));
    (test.to_owned(), format!("{outcome}{why}"))
}

#[test]
fn sqlite() {
    SQLITE.passes(SqliteStore::new());
}

#[test]
fn postgres() {
    POSTGRES.passes(PostgresStore::new());
}

#[test]
fn mariadb() {
    MARIADB.passes(MariaDbStore::new());
}

#[test]
fn redis() {
    REDIS.passes(RedisStore::new());
}

#[cfg(feature = "etcd")]
#[test]
fn etcd() {
    ETCD.passes(servers::stores::EtcdStore::new());
}

#[cfg(feature = "kubernetes")]
#[test]
fn kubernetes() {
    KUBERNETES.passes(servers::stores::KubernetesStore::new());
}

#[cfg(feature = "provider")]
#[test]
fn mongodb() {
    MONGODB.passes(servers::stores::MongoDbStore::new());
}

#[cfg(feature = "zookeeper")]
#[test]
fn zookeeper() {
    ZOOKEEPER.passes(servers::stores::ZooKeeperStore::new());
}

/// A race so narrow that few rounds miss it is seen by many. On Kubernetes these would take seven minutes.
#[test]
#[ignore = "it takes minutes: hundreds of locks, and eight processes at a time that ask for them"]
fn with_as_many_rounds_as_the_library() {
    fn passes<S: Store>(kit: &Kit, store: S) {
        Kit { rounds: ROUNDS_OF_THE_LIBRARY, ..*kit }.passes(store);
    }
    passes(&SQLITE, SqliteStore::new());
    passes(&POSTGRES, PostgresStore::new());
    passes(&MARIADB, MariaDbStore::new());
    passes(&REDIS, RedisStore::new());
    #[cfg(feature = "provider")]
    passes(&MONGODB, servers::stores::MongoDbStore::new());
    #[cfg(feature = "zookeeper")]
    passes(&ZOOKEEPER, servers::stores::ZooKeeperStore::new());
}

#[test]
fn the_document_says_which_pass() {
    let kits = [SQLITE, POSTGRES, MARIADB, REDIS, ETCD, KUBERNETES, MONGODB, ZOOKEEPER];
    let mut made = String::new();
    let numbers: BTreeSet<usize> = kits.iter().map(|kit| TESTS.len() - kit.cannot.len()).collect();
    for number in numbers.into_iter().rev() {
        let passing = kits.iter().filter(|kit| TESTS.len() - kit.cannot.len() == number);
        let names: Vec<&str> = passing.map(|kit| kit.backend).collect();
        writeln!(made, "* {number} of {} pass on {}.", TESTS.len(), names.join(", ")).unwrap();
    }
    for cannot in [EXTEND_AT_LEAST, FUZZ] {
        writeln!(made, "* `{}`: {}.", cannot.test, cannot.why).unwrap();
    }
    is_shown("docs/java.md", "the library's own tests", &made);
    let fetched = text("tests/java/kit.xml");
    let kit = fetched.split_once("<artifactId>shedlock-test-support</artifactId>").unwrap().1;
    let version = kit.split_once("<version>").unwrap().1.split_once("</version>").unwrap().0;
    assert!(text("docs/java.md").contains(&format!("those of version {version}")), "docs/java.md: {version}");
}
