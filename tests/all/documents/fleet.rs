//! The files to copy, on a host that has nothing else yet: those of a fleet refuse to run the job, and do not lock alone. Files
//! for one host say so. The steps for CI are in `tests/packages/ci.rs`, and pods have no default backend to lock in.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::process::write_script;
use crate::support::repository::{ROOT, text};
use crate::support::{Place, finish};

/// Files of packaging/ that run a job on each host of a fleet.
const FLEET: [&str; 13] = [
    "container/compose.yaml",
    "examples/config.toml",
    "examples/cron.d-report",
    "examples/cron.daily-report",
    "examples/crontab-chronic",
    "examples/crontab-metrics",
    "examples/crontab-syslog",
    "examples/job@.service",
    "examples/report-networked.service",
    "kubernetes/cronjob-database.yaml",
    "kubernetes/cronjob-image-volume.yaml",
    "kubernetes/cronjob-init-container.yaml",
    "kubernetes/cronjob.yaml",
];

/// Files that say in their first lines that they are for one host.
const ONE_HOST: [&str; 3] = ["examples/crontab", "examples/report.service", "examples/report-logged.service"];

/// A step for CI, or a job that only names its command.
const ELSEWHERE: [&str; 3] = ["examples/fenced-report.sh", "examples/github-workflow.yml", "examples/gitlab-ci.yml"];

/// Returns the shell lines of a file that run a job, with the variables that the file sets for them.
fn commands(file: &str) -> Vec<String> {
    let text = text(&format!("packaging/{file}"));
    if file.ends_with(".yaml") {
        let (_, words) = text.split_once("shedlock, run, ").unwrap();
        let (words, _) = words.split_once(']').unwrap();
        let words = words.split(',').map(str::trim).collect::<Vec<_>>().join(" ");
        return vec![format!("{}shedlock run {words}", variable(&text))];
    }
    if file.ends_with(".toml") {
        let config = format!("{ROOT}/packaging/{file}");
        return vec![format!("shedlock run --config {config} --name report -- report")];
    }
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains("shedlock run"));
    let set: String =
        text.lines().filter(|line| line.starts_with("SHEDLOCK_")).map(|line| format!("{line} ")).collect();
    let command = |line: &str| {
        let command = line[line.find("shedlock run").unwrap()..].split(" | ").next().unwrap();
        let command = command.replace("${CREDENTIALS_DIRECTORY}", "/none").replace("%i", "nightly");
        format!("{set}{}", command.replace("/usr/local/bin/", "").replace("/usr/local/lib/jobs/nightly", "report"))
    };
    lines.map(command).collect()
}

/// Returns the backend's variable in a manifest, as the shell sets it.
fn variable(manifest: &str) -> String {
    if let Some((_, rest)) = manifest.split_once("SHEDLOCK_BACKEND_FILE: ") {
        return format!("SHEDLOCK_BACKEND_FILE={} ", rest.lines().next().unwrap());
    }
    let (_, rest) = manifest.split_once("- name: SHEDLOCK_BACKEND").unwrap();
    let (name, rest) = rest.split_once('\n').unwrap();
    let value = rest.lines().next().unwrap().trim().strip_prefix("value: ").unwrap();
    format!("SHEDLOCK_BACKEND{name}={value} ")
}

#[test]
fn a_host_without_its_configuration_runs_no_job_of_a_fleet() {
    for file in FLEET {
        let commands = commands(file);
        assert!(!commands.is_empty(), "{file} runs nothing");
        for command in commands {
            let place = Place::new();
            for job in ["report", "backup", "tidy-up", "chronic"] {
                write_script(&place, job, "#!/bin/sh\ntouch ran\n");
            }
            // Whatever this machine has in these places is no part of the test.
            let command = ["/etc/shedlock/", "/run/secrets/", "/var/lib/"]
                .iter()
                .fold(command.replace("/var/log/", ""), |command, path| command.replace(path, "none/"));
            let programs = Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
            let path = format!("{}:{}:/usr/bin:/bin", place.path("").display(), programs.display());
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).env_clear().env("PATH", path);
            shell.env("HOME", place.path("")).current_dir(place.path(""));
            let finished = finish(&mut shell);
            assert_eq!(finished.code(), Some(125), "{file}: {command}: {finished:?}");
            let left = [".local", "ran"].map(|name| place.path(name).exists());
            assert_eq!(left, [false, false], "{file}: {command}: a file of locks, or the job has run");
        }
    }
}

#[test]
fn every_file_to_copy_is_for_a_fleet_or_says_that_it_is_for_one_host() {
    let known = [&FLEET[..], &ONE_HOST, &ELSEWHERE].concat();
    for folder in ["container", "examples", "kubernetes"] {
        for entry in fs::read_dir(format!("{ROOT}/packaging/{folder}")).unwrap() {
            let file = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            let text = text(&format!("packaging/{file}"));
            let runs = text.contains("shedlock run") || text.contains("shedlock, run");
            assert!(!runs || known.contains(&file.as_str()), "{file} runs a job: on one host, or on each of a fleet?");
        }
    }
    for file in ONE_HOST {
        let first: String = text(&format!("packaging/{file}")).lines().take(2).collect();
        assert!(first.contains("on one host"), "{file}: {first}");
    }
}
