//! What `packaging/build` has made, and running commands upon it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Settings of cargo, and how a package is made.
const COMMON: [&str; 5] = [".cargo", "Cargo.toml", "Cargo.lock", "packaging/build", "providers/protocol"];

/// What is distributed in packages of its own.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// Where a system's package installs the program.
    pub(crate) program: &'static str,
    /// Where the files are that only this package is made of.
    directory: &'static str,
    /// Sources of the program and the metadata. All else in a package is compared with the sources, see `contents`.
    sources: &'static [&'static str],
}

pub(crate) const SHEDLOCK: Package = Package {
    name: "shedlock",
    program: "usr/bin/shedlock",
    directory: "packaging",
    sources: &[
        "src",
        "docs/json",
        "packaging/debian/control",
        "packaging/examples",
        "packaging/kubernetes/cronjob.yaml",
        "packaging/kubernetes/rbac.yaml",
        "packaging/rpm/shedlock.spec",
    ],
};

pub(crate) const MONGODB: Package = Package {
    name: "shedlock-provider-mongodb",
    program: "usr/libexec/shedlock/shedlock-provider-mongodb",
    directory: "packaging/mongodb",
    sources: &[
        "providers/mongodb/Cargo.toml",
        "providers/mongodb/src",
        "packaging/mongodb/debian/control",
        "packaging/mongodb/rpm/shedlock-provider-mongodb.spec",
    ],
};

/// All that is distributed.
pub(crate) const ALL: [Package; 2] = [SHEDLOCK, MONGODB];

/// This machine, in the words of Rust and of rpm.
pub(crate) const ARCH: &str = std::env::consts::ARCH;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of this repository.
pub(crate) fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

impl Package {
    /// A file that only this package is made of, from the top of the sources.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The static binary.
    pub(crate) fn binary(&self) -> PathBuf {
        self.made("binary", &format!("{ARCH}/{}", self.name))
    }

    pub(crate) fn deb(&self) -> PathBuf {
        let arch = if ARCH == "x86_64" { "amd64" } else { "arm64" };
        self.made("deb", &format!("{}_{VERSION}-1_{arch}.deb", self.name))
    }

    pub(crate) fn rpm(&self) -> PathBuf {
        self.made("rpm", &format!("{}-{VERSION}-1.{ARCH}.rpm", self.name))
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.made("archive", &format!("{}-{VERSION}-linux-{ARCH}.tar.gz", self.name))
    }

    /// What `packaging/build KIND` makes; it is there, and no older than what it was made of.
    fn made(&self, kind: &str, file: &str) -> PathBuf {
        let path = source("target/packages").join(file);
        let build = format!("packaging/build {kind} {}", self.name);
        let Ok(time) = fs::metadata(&path).and_then(|metadata| metadata.modified()) else {
            panic!("{} is missing; {build} makes it", path.display());
        };
        let sources = COMMON.iter().chain(self.sources);
        let (newest, file) = sources.map(|file| newest(&source(file))).max().unwrap();
        assert!(time >= newest, "{} is older than {}; {build} makes it anew", path.display(), file.display());
        path
    }
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
    in_namespaces(&["--net"], text, words)
}

/// The same in the network of this host, with the servers of the tests in it.
pub(crate) fn beside_servers(text: &str, words: &[&Path]) -> String {
    in_namespaces(&[], text, words)
}

fn in_namespaces(options: &[&str], text: &str, words: &[&Path]) -> String {
    let unshare = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"];
    let shell = ["sh", "-euc", text, "sh"];
    let all = unshare.iter().chain(options).chain(&shell);
    let mut all: Vec<&std::ffi::OsStr> = all.map(std::ffi::OsStr::new).collect();
    all.extend(words.iter().map(|word| word.as_os_str()));
    as_root(&all)
}
