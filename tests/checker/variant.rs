//! Builds a version of the program that lacks one protection, in a copy of the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::broken::BROKEN;

/// Builds the version of this name, and returns its program.
pub(crate) fn build(name: &str) -> Result<PathBuf, String> {
    let names: Vec<&str> = BROKEN.iter().map(|broken| broken.name).collect();
    let broken = BROKEN.iter().find(|broken| broken.name == name);
    let broken = broken.ok_or_else(|| format!("no protection is called {name}; there are {}", names.join(", ")))?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = sources.join("target/broken");
    let copy = base.join(name);
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(sources).unwrap().flatten() {
        if !["target", ".git"].contains(&entry.file_name().to_string_lossy().as_ref()) {
            run(Command::new("cp").arg("-a").arg(entry.path()).arg(&copy))?;
        }
    }
    for edit in broken.edits {
        let file = copy.join(edit.file);
        let text = fs::read_to_string(&file).unwrap();
        if text.matches(edit.text).count() != 1 {
            return Err(format!("`{}` is not exactly once in {}", edit.text, edit.file));
        }
        fs::write(&file, text.replace(edit.text, edit.replacement)).unwrap();
    }
    println!("checker: building the program without {name}");
    let target = base.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // A protection that is gone leaves things behind that nobody uses.
    let mut build = Command::new(cargo);
    build
        .args(["build", "--locked", "--quiet", "--bin", "shedlock"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target);
    run(&mut build)?;
    // Where it lies below the directory of all builds depends on the configuration.
    let ours = Path::new(env!("CARGO_BIN_EXE_shedlock"));
    let below = ours.strip_prefix(sources.join("target")).map_err(|_| "the build is not in target/".to_owned())?;
    let program = copy.join("shedlock");
    fs::copy(target.join(below), &program).unwrap();
    Ok(program)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
