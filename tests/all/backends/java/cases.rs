//! Checks the cases of a row of the matrix: the promises that shedlock and an application of the Java library give each other.

use std::process::Child;
use std::thread;
use std::time::Duration;

use super::matrix::{Late, Promise, Row, Table};
use crate::support::fixtures::Holder;
use crate::support::per_backend::Site;
use crate::support::process::under;
use crate::support::{Finished, finish, finish_child, finish_in_time, start, wait_until};
use servers::Party;
use servers::stores::{Store, Stored};

pub(super) const MINUTE: u32 = 60_000;

/// A store that shedlock and an application in Java share.
pub(super) struct Shared<S> {
    pub(super) site: Site<S>,
    pub(super) java: Party,
    late: Late,
    /// A name in other scripts that the store can have.
    scripts: &'static str,
    // Locks that are taken first, so that the other cases pass while they last.
    /// A job with a lease, and what was stored at first.
    lease: Option<(Holder, Stored)>,
    /// The first record of the lock that `KeepAliveLockProvider` extends.
    kept: Option<Stored>,
    /// The handle of a lock for three seconds, and what was stored at first.
    ours: Option<(String, Stored)>,
}

/// A case of the promises.
struct Case<S> {
    /// Not every provider extends a lock.
    extends: bool,
    check: fn(&mut Shared<S>),
}

/// Returns all cases, in the order in which they are checked: those that wait for an end come last.
fn cases<S: Store>() -> [Case<S>; 14] {
    let case = |check| Case { extends: false, check };
    let extending = |check| Case { extends: true, check };
    [
        case(Shared::the_lock_of_java_refuses_us),
        case(Shared::our_lock_refuses_java),
        case(Shared::at_least_is_kept_by_both),
        extending(Shared::an_extended_lock_is_held_longer),
        extending(Shared::at_least_of_an_extension),
        case(Shared::odd_names_are_the_same_lock),
        case(Shared::a_first_acquisition_has_one_winner),
        case(Shared::a_renewed_lease_refuses_java),
        extending(Shared::a_lock_that_java_keeps_refuses_us),
        case(Shared::a_lock_of_java_that_expires_is_ours),
        case(Shared::a_lock_of_ours_that_expires),
        case(Shared::what_java_releases_too_late),
        extending(Shared::what_java_extends_too_late),
        case(Shared::what_java_does_to_a_pause),
    ]
}

/// Locks that Java takes for an instant, to be late with them.
const LATE: [&str; 4] = ["released late", "extended late", "pause released", "pause extended"];

/// Asserts what a row says, with its store, in which nothing is yet. The table is changed once it is there.
pub(super) fn check<S: Store>(row: &Row, store: S, change: impl FnOnce(&S)) {
    let java = Party::start(row.zone, row.party(), &store.url());
    let late = if let Promise::Exclude(late) = row.promise { late } else { Late::Harmless };
    let mut shared = Shared { scripts: row.scripts(), ..Shared::new(store, java, late) };
    match row.table {
        Table::Ours => assert_eq!(shared.tell(&["init"]).code(), Some(0)),
        Table::Java => shared.site.store.make_table(),
        Table::None => (),
    }
    change(&shared.site.store);
    match row.promise {
        Promise::Exclude(_) => shared.all_cases(row),
        Promise::Ahead => shared.java_runs_beside_us(),
        Promise::Behind => shared.we_run_beside_java(),
    }
}

impl<S: Store> Shared<S> {
    pub(super) fn new(store: S, java: Party, late: Late) -> Self {
        Self { site: Site::new(store), java, late, scripts: "", lease: None, kept: None, ours: None }
    }

    fn all_cases(&mut self, row: &Row) {
        self.begins(row.extends());
        for case in cases() {
            if row.extends() || !case.extends {
                (case.check)(self);
            }
        }
        if let Some(zone) = row.beside {
            self.a_counter_is_exact(&Party::start(zone, row.party(), &self.site.store.url()));
        }
    }

