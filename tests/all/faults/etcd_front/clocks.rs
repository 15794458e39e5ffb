//! etcd whose members have clocks that differ, or are moved: the lease alone decides, and a lock never frees early.

use std::time::{Duration, Instant};

use super::{KEY, Site};
use crate::support::fixtures::Holder;
use crate::support::{Finished, Place, finish, wait_until};
use servers::{EtcdClient, EtcdCluster};

const HOUR: i64 = 3600;

impl Site {
    fn shedlock(&self, words: &[&str]) -> Finished {
        finish(self.place.shedlock(words).env("SHEDLOCK_BACKEND", self.url()))
    }

    fn hold(&self, options: &[&str]) -> Holder {
        let words = [["run", "--name", "job", "--at-most", "20m"].as_slice(), options].concat();
        Holder::start(&self.place, self.place.shedlock(words).env("SHEDLOCK_BACKEND", self.url()), "exit 7")
    }

    fn acquire(&self, options: &[&str]) -> String {
        let words = [["acquire", "--name", "job"].as_slice(), options].concat();
        self.shedlock(&words).stdout.trim().to_owned()
    }

    /// Asserts that another run is refused.
    fn is_held(&self) {
        let words = ["run", "--name", "job", "--at-most", "1m", "-E", "75", "true"];
        self.shedlock(&words).is_silent_with(75);
    }

    /// Asserts that the lock lasts until so long after `begun` at least, by its lease.
    #[track_caller]
    fn lasts(&self, begun: Instant, wanted: Duration) {
        let left = left(self.server.client()).unwrap_or_default();
        // etcd cuts the last second.
        let found = begun.elapsed() + left + Duration::from_secs(1);
        assert!(found >= wanted, "{found:?} is less than {wanted:?}");
    }
}

/// Returns the time that the lock's lease has left.
fn left(client: EtcdClient) -> Option<Duration> {
    let seconds = client.time_left(client.get(KEY)?.lease)?;
    Some(Duration::from_secs(seconds.unsigned_abs()))
}

#[track_caller]
fn wait_for_renewals(client: EtcdClient, count: usize) {
    let lease = || client.try_get(KEY).ok().flatten().map(|entry| entry.lease);
    for _ in 0..count {
        let before = lease();
        wait_until("a renewal", || lease().filter(|after| Some(*after) != before));
    }
}

#[test]
fn a_clock_that_is_set_back_under_a_job_keeps_no_renewal_from_being_made() {
    let site = Site::new();
    let holder = site.hold(&["--lease", "6s"]);
    site.front.set_clock(-60);
    wait_for_renewals(site.server.client(), 2);
    site.is_held();
    holder.end().is_silent_with(7);
}

#[test]
fn a_member_whose_clock_is_ahead_dies_and_the_others_renew_what_it_granted() {
    let (place, cluster) = (Place::new(), EtcdCluster::fresh());
    let fronts = cluster.fronts("127.0.0.1");
    fronts[0].set_clock(20);
    let hosts: Vec<String> = fronts.iter().map(|front| format!("127.0.0.1:{}", front.port())).collect();
    let url = format!("etcd://{}", hosts.join(","));
    let run = |options: &[&str]| {
        let mut command = place.run("job", options);
        command.env("SHEDLOCK_BACKEND", &url);
        command
    };
    let holder = Holder::start(&place, &mut run(&["--lease", "9s"]), "exit 7");
    cluster.members[0].kill();
    wait_for_renewals(cluster.members[1].client(), 2);
    finish(&mut run(&["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(7);
}

#[test]
fn an_extension_counts_from_now_by_a_clock_that_was_set_back() {
    let site = Site::new();
    let handle = site.acquire(&["--at-most", "20s"]);
    site.front.set_clock(-HOUR);
    let begun = Instant::now();
    site.shedlock(&["extend", "5m", &handle]).is_silent_with(0);
    site.lasts(begun, Duration::from_secs(300));
}

#[test]
fn an_extension_cuts_nothing_by_a_clock_that_is_ahead() {
    let site = Site::new();
    let begun = Instant::now();
    let handle = site.acquire(&["--at-most", "1h"]);
    site.front.set_clock(2 * HOUR);
    site.shedlock(&["extend", "10s", &handle]).is_silent_with(0);
    site.lasts(begun, Duration::from_secs(3600));
}

#[test]
fn a_renewal_by_a_member_whose_clock_is_ahead_leaves_what_at_least_asked_for() {
    let site = Site::new();
    let begun = Instant::now();
    let holder = site.hold(&["--lease", "4s", "--at-least", "2m"]);
    site.front.set_clock(HOUR);
    // Each asks at least twice.
    let before = site.front.answered();
    wait_until("two renewals", || (site.front.answered() >= before + 4).then_some(()));
    site.lasts(begun, Duration::from_secs(120));
    holder.end().is_silent_with(7);
    site.lasts(begun, Duration::from_secs(120));
}

#[test]
fn a_lock_that_is_kept_after_its_job_is_held_whatever_the_time_is_said_to_be() {
    let site = Site::new();
    for (ahead, at_end) in [(HOUR, 0), (0, HOUR), (0, -HOUR)] {
        site.front.set_clock(0);
        let begun = Instant::now();
        let holder = site.hold(&["--at-least", "10m"]);
        site.front.set_clock(at_end);
        holder.end().is_silent_with(7);
        site.front.set_clock(ahead + at_end);
        site.is_held();
        site.lasts(begun, Duration::from_secs(600));
        assert!(left(site.server.client()) <= Some(Duration::from_secs(600)), "nor longer");
        assert_eq!(site.shedlock(&["unlock", "--force", "job"]).code(), Some(0));
    }
}

/// The process that releases it does not know when it was taken.
#[test]
fn a_lock_that_is_released_by_its_handle_is_kept_for_at_least() {
    let site = Site::new();
    for ahead in [HOUR, -HOUR] {
        site.front.set_clock(0);
        let begun = Instant::now();
        let handle = site.acquire(&["--at-most", "1h", "--at-least", "10m"]);
        // Its lease is some seconds old.
        wait_until("three seconds", || (begun.elapsed() > Duration::from_secs(3)).then_some(()));
        site.front.set_clock(ahead);
        site.shedlock(&["release", &handle]).is_silent_with(0);
        site.lasts(begun, Duration::from_secs(600));
        assert!(left(site.server.client()) < Some(Duration::from_secs(599)), "its age counts");
        assert_eq!(site.shedlock(&["unlock", "--force", "job"]).code(), Some(0));
    }
}

/// The job extends its own lock, by a member whose clock differs from that of the one which granted it.
#[test]
fn an_extension_by_another_member_is_noticed() {
    for ahead in [HOUR, -HOUR] {
        let site = Site::new();
        let script = "\"$0\" extend 10m && touch extended && while [ ! -e go ]; do sleep 0.05; done; exit 7";
        let mut command = site.place.shedlock(["run", "--name", "job", "--at-most", "6s", "sh", "-c", script]);
        command.arg(env!("CARGO_BIN_EXE_shedlock")).env("SHEDLOCK_BACKEND", site.url());
        site.front.set_clock(0);
        let run = crate::support::start(&mut command);
        wait_until("the lock", || site.server.client().get(KEY));
        site.front.set_clock(ahead);
        let begun = Instant::now();
        wait_until("the end of at-most", || (begun.elapsed() > Duration::from_secs(7)).then_some(()));
        std::fs::write(site.place.path("go"), "").unwrap();
        let ended = crate::support::finish_child(run);
        assert!(site.place.path("extended").exists() && ended.code() == Some(7), "{ended:?}");
    }
}
