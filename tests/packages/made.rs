//! What `packaging/build` has made, and running commands upon it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Sources of the program and the metadata. All else in a package is compared with the sources, see `contents`.
const SOURCES: [&str; 11] = [
    ".cargo",
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "docs/json",
    "packaging/build",
    "packaging/debian/control",
    "packaging/examples",
    "packaging/kubernetes/cronjob.yaml",
    "packaging/kubernetes/rbac.yaml",
    "packaging/rpm/shedlock.spec",
];

/// This machine, in the words of Rust and of rpm.
pub(crate) const ARCH: &str = std::env::consts::ARCH;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of this repository.
pub(crate) fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// The static binary.
pub(crate) fn binary() -> PathBuf {
    made("binary", &format!("{ARCH}/shedlock"))
}

pub(crate) fn deb() -> PathBuf {
    let arch = if ARCH == "x86_64" { "amd64" } else { "arm64" };
    made("deb", &format!("shedlock_{VERSION}-1_{arch}.deb"))
}

pub(crate) fn rpm() -> PathBuf {
    made("rpm", &format!("shedlock-{VERSION}-1.{ARCH}.rpm"))
}

pub(crate) fn archive() -> PathBuf {
    made("archive", &format!("shedlock-{VERSION}-linux-{ARCH}.tar.gz"))
}

/// What `packaging/build KIND` makes; it is there, and no older than what it was made of.
fn made(kind: &str, name: &str) -> PathBuf {
    let path = source("target/packages").join(name);
    let Ok(time) = fs::metadata(&path).and_then(|metadata| metadata.modified()) else {
        panic!("{} is missing; packaging/build {kind} makes it", path.display());
    };
    let (newest, file) = SOURCES.iter().map(|file| newest(&source(file))).max().unwrap();
    assert!(
        time >= newest,
        "{} is older than {}; packaging/build {kind} makes it anew",
        path.display(),
        file.display()
    );
    path
}

/// The time of the file that was written last, in a directory or alone.
fn newest(path: &Path) -> (SystemTime, PathBuf) {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| newest(&entry.unwrap().path()));
        entries.max().unwrap_or((SystemTime::UNIX_EPOCH, path.to_owned()))
    } else {
        (fs::metadata(path).unwrap().modified().unwrap(), path.to_owned())
    }
}

/// Runs a command as root, which has to succeed, and returns what it printed.
pub(crate) fn as_root<A: AsRef<std::ffi::OsStr>>(words: &[A]) -> String {
    let mut command = if nix::unistd::geteuid().is_root() { Command::new("env") } else { Command::new("sudo") };
    if !nix::unistd::geteuid().is_root() {
        command.arg("-n");
    }
    command.args(words);
    command.stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // The text of a script is long, and is in the test.
    let name = words[0].as_ref().display();
    assert!(output.status.success(), "{name}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}

/// Runs shell text as root in namespaces of its own, where `$1`, `$2`, … are the words, and returns what it printed. There
/// is no network, and nothing that is mounted or started there outlives it.
pub(crate) fn alone(text: &str, words: &[&Path]) -> String {
    let unshare = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"];
    let mut all: Vec<&std::ffi::OsStr> = unshare.iter().map(std::ffi::OsStr::new).collect();
    all.extend(["sh", "-euc", text, "sh"].map(std::ffi::OsStr::new));
    all.extend(words.iter().map(|word| word.as_os_str()));
    as_root(&all)
}
