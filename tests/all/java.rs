//! The real Java library ShedLock and shedlock, at the same locks: an application of the library for each way in which it can
//! be set up, and what each of the two sees of the other. Each test starts Java once, which takes a while, and has all cases.

mod kit;
mod shown;

use std::process::Child;
use std::thread;
use std::time::Duration;

use super::site::Site;
use super::support::process::under;
use super::support::{Finished, finish, finish_child, finish_in_time, start, wait_until};
use servers::Party;
use servers::stores::{MariaDbStore, PostgresStore, RedisStore, Store};

const MINUTE: u32 = 60_000;

/// The effect of a late application on the lock of the next holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    Harmless,
    /// It frees the lock when it releases its own.
    Frees,
    /// It does that, and takes the lock over when it extends its own.
    Takes,
}

/// A store that shedlock and an application in Java share.
struct Shared<S> {
    site: Site<S>,
    java: Party,
    late: Late,
}

impl<S: Store> Shared<S> {
    /// Runs all cases. Java makes nothing, so the table has to be there.
    fn all_cases(&self) {
        self.cases_without_extension();
        self.an_extended_lock_is_held_longer();
        self.what_java_extends_too_late();
        self.odd_names_are_the_same_lock(&["naïve 日本語 😀"]);
    }

    /// Runs those in which Java extends nothing, which not every provider can.
    fn cases_without_extension(&self) {
        self.the_lock_of_java_refuses_us_until_it_is_released();
        self.our_lock_refuses_java_until_it_is_released();
        self.at_least_is_kept_by_both();
        self.a_renewed_lease_refuses_java();
        self.a_lock_of_java_that_expires_is_ours();
        self.a_lock_of_ours_that_expires_is_java_s_whatever_we_do();
        self.what_java_releases_too_late();
        self.a_first_taking_has_one_winner();
    }

    /// Our answer to whether the lock can be had.
    fn we_get(&self, name: &str) -> bool {
        let told = finish_in_time(&mut self.site.run_or_75(name, &["true"]));
        assert!(matches!(told.code(), Some(0 | 75)) && told.stderr.is_empty(), "{told:?}");
        told.code() == Some(0)
    }

    /// Java's answer to the same.
    fn java_gets(&self, name: &str) -> bool {
        let gets = self.java.locks(name, MINUTE, 0);
        if gets {
            self.java.unlocks(name);
        }
        gets
    }

    fn tell(&self, words: &[&str]) -> Finished {
        finish_in_time(&mut self.site.shedlock(words))
    }

    /// Takes a lock for a script, and returns its handle; `None` where another has it.
    fn acquire(&self, name: &str, at_most: &str) -> Option<String> {
        handle(&self.tell(&["acquire", "--name", name, "--at-most", at_most]))
    }

    /// Java takes a lock, and is late with it: it is ours now.
    fn taken_from_java(&self, name: &str) -> String {
        assert!(self.java.locks(name, 200, 0));
        wait_until("the lock to be ours", || self.acquire(name, "1m"))
    }

    fn the_lock_of_java_refuses_us_until_it_is_released(&self) {
        assert!(self.java.locks("java's", MINUTE, 0));
        assert!(!self.java.locks("java's", MINUTE, 0));
        assert!(!self.we_get("java's"));
        self.java.unlocks("java's");
        assert!(self.we_get("java's"));
    }

    fn our_lock_refuses_java_until_it_is_released(&self) {
        let holder = self.site.hold("ours", &[], "true");
        assert!(!self.java_gets("ours"));
        holder.end().is_silent_with(0);
        assert!(self.java_gets("ours"));
    }

    fn at_least_is_kept_by_both(&self) {
        assert!(self.java.locks("at least of java", MINUTE, MINUTE / 2));
        self.java.unlocks("at least of java");
        let stored = self.site.stored("at least of java");
        let left = stored.until - stored.now;
        assert!(left > 0 && left <= i64::from(MINUTE / 2), "{stored:?}");
        assert!(!self.we_get("at least of java"));
        finish(&mut self.site.run("at least of ours", &["--at-least", "30s", "true"])).is_silent_with(0);
        assert!(!self.java_gets("at least of ours"));
    }

