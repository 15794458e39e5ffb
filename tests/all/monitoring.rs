//! The recipe of docs/running.md for a monitor that wants a plugin.

use std::process::Command;

use super::generated::ROOT;
use super::support::{Place, finish};

#[test]
fn the_plugin_answers_in_the_words_and_codes_of_nagios() {
    let place = Place::new();
    let plugin = |words: &[&str]| {
        let shedlock = place.shedlock([""; 0]);
        let mut command = Command::new("sh");
        command.arg(format!("{ROOT}/packaging/examples/check_shedlock")).args(words).current_dir(place.path(""));
        for (key, value) in shedlock.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
        command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
        let finished = finish(&mut command);
        assert_eq!(finished.stderr, "", "{finished:?}");
        (finished.code(), finished.stdout)
    };
    finish(&mut place.run("report", ["true"])).is_silent_with(0);
    finish(&mut place.run("backup", ["false"]));
    let (code, said) = plugin(&["26h", "report"]);
    assert!(code == Some(0) && said.starts_with("SHEDLOCK OK: report: last success 20"), "{code:?} {said}");
    let (code, said) = plugin(&["26h", "report", "backup"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("SHEDLOCK CRITICAL: report: last success 20"), "{said}");
    assert!(said.contains("\nbackup: no success is recorded; last run: failure 20"), "{said}");
    let (code, said) = plugin(&["26h"]);
    assert_eq!((code, said.as_str()), (Some(3), "SHEDLOCK UNKNOWN: usage: check_shedlock DURATION NAME...\n"));
    let (code, said) = plugin(&["long", "report"]);
    assert!(code == Some(3) && said.contains("--max-age `long` is not"), "{code:?} {said}");
}
