//! The rpm package, with rpm's own tools. They need no system of Red Hat's: what is installed is a directory.

use std::process::Command;

use super::contents::{add, assert_contains, of_a_system};
use super::debian::on_clean_debian;
use super::made::{ALL, ARCH, MONGODB, Package, SHEDLOCK, VERSION, alone, source};

/// An empty root in /mnt/root.
pub(crate) const EMPTY: &str = "
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/root/proc
mount -t proc proc /mnt/root/proc
";

/// Makes the directories that the package `filesystem` has everywhere, and installs the package in /mnt/root. Where
/// Debian's rpm has its database by default is nobody else's place.
pub(crate) const INSTALL: &str = r#"
cd /mnt/root
for section in 1 5 7; do mkdir -p usr/share/man/man$section; done
mkdir -p usr/bin usr/share/doc usr/share/licenses usr/share/bash-completion/completions usr/share/zsh/site-functions \
    usr/share/fish/vendor_completions.d var/lib
list() { find . -xdev \( -path ./proc -o -path ./dev -o -path ./var/lib/rpm \) -prune -o -print | sort; }
in_rpm() { rpm --root /mnt/root --dbpath /var/lib/rpm "$@"; }
in_rpm --initdb
list >/mnt/before
in_rpm --nodeps --install "$RPM"
"#;

/// Asks a package for something.
pub(crate) fn query(package: &Package, options: &[&str]) -> String {
    let output = Command::new("rpm").args(options).arg(package.rpm()).output().expect("this test needs rpm");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_rpm_says_what_it_is_and_needs_nothing_but_the_program_of_its_provider() {
    says_what_it_is(&SHEDLOCK, "Run a command under a named lock, so that it never runs twice at once", &[]);
    says_what_it_is(&MONGODB, "Keep the locks of shedlock in MongoDB", &["shedlock >= 0.1"]);
}

#[track_caller]
fn says_what_it_is(package: &Package, summary: &str, needs: &[&str]) {
    let query = |options: &[&str]| query(package, options);
    let info = query(&["-qp", "--info"]);
    let lines: Vec<String> = info.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        &format!("Name : {}", package.name),
        &format!("Version : {VERSION}"),
        "Release : 1",
        &format!("Architecture: {ARCH}"),
        "License : MIT OR Apache-2.0",
        "Build Host : localhost",
        &format!("Summary : {summary}"),
    ] {
        assert!(lines.iter().any(|found| found == line), "{line} is not in {info}");
    }
    assert_eq!(query(&["-qp", "--scripts", "--triggers", "--filetriggers"]), "");
    let requires = query(&["-qp", "--requires", "--recommends", "--suggests"]);
    let requires: Vec<&str> = requires.lines().filter(|line| !line.starts_with("rpmlib(")).collect();
    assert_eq!(requires, needs);
    assert_eq!(query(&["-K", "--nosignature"]).rsplit_once(": ").unwrap().1, "digests OK\n");
}

#[test]
fn every_file_of_the_rpm_is_roots_and_no_other_can_write_it() {
    ALL.iter().for_each(is_roots);
}

#[track_caller]
fn is_roots(package: &Package) {
    let query = |options: &[&str]| query(package, options);
    let format = "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\\n]";
    let listed = query(&["-qp", "--queryformat", format]);
    let mut files = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let expected = match words[3] {
            file if file[1..] == *package.program => "-rwxr-xr-x",
            _ if words[0].starts_with('d') => "drwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!(words[..3], [expected, "root", "root"], "{line}");
        files.push(words[3].to_owned());
    }
    assert_eq!(query(&["-qp", "--list"]).lines().collect::<Vec<_>>(), files);
}

/// The directories that a package has as its own.
pub(crate) fn directories(package: &Package) -> Vec<String> {
    let listed = query(package, &["-qp", "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\\n]"]);
    listed.lines().filter_map(|line| line.strip_prefix("drwxr-xr-x ")).map(str::to_owned).collect()
}

#[test]
fn the_rpm_has_every_directory_that_only_it_fills_and_no_other() {
    let documents = ["", "/docs", "/docs/images", "/examples", "/examples/kubernetes", "/examples/prometheus", "/json"];
    let mut expected = documents.map(|directory| format!("/usr/share/doc/shedlock{directory}")).to_vec();
    expected.push("/usr/share/licenses/shedlock".to_owned());
    assert_eq!(directories(&SHEDLOCK), expected);
}

#[test]
fn the_rpm_knows_its_documents_and_licences() {
    ALL.iter().for_each(knows_its_documents);
}

