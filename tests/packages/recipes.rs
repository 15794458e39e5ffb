//! The recipes for Arch Linux and Homebrew, and that they and all else are of one version.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::fixtures::{by_nobody, change, mode, names_in, open_to_nobody};
use super::support::process::{copy_program, write_script};
use super::support::{Finished, Place, finish};
use super::text;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The only line that begins so, without its beginning.
#[track_caller]
fn line<'a>(text: &'a str, beginning: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(beginning));
    let line = lines.next().unwrap_or_else(|| panic!("no line begins with {beginning}"));
    assert_eq!(lines.next(), None, "{beginning}");
    line
}

#[test]
fn every_file_that_names_the_version_names_this_one() {
    let archive = format!("https://example.org/shedlock/shedlock-{VERSION}.tar.gz");
    assert_eq!(line(&text("packaging/aur/PKGBUILD"), "pkgver="), VERSION);
    assert_eq!(line(&text("packaging/aur/.SRCINFO"), "\tpkgver = "), VERSION);
    assert_eq!(line(&text("packaging/aur/.SRCINFO"), "\tsource = "), archive);
    assert_eq!(line(&text("packaging/homebrew/shedlock.rb"), "  url "), format!("\"{archive}\""));
    assert!(text("Cargo.lock").contains(&format!("name = \"shedlock\"\nversion = \"{VERSION}\"\n")));
    assert_eq!(line(&text("providers/mongodb/Cargo.toml"), "version = "), format!("\"{VERSION}\""));
    assert!(text("Cargo.lock").contains(&format!("name = \"shedlock-provider-mongodb\"\nversion = \"{VERSION}\"\n")));
    let pages = names_in(&Path::new(ROOT).join("man"));
    assert!(pages.len() > 15, "{pages:?}");
    for page in pages {
        let text = text(&format!("man/{page}"));
        assert!(line(&text, ".TH ").ends_with(&format!("\"shedlock {VERSION}\"")), "{page}");
    }
    let install = text("docs/install.md");
    for package in ["-VERSION-linux-x86_64.tar.gz", "_VERSION-1_amd64.deb", "-VERSION-1.x86_64.rpm"] {
        assert!(install.contains(&format!("shedlock{}", package.replace("VERSION", VERSION))), "{package}");
    }
    // What is not released yet stands under `Unreleased`; what is, under its version.
    let changelog = text("CHANGELOG.md");
    let heading = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!(heading == "[Unreleased]" || heading.starts_with(&format!("[{VERSION}] - ")), "{heading}");
}

/// This repository as it is now, as the only commit of another, and a command there.
pub(crate) fn copy(place: &Place) -> impl Fn(&[&str]) -> Finished {
    let directory = place.path("copy");
    fs::create_dir(&directory).unwrap();
    let script = "cd \"$1\"; git ls-files -z --cached --others --exclude-standard >\"$2/.files\"
        xargs -0 cp --parents -t \"$2\" <\"$2/.files\"; cd \"$2\"; rm .files; git init -q; git add .; \
        git -c user.name=t -c user.email=t@example.org commit -q -m t";
    let copied = finish(Command::new("sh").args(["-euc", script, "sh", ROOT]).arg(&directory));
    assert_eq!(copied.code(), Some(0), "{copied:?}");
    move |words| finish(Command::new(words[0]).args(&words[1..]).current_dir(&directory))
}

#[test]
fn the_recipes_get_the_version_and_the_checksum_of_an_archive_that_is_made_the_same_twice() {
    let place = Place::new();
    let run = copy(&place);
    let recipes = || {
        let made = run(&["packaging/recipes"]);
        assert_eq!(made.code(), Some(0), "{made:?}");
        let archive = place.path("copy").join(made.stdout.trim());
        let sum = finish(Command::new("sha256sum").arg(&archive)).stdout[..64].to_owned();
        (archive, sum)
    };
    run(&["sed", "-i", &format!("s/^version = \"{VERSION}\"/version = \"7.8.9\"/"), "Cargo.toml"]).is_silent_with(0);
    run(&["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-a", "-m", "t"])
        .is_silent_with(0);
    let (archive, sum) = recipes();
    assert!(archive.ends_with("shedlock-7.8.9.tar.gz"), "{archive:?}");
    assert_eq!(recipes(), (archive.clone(), sum.clone()));
    let listed = finish(Command::new("tar").arg("-tf").arg(&archive)).stdout;
    assert!(listed.lines().all(|name| name.starts_with("shedlock-7.8.9/")), "{listed}");
    assert!(listed.contains("/.cargo/config.toml\n") && !listed.contains("packaging/aur"), "{listed}");
    let read = |file: &str| fs::read_to_string(place.path("copy").join(file)).unwrap();
    let formula = read("packaging/homebrew/shedlock.rb");
    assert_eq!(line(&formula, "  sha256 "), format!("\"{sum}\""));
    assert!(line(&formula, "  url ").ends_with("/shedlock-7.8.9.tar.gz\""));
    assert_eq!(line(&read("packaging/aur/PKGBUILD"), "sha256sums="), format!("('{sum}')"));
    let [directory] = ["aur"].map(|name| open_to_nobody(&place, name));
    fs::copy(place.path("copy/packaging/aur/PKGBUILD"), directory.join("PKGBUILD")).unwrap();
    let printed = finish(&mut by_nobody(Command::new("makepkg").arg("--printsrcinfo").current_dir(&directory)));
    assert_eq!((printed.stdout, printed.stderr.as_str()), (read("packaging/aur/.SRCINFO"), ""));
}

