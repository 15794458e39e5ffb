//! Runs to which the kernel refuses the calls that they wait with, once or for good: strace(1) makes them fail.

use crate::support::process::{DETACHED, is_free, under};
use crate::support::{Finished, Place, finish, is_alive};

/// The file that a call is about, if only that one is to fail; what fails, and when.
const REFUSALS: [(Option<&str>, &str); 12] = [
    (None, "wait4:error=EINTR:when=1"),
    (None, "wait4:error=EINTR:when=1..15"),
    (None, "wait4:error=ECHILD:when=1"),
    // The first one waits for the lock, and those after it for the job.
    (None, "?poll,ppoll:error=ENOMEM:when=2"),
    (None, "?poll,ppoll:error=EINTR:when=2..5"),
    (None, "?poll,ppoll:error=EINVAL:when=2+"),
    (None, "timerfd_settime:error=EINVAL:when=2"),
    (None, "timerfd_settime:error=ENOMEM:when=1+"),
    (Some("[signalfd]"), "read:error=EINTR:when=2"),
    (Some("[signalfd]"), "read:error=EIO:when=2+"),
    (Some("[eventfd]"), "read:error=EIO:when=1+"),
    (Some("[eventfd]"), "write:error=EINTR:when=1"),
];

/// Runs a job under the tracer, which lets go of what executes another program.
fn run(place: &Place, limit: &str, (file, inject): (Option<&str>, &str), job: &str) -> Finished {
    let (calls, _) = inject.split_once(':').unwrap();
    let (trace, inject) = (format!("trace={calls}"), format!("inject={inject}"));
    let mut tracer: Vec<String> = DETACHED.map(str::to_owned).into();
    tracer
        .extend(["strace", "-f", "-qq", "-b", "execve", "-o", "trace", "-e", &trace, "-e", &inject].map(str::to_owned));
    tracer.extend(file.into_iter().flat_map(|file| ["-P".to_owned(), format!("anon_inode:{file}")]));
    let command = place.shedlock(["run", "--name", "a", "--at-most", limit, "--", "sh", "-c", job]);
    let finished = finish(&mut under(&tracer, &command));
    assert!(place.read("trace").contains("(INJECTED)"), "nothing was refused: {}", place.read("trace"));
    finished
}

fn for_each_refusal(test: fn(&Place, (Option<&str>, &str))) {
    for some in REFUSALS.chunks(4) {
        std::thread::scope(|scope| {
            for refusal in some {
                scope.spawn(move || test(&Place::new(), *refusal));
            }
        });
    }
}

#[test]
fn a_call_that_is_refused_while_the_job_runs_neither_ends_it_nor_hides_its_end() {
    for_each_refusal(|place, refusal| {
        run(place, "1m", refusal, "echo $$ > pid; sleep 0.5; touch done; exit 7").is_silent_with(7);
        assert!(place.path("done").exists(), "{refusal:?}");
        is_free(place, "a");
    });
}

#[test]
fn a_call_that_is_refused_does_not_keep_a_job_from_being_ended_in_time() {
    for_each_refusal(|place, refusal| {
        let finished = run(place, "3s", refusal, "echo $$ > pid; exec sleep 1000");
        assert_eq!(finished.code(), Some(124), "{refusal:?}: {finished:?}");
        assert!(!is_alive(place.read("pid").trim().parse().unwrap()), "{refusal:?}");
        is_free(place, "a");
    });
}
