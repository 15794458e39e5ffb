//! The crate as cargo packages it: it has all that the program is built of, and what it builds runs a job.

use std::path::Path;
use std::process::Command;

use super::made::{VERSION, source};
use super::support::{Place, finish};

/// Runs cargo without the network, which it does not need: the tests were built of the same crates.
fn cargo(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--quiet", "--offline"]).current_dir(directory);
    let ran = finish(command.env_remove("CARGO_TARGET_DIR"));
    assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.stderr);
}

#[test]
fn the_packaged_crate_builds_and_runs_a_job() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let to = target.to_str().unwrap();
    // The crate of the protocol is published first.
    let both = ["-p", "shedlock-provider", "-p", "shedlock"];
    let package = ["package", "--locked", "--no-verify", "--allow-dirty", "--target-dir", to];
    cargo(&source(""), &[&package[..], &both].concat());
    // The protocol has a version of its own.
    let manifest = std::fs::read_to_string(source("providers/protocol/Cargo.toml")).unwrap();
    let of_protocol = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"');
    for (name, version) in [("shedlock-provider", of_protocol), ("shedlock", VERSION)] {
        let packed = target.join(format!("package/{name}-{version}.crate"));
        finish(Command::new("tar").arg("-C").arg(directory.path()).arg("-xzf").arg(packed)).is_silent_with(0);
    }
    let unpacked = directory.path().join(format!("shedlock-{VERSION}"));
    // All of src/ is in it. What else the program is made of is the same with every backend.
    let protocol = directory.path().join(format!("shedlock-provider-{of_protocol}"));
    let protocol = format!("patch.crates-io.shedlock-provider.path='{}'", protocol.display());
    let build = ["build", "--no-default-features", "--features", "sqlite", "--target-dir", to];
    cargo(&unpacked, &[&build[..], &["--config", &protocol]].concat());

    let place = Place::new();
    let tuple = Path::new(env!("CARGO_BIN_EXE_shedlock")).ancestors().nth(2).unwrap().file_name().unwrap();
    let mut run = Command::new(target.join(tuple).join("debug/shedlock"));
    run.args(["run", "--name", "hello", "--at-most", "1m", "sh", "-c", "echo hello > said"]);
    run.current_dir(place.path("")).env("SHEDLOCK_BACKEND", format!("sqlite:{}", place.database().display()));
    finish(&mut run).is_silent_with(0);
    assert_eq!(place.lines("said"), ["hello"]);
}
