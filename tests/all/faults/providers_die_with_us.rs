//! A provider dies with shedlock, whenever that is killed; the lock frees at its time, and no job has a descriptor of it.

use std::time::Duration;

use crate::support::per_backend::Site;
use crate::support::process::{Started, detached};
use crate::support::{finish, kill, wait_until};
use servers::stores::{ExampleStore, Store};

/// The times that shedlock is killed.
const KILLS: u64 = 200;
/// The runs at a time.
const ROUND: u64 = 8;
/// The longest time in which a run is killed after it was started: long enough for all of it.
const LONGEST_MILLIS: u64 = 250;

#[test]
fn whenever_shedlock_is_killed_its_provider_dies_and_the_lock_frees_at_its_time() {
    let site = Site::new(ExampleStore::new());
    let job = "ls -l /proc/$$/fd >> descriptors; exec sleep 0.05";
    for round in 0..KILLS / ROUND {
        let start = |number: u64| {
            let name = format!("job {number}");
            let words = ["run", "--name", &name, "--at-most", "2s", "sh", "-c", job];
            (number, detached(&site.place, &format!("run-{number}"), &site.shedlock(&words)))
        };
        let runs: Vec<(u64, Started)> = (0..ROUND).map(|n| start(round * ROUND + n)).collect();
        std::thread::scope(|scope| {
            for (number, run) in &runs {
                // Spread over the life of a run by a step that has no common factor with it.
                let moment = Duration::from_millis(number * 97 % LONGEST_MILLIS);
                scope.spawn(move || {
                    std::thread::sleep(moment);
                    kill(run.pid(), "KILL");
                });
            }
        });
    }
    wait_until("all providers to be gone", || (site.store.connections() == 0).then_some(()));
    for number in 0..KILLS {
        let name = format!("job {number}");
        if let Some(stored) = site.store.stored(&name) {
            assert!(stored.span() <= 2_001, "{name}: {stored:?}");
        }
        wait_until("the lock to be free", || (!site.is_held(&name)).then_some(()));
    }
    let descriptors = site.place.read("descriptors");
    assert!(descriptors.contains("/dev/null"), "jobs have run: {descriptors}");
    // This process may have been started with pipes, which a job inherits.
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| std::fs::read_link(entry.path()));
    let inherited: Vec<String> = links.flatten().map(|link| link.display().to_string()).collect();
    let targets = descriptors.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, target)| target);
    let mut others = targets.filter(|target| !target.starts_with('/') && !inherited.iter().any(|link| link == target));
    assert_eq!(others.next(), None, "{descriptors}");
    finish(&mut site.run_or_75("job 0", &["true"])).is_silent_with(0);
}
