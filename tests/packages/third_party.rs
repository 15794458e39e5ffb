//! The files THIRD-PARTY: the notices of everything that is linked into a program, as their licences ask for. They are made
//! of the files that the crates in `Cargo.lock` bring; `SHEDLOCK_BLESS=1` writes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::made::{MONGODB, Package, SHEDLOCK};

/// What is distributed; a crate may be linked in on one only.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
/// What comes with the compiler, and so is in no lock file.
const COMPILER: &str = "The program is linked with these parts of the Rust toolchain:\n\n\
    * musl libc, https://musl.libc.org. Licence: MIT.\n  Copyright © 2005-2020 Rich Felker, et al.\n\
    * The standard library of Rust with the crates in it, https://www.rust-lang.org. Licence: MIT OR Apache-2.0.\n  \
    Copyright (c) The Rust Project Contributors\n\
    * compiler-builtins, parts of which are from LLVM and musl. Licence: MIT AND (Apache-2.0 WITH LLVM-exception OR MIT).\n\
    * libunwind of LLVM. Licence: Apache-2.0 WITH LLVM-exception, which asks for no notice in binaries.\n\n\
    The text of the MIT licence, which holds for the first three, is below. A build that is linked with glibc instead of musl\n\
    has the GNU C Library in it, under the LGPL 2.1 or later.\n";
/// What crates do not say in a file of their own.
const UNSAID: [(&str, &str); 2] = [
    ("libsqlite3-sys", "SQLite, within libsqlite3-sys, is in the public domain: https://sqlite.org/copyright.html."),
    (
        "mongodb",
        "The notice of mongodb, which is in its repository only: Copyright 2019-2021 MongoDB, Inc.\n\
         A file of it is modified from one under the MIT licence: Copyright (c) 2017 zeta12ti",
    ),
];
/// The text for a crate that brings none.
const APACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE-APACHE");

/// A crate that is linked in.
struct Crate {
    title: String,
    licence: String,
    directory: PathBuf,
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--locked").current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The crates that are linked into a program, by name: not those that only tests, build scripts and the compiler use.
fn crates(package: &str) -> Vec<Crate> {
    let mut linked = BTreeSet::new();
    for target in TARGETS {
        let edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", "--target", target];
        // What has a path is of this project.
        for line in
            cargo(&[&["tree", "--package", package], &edges[..]].concat()).lines().filter(|line| !line.contains("(/"))
        {
            let mut words = line.split(' ');
            if let (Some(name), Some(version)) = (words.next(), words.next()) {
                linked.insert(format!("{name} {}", version.trim_start_matches('v')));
            }
        }
    }
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1"])).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|package| Crate {
        title: format!("{} {}", text(&package["name"]), text(&package["version"])),
        licence: text(&package["license"]).replace('/', " OR "),
        directory: Path::new(&text(&package["manifest_path"])).parent().unwrap().to_owned(),
    });
    let mut crates: Vec<Crate> = packages.filter(|found| linked.contains(&found.title)).collect();
    crates.sort_by(|a, b| a.title.cmp(&b.title));
    assert_eq!(crates.len(), linked.len(), "a crate that is linked in has no metadata");
    crates
}

impl Crate {
    /// The files with its licences and notices. Of several licences to choose from, that is MIT where it is one.
    fn notices(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(&self.directory, &mut files);
        let at_the_top = |file: &Path| file.parent() == Some(&self.directory);
        let has_mit = files.iter().any(|file| at_the_top(file) && name(file).contains("MIT"));
        if has_mit && self.licence.contains(" OR ") {
            let others = ["APACHE", "UNLICENSE", "ZLIB", "BOOST", "BSL", "0BSD"];
            files.retain(|file| !at_the_top(file) || !others.iter().any(|other| name(file).contains(other)));
        }
        if files.is_empty() && self.licence == "Apache-2.0" {
            files.push(APACHE.into());
        }
        files.sort();
        assert!(!files.is_empty(), "{} brings no licence; look where its notice is to be had", self.title);
        files
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().to_uppercase()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let begins = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_none_or(|extension| extension != "rs")
            && begins.iter().any(|begin| name(&path).starts_with(begin))
        {
            files.push(path);
        }
    }
}

/// A notice in two: the lines that say whose copyright it is, and the licence, which many crates have in common.
fn split(text: &str) -> (Vec<String>, String) {
    let is_copyright = |line: &&str| line.trim().to_lowercase().starts_with("copyright (c)");
    let text = text.replace("\r\n", "\n");
    let (head, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(is_copyright);
    let head = head.into_iter().map(|line| line.trim().to_owned()).collect();
    (head, rest.join("\n").trim_matches('\n').to_owned())
}

/// The whole file.
fn third_party(package: &str) -> String {
    let crates = crates(package);
    let is_linked = |name: &str| crates.iter().any(|found| found.title.split(' ').next() == Some(name));
    let unsaid = UNSAID.iter().filter(|(name, _)| is_linked(name));
    let unsaid: String = unsaid.map(|(_, notice)| format!("\n{notice}\n")).collect();
    let mut text = format!(
        "What is linked into {package} beside its own code, and the notices that its licences ask for.\n\n{COMPILER}{unsaid}\n\
         The program is linked with these crates:\n\n"
    );
    // By the licence's words, whatever their line breaks.
    let mut licences: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for found in &crates {
        let licence = if found.licence.is_empty() { "see its notice" } else { &found.licence };
        text += &format!("* {}: {licence}\n", found.title);
        for file in found.notices() {
            let notice = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
            let (copyrights, licence) = split(&notice);
            let key = licence.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            let (_, holders) = licences.entry(key).or_insert_with(|| (licence, Vec::new()));
            let path = file.strip_prefix(&found.directory).unwrap_or(Path::new("LICENSE-APACHE of shedlock")).display();
            holders.push(format!("* {}, {path}\n", found.title));
            holders.extend(copyrights.iter().map(|line| format!("  {line}\n")));
        }
    }
    let mut licences: Vec<_> = licences.into_values().collect();
    licences.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (licence, holders) in licences {
        let line = "-".repeat(80);
        text += &format!("\n{line}\n{}\n{licence}\n", holders.concat());
    }
    text
}

#[track_caller]
fn is_fresh(package: &Package) {
    let file = package.file("THIRD-PARTY");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    let made = third_party(package.name);
    if std::env::var_os("SHEDLOCK_BLESS").is_some() {
        fs::write(path, made).unwrap();
        return;
    }
    assert!(
        fs::read_to_string(path).unwrap_or_default() == made,
        "{file} is stale; SHEDLOCK_BLESS=1 cargo test --test packages third_party:: writes it anew"
    );
}

#[test]
fn the_notices_of_what_is_linked_in_are_fresh() {
    is_fresh(&SHEDLOCK);
}

#[test]
fn the_notices_of_what_is_linked_into_the_provider_of_mongodb_are_fresh() {
    is_fresh(&MONGODB);
}
