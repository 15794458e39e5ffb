//! The real systemd, as the first process of a pid namespace, with no units but those of a test.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::support::fixtures::by_root;
use super::support::process::{children, copy_program, write_script};
use super::support::{Finished, Place, finish, wait_until};

/// Runs in a mount namespace of its own. `$1` is the test's directory, which has `units`, `bin` and `etc`: the units, what
/// stands in /usr/local/bin, and what is added to /etc. Nothing of it is written to the system's own directories.
const STAGE: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/stage /run/etc
mount --bind "$1" /run/stage
cp -a /etc/. /run/etc/
cp -R /run/stage/etc/. /run/etc/
chown -R root:root /run/etc/shedlock
mount --bind /run/etc /etc
mount --bind /run/stage/bin /usr/local/bin
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t tmpfs -o mode=755 tmpfs /var/log
umount --recursive --lazy /sys/fs/cgroup
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# As a booted system has it, or credentials would not reach their service.
mount --make-rshared /
exec env -i container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin SYSTEMD_UNIT_PATH=/run/stage/units \
    /lib/systemd/systemd --system --unit=stage.target --log-target=console --show-status=no
"#;

/// A control group of its own for all that is started, without which systemd would take over the one that we are in.
const GROUP: &str = r#"
set -eu
mount=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -n 1)
group=${mount:?there is no cgroup2 file system}/$2
mkdir "$group"
echo $$ >"$group/cgroup.procs"
exec unshare --mount --pid --cgroup --uts --ipc --fork --kill-child --mount-proc sh -c "$3" sh "$1"
"#;

const DISSOLVE: &str = r#"
group=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -n 1)/$1
tries=100
until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; [ ! -e "$group" ] || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.05
done
"#;

/// A running systemd.
pub(crate) struct Systemd {
    stage: Child,
    first: i32,
    group: String,
}

impl Systemd {
    /// Makes what [`Systemd::start`] takes along: an empty /usr/local/bin but for shedlock, no units but those that every
    /// other one asks for, and what the services print in the file `printed`.
    pub(crate) fn prepare(place: &Place) {
        for directory in ["units/service.d", "bin", "etc/shedlock"] {
            fs::create_dir_all(place.path(directory)).unwrap();
        }
        for target in ["sysinit", "basic", "shutdown", "timers", "network-online", "stage"] {
            let text = "[Unit]\nDefaultDependencies=no\n";
            fs::write(place.path(&format!("units/{target}.target")), text).unwrap();
        }
        let printed = "[Service]\nStandardOutput=append:/run/stage/printed\nStandardError=append:/run/stage/printed\n";
        fs::write(place.path("units/service.d/printed.conf"), printed).unwrap();
        copy_program(env!("CARGO_BIN_EXE_shedlock"), place.path("bin/shedlock"));
        write_script(place, "bin/mail", "#!/bin/sh\n{ echo \"mail: $2\"; cat; } >>/run/stage/mails\n");
    }

    /// Puts a unit among the others. The first one's naming it keeps systemd from forgetting how it ended.
    pub(crate) fn install(place: &Place, unit: &str, text: &str) {
        fs::write(place.path(&format!("units/{unit}")), text).unwrap();
        let remembered = place.read("units/stage.target") + &format!("After={unit}\n");
        fs::write(place.path("units/stage.target"), remembered).unwrap();
    }

    pub(crate) fn start(place: &Place) -> Self {
        let directory = place.path("");
        let directory = directory.to_str().unwrap().trim_end_matches('/');
        // A user that only systemd knows has to get at the program and the units.
        super::support::fixtures::change("chmod", "0755", &place.path(""));
        let group = servers::unique("shedlock-units");
        let mut script = Command::new("sh");
        script.args(["-c", GROUP, "sh", directory, &group, STAGE]);
        let log = fs::File::create(place.path("systemd.log")).unwrap();
        let mut command = by_root(&["env"], &script);
        let mut stage = command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(stage.id()).unwrap();
        let first = wait_until("systemd's socket", || {
            let needs = "this test needs root, and a cgroup2 file system that can be written";
            assert!(stage.try_wait().unwrap().is_none(), "{needs}: {}", place.read("systemd.log"));
            // Before it there are others, who see the system's own.
            let first = children(pid).first()?.pid;
            let run = Path::new("/proc").join(first.to_string()).join("root/run");
            (run.join("stage").exists() && run.join("systemd/private").exists()).then_some(first)
        });
        Self { first, stage, group }
    }

    /// A command of root's beside systemd, such as systemctl(1).
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut inner = Command::new("nsenter");
        inner
            .args(["--target", &self.first.to_string(), "--mount", "--pid", "--cgroup", "--uts", "--ipc", "--"])
            .args(words);
        by_root(&["env"], &inner)
    }

    /// `systemctl start UNIT`, which waits for the end of a job of `Type=oneshot`.
    pub(crate) fn run(&self, unit: &str) -> Finished {
        finish(&mut self.command(&["systemctl", "start", unit]))
    }

    /// One property of a unit.
    pub(crate) fn show(&self, unit: &str, property: &str) -> String {
        finish(&mut self.command(&["systemctl", "show", "--value", "-p", property, unit])).stdout.trim().to_owned()
    }

    /// How the last run of a unit ended: its state, result, and the exit code of shedlock.
    pub(crate) fn outcome(&self, unit: &str) -> [String; 3] {
        ["ActiveState", "Result", "ExecMainStatus"].map(|property| self.show(unit, property))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With the first process of the namespace all others are gone.
        let _ = by_root(&["env"], Command::new("kill").args(["-KILL", &self.first.to_string()])).status();
        let _ = self.stage.wait();
        let _ = by_root(&["env"], Command::new("sh").args(["-c", DISSOLVE, "sh", &self.group])).status();
    }
}