#[track_caller]
fn knows_its_documents(package: &Package) {
    let query = |options: &[&str]| query(package, options);
    let listed = query(&["-qp", "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\\n]"]);
    let files: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("-rw-r--r-- ")).collect();
    let places: [(&str, &[&str]); 2] =
        [("--docfiles", &["/usr/share/doc/", "/usr/share/man/"]), ("--licensefiles", &["/usr/share/licenses/"])];
    for (option, places) in places {
        let expected = files.iter().filter(|file| places.iter().any(|place| file.starts_with(place)));
        let expected: Vec<&str> = expected.copied().collect();
        assert_eq!(query(&["-qp", option]).lines().collect::<Vec<_>>(), expected, "{option}");
    }
}

#[test]
fn the_rpm_has_every_file_and_no_other() {
    let mut contents = of_a_system();
    let completion = "usr/share/zsh/site-functions/_shedlock";
    add(&mut contents, completion, "packaging/completions/_shedlock");
    for name in ["README.md", "CHANGELOG.md"] {
        add(&mut contents, &format!("usr/share/doc/shedlock/{name}"), name);
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "packaging/THIRD-PARTY"] {
        let name = file.trim_start_matches("packaging/");
        add(&mut contents, &format!("usr/share/licenses/shedlock/{name}"), file);
    }
    let package = SHEDLOCK.rpm();
    assert_contains(&package, &["bsdtar", "-xf", package.to_str().unwrap(), "-C"], &contents);
}

/// Runs shell text where the package has been installed, beside nothing or on a clean Debian.
fn in_an_empty_root(text: &str) -> String {
    alone(&format!("RPM=$1\n{EMPTY}{INSTALL}{text}"), &[&SHEDLOCK.rpm()])
}

fn on_debian(text: &str) -> String {
    on_clean_debian(&SHEDLOCK.rpm(), &format!("RPM=$1\n{INSTALL}{text}"))
}

#[test]
fn what_the_rpm_installs_runs_where_nothing_else_is() {
    let printed = in_an_empty_root(
        "in_rpm --verify --nodeps shedlock
        chroot /mnt/root /usr/bin/shedlock --version
        chroot /mnt/root /usr/bin/shedlock run --name inner --at-most 1m -- /usr/bin/shedlock verify",
    );
    assert_eq!(printed, format!("shedlock {VERSION}\n"));
}

#[test]
fn erasing_the_rpm_leaves_nothing_but_the_data() {
    let printed = on_debian(
        "in_root shedlock run --name first --at-most 1m -- true
        # The same again, as an upgrade does it.
        in_rpm --nodeps --upgrade --replacepkgs $RPM
        in_rpm --verify --nodeps shedlock
        in_root shedlock history --json | grep -o '\"name\": *\"[a-z]*\"' | tr -d ' '
        in_rpm --erase shedlock
        list | comm -3 /mnt/before -",
    );
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    assert_eq!(lines[..3], [r#""name":"first""#, "./var/lib/shedlock", "./var/lib/shedlock/shedlock.db"]);
    assert!(lines[1..].iter().all(|line| line.starts_with("./var/lib/shedlock")), "{printed}");
}

#[test]
fn erasing_the_rpm_keeps_a_directory_with_another_file_in_it() {
    let printed = on_debian(
        "echo mine >usr/share/doc/shedlock/notes
        in_rpm --erase shedlock
        list | comm -3 /mnt/before -",
    );
    assert_eq!(
        printed.split_whitespace().collect::<Vec<_>>(),
        ["./usr/share/doc/shedlock", "./usr/share/doc/shedlock/notes"]
    );
}

#[test]
fn rpm_notices_a_file_that_was_changed() {
    let printed = in_an_empty_root(
        "echo more >>usr/share/doc/shedlock/README.md
        chmod g+w usr/bin/shedlock
        in_rpm --verify --nodeps shedlock || :",
    );
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert!(lines.iter().any(|line| line.starts_with(".M") && line.ends_with("/usr/bin/shedlock")), "{printed}");
    assert!(lines.iter().any(|line| line.starts_with("S.5") && line.ends_with("README.md")), "{printed}");
}

#[test]
fn rpmlint_has_nothing_to_say_that_is_not_explained() {
    let configuration = source("packaging/rpm/rpmlint.toml");
    for package in ALL {
        let mut rpmlint = Command::new("rpmlint");
        rpmlint.arg("--config").arg(&configuration).arg(package.rpm());
        let output = rpmlint.output().expect("this test needs rpmlint");
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.contains(" 0 errors, 0 warnings"), "{printed}");
    }
}
