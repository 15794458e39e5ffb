//! The cron daemons beside Debian's, which `run/cron.rs` has: bcron, cronie and that of busybox, each with a crontab of its own,
//! all in the same minute.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Place;

/// The next whole minute may be 60 s away.
const PATIENCE: Duration = Duration::from_secs(130);

const DAEMONS: [&str; 3] = ["bcron", "cronie", "busybox"];

/// Runs as the first process of a pid namespace, in a mount namespace where the spools, the mailer and PAM's files are ours.
/// `$1` is the test's directory, `$2` that of the daemons. It ends when its stdin does.
const STAGE: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/stage/sbin /run/stage/bcron/crontabs /run/stage/bcron/tmp /run/stage/busybox /run/stage/spool/crontabs \
    /run/stage/cron.d /run/stage/pam.d
cp "$1/sendmail" /run/stage/sbin/sendmail
cp "$1/crontab.bcron" /run/stage/bcron/crontabs/root
cp "$1/crontab.busybox" /run/stage/busybox/root
cp "$1/crontab.cronie" /run/stage/spool/crontabs/root
: > /run/stage/crontab
chown -R root:root /run/stage
chmod 600 /run/stage/busybox/root /run/stage/spool/crontabs/root
# The part of bcron that reads crontabs is not root.
mkfifo /run/stage/bcron/trigger
chown -R daemon /run/stage/bcron
for service in cron crond cronie; do
    printf '%s sufficient pam_permit.so\n' auth account session > /run/stage/pam.d/$service
done
mount --bind /run/stage/pam.d /etc/pam.d
mount --bind /run/stage/crontab /etc/crontab
mount --bind /run/stage/cron.d /etc/cron.d
mount --bind /run/stage/spool /var/spool/cron
mount --bind /run/stage/sbin /usr/sbin
exec 3<&0 < /dev/null
# As at boot: what the tests were started with is none of the daemons' business.
env -i BCRON_SPOOL=/run/stage/bcron BCRON_USER=daemon LD_LIBRARY_PATH=$2/bcron/usr/lib PATH=$2/bcron/usr/sbin:/usr/bin:/bin \
    bcron-start >&2 &
libraries=$2/cronie/usr/lib/x86_64-linux-gnu
env -i PATH=/usr/bin:/bin "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:/lib/x86_64-linux-gnu" "$2/cronie/usr/sbin/crond" -n -i >&2 &
env -i PATH=/usr/bin:/bin /bin/busybox crond -f -L /dev/stderr -c /run/stage/busybox &
read -r _ <&3 || :
"#;

/// What a daemon would have sent is appended to the file `mail`, as a whole.
const SENDMAIL: &str = "#!/bin/sh\nmail=$(cat)\nprintf '%s\\nend of mail\\n' \"$mail\" >> DIRECTORY/mail\n";

/// Two lines of one minute for one job, and one that is mistaken.
const CRONTAB: &str = "\
* * * * * RUN --name NAME --at-most 5m --at-least 5m -- sh -c 'date >> DIRECTORY/runs.NAME; env > DIRECTORY/env.NAME'; echo $? >> DIRECTORY/codes.NAME
* * * * * RUN --name NAME --at-most 5m --at-least 5m -- sh -c 'date >> DIRECTORY/runs.NAME; env > DIRECTORY/env.NAME'; echo $? >> DIRECTORY/codes.NAME
* * * * * RUN --name NAME --at-most never-NAME true; echo $? >> DIRECTORY/mistakes.NAME
";

/// What a job may find in its environment: little, and what we put there.
const FOUND: [&str; 10] = ["HOME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "USER", "_"];

/// Returns the directory into which tests/cron-daemons unpacks them.
fn daemons() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_shedlock"));
    let found = target.ancestors().map(|above| above.join("cron-daemons")).find(|path| path.join("complete").exists());
    found.unwrap_or_else(|| {
        panic!("bcron and cronie are not here; tests/run fetches them, or: tests/cron-daemons target/cron-daemons")
    })
}