    fn an_extended_lock_is_held_longer(&self) {
        assert!(self.java.locks("extended by java", MINUTE / 2, 0));
        assert!(self.java.extends("extended by java", 3 * MINUTE, 0));
        self.lasts_for_more_than_a_minute("extended by java");
        assert!(!self.we_get("extended by java"));
        self.java.unlocks("extended by java");
        assert!(self.we_get("extended by java"));
        let handle = self.acquire("extended by us", "30s").unwrap();
        self.tell(&["extend", "3m", &handle]).is_silent_with(0);
        self.lasts_for_more_than_a_minute("extended by us");
        assert!(!self.java_gets("extended by us"));
        self.tell(&["release", &handle]).is_silent_with(0);
        assert!(self.java_gets("extended by us"));
    }

    #[track_caller]
    fn lasts_for_more_than_a_minute(&self, name: &str) {
        let stored = self.site.stored(name);
        assert!(stored.until - stored.now > i64::from(MINUTE), "{stored:?}");
    }

    fn a_renewed_lease_refuses_java(&self) {
        let holder = self.site.hold("lease", &["--lease", "3s"], "true");
        let first = self.site.stored("lease");
        wait_until("a renewal after the first end", || {
            let stored = self.site.stored("lease");
            (stored.now > first.until && stored.is_held()).then_some(())
        });
        assert!(!self.java_gets("lease"));
        holder.end().is_silent_with(0);
        assert!(self.java_gets("lease"));
    }

    fn a_lock_of_java_that_expires_is_ours(&self) {
        assert!(self.java.locks("expired of java", 500, 0));
        let until = self.site.stored("expired of java").until;
        let waiter = &mut self.site.run("expired of java", &["--wait", "20s", "-E", "75", "true"]);
        finish_in_time(waiter).is_silent_with(0);
        let started = self.site.store.history("expired of java")[0].started;
        assert!(started >= until, "{started} is before {until}");
    }

    fn a_lock_of_ours_that_expires_is_java_s_whatever_we_do(&self) {
        let handle = self.acquire("late of ours", "3s").unwrap();
        let until = self.site.stored("late of ours").until;
        wait_until("Java to get the lock", || self.java.locks("late of ours", MINUTE, 0).then_some(()));
        let taken = self.site.stored("late of ours");
        assert!(taken.since >= until, "{taken:?} is before {until}");
        for words in [&["extend", "5m", &handle][..], &["release", &handle]] {
            self.tell(words).complains(1, "is no longer ours");
        }
        let after = self.site.stored("late of ours");
        assert_eq!((taken.owner, taken.since, taken.until), (after.owner, after.since, after.until));
        assert!(!self.we_get("late of ours"));
        self.java.unlocks("late of ours");
        assert!(self.we_get("late of ours"));
    }

    fn what_java_releases_too_late(&self) {
        let handle = self.taken_from_java("released late");
        self.java.unlocks("released late");
        let released = self.tell(&["release", &handle]);
        match self.late {
            Late::Harmless => released.is_silent_with(0),
            Late::Frees | Late::Takes => released.complains(1, "is no longer ours"),
        }
        assert!(self.java_gets("released late"));
    }

    fn what_java_extends_too_late(&self) {
        let handle = self.taken_from_java("extended late");
        let before = self.site.stored("extended late");
        assert_eq!(self.java.extends("extended late", 3 * MINUTE, 0), self.late == Late::Takes);
        let (after, released) = (self.site.stored("extended late"), self.tell(&["release", &handle]));
        match self.late {
            Late::Harmless | Late::Frees => {
                assert_eq!((before.owner, before.until), (after.owner, after.until));
                released.is_silent_with(0);
            }
            Late::Takes => {
                assert_ne!(before.owner, after.owner);
                released.complains(1, "is no longer ours");
                assert!(!self.we_get("extended late"));
            }
        }
    }

    fn odd_names_are_the_same_lock(&self, others: &[&str]) {
        let longest = "x".repeat(64);
        for name in ["a 'b' \"c\" \\d %e _f", "@:{}[]#?&=;--/*$1", &longest].iter().chain(others) {
            assert!(self.java.locks(name, MINUTE, 0), "{name}");
            assert!(!self.we_get(name), "{name}");
            self.java.unlocks(name);
            let holder = self.site.hold(name, &[], "true");
            assert!(!self.java_gets(name), "{name}");
            holder.end().is_silent_with(0);
            assert!(self.java_gets(name), "{name}");
        }
    }

