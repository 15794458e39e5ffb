//! The CI files of packaging/examples: their steps, run as the CI runs them.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::example;
use super::support::process::{beside, is_free, is_held, pid_in, write_script};
use super::support::{Finished, Place, finish, is_alive, kill};

/// What the step of GitLab's file runs.
fn gitlab() -> String {
    let file = example("gitlab-ci.yml");
    let script = file.split_once("script:\n").unwrap().1;
    let lines = script.lines().take_while(|line| line.starts_with("    "));
    lines.filter_map(|line| line.strip_prefix("    - ")).map(|line| format!("{line}\n")).collect()
}

/// What the step of GitHub's file runs.
fn github() -> String {
    let file = example("github-workflow.yml");
    let script = file.split_once("run: |\n").unwrap().1;
    script.lines().map_while(|line| line.strip_prefix("          ")).map(|line| format!("{line}\n")).collect()
}

/// Runs a step with its deployment, which is this script.
fn step(place: &Place, step: &str, deploy: &str) -> Finished {
    write_script(place, "deploy", &format!("#!/bin/sh\n{deploy}\n"));
    let step = step.replace("--wait 10m", "--wait 0").replace("shedlock run", "\"$SHEDLOCK\" run");
    assert!(step.contains("--wait 0"), "{step}");
    let ours = place.shedlock::<_, &str>([]);
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step]).current_dir(place.path(""));
    for (key, value) in ours.get_envs() {
        match value {
            Some(value) => bash.env(key, value),
            None => bash.env_remove(key),
        };
    }
    finish(bash.env("SHEDLOCK", ours.get_program()))
}

#[test]
fn a_step_has_the_codes_of_the_documentation() {
    for (script, held) in [(gitlab(), 75), (github(), 0)] {
        let place = Place::new();
        step(&place, &script, "true").is_silent_with(0);
        step(&place, &script, "exit 3").is_silent_with(3);
        step(&place, &script, "kill -TERM $$").is_silent_with(143);
        let brief = script.replace("--at-most 20m", "--at-most 1s");
        assert_eq!(step(&place, &brief, "exec sleep 100").code(), Some(124));
        assert_eq!(step(&place, &script.replace("./deploy", "./gone"), "true").code(), Some(127));
        assert_eq!(step(&place, &script.replace("--name", "--nmae"), "true").code(), Some(125));
        let mut acquire = place.shedlock(["acquire", "--name", "deploy", "--at-most", "1m"]);
        assert_eq!(finish(&mut acquire).code(), Some(0));
        let finished = step(&place, &script, "echo deployed");
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(held), ""));
        assert!(!finished.stdout.contains("deployed\n"), "{finished:?}");
        assert_eq!(finished.stdout.contains("::warning::"), held == 0, "{finished:?}");
    }
    assert!(example("gitlab-ci.yml").contains("allow_failure:\n    exit_codes: 75\n"));
}

#[test]
fn a_step_without_its_backend_deploys_nothing() {
    for script in [gitlab(), github()] {
        let place = Place::new();
        let finished = step(&place, &format!("export SHEDLOCK_BACKEND=\n{script}"), "echo deployed");
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""), "{finished:?}");
    }
}

#[test]
fn the_files_are_yaml_without_a_fault() {
    for file in ["gitlab-ci.yml", "github-workflow.yml"] {
        let rules = "{extends: relaxed, rules: {line-length: disable}}";
        let path = format!("{}/packaging/examples/{file}", env!("CARGO_MANIFEST_DIR"));
        finish(Command::new("yamllint").args(["--strict", "-d", rules, &path])).is_silent_with(0);
    }
}

#[test]
fn a_step_that_is_cancelled_tells_its_deployment_only_with_exec() {
    for exec in ["", "exec "] {
        let place = Place::new();
        write_script(&place, "deploy", "#!/bin/sh\necho $$ >up\nwhile [ -e deploy ]; do sleep 0.02; done\n");
        let ours = place.shedlock::<_, &str>([]);
        let script = format!("{exec}{} run --name deploy --at-most 1m -- ./deploy", ours.get_program().display());
        // Without exec there is a command after it, as in the files: bash would leave out the fork otherwise.
        let script = if exec.is_empty() { script + " || exit $?" } else { script };
        let mut bash = beside(&place, &["bash", "-eo", "pipefail", "-c", &script]);
        let mut step = bash.spawn().unwrap();
        let job = pid_in(&place, "up");
        kill(i32::try_from(step.id()).unwrap(), "TERM");
        let code = step.wait().unwrap();
        if exec.is_empty() {
            assert_eq!((code.signal(), is_alive(job)), (Some(15), true));
            is_held(&place, "deploy");
        } else {
            assert_eq!((code.code(), is_alive(job)), (Some(143), false));
            is_free(&place, "deploy");
        }
    }
}
