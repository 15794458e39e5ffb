//! docs/releasing.md: a release, made of this repository as it is, in a copy.

use std::fs;
use std::process::Command;

use super::recipes::copy;
use super::support::markdown::run_by;
use super::support::process::write_script;
use super::support::{Place, finish};
use super::text;

/// The real cargo, but for the tests that write the manual anew: they would be compiled first.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = test ] || exec CARGO "$@"
[ "$SHEDLOCK_BLESS" = 1 ]
sed -i 's/"shedlock [0-9.]*"$/"shedlock 99.0.0"/' man/*
"#;

#[test]
fn a_release_is_made_as_the_checklist_says() {
    let place = Place::new();
    let _ = copy(&place);
    let steps = run_by("docs/releasing.md", "a_release_is_made_as_the_checklist_says");
    // A version that this one will never be.
    let steps: Vec<String> = steps.iter().map(|step| step.replace("0.2.0", "99.0.0")).collect();
    let [version, tag, sign] = &steps[..] else { panic!("{steps:#?}") };
    fs::create_dir(place.path("bin")).unwrap();
    write_script(&place, "bin/cargo", &CARGO.replace("CARGO", env!("CARGO")));
    let begin = "export GNUPGHOME=$PWD/../keys GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$PWD/../gitconfig
        mkdir -m 700 ../keys
        gpg -q --batch --passphrase '' --quick-generate-key 't <t@example.org>' 2>/dev/null
        git config --global user.name t; git config --global user.email t@example.org\n";
    let unreleased =
        "grep -q '^## .Unreleased.$' CHANGELOG.md || sed -i '0,/^## /s//## [Unreleased]\\n\\n## /' CHANGELOG.md
        git diff --quiet || git commit -q -a -m t\n";
    let end = "\ncd ../..
        git verify-tag v99.0.0 2>/dev/null
        gpg -q --verify target/packages/SHA256SUMS.asc target/packages/SHA256SUMS 2>/dev/null
        git status --porcelain
        packaging/recipes v99.0.0 2>/dev/null
        git status --porcelain
        git tag --list; git ls-tree -r --name-only v99.0.0 packaging/aur";
    let packages = "touch target/packages/shedlock_99.0.0-1_amd64.deb target/packages/shedlock-99.0.0-1.x86_64.rpm\n";
    let mut command = Command::new("bash");
    command.args(["-euc", &format!("{begin}{unreleased}{version}{tag}{packages}{sign}{end}")]);
    command.current_dir(place.path("copy"));
    command.env("PATH", format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap()));
    let finished = finish(&mut command);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let left = "target/packages/shedlock-99.0.0.tar.gz\nv99.0.0\npackaging/aur/.SRCINFO\npackaging/aur/PKGBUILD\n";
    assert!(finished.stdout.ends_with(left), "{finished:?}");

    // The old version stands nowhere that names the version.
    let changed = |file: &str| fs::read_to_string(place.path("copy").join(file)).unwrap();
    let old = env!("CARGO_PKG_VERSION");
    for file in ["packaging/aur/PKGBUILD", "packaging/aur/.SRCINFO", "packaging/homebrew/shedlock.rb", "man/shedlock.1"]
    {
        assert!(changed(file).contains("99.0.0") && !changed(file).contains(old), "{file}");
        assert!(text(file).contains(old), "{file}");
    }
    assert!(changed("docs/install.md").contains("shedlock_99.0.0-1_amd64.deb"));
    assert!(!changed("docs/install.md").contains(old));
    for file in ["Cargo.toml", "Cargo.lock"] {
        assert!(changed(file).contains("name = \"shedlock\"\nversion = \"99.0.0\"\n"), "{file}");
    }
    for file in ["providers/mongodb/Cargo.toml", "Cargo.lock"] {
        assert!(changed(file).contains("name = \"shedlock-provider-mongodb\"\nversion = \"99.0.0\"\n"), "{file}");
    }
    let sums = fs::read_to_string(place.path("copy/target/packages/SHA256SUMS")).unwrap();
    let sum = sums.lines().find_map(|line| line.strip_suffix("  shedlock-99.0.0.tar.gz")).unwrap();
    for file in ["packaging/aur/PKGBUILD", "packaging/aur/.SRCINFO", "packaging/homebrew/shedlock.rb"] {
        assert!(changed(file).contains(sum), "{file}");
    }
    let heading = changed("CHANGELOG.md").lines().find(|line| line.starts_with("## ")).unwrap().to_owned();
    assert!(heading.starts_with("## [99.0.0] - 20"), "{heading}");
    let _ = finish(Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", place.path("keys")));
}

#[test]
fn a_version_that_is_none_or_has_no_changes_is_refused() {
    let place = Place::new();
    let run = copy(&place);
    let refused = run(&["packaging/version", "v1"]);
    assert_eq!(
        (refused.code(), refused.stderr.as_str()),
        (Some(2), "packaging/version: a version is X.Y.Z, not `v1`\n")
    );
    run(&["sed", "-i", "s/^## .Unreleased.$/## [0.1.0] - 2026-01-01/", "CHANGELOG.md"]).is_silent_with(0);
    let refused = run(&["packaging/version", "99.0.0"]);
    assert_eq!(
        (refused.code(), refused.stderr.as_str()),
        (Some(1), "packaging/version: CHANGELOG.md has nothing under [Unreleased]\n")
    );
    assert_eq!(run(&["git", "diff", "--name-only", "--", "Cargo.toml"]).stdout, "");
}