/// The daemons, running.
struct Crons {
    stage: Child,
    stdin: Option<ChildStdin>,
}

impl Crons {
    fn start(place: &Place) -> Self {
        let directory = place.path("");
        let directory = directory.to_str().unwrap().trim_end_matches('/');
        let backend = format!("SHEDLOCK_BACKEND=sqlite:{}", place.database().display());
        let run = format!("{backend} SHEDLOCK_CONFIG=/dev/null {} run", env!("CARGO_BIN_EXE_shedlock"));
        for name in DAEMONS {
            let crontab = CRONTAB.replace("RUN", &run).replace("NAME", name).replace("DIRECTORY", directory);
            fs::write(place.path(&format!("crontab.{name}")), crontab).unwrap();
        }
        fs::write(place.path("sendmail"), SENDMAIL.replace("DIRECTORY", directory)).unwrap();
        fs::set_permissions(place.path("sendmail"), fs::Permissions::from_mode(0o755)).unwrap();
        let sudo: &[&str] = if nix::unistd::geteuid().is_root() { &[] } else { &["sudo", "-n"] };
        let unshare =
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", STAGE, "sh"];
        let words = [sudo, &unshare].concat();
        let stderr = fs::File::create(place.path("stage")).unwrap();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(directory).arg(daemons());
        let mut stage = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let stdin = stage.stdin.take();
        Self { stage, stdin }
    }
}

impl Drop for Crons {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.stage.wait();
    }
}

/// Returns whether a daemon mails what a job prints. Debian's busybox was not seen to; its exit code says that the job printed
/// it.
fn mails(name: &str) -> bool {
    name != "busybox"
}

#[test]
fn two_lines_of_a_minute_run_the_job_once_under_every_cron_daemon() {
    let place = Place::new();
    let mut crons = Crons::start(&place);
    let begun = Instant::now();
    let count = |what: &str, name: &str| place.lines(&format!("{what}.{name}")).len();
    // Not every daemon mails at once, and what one has mailed twice is none of another's.
    let is_mailed = |name: &str| place.read("mail").contains(&format!("shedlock: --at-most `never-{name}`"));
    let is_done =
        |name: &str| count("codes", name) >= 2 && count("mistakes", name) >= 1 && (!mails(name) || is_mailed(name));
    let done = || DAEMONS.iter().all(|name| is_done(name)) && place.read("mail").ends_with("end of mail\n");
    while !done() {
        let seen = DAEMONS.map(|name| (name, count("codes", name), count("mistakes", name)));
        let stage = place.read("stage");
        assert!(crons.stage.try_wait().unwrap().is_none(), "this test needs root, or sudo without a password: {stage}");
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {seen:?} {} {stage}", place.read("mail"));
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(crons);

    for name in DAEMONS {
        // A second firing, on a very slow machine, changes nothing.
        assert_eq!(count("runs", name), 1, "{name}");
        assert!(place.lines(&format!("codes.{name}")).iter().all(|code| code == "0"), "{name}");
        assert!(place.lines(&format!("mistakes.{name}")).iter().all(|code| code == "125"), "{name}");
        for line in place.lines(&format!("env.{name}")) {
            let key = line.split('=').next().unwrap();
            assert!(FOUND.contains(&key) || key.starts_with("SHEDLOCK_"), "{name}: {line}");
        }
        // Nothing is mailed but the mistake.
        let mail = place.read("mail");
        let mistakes = mail.lines().filter(|line| line.starts_with("shedlock: ")).collect::<Vec<_>>();
        assert!(!mails(name) || mistakes.iter().any(|line| line.contains(&format!("never-{name}"))), "{name}: {mail}");
        assert!(mistakes.iter().all(|line| line.contains("--at-most `never-")), "{name}: {mail}");
        assert_eq!(mail.matches("end of mail\n").count(), mistakes.len(), "{mail}");
    }
}
