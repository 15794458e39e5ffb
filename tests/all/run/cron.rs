//! The real cron daemon of Debian, with crontabs of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Place;
use crate::support::repository::ROOT;

/// The next whole minute may be 60 s away, and cron loads its tables at whole minutes only.
const PATIENCE: Duration = Duration::from_secs(130);

/// Runs as the first process of a pid namespace, where nothing outlives it, in a mount namespace, where the system's
/// crontabs, its mailer and its pid files are ours. `$1` is the test's directory. It ends when its stdin does, be it
/// because the test is over or because it was killed.
const STAGE: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/stage/sbin /run/stage/spool/crontabs /run/stage/cron.d
cp /usr/sbin/cron /run/stage/sbin/cron
cp "$1/sendmail" /run/stage/sbin/sendmail
cp "$1/crontab" /run/stage/spool/crontabs/root
: > /run/stage/crontab
chown -R root:root /run/stage
chmod 600 /run/stage/spool/crontabs/root
mount --bind /run/stage/crontab /etc/crontab
mount --bind /run/stage/cron.d /etc/cron.d
mount --bind /run/stage/spool /var/spool/cron
mount --bind /run/stage/sbin /usr/sbin
/usr/sbin/cron -f &
cron=$!
read -r _ || :
# Whoever fires has to be heard out, unless it hangs: mail goes out when a job has ended.
tries=600
while [ $tries -gt 0 ] && ps -o pid= --ppid $cron >/dev/null; do
    tries=$((tries - 1))
    sleep 0.05
done
[ $tries -gt 0 ]
"#;

/// What cron would have sent goes into the file `mail`.
const SENDMAIL: &str = "#!/bin/sh\n{ cat; echo; echo 'end of mail'; } >> DIRECTORY/mail\n";

/// A running cron daemon.
struct Cron {
    stage: Child,
    stdin: Option<ChildStdin>,
}

impl Cron {
    fn start(place: &Place, crontab: &str) -> Self {
        let directory = place.path("");
        let directory = directory.to_str().unwrap().trim_end_matches('/');
        fs::write(place.path("crontab"), crontab).unwrap();
        fs::write(place.path("sendmail"), SENDMAIL.replace("DIRECTORY", directory)).unwrap();
        fs::set_permissions(place.path("sendmail"), fs::Permissions::from_mode(0o755)).unwrap();
        let unshare = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            STAGE,
            "sh",
            directory,
        ];
        let mut command = if nix::unistd::geteuid().is_root() {
            Command::new(unshare[0])
        } else {
            let mut sudo = Command::new("sudo");
            sudo.args(["-n", unshare[0]]);
            sudo
        };
        let stderr = fs::File::create(place.path("stage")).unwrap();
        let mut stage =
            command.args(&unshare[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let stdin = stage.stdin.take();
        Self { stage, stdin }
    }

    /// Waits until cron has done what it was to do.
    fn wait_until(&mut self, place: &Place, what: &str, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            let ended = self.stage.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "cron has ended; this test needs root, or sudo without a password: {}",
                place.read("stage")
            );
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lets the jobs that have been fired end, and cron with all that it started.
    fn end(&mut self) -> bool {
        drop(self.stdin.take());
        self.stage.wait().unwrap().success()
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn three_crontab_lines_of_one_minute_run_the_job_once_and_cron_has_nothing_to_mail() {
    let place = Place::new();
    let directory = place.path("");
    let directory = directory.display();
    let shedlock = env!("CARGO_BIN_EXE_shedlock");
    let run = format!("{shedlock} run --name nightly --at-most 5m --at-least 5m -- sh -c 'date >> {directory}/runs'");
    let line = format!("{run}; echo $? >> {directory}/codes");
    // One of the three is late: the job has ended when it asks.
    let late = format!("until [ $(cat {directory}/codes 2>/dev/null | wc -l) -ge 2 ]; do sleep 0.1; done; {line}");
    let variables = format!("SHEDLOCK_BACKEND=sqlite:{}\nSHEDLOCK_CONFIG=/dev/null\n", place.database().display());
    // The last line prints something, which shows that mail would come.
    let crontab =
        [&line, &line, &late, "echo the canary sings"].map(|command| format!("* * * * * {command}\n")).concat();
    let mut cron = Cron::start(&place, &(variables + &crontab));

    cron.wait_until(&place, "three lines fired by cron, and the canary's mail", || {
        place.lines("codes").len() >= 3 && place.read("mail").contains("end of mail")
    });
    assert!(cron.end(), "{}", place.read("stage"));

    // A second firing, on a very slow machine, changes nothing.
    assert!(place.lines("codes").iter().all(|code| code == "0"), "{:?}", place.lines("codes"));
    assert_eq!(place.lines("runs").len(), 1, "{:?}", place.lines("runs"));
    let mail = place.read("mail");
    let count = |text| mail.lines().filter(|line| *line == text).count();
    assert_eq!(count("end of mail"), count("the canary sings"), "{mail}");
    assert!(!mail.contains("shedlock run"), "{mail}");
}

#[test]
fn with_chronic_cron_mails_what_a_job_has_printed_only_if_it_failed() {
    let place = Place::new();
    let example = fs::read_to_string(Path::new(ROOT).join("packaging/examples/crontab-chronic")).unwrap();
    let line = example.lines().find(|line| line.starts_with('*')).unwrap();
    let (_, command) = line.split_once("* * * * ").unwrap();
    let words = command.split_once(" run --name report ").unwrap().1;
    let directory = place.path("");
    let script = |name: &str, end: &str| {
        let text = format!("#!/bin/sh\necho {name} prints; echo {name} complains >&2; {end}\n");
        crate::support::process::write_script(&place, name, &text);
        let words = words.replace("report", &directory.join(name).display().to_string());
        let end = format!("echo {name} $? >> {}/codes", directory.display());
        format!("* * * * * {} run --name {name} {words}; {end}\n", env!("CARGO_BIN_EXE_shedlock"))
    };
    let late = script("late", "sleep 1000 & sleep 1000").replace("--at-most 30m", "--at-most 2s");
    let variables = format!("SHEDLOCK_BACKEND=sqlite:{}\nSHEDLOCK_CONFIG=/dev/null\n", place.database().display());
    let mut cron = Cron::start(&place, &[variables, script("good", "exit 0"), script("bad", "exit 3"), late].concat());
    cron.wait_until(&place, "three jobs and two mails", || {
        place.lines("codes").len() >= 3 && place.read("mail").matches("end of mail").count() >= 2
    });
    assert!(cron.end(), "{}", place.read("stage"));
    let mut codes = place.lines("codes");
    codes.sort();
    codes.dedup();
    assert_eq!(codes, ["bad 3", "good 0", "late 124"]);
    let mail = place.read("mail");
    assert!(mail.contains("\nbad prints\nbad complains\n"), "{mail}");
    // What the job had printed before it was stopped is lost, as the documentation says.
    assert!(
        mail.contains("shedlock: late: the job is stopped because --at-most 2s is used up")
            && !mail.contains("late prints"),
        "{mail}"
    );
    assert!(!mail.contains("good"), "{mail}");
}
