//! The archive, which is for every other distribution: it is installed by the lines of its file INSTALL.

use super::contents::{Contents, add, add_all, add_documents, assert_contains};
use super::debian::on_clean_debian;
use super::made::{ALL, ARCH, Package, SHEDLOCK, VERSION, as_root, source};

/// The lines of INSTALL: how to install, and how to remove.
pub(crate) fn lines(package: &Package) -> (String, String) {
    let text = std::fs::read_to_string(source(&package.file("archive/INSTALL"))).unwrap();
    let (install, remove) = text.split_once("To remove it:").unwrap();
    let commands =
        |text: &str| text.lines().filter_map(|line| line.strip_prefix("    ")).collect::<Vec<_>>().join("\n");
    (commands(install), commands(remove))
}

#[test]
fn the_archive_has_nothing_of_the_machine_that_made_it() {
    ALL.iter().for_each(has_nothing_of_the_machine);
}

#[track_caller]
fn has_nothing_of_the_machine(package: &Package) {
    let listed = as_root(&[
        "tar",
        "--list",
        "--verbose",
        "--numeric-owner",
        "--full-time",
        "--file",
        package.archive().to_str().unwrap(),
    ]);
    let mut times = Vec::new();
    let mut names = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"].contains(&words[0]), "{line}");
        assert_eq!(words[1], "0/0", "{line}");
        times.push(format!("{} {}", words[3], words[4]));
        names.push(words[5].trim_end_matches('/'));
    }
    times.dedup();
    assert_eq!(times.len(), 1, "{times:?}");
    let top = format!("{}-{VERSION}-linux-{ARCH}", package.name);
    assert!(names.iter().all(|name| *name == top || name.starts_with(&format!("{top}/"))), "{names:?}");
    // The header of gzip has room for a time and a name.
    let bytes = std::fs::read(package.archive()).unwrap();
    assert_eq!((bytes[3], &bytes[4..8]), (0, [0; 4].as_slice()));
}

#[test]
fn the_document_installs_and_removes_the_archive_by_the_same_lines() {
    let document = std::fs::read_to_string(source("docs/install.md")).unwrap();
    let (install, remove) = lines(&SHEDLOCK);
    for line in install.lines().chain(remove.lines()) {
        assert!(document.lines().any(|other| other == line), "docs/install.md has not the line {line}");
    }
}

#[test]
fn the_archive_has_every_file_and_no_other() {
    let top = format!("shedlock-{VERSION}-linux-{ARCH}");
    let mut contents = Contents::from([(format!("{top}/shedlock"), Some(SHEDLOCK.binary()))]);
    for directory in [
        "man",
        "packaging/completions",
        "packaging/examples",
        "packaging/kubernetes",
        "packaging/prometheus",
        "docs/json",
    ] {
        let name = directory.rsplit('/').next().unwrap();
        add_all(&mut contents, &format!("{top}/{name}"), directory);
    }
    add_documents(&mut contents, &format!("{top}/docs"));
    for file in [
        "README.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "packaging/THIRD-PARTY",
        "packaging/archive/INSTALL",
    ] {
        add(&mut contents, &format!("{top}/{}", file.rsplit('/').next().unwrap()), file);
    }
    let package = SHEDLOCK.archive();
    assert_contains(&package, &["tar", "-xf", package.to_str().unwrap(), "-C"], &contents);
}

#[test]
fn the_lines_of_install_put_everything_where_it_is_found_and_take_it_away_again() {
    let (install, remove) = lines(&SHEDLOCK);
    let text = r#"
in_root sh -euc 'cd /root; tar -xzf "$1"' sh "$package"
files >/mnt/before
in_root sh -euc 'cd /root/shedlock-*/; INSTALL'
in_root sh -euc 'command -v shedlock; shedlock run --name a --at-most 1m -- true'
in_root env MANWIDTH=80 MANPAGER=cat man shedlock-run | grep -c -e --at-most >/dev/null
in_root bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader shedlock; complete -p shedlock' | grep -o -e '-F.*'
in_root zsh -fc 'autoload -Uz compinit; compinit -u; print $_comps[shedlock]'
in_root fish -c 'complete -C "shedlock run --on-exp"' | cut -f 1
in_root sh -euc 'REMOVE'
files | comm -13 /mnt/before -
"#;
    let text = text.replace("INSTALL", &install).replace("REMOVE", &remove);
    let printed = on_clean_debian(&SHEDLOCK.archive(), &text);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines[..4],
        ["/usr/local/bin/shedlock", "-F _shedlock shedlock", "_shedlock", "--on-expiry"],
        "{printed}"
    );
    let left: Vec<&&str> = lines[4..].iter().filter(|line| line.contains("shedlock")).collect();
    assert!(left.iter().all(|line| line.starts_with("./var/lib/shedlock")), "{printed}");
}