    fn a_first_taking_has_one_winner(&self) {
        // A shedlock has to start first. Java waits longer after it was first, so that they meet.
        let mut pause = Duration::ZERO;
        for round in 0..24 {
            let name = format!("new {round}");
            let takers: Vec<Child> = (0..2)
                .map(|_| start(&mut self.site.shedlock(&["acquire", "--name", &name, "--at-most", "1m"])))
                .collect();
            thread::sleep(pause);
            let java = self.java.locks(&name, MINUTE, 0);
            let ours = takers.into_iter().filter_map(|taker| handle(&finish_child(taker))).count();
            assert_eq!(usize::from(java) + ours, 1, "{name}");
            let step = Duration::from_millis(3);
            pause = if java { pause + step } else { pause.saturating_sub(step) };
        }
    }

    /// Two applications and four loops of shedlock add to a number that nothing but the lock protects.
    fn a_counter_is_exact(&self, other: &Party) {
        const BY_JAVA: u32 = 60;
        const BY_LOOP: u32 = 20;
        let counter = self.site.place.path("counter");
        std::fs::write(&counter, "0\n").unwrap();
        let increment = "read n < counter; echo $((n + 1)) > counter";
        let script = format!(
            "i=0; while [ $i -lt {BY_LOOP} ]; do \"$@\" run --name counter --at-most 1m -E 99 sh -c '{increment}'; \
             case $? in 0) i=$((i+1));; 99) ;; *) exit 1;; esac; done"
        );
        let loops: Vec<Child> =
            (0..4).map(|_| start(&mut under(&["sh", "-c", &script, "sh"], &self.site.shedlock(&[])))).collect();
        thread::scope(|scope| {
            for party in [&self.java, other] {
                scope.spawn(|| party.counts("counter", counter.to_str().unwrap(), BY_JAVA));
            }
        });
        for child in loops {
            finish_child(child).is_silent_with(0);
        }
        assert_eq!(self.site.place.read("counter"), format!("{}\n", 2 * BY_JAVA + 4 * BY_LOOP));
    }
}

/// The handle of a lock that `shedlock acquire` has taken; `None` where another has it.
#[track_caller]
fn handle(acquired: &Finished) -> Option<String> {
    assert!(matches!(acquired.code(), Some(0 | 1)) && acquired.stderr.is_empty(), "{acquired:?}");
    (acquired.code() == Some(0)).then(|| acquired.stdout.trim_end().to_owned())
}

/// A store, and an application beside it with this provider in this time zone.
fn shared<S: Store>(store: S, zone: &str, provider: [&str; 2]) -> Shared<S> {
    let java = Party::start(zone, provider, &store.url());
    Shared { site: Site::new(store), java, late: Late::Harmless }
}

/// The table as shedlock makes it.
fn init<S: Store>(shared: &Shared<S>) {
    let made = shared.tell(&["init"]);
    assert_eq!(made.code(), Some(0), "{made:?}");
}

/// The table with `timestamptz`.
fn with_zones(store: &PostgresStore) {
    store.make_table();
    for column in ["lock_until", "locked_at"] {
        store.0.psql(&format!("alter table shedlock alter {column} type timestamptz"));
    }
}

#[test]
fn postgres_with_database_time() {
    let shared = shared(PostgresStore::new(), "Asia/Tokyo", ["jdbc-template", "database-time"]);
    let other = Party::start("America/New_York", ["jdbc-template", "database-time"], &shared.site.store.url());
    init(&shared);
    shared.all_cases();
    shared.a_counter_is_exact(&other);
}

#[test]
fn postgres_with_the_application_s_time_in_utc() {
    let shared = shared(PostgresStore::new(), "America/New_York", ["jdbc-template", "forced-utc"]);
    shared.site.store.make_table();
    shared.all_cases();
}

#[test]
fn postgres_with_times_that_have_a_zone() {
    for (zone, time) in [("Asia/Tokyo", "own-time"), ("UTC", "database-time")] {
        let shared = shared(PostgresStore::new(), zone, ["jdbc-template", time]);
        with_zones(&shared.site.store);
        shared.all_cases();
    }
}

#[test]
fn postgres_with_plain_jdbc() {
    let shared = shared(PostgresStore::new(), "UTC", ["jdbc", ""]);
    let shared = Shared { late: Late::Frees, ..shared };
    shared.site.store.make_table();
    shared.all_cases();
}