    fn begins(&mut self, java_extends: bool) {
        // The first use of a library or a store may take longer than these locks last.
        assert!(self.we_get("first") && self.java_gets("first"));
        let holder = self.site.hold("lease", &["--lease", "3s"], "true");
        self.lease = Some((holder, self.site.stored("lease")));
        if java_extends {
            assert!(self.java.keeps("kept", 6000));
            self.kept = Some(self.site.stored("kept"));
        }
        self.ours = self.acquire("late of ours", "3s").map(|handle| (handle, self.site.stored("late of ours")));
        assert!(LATE.iter().all(|name| self.java.locks(name, 200, 0)));
    }

    /// Returns shedlock's answer to whether the lock can be had.
    fn we_get(&self, name: &str) -> bool {
        let told = finish_in_time(&mut self.site.run_or_75(name, &["true"]));
        assert!(matches!(told.code(), Some(0 | 75)) && told.stderr.is_empty(), "{told:?}");
        told.code() == Some(0)
    }

    /// Returns Java's answer to whether the lock can be had.
    pub(super) fn java_gets(&self, name: &str) -> bool {
        let gets = self.java.locks(name, MINUTE, 0);
        if gets {
            self.java.unlocks(name);
        }
        gets
    }

    fn tell(&self, words: &[&str]) -> Finished {
        finish_in_time(&mut self.site.shedlock(words))
    }

    /// Acquires a lock for a script, and returns its handle; `None` where another owner has it.
    pub(super) fn acquire(&self, name: &str, at_most: &str) -> Option<String> {
        handle(&self.tell(&["acquire", "--name", name, "--at-most", at_most]))
    }

    /// Takes a lock with which Java is late.
    fn taken_from_java(&self, name: &str) -> String {
        wait_until("the lock to be ours", || self.acquire(name, "1m"))
    }

    fn the_lock_of_java_refuses_us(&mut self) {
        assert!(self.java.locks("java's", MINUTE, 0));
        assert!(!self.java.locks("java's", MINUTE, 0));
        assert!(!self.we_get("java's"));
        self.java.unlocks("java's");
        assert!(self.we_get("java's"));
    }

    fn our_lock_refuses_java(&mut self) {
        let holder = self.site.hold("ours", &[], "true");
        assert!(!self.java_gets("ours"));
        holder.end().is_silent_with(0);
        assert!(self.java_gets("ours"));
    }

    fn at_least_is_kept_by_both(&mut self) {
        assert!(self.java.locks("at least of java", MINUTE, MINUTE / 2));
        self.java.unlocks("at least of java");
        self.is_kept_for("at least of java", MINUTE / 2);
        // Nothing in the store tells it from one that runs.
        let status = self.tell(&["status", "at least of java", "--json"]).stdout;
        assert!(status.contains("\"state\": \"held\""), "{status}");
        finish(&mut self.site.run("at least of ours", &["--at-least", "30s", "true"])).is_silent_with(0);
        assert!(!self.java_gets("at least of ours"));
    }

    /// Asserts that Java has released the lock, and that it stays held for no longer than this many milliseconds.
    #[track_caller]
    fn is_kept_for(&self, name: &str, longest: u32) {
        let stored = self.site.stored(name);
        let left = stored.until - stored.now;
        let longest = i64::from(longest) + self.site.store.uncertainty(&stored);
        assert!(left > 0 && left <= longest, "{stored:?}");
        assert!(!self.we_get(name));
    }

