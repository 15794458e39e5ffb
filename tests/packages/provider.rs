//! The packages of the provider of MongoDB: what is in them, and that shedlock finds it where they put it and runs a job with it.

use std::path::{Path, PathBuf};

use super::archive::lines;
use super::container::{Store, everything_in};
use super::contents::{Contents, add, assert_contains};
use super::debian::on_clean_debian_beside_servers;
use super::made::{ARCH, MONGODB, SHEDLOCK, VERSION, beside_servers, source};
use super::root::{Root, programs};
use super::rpm::{EMPTY, INSTALL, directories};
use super::support::finish;
use super::text;

const NAME: &str = MONGODB.name;
/// What shedlock says without the provider.
const MISSING: &str = "there is no program shedlock-provider-mongodb; install the package shedlock-provider-mongodb";

/// The URL of a database that nobody else uses.
fn database() -> String {
    format!("mongodb://127.0.0.1:{}/{}", servers::mongodb().port(), servers::unique("test"))
}

/// The text of a test, with a database.
fn with_database(text: &str) -> String {
    format!("export SHEDLOCK_BACKEND={}\n{text}", database())
}

fn of_a_system() -> Contents {
    Contents::from([(MONGODB.program.to_owned(), Some(MONGODB.binary()))])
}

#[test]
fn the_archive_has_every_file_and_no_other() {
    let top = format!("{NAME}-{VERSION}-linux-{ARCH}");
    let mut contents = Contents::from([(format!("{top}/{NAME}"), Some(MONGODB.binary()))]);
    for (name, file) in [
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("THIRD-PARTY", "packaging/mongodb/THIRD-PARTY"),
        ("INSTALL", "packaging/mongodb/archive/INSTALL"),
    ] {
        add(&mut contents, &format!("{top}/{name}"), file);
    }
    let package = MONGODB.archive();
    assert_contains(&package, &["tar", "-xf", package.to_str().unwrap(), "-C"], &contents);
}

#[test]
fn the_deb_has_every_file_and_no_other() {
    let mut contents = of_a_system();
    let documents = format!("usr/share/doc/{NAME}");
    let overrides = "packaging/mongodb/debian/lintian-overrides";
    add(&mut contents, &format!("usr/share/lintian/overrides/{NAME}"), overrides);
    add(&mut contents, &format!("{documents}/copyright"), "packaging/debian/copyright");
    add(&mut contents, &format!("{documents}/THIRD-PARTY.gz"), "packaging/mongodb/THIRD-PARTY");
    add(&mut contents, &format!("{documents}/changelog.gz"), "CHANGELOG.md");
    contents.insert(format!("{documents}/changelog.Debian.gz"), None);
    let package = MONGODB.deb();
    assert_contains(&package, &["dpkg-deb", "--extract", package.to_str().unwrap()], &contents);
}

#[test]
fn the_rpm_has_every_file_and_no_other() {
    let mut contents = of_a_system();
    add(&mut contents, &format!("usr/share/doc/{NAME}/CHANGELOG.md"), "CHANGELOG.md");
    for (name, file) in [
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("THIRD-PARTY", "packaging/mongodb/THIRD-PARTY"),
    ] {
        add(&mut contents, &format!("usr/share/licenses/{NAME}/{name}"), file);
    }
    let package = MONGODB.rpm();
    assert_contains(&package, &["bsdtar", "-xf", package.to_str().unwrap(), "-C"], &contents);
    let own = ["libexec/shedlock", "share/doc/shedlock-provider-mongodb", "share/licenses/shedlock-provider-mongodb"];
    assert_eq!(directories(&MONGODB), own.map(|directory| format!("/usr/{directory}")));
}

#[test]
fn the_deb_is_installed_upgraded_and_purged_beside_shedlock() {
    let printed = on_clean_debian_beside_servers(
        &[&SHEDLOCK.deb(), &MONGODB.deb()],
        &with_database(
            r#"
provider=/root/$(basename "$2")
quietly() { "$@" >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }; }
shedlock() { in_root env SHEDLOCK_BACKEND=$SHEDLOCK_BACKEND shedlock "$@" 2>&1; }
# It is of no use alone.
if in_root dpkg --install $provider >/mnt/log 2>&1; then cat /mnt/log; exit 1; fi
grep -o 'depends on shedlock (>= 0.1)' /mnt/log
quietly in_root dpkg --purge shedlock-provider-mongodb
quietly in_root dpkg --install $package
files >/mnt/before
shedlock run --name none --at-most 1m -- echo never || echo "code $?"
quietly in_root apt-get install -q -y $provider
in_root dpkg --verify shedlock-provider-mongodb
shedlock run --name first --at-most 1m -- echo ran
# The same again, as an upgrade does it.
quietly in_root dpkg --install $provider
shedlock run --name second --at-most 1m -- echo ran
shedlock history --json | grep -o '"name": *"[a-z]*"' | tr -d ' '
quietly in_root dpkg --purge shedlock-provider-mongodb
shedlock run --name third --at-most 1m -- echo never || echo "code $?"
files | comm -3 /mnt/before - | grep -v -e ./var/lib/dpkg -e ./var/log -e ./var/lib/apt -e ./var/cache/apt || :
"#,
        ),
    );
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "depends on shedlock (>= 0.1)",
        MISSING,
        "code 125",
        "ran",
        "ran",
        r#""name":"second""#,
        r#""name":"first""#,
        MISSING,
        "code 125",
    ];
    assert_eq!(lines.len(), expected.len(), "{printed}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.ends_with(expected), "{expected}: {printed}");
    }
}

