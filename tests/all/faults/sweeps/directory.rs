//! The directory that a run was started in, which it keeps busy until it ends.

use crate::support::fixtures::among_mounts;
use crate::support::{Place, finish};

/// With a relative path to the database: it is opened again when the job has ended.
#[test]
fn a_job_can_unmount_a_directory_that_it_entered_itself_and_not_the_one_we_stand_in() {
    for (start, job, code) in [
        (".", "cd disk && touch file; cd / && umount \"$1/disk\"", 0),
        ("disk", "cd / && umount \"$1/disk\" 2> /dev/null", 32),
    ] {
        let place = Place::new();
        let setup = format!("mkdir disk; mount -t tmpfs tmpfs disk; cd {start}");
        let mut run = place.run("job", ["sh", "-c", &format!("{job}; code=$?; sleep 0.4; exit $code"), "job"]);
        run.arg(place.path(""))
            .env("SHEDLOCK_BACKEND", if start == "." { "sqlite:locks.db" } else { "sqlite:../locks.db" });
        finish(&mut among_mounts(&setup, &run)).is_silent_with(code);
        assert!(!place.row("job").unwrap().held);
    }
}
