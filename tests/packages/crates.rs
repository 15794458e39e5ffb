//! The crate as cargo packages it: it has all that the program is built of, and what it builds runs a job.

use std::path::Path;
use std::process::Command;

use super::made::{VERSION, source};
use super::support::{Place, finish};

/// Runs cargo without the network, which it does not need: the tests were built of the same crates.
fn cargo(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--quiet", "--locked", "--offline"]).current_dir(directory);
    let ran = finish(command.env_remove("CARGO_TARGET_DIR"));
    assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.stderr);
}

#[test]
fn the_packaged_crate_builds_and_runs_a_job() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let to = target.to_str().unwrap();
    cargo(&source(""), &["package", "--no-verify", "--allow-dirty", "--target-dir", to]);
    let packed = target.join(format!("package/shedlock-{VERSION}.crate"));
    finish(Command::new("tar").arg("-C").arg(directory.path()).arg("-xzf").arg(packed)).is_silent_with(0);
    let unpacked = directory.path().join(format!("shedlock-{VERSION}"));
    // All of src/ is in it. What else the program is made of is the same with every backend.
    cargo(&unpacked, &["build", "--no-default-features", "--features", "sqlite", "--target-dir", to]);

    let place = Place::new();
    let tuple = Path::new(env!("CARGO_BIN_EXE_shedlock")).ancestors().nth(2).unwrap().file_name().unwrap();
    let mut run = Command::new(target.join(tuple).join("debug/shedlock"));
    run.args(["run", "--name", "hello", "--at-most", "1m", "sh", "-c", "echo hello > said"]);
    run.current_dir(place.path("")).env("SHEDLOCK_BACKEND", format!("sqlite:{}", place.database().display()));
    finish(&mut run).is_silent_with(0);
    assert_eq!(place.lines("said"), ["hello"]);
}