#[test]
fn the_srcinfo_is_that_of_the_pkgbuild() {
    let place = Place::new();
    let directory = open_to_nobody(&place, "aur");
    fs::write(directory.join("PKGBUILD"), text("packaging/aur/PKGBUILD")).unwrap();
    let printed = finish(&mut by_nobody(Command::new("makepkg").arg("--printsrcinfo").current_dir(&directory)));
    assert_eq!((printed.stdout, printed.stderr.as_str()), (text("packaging/aur/.SRCINFO"), ""));
}

/// A cargo that notes what it is asked for, and a shedlock that is built in no time.
const CARGO: &str = r#"#!/bin/sh
echo "$*" >>../../../asked
echo "RUSTFLAGS=${RUSTFLAGS-unset}" >>../../../asked
env | sed -n "/^CARGO_TARGET_.*_RUSTFLAGS=/{s,=$PWD=,=PWD=,;s,=$HOME/,=HOME/,;p}" >>../../../asked
if [ "$1" = build ]; then
    mkdir -p "$CARGO_TARGET_DIR/x86_64-test-linux/release"
    cp SHEDLOCK "$CARGO_TARGET_DIR/x86_64-test-linux/release/shedlock"
fi
"#;

#[test]
fn makepkg_makes_a_package_with_program_manual_completions_and_licences() {
    let place = Place::new();
    let run = copy(&place);
    let made = run(&["packaging/recipes"]);
    assert_eq!(made.code(), Some(0), "{made:?}");
    let directory = open_to_nobody(&place, "aur");
    fs::copy(place.path("copy/packaging/aur/PKGBUILD"), directory.join("PKGBUILD")).unwrap();
    let archive = place.path("copy").join(made.stdout.trim());
    fs::copy(&archive, directory.join(archive.file_name().unwrap())).unwrap();
    fs::create_dir(place.path("bin")).unwrap();
    copy_program(env!("CARGO_BIN_EXE_shedlock"), place.path("bin/built"));
    write_script(&place, "bin/cargo", &CARGO.replace("SHEDLOCK", place.path("bin/built").to_str().unwrap()));
    write_script(&place, "bin/rustc", "#!/bin/sh\necho x86_64-test-linux\n");
    fs::write(place.path("asked"), "").unwrap();
    change("chmod", "0666", &place.path("asked"));

    let mut makepkg = Command::new("makepkg");
    makepkg.args(["--nodeps", "--noconfirm"]).current_dir(&directory).env("PKGEXT", ".pkg.tar").env("HOME", &directory);
    makepkg.env_remove("CARGO_HOME");
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    let built = finish(&mut by_nobody(makepkg.env("PATH", path).env("RUSTFLAGS", "-C some=flag")));
    assert_eq!(built.code(), Some(0), "{built:?}");
    let asked = "fetch --locked --target x86_64-test-linux\nRUSTFLAGS=-C some=flag\nbuild --frozen --release\nRUSTFLAGS=unset\n\
                 CARGO_TARGET_X86_64_TEST_LINUX_RUSTFLAGS=--remap-path-prefix=HOME/.cargo/registry/src=/crates \
                 --remap-path-prefix=PWD=/shedlock\n";
    assert_eq!(place.read("asked"), asked);

    let package = names_in(&directory).into_iter().find(|name| name.ends_with(".pkg.tar")).unwrap();
    assert!(package.starts_with(&format!("shedlock-{VERSION}-1-")), "{package}");
    let listed = finish(Command::new("pacman").arg("-Qlp").arg(directory.join(&package)));
    let files: Vec<&str> = listed.stdout.lines().filter_map(|line| line.strip_prefix("shedlock ")).collect();
    let mut wanted: Vec<String> = ["bin/shedlock", "share/bash-completion/completions/shedlock"]
        .into_iter()
        .chain(["share/zsh/site-functions/_shedlock", "share/fish/vendor_completions.d/shedlock.fish"])
        .chain(["share/doc/shedlock/README.md", "share/doc/shedlock/CHANGELOG.md"])
        .chain(["share/licenses/shedlock/LICENSE-MIT", "share/licenses/shedlock/LICENSE-APACHE"])
        .chain(["share/licenses/shedlock/THIRD-PARTY"])
        .map(|file| format!("/usr/{file}"))
        .collect();
    let section = |page: &str| page.rsplit_once('.').unwrap().1.to_owned();
    let pages = names_in(&Path::new(ROOT).join("man"));
    wanted.extend(pages.iter().map(|page| format!("/usr/share/man/man{}/{page}.gz", section(page))));
    for (directory, ending, place) in [
        ("packaging/examples", "", "examples"),
        ("packaging/kubernetes", "", "examples/kubernetes"),
        ("docs", ".md", "docs"),
        ("docs/images", ".svg", "docs/images"),
        ("docs/images", ".png", "docs/images"),
        ("docs/json", ".json", "json"),
    ] {
        let files = names_in(&Path::new(ROOT).join(directory)).into_iter().filter(|file| file.ends_with(ending));
        wanted.extend(files.map(|file| format!("/usr/share/doc/shedlock/{place}/{file}")));
    }
    let rules = ["README.md", "dashboard.json", "shedlock.rules.yml"];
    wanted.extend(rules.map(|file| format!("/usr/share/doc/shedlock/examples/prometheus/{file}")));
    let mut found: Vec<&str> = files.into_iter().filter(|file| !file.ends_with('/')).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);

    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    let unpacked = finish(Command::new("bsdtar").arg("-xf").arg(directory.join(&package)).arg("-C").arg(&out));
    unpacked.is_silent_with(0);
    assert_eq!(mode(&out.join("usr/bin/shedlock")), 0o755);
    let said = finish(Command::new(out.join("usr/bin/shedlock")).arg("--version"));
    assert_eq!(said.stdout, format!("shedlock {VERSION}\n"));
    let completions = fs::read_to_string(out.join("usr/share/zsh/site-functions/_shedlock")).unwrap();
    assert!(completions.starts_with("#compdef shedlock"));
}