    fn an_extended_lock_is_held_longer(&mut self) {
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

    fn at_least_of_an_extension(&mut self) {
        assert!(self.java.locks("extended at least", MINUTE / 2, 0));
        assert!(self.java.extends("extended at least", 3 * MINUTE, MINUTE));
        self.java.unlocks("extended at least");
        self.is_kept_for("extended at least", MINUTE);
    }

    fn odd_names_are_the_same_lock(&mut self) {
        let longest = "x".repeat(64);
        for name in ["a 'b' \"c\" \\d %e _f", "@:{}[]#?&=;--/*$1", &longest, self.scripts] {
            assert!(self.java.locks(name, MINUTE, 0), "{name}");
            assert!(!self.we_get(name), "{name}");
            self.java.unlocks(name);
            let holder = self.site.hold(name, &[], "true");
            assert!(!self.java_gets(name), "{name}");
            holder.end().is_silent_with(0);
            assert!(self.java_gets(name), "{name}");
        }
    }

    fn a_first_acquisition_has_one_winner(&mut self) {
        // A shedlock has to start first. Java waits longer after it was first, so that they meet.
        let mut pause = Duration::ZERO;
        for round in 0..16 {
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

    /// Waits until the lock is held longer than it was at first.
    fn is_held_past(&self, first: &Stored, name: &str) {
        wait_until("an extension after the first end", || {
            let stored = self.site.stored(name);
            (stored.now > first.until && stored.is_held()).then_some(())
        });
    }

    fn a_renewed_lease_refuses_java(&mut self) {
        let (holder, first) = self.lease.take().unwrap();
        self.is_held_past(&first, "lease");
        assert!(!self.java_gets("lease"));
        holder.end().is_silent_with(0);
        assert!(self.java_gets("lease"));
    }

    fn a_lock_that_java_keeps_refuses_us(&mut self) {
        let first = self.kept.take().unwrap();
        self.is_held_past(&first, "kept");
        assert!(!self.we_get("kept"));
        self.java.unlocks("kept");
        assert!(self.we_get("kept"));
    }

    fn a_lock_of_java_that_expires_is_ours(&mut self) {
        assert!(self.java.locks("expired of java", 500, 0));
        let until = self.site.stored("expired of java").until;
        let waiter = &mut self.site.run("expired of java", &["--wait", "20s", "-E", "75", "true"]);
        finish_in_time(waiter).is_silent_with(0);
        let started = self.site.store.history("expired of java")[0].started;
        assert!(started >= until, "{started} is before {until}");
    }

    fn a_lock_of_ours_that_expires(&mut self) {
        let (handle, first) = self.ours.take().unwrap();
        wait_until("Java to get the lock", || self.java.locks("late of ours", MINUTE, 0).then_some(()));
        let taken = self.site.stored("late of ours");
        assert!(taken.since >= first.until, "{taken:?} is before the end of {first:?}");
        for words in [&["extend", "5m", &handle][..], &["release", &handle]] {
            self.tell(words).complains(1, "is no longer ours");
        }
        self.is_unchanged("late of ours", &taken);
        assert!(!self.we_get("late of ours"));
        self.java.unlocks("late of ours");
        assert!(self.we_get("late of ours"));
    }

    fn what_java_releases_too_late(&mut self) {
        let handle = self.taken_from_java("released late");
        self.is_released_late("released late", &handle);
        assert!(self.java_gets("released late"));
    }

    /// Asserts that the provider for etcd revokes a lease, and throws if there is none.
    fn unlocks_late(&self, name: &str) {
        let answer = self.java.tries_to_unlock(name);
        assert!(answer == "unlocked" || answer.contains("lease not found"), "{name}: {answer}");
    }

    /// Has Java release a lock that shedlock holds now.
    pub(super) fn is_released_late(&self, name: &str, handle: &str) {
        self.unlocks_late(name);
        let released = self.tell(&["release", handle]);
        match self.late {
            Late::Harmless => released.is_silent_with(0),
            Late::Frees | Late::Takes => released.complains(1, "is no longer ours"),
        }
    }

    fn what_java_extends_too_late(&mut self) {
        let handle = self.taken_from_java("extended late");
        let before = self.site.stored("extended late");
        assert_eq!(self.java.extends("extended late", 3 * MINUTE, 0), self.late == Late::Takes);
        if self.late == Late::Takes {
            assert_ne!(before.owner, self.site.stored("extended late").owner);
            self.tell(&["release", &handle]).complains(1, "is no longer ours");
            assert!(!self.we_get("extended late"));
        } else {
            self.is_unchanged("extended late", &before);
            self.tell(&["release", &handle]).is_silent_with(0);
        }
    }

    /// Asserts that the lock is stored as it was. Redis and etcd tell how long it lasts, so its end is known to a millisecond
    /// or a second.
    #[track_caller]
    pub(super) fn is_unchanged(&self, name: &str, before: &Stored) {
        let after = self.site.stored(name);
        assert_eq!((&before.owner, before.since), (&after.owner, after.since));
        let known = 2 + self.site.store.uncertainty(&after);
        assert!((after.until - before.until).abs() <= known, "{before:?} {after:?}");
    }

    fn what_java_does_to_a_pause(&mut self) {
        let (released, extended) = ("pause released", "pause extended");
        for name in [released, extended] {
            wait_until("the pause", || (self.tell(&["pause", name]).code() == Some(0)).then_some(()));
        }
        self.unlocks_late(released);
        let resumed = self.tell(&["resume", released]);
        match self.late {
            Late::Harmless => assert_eq!(resumed.code(), Some(0), "{resumed:?}"),
            Late::Frees | Late::Takes => resumed.complains(1, "is not paused"),
        }
        assert!(self.java_gets(released));
        if self.late == Late::Takes {
            assert!(self.java.extends(extended, 3 * MINUTE, 0));
            self.tell(&["resume", extended]).complains(1, "is not paused");
            assert!(!self.we_get(extended));
        } else {
            assert_eq!(self.tell(&["resume", extended]).code(), Some(0));
        }
    }

    /// Has two applications and four loops of shedlock add to a number that nothing but the lock protects.
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

    /// Checks an application for which shedlock's lock has ended long ago, while its own lasts long for shedlock.
    fn java_runs_beside_us(&self) {
        let holder = self.site.hold("ours", &[], "true");
        assert!(self.java.locks("ours", MINUTE, 0));
        holder.end().complains(0, "the lock was no longer ours when the job ended");
        assert!(self.java.locks("java's", MINUTE, 0) && !self.java.locks("java's", MINUTE, 0));
        self.we_see_that_its_clock_is_ahead("java's");
        self.java.unlocks("java's");
        assert!(!self.we_get("java's"));
        assert!(self.java_gets("java's"));
    }

    /// Checks that the lock's time shows shedlock that the application's clock is ahead.
    fn we_see_that_its_clock_is_ahead(&self, name: &str) {
        let told = self.tell(&["status", name]);
        let remark = format!("shedlock: the lock `{name}` was taken ");
        assert!(told.code() == Some(0) && told.stderr.starts_with(&remark), "{told:?}");
        let told = finish_in_time(&mut self.site.run_or_75(name, &["-v", "true"]));
        told.complains(75, "the lock is held by ");
        assert!(told.stderr.contains("\nhint: the lock was taken "), "{told:?}");
        let told = self.tell(&["check"]);
        assert!(told.code() == Some(0) && told.stdout.contains("! times "), "{told:?}");
    }

    /// Checks an application whose lock has ended long ago for shedlock, while shedlock's lasts long for it.
    fn we_run_beside_java(&self) {
        assert!(self.java.locks("java's", MINUTE, 0) && !self.java.locks("java's", MINUTE, 0));
        assert!(self.we_get("java's"));
        assert!(self.we_get("ours"));
        assert!(!self.java_gets("ours"));
        assert!(self.we_get("ours"));
    }
}

/// Returns the handle of a lock that `shedlock acquire` has taken; `None` where another has it.
#[track_caller]
fn handle(acquired: &Finished) -> Option<String> {
    assert!(matches!(acquired.code(), Some(0 | 1)) && acquired.stderr.is_empty(), "{acquired:?}");
    (acquired.code() == Some(0)).then(|| acquired.stdout.trim_end().to_owned())
}
