//! `run --dry-run`: it says everything, and does nothing.

use std::fs;

use crate::support::{Place, finish};

/// Returns the cells of the line of a setting.
fn setting(printed: &str, option: &str) -> Vec<String> {
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
    let lines = printed.lines().map(cells);
    lines
        .into_iter()
        .find(|cells: &Vec<String>| cells[..].first().is_some_and(|cell| cell == option))
        .unwrap_or_else(|| panic!("{option}: {printed}"))
}

#[test]
fn every_setting_is_told_with_its_place_and_nothing_is_done() {
    let place = Place::new();
    let file = "at-most = \"1h\"\nsplay = \"3s\"\n[jobs.nightly]\nlease = \"1m\"\nbackend = \"redis://jobs:s3cret@127.0.0.1:1/0\"\n";
    fs::write(place.path("c.toml"), file).unwrap();
    let mut command =
        place.shedlock(["run", "--config", "c.toml", "--name", "nightly", "-q", "--dry-run", "touch", "it's ran"]);
    command.env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_SPLAY", "5s").env("SHEDLOCK_VERBOSE", "1");
    let finished = finish(&mut command);
    // The server that is named does not exist.
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    let printed = &finished.stdout;
    for (option, value, source) in [
        ("name", "nightly", "--name"),
        ("at-most", "1h", "c.toml:1: `at-most`"),
        ("splay", "5s", "SHEDLOCK_SPLAY"),
        ("lease", "1m", "c.toml:4: `lease`"),
        ("backend", "redis://jobs@127.0.0.1:1/0", "c.toml:5: `backend`"),
        ("quiet", "true", "--quiet"),
        // The other one of the two wins.
        ("verbose", "no", "the default"),
        ("kill-after", "10s", "the default"),
        ("new-group", "yes", "the default"),
        ("foreground", "no", "the default"),
    ] {
        assert_eq!(setting(printed, option), [option, value, source]);
    }
    assert!(!printed.contains("s3cret"), "{printed}");
    assert!(printed.contains("\nThe job:\n  touch 'it'\\''s ran'\n"), "{printed}");
    for step in ["+0s", "+20s", "+59m46.2s", "+59m56.2s", "+1h"] {
        assert_eq!(printed.matches(&format!("Z  {step} ")).count(), 1, "{step}: {printed}");
    }
    assert!(printed.ends_with("\nNothing was taken, and nothing was started.\n"), "{printed}");
    assert!(!place.path("it's ran").exists());
    // Every option that there is.
    let help = finish(&mut place.shedlock(["run", "--help"])).stdout;
    let options = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("-s, ").or(Some(line.trim_start()))?.strip_prefix("--"));
    let options: Vec<&str> = options.filter_map(|line| line.split(' ').next()).collect();
    assert!(options.len() > 20, "{options:?}");
    for option in options.into_iter().filter(|option| !["config", "dry-run", "help"].contains(option)) {
        setting(printed, option);
    }
}

#[test]
fn a_file_is_not_made_and_a_mistake_is_one_as_ever() {
    let place = Place::new();
    let dry = |words: &[&str]| finish(place.run("job", words.iter().copied()).env("SHEDLOCK_DRY_RUN", "1"));
    let finished = dry(&["touch", "ran"]);
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert!(!place.path("ran").exists() && !place.database().exists());
    dry(&["--at-least", "9h", "true"]).complains(125, "is longer than --at-most");
    fs::write(place.path("c.toml"), "dry-run = true\n").unwrap();
    dry(&["--config", "c.toml", "true"]).complains(125, "c.toml:1: `dry-run` cannot be set in a file");
}

#[test]
fn who_has_closed_the_pipe_has_seen_enough() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    finish(place.run("job", ["--dry-run", "true"]).stdout(writer)).is_silent_with(0);
}

#[cfg(feature = "provider")]
#[test]
fn the_program_of_a_provider_is_named_and_not_started() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let program = place.path("shedlock-provider-tape");
    fs::write(&program, "#!/bin/sh\ntouch started\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command =
        place.shedlock(["run", "--name", "x", "--at-most", "1h", "--dry-run", "--backend", "tape:reel", "true"]);
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    let finished = finish(command.env("PATH", path));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert_eq!(setting(&finished.stdout, "backend"), ["backend", "tape:reel", "--backend"]);
    assert_eq!(setting(&finished.stdout, "provider")[1], program.to_str().unwrap());
    assert!(!place.path("started").exists());
}
