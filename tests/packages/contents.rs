//! What is in a package: nothing is missing, nothing is too much, and each file is the one of the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::made::{SHEDLOCK, source};
use super::support::fixtures::names_in;

/// Paths in a package, and the files that they have to be. Those that have none are made for the package.
pub(crate) type Contents = BTreeMap<String, Option<PathBuf>>;

/// Adds all files of a directory of the sources.
pub(crate) fn add_all(contents: &mut Contents, place: &str, directory: &str) {
    for name in names_in(&source(directory)) {
        add(contents, &format!("{place}/{name}"), &format!("{directory}/{name}"));
    }
}

/// Adds the documents that are read in order, and their pictures.
pub(crate) fn add_documents(contents: &mut Contents, place: &str) {
    for name in names_in(&source("docs")).iter().filter(|name| name.ends_with(".md")) {
        add(contents, &format!("{place}/{name}"), &format!("docs/{name}"));
    }
    for name in names_in(&source("docs/images")).iter().filter(|name| !name.ends_with(".py")) {
        add(contents, &format!("{place}/images/{name}"), &format!("docs/images/{name}"));
    }
}

/// Adds one file of the sources.
pub(crate) fn add(contents: &mut Contents, place: &str, file: &str) {
    contents.insert(place.to_owned(), Some(source(file)));
}

/// What the packages that a system knows of have in common.
pub(crate) fn of_a_system() -> Contents {
    let mut contents = Contents::from([(SHEDLOCK.program.to_owned(), Some(SHEDLOCK.binary()))]);
    for page in names_in(&source("man")) {
        let section = page.rsplit_once('.').unwrap().1;
        add(&mut contents, &format!("usr/share/man/man{section}/{page}.gz"), &format!("man/{page}"));
    }
    let completions = "packaging/completions";
    let bash = "usr/share/bash-completion/completions/shedlock";
    add(&mut contents, bash, &format!("{completions}/shedlock.bash"));
    let fish = "usr/share/fish/vendor_completions.d/shedlock.fish";
    add(&mut contents, fish, &format!("{completions}/shedlock.fish"));
    let documents = "usr/share/doc/shedlock";
    add_all(&mut contents, &format!("{documents}/examples"), "packaging/examples");
    add_all(&mut contents, &format!("{documents}/examples/kubernetes"), "packaging/kubernetes");
    for name in ["README.md", "dashboard.json", "shedlock.rules.yml"] {
        let place = format!("{documents}/examples/prometheus/{name}");
        add(&mut contents, &place, &format!("packaging/prometheus/{name}"));
    }
    add_documents(&mut contents, &format!("{documents}/docs"));
    add_all(&mut contents, &format!("{documents}/json"), "docs/json");
    contents
}

/// Unpacks a package by a command whose last word is the directory, and compares.
#[track_caller]
pub(crate) fn assert_contains(package: &Path, words: &[&str], expected: &Contents) {
    let directory = tempfile::tempdir().unwrap();
    let mut unpack = Command::new(words[0]);
    unpack.args(&words[1..]).arg(directory.path());
    let output = unpack.output().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut found = Vec::new();
    walk(directory.path(), directory.path(), &mut found);
    found.sort();
    assert_eq!(found, expected.keys().cloned().collect::<Vec<_>>(), "{}", package.display());
    for (name, file) in expected.iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
        let packed = directory.path().join(name);
        let bytes = if name.ends_with(".gz") {
            Command::new("gzip").args(["-dc"]).arg(packed).output().unwrap().stdout
        } else {
            fs::read(packed).unwrap()
        };
        assert!(
            bytes == fs::read(file).unwrap(),
            "{name} in {} is not {}; packaging/build makes the package anew",
            package.display(),
            file.display()
        );
    }
}

/// All that is no directory, by its path from the top.
fn walk(top: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            walk(top, &path, found);
        } else {
            found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
        }
    }
}