#[test]
fn mariadb_with_plain_jdbc() {
    let shared = shared(MariaDbStore::new(), "UTC", ["jdbc", ""]);
    let shared = Shared { late: Late::Frees, ..shared };
    init(&shared);
    shared.all_cases();
}

/// An application in Tokyo that writes its local time is nine hours ahead: our locks have ended long ago, for it, and its own
/// last long. One in New York is behind: its locks have ended, for us.
#[test]
fn an_application_that_writes_its_local_time_runs_beside_us() {
    fn runs_beside<S: Store>(store: S) {
        let provider = ["jdbc-template", "own-time"];
        let ahead = shared(store, "Asia/Tokyo", provider);
        let behind = Party::start("America/New_York", provider, &ahead.site.store.url());
        init(&ahead);
        let holder = ahead.site.hold("ours", &[], "true");
        assert!(ahead.java.locks("ours", MINUTE, 0));
        holder.end().complains(0, "the lock was no longer ours when the job ended");
        assert!(ahead.java.locks("java's", MINUTE, 0));
        ahead.java.unlocks("java's");
        assert!(!ahead.we_get("java's"));
        assert!(behind.locks("behind", MINUTE, 0));
        assert!(ahead.we_get("behind"));
    }
    runs_beside(PostgresStore::new());
    runs_beside(MariaDbStore::new());
}

#[test]
fn an_application_whose_session_has_another_zone_runs_beside_us() {
    let shared = shared(MariaDbStore::new(), "UTC", ["jdbc-template", "session-zone"]);
    init(&shared);
    assert!(shared.java.locks("java's", MINUTE, 0) && !shared.java.locks("java's", MINUTE, 0));
    assert!(shared.we_get("java's"));
}

/// With database time a column with a zone gets the time of day of UTC as that of the application's zone.
#[test]
fn an_application_that_is_not_in_utc_and_times_with_a_zone_run_beside_us() {
    let shared = shared(PostgresStore::new(), "Asia/Tokyo", ["jdbc-template", "database-time"]);
    with_zones(&shared.site.store);
    assert!(shared.java.locks("java's", MINUTE, 0) && !shared.java.locks("java's", MINUTE, 0));
    assert!(shared.we_get("java's"));
}

#[test]
fn mariadb_with_database_time() {
    let store = MariaDbStore::new();
    // In an older one the library inserts a name as `???` and takes that for its own.
    store.0.mariadb(&format!("alter database {} character set utf8mb4", store.0.name));
    let shared = shared(store, "Europe/Berlin", ["jdbc-template", "database-time"]);
    let other = Party::start("Asia/Tokyo", ["jdbc-template", "database-time"], &shared.site.store.url());
    shared.site.store.make_table();
    shared.all_cases();
    shared.a_counter_is_exact(&other);
}

#[test]
fn mariadb_with_the_application_s_time_in_utc() {
    let shared = shared(MariaDbStore::new(), "Asia/Tokyo", ["jdbc-template", "zone-utc"]);
    init(&shared);
    shared.all_cases();
}

#[test]
fn redis_in_safe_mode() {
    let shared = shared(RedisStore::new(), "Europe/Berlin", ["spring-redis", "safe"]);
    shared.all_cases();
}

#[test]
fn redis_without_safe_mode() {
    let shared = Shared { late: Late::Takes, ..shared(RedisStore::new(), "Asia/Tokyo", ["spring-redis", "unsafe"]) };
    let other = Party::start("America/New_York", ["spring-redis", "unsafe"], &shared.site.store.url());
    shared.all_cases();
    shared.a_counter_is_exact(&other);
}

#[cfg(feature = "mongodb")]
#[test]
fn mongodb_with_the_application_s_time() {
    let shared = shared(servers::stores::MongoDbStore::new(), "America/New_York", ["mongodb", ""]);
    Shared { late: Late::Frees, ..shared }.all_cases();
}

#[cfg(feature = "zookeeper")]
#[test]
fn zookeeper_with_the_application_s_time() {
    let shared = shared(servers::stores::ZooKeeperStore::new(), "Asia/Tokyo", ["zookeeper", ""]);
    let shared = Shared { late: Late::Frees, ..shared };
    shared.cases_without_extension();
    shared.odd_names_are_the_same_lock(&["naïve 日本語"]);
}
