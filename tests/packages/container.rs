//! Containers and their images, in a store of a test's own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::root::repository;
use super::support::{Finished, finish};

/// Images and containers that are gone with the test.
pub(crate) struct Store {
    directory: TempDir,
}

/// Podman's runtime knows the second version of control groups only. Where the first is in use too, as on some machines that
/// tests run on, it gets a /sys/fs/cgroup of its own; no group is made.
const RUN: &str = r#"
    if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
        umount -R -l /sys/fs/cgroup
        mount -t cgroup2 none /sys/fs/cgroup
    fi
    exec podman "$@"
"#;

impl Store {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn words(&self) -> [String; 6] {
        let [root, run] = ["images", "run"].map(|name| self.directory.path().join(name).display().to_string());
        ["--root".into(), root, "--runroot".into(), run, "--storage-driver".into(), "vfs".into()]
    }

    /// What buildah answers.
    #[track_caller]
    pub(crate) fn buildah(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("buildah");
        let finished =
            finish(command.args(self.words()).args(arguments).current_dir(repository()).stdin(Stdio::null()));
        assert!(finished.status.success(), "buildah {arguments:?}: {}{}", finished.stdout, finished.stderr);
        finished.stdout.trim_end().to_owned()
    }

    /// `podman run --rm ARGUMENTS` without limits that this machine may refuse to set.
    pub(crate) fn run(&self, arguments: &[&str]) -> Command {
        let mut command = self.podman(&["--runtime", "crun", "run", "--rm", "--cgroups", "disabled"]);
        command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]).args(arguments);
        command
    }

    pub(crate) fn podman(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", RUN, "sh", "--events-backend", "none", "--cgroup-manager", "cgroupfs"]);
        command.args(self.words()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Builds `shedlock` of the program that is distributed, and needs no network for it.
    pub(crate) fn build_program(&self) {
        self.build_target("prebuilt");
    }

    /// The same of another target.
    pub(crate) fn build_target(&self, target: &str) {
        self.build("packaging/container/Dockerfile", &["-t", "shedlock", "--target", target], ".");
    }

    pub(crate) fn build(&self, file: &str, options: &[&str], context: &str) {
        let words = ["build", "--isolation", "chroot", "--pull-never", "-f", file];
        self.buildah(&[&words[..], options, &[context]].concat());
    }

    /// Makes something like `docker.io/library/busybox:stable`, which cannot be fetched here.
    pub(crate) fn make_busybox(&self) {
        let container = self.buildah(&["from", "scratch"]);
        self.buildah(&["copy", &container, "/bin/busybox", "/bin/busybox"]);
        let place = self.buildah(&["mount", &container]);
        let links = finish(Command::new("/bin/busybox").args(["--install", "-s"]).arg(format!("{place}/bin")));
        assert!(links.status.success(), "{links:?}");
        for program in fs::read_dir(format!("{place}/bin")).unwrap().flatten().filter(|entry| entry.path().is_symlink())
        {
            fs::remove_file(program.path()).unwrap();
            std::os::unix::fs::symlink("/bin/busybox", program.path()).unwrap();
        }
        self.buildah(&[
            "config",
            "--env",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            &container,
        ]);
        self.buildah(&["commit", "--rm", &container, "docker.io/library/busybox:stable"]);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = Command::new("buildah").args(self.words()).args(["umount", "--all"]).output();
        // The runtime's directories may be mount points of containers that a failed test has left.
        let _ = finish(&mut self.podman(&["rm", "--all", "--force", "--time", "0"]));
    }
}

/// A YAML file of the repository.
pub(crate) fn yaml(file: &str) -> serde_json::Value {
    let read = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
    let input = fs::File::open(repository().join(file)).unwrap();
    let finished: Finished = Command::new("/usr/bin/python3").args(["-c", read]).stdin(input).output().unwrap().into();
    assert!(finished.status.success(), "{file}: {}; it needs python3-yaml", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The texts of a list.
pub(crate) fn texts(list: &serde_json::Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Whether a path is there, in a root directory that is not ours.
pub(crate) fn everything_in(root: &Path) -> Vec<String> {
    let found = finish(Command::new("find").arg(root).args(["-mindepth", "1", "-printf", "%P %m %U\n"]));
    let mut found: Vec<String> = found.stdout.lines().map(str::to_owned).collect();
    found.sort();
    found
}
