//! What the hosts stand in: a network between them and the server, and a control group each to freeze them by.
//!
//! The checker is in a network namespace of its own, with a bridge on which the server listens. Nothing of the machine's
//! own network is touched, and all of it is gone with the processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

/// Where the server listens.
pub(crate) const ADDRESS: &str = "10.99.0.254";
const INSIDE: &str = "SHEDLOCK_CHECKER_INSIDE";

/// A control group of processes that can be frozen together.
pub(crate) struct Freezer(PathBuf);

/// Becomes the checker in its own network namespace, if it is not there yet. A user other than root needs a user namespace.
pub(crate) fn enter(environment: &[(&str, &Path)]) {
    if std::env::var_os(INSIDE).is_none() {
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--net", "--"]).arg(std::env::current_exe().unwrap()).args(std::env::args_os().skip(1));
        command.envs(environment.iter().copied());
        panic!("unshare(1) of util-linux cannot be executed: {}", command.env(INSIDE, "1").exec());
    }
    ip("link set lo up");
    ip("link add br0 type bridge");
    ip(&format!("addr add {ADDRESS}/24 dev br0"));
    ip("link set br0 up");
}

pub(crate) fn address(host: u64) -> String {
    format!("10.99.0.{}", host + 1)
}

/// Lays a cable to a host, whose process this is.
pub(crate) fn join(host: u64, pid: u32) {
    ip(&format!("link add v{host} type veth peer name eth0 netns {pid}"));
    ip(&format!("link set v{host} up"));
    plug(host);
}

/// Pulls the cable: what is sent goes nowhere, and nobody is told.
pub(crate) fn unplug(host: u64) {
    ip(&format!("link set v{host} nomaster"));
}

pub(crate) fn plug(host: u64) {
    ip(&format!("link set v{host} master br0"));
}

/// Runs ip(8) with these words.
pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip(8) of iproute2 is needed");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Freezer {
    /// Puts a process, and what it will start, into a control group; `None` where that cannot be.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let hierarchy = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        })?;
        let group = hierarchy.join(format!("shedlock-checker-{pid}"));
        fs::create_dir(&group).ok()?;
        let freezer = Self(group);
        fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(freezer)
    }

    /// Freezes all, and returns when they stand still.
    pub(crate) fn freeze(&self) {
        fs::write(self.0.join("cgroup.freeze"), "1").unwrap();
        let events = self.0.join("cgroup.events");
        let begun = Instant::now();
        // One that hangs in the kernel makes no progress either.
        while !fs::read_to_string(&events).unwrap().contains("frozen 1") && begun.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn thaw(&self) {
        fs::write(self.0.join("cgroup.freeze"), "0").unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        // It can be removed as soon as nobody is in it.
        let _ = fs::remove_dir(&self.0);
    }
}