#[test]
fn the_rpm_is_installed_upgraded_and_erased_where_nothing_else_is() {
    let printed = beside_servers(
        &format!(
            "RPM=$1\n{EMPTY}{INSTALL}{}",
            with_database(
                "mkdir -p usr/libexec
                in_root() { chroot /mnt/root /usr/bin/shedlock \"$@\"; }
                list >/mnt/alone
                in_rpm --install --nodeps $2
                in_rpm --verify --nodeps shedlock-provider-mongodb
                in_root run --name first --at-most 1m -- /usr/bin/shedlock --version
                # The same again, as an upgrade does it.
                in_rpm --nodeps --upgrade --replacepkgs $2
                in_root run --name second --at-most 1m -- /usr/bin/shedlock --version
                in_root history --json | grep -o '\"name\": *\"[a-z]*\"' | tr -d ' '
                in_rpm --erase shedlock-provider-mongodb
                in_root run --name third --at-most 1m -- /usr/bin/shedlock --version 2>&1 || echo code $?
                list | comm -3 /mnt/alone -"
            )
        ),
        &[&SHEDLOCK.rpm(), &MONGODB.rpm()],
    );
    let version = format!("shedlock {VERSION}\n");
    let runs = format!("{version}{version}\"name\":\"second\"\n\"name\":\"first\"\n");
    let left = printed.strip_prefix(&runs).unwrap_or_else(|| panic!("{printed}"));
    assert!(left.ends_with(&format!("{MISSING}\ncode 125\n")) && left.lines().count() == 2, "{printed}");
}

#[test]
fn the_lines_of_install_put_it_where_shedlock_finds_it_and_take_it_away_again() {
    let (install, remove) = lines(&MONGODB);
    assert!(text("docs/install.md").contains(&format!("\n{install}\n")), "docs/install.md has not the line {install}");
    let text = r#"
shedlock() { in_root env SHEDLOCK_BACKEND=$SHEDLOCK_BACKEND shedlock "$@" 2>&1; }
in_root install -D /root/shedlock /usr/local/bin/shedlock
in_root sh -euc 'cd /root; tar -xzf "$1"' sh "$package"
files >/mnt/before
in_root sh -euc 'cd /root/shedlock-*/; INSTALL'
shedlock run --name first --at-most 1m -- echo ran
in_root sh -euc 'REMOVE'
shedlock run --name second --at-most 1m -- echo never || echo "code $?"
files | comm -3 /mnt/before -
"#;
    let text = text.replace("INSTALL", &install).replace("REMOVE", &remove);
    let printed = on_clean_debian_beside_servers(&[&MONGODB.archive(), &SHEDLOCK.binary()], &with_database(&text));
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    assert!(lines.len() >= 3 && lines[1].ends_with(MISSING), "{printed}");
    assert_eq!((lines[0], lines[2]), ("ran", "code 125"), "{printed}");
    assert!(lines[3..].iter().all(|left| *left == "./usr/local/libexec/shedlock" || *left == "./usr/local/libexec"));
}

#[test]
fn it_needs_no_other_file_of_the_system() {
    let url = database();
    for program in programs() {
        let root = Root::with(&program);
        root.write("usr/libexec/shedlock/none", "");
        root.copy(&MONGODB.binary(), MONGODB.program);
        let mut run = root.run(["--lease", "10s", "--", "/shedlock", "--version"]);
        let finished = finish(run.env("SHEDLOCK_BACKEND", &url));
        let version = format!("shedlock {VERSION}\n");
        assert_eq!((finished.code(), finished.stdout, finished.stderr.as_str()), (Some(0), version, ""));
    }
}

#[test]
fn the_image_with_it_has_nothing_but_the_two_programs_and_runs_a_job() {
    let store = Store::new();
    store.build_target("prebuilt-mongodb");
    let container = store.buildah(&["from", "shedlock"]);
    let place = store.buildah(&["mount", &container]);
    let below =
        ["", "/bin", "/bin/shedlock", "/libexec", "/libexec/shedlock"].map(|name| format!("usr/local{name} 755 0"));
    let provider = format!("usr/local/libexec/shedlock/{NAME} 755 0");
    assert_eq!(everything_in(Path::new(&place)), [&["usr 755 0".to_owned()], &below[..], &[provider]].concat());
    let backend = format!("SHEDLOCK_BACKEND={}", database());
    let options = ["--network", "host", "--read-only", "-e", &backend, "shedlock"];
    let job =
        ["run", "--name", "job", "--at-most", "1m", "--lease", "10s", "--", "/usr/local/bin/shedlock", "--version"];
    let finished = finish(&mut store.run(&[&options[..], &job].concat()));
    assert_eq!((finished.code(), finished.stdout), (Some(0), format!("shedlock {VERSION}\n")), "{}", finished.stderr);
}

/// The stages of the Dockerfile that compile, which no test here can build: they put the programs where the others do.
#[test]
fn every_image_has_the_provider_at_the_same_place() {
    let dockerfile = std::fs::read_to_string(source("packaging/container/Dockerfile")).unwrap();
    let copies = dockerfile.lines().filter(|line| {
        line.starts_with("COPY ") && line.contains("PROVIDER} ") || line.contains("/out/shedlock-provider-mongodb /")
    });
    let places: Vec<PathBuf> = copies.map(|line| line.rsplit(' ').next().unwrap().into()).collect();
    assert_eq!(places, [format!("/usr/local/libexec/shedlock/{NAME}").as_str(); 3].map(PathBuf::from));
}