#[test]
fn the_formula_installs_and_its_test_passes() {
    let place = Place::new();
    let formula = Path::new(ROOT).join("packaging/homebrew/shedlock.rb");
    let checked = finish(Command::new("ruby").args(["-w", "-c"]).arg(&formula));
    assert_eq!((checked.stdout.as_str(), checked.stderr.as_str()), ("Syntax OK\n", ""));
    let harness = Path::new(ROOT).join("tests/packages/formula.rb");
    let mut ruby = Command::new("ruby");
    ruby.arg(harness).arg(&formula).arg(env!("CARGO_BIN_EXE_shedlock")).arg(place.path("prefix")).current_dir(ROOT);
    let installed = finish(&mut ruby);
    assert_eq!((installed.code(), installed.stderr.as_str()), (Some(0), ""), "{installed:?}");
    let said = installed.stdout;
    assert_eq!(
        line(&said, "license: ").replace("=>", " ").replace([':', '{', '}'], ""),
        "any_of [\"MIT\", \"Apache-2.0\"]"
    );
    assert_eq!((line(&said, "depends on rust: "), line(&said, "depends on linux: ")), ("build", "run"));
    assert_eq!(line(&said, "sha256: ").len(), 64);
    let desc = line(&said, "desc: ");
    assert!(desc.len() <= 80 && !desc.ends_with('.') && !desc.starts_with("A "), "{desc}");
    for file in [
        "bin/shedlock",
        "share/man/man1/shedlock-run.1",
        "share/man/man5/shedlock.toml.5",
        "share/man/man7/shedlock-fencing.7",
    ]
    .into_iter()
    .chain(["etc/bash_completion.d/shedlock", "share/zsh/site-functions/_shedlock"])
    .chain(["share/fish/vendor_completions.d/shedlock.fish", "share/shedlock/examples/crontab", "THIRD-PARTY"])
    {
        assert!(place.path("prefix").join(file).is_file(), "{file}");
    }
}
