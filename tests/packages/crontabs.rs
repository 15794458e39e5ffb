//! The files of packaging/examples for the whole host's cron, under the real cron(8), run-parts(8) and anacron(8).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::example;
use super::support::fixtures::{among_mounts, by_root, change};
use super::support::process::{copy_program, write_script};
use super::support::{Place, finish};

/// cron loads its tables at whole minutes only.
const PATIENCE: Duration = Duration::from_secs(130);

/// /etc as the test wants it, with users that the examples name, and with a mailer that writes to the file `mails`. `$1` is
/// the test's directory; what is in its `etc` belongs to root.
const HOST: &str = r#"
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/stage /run/etc /run/sbin
mount --bind "$1" /run/stage
cp -a /etc/. /run/etc/
rm -rf /run/etc/cron.d /run/etc/crontab /run/etc/cron.daily
cp -R /run/stage/etc/. /run/etc/
chown -R root:root /run/etc/cron.d /run/etc/shedlock
id=61000
for user in reports backup; do
    id=$((id + 1))
    for file in passwd shadow group; do
        sed -i "/^$user:/d" /run/etc/$file
    done
    echo "$user:x:$id:61000::/nonexistent:/bin/sh" >>/run/etc/passwd
    echo "$user:*:19000:0:99999:7:::" >>/run/etc/shadow
done
echo "jobs:x:61000:" >>/run/etc/group
chgrp -R 61000 /run/etc/shedlock
mount --bind /run/etc /etc
mount --bind /run/stage/bin /usr/local/bin
printf '#!/bin/sh\n{ cat; echo; echo "end of mail"; } >>/run/stage/mails\n' >/run/sbin/sendmail
cp /usr/sbin/cron /run/sbin/cron
chmod 755 /run/sbin/sendmail
touch /run/stage/mails
chmod 666 /run/stage/mails
mount --bind /run/sbin /usr/sbin
mount -t tmpfs tmpfs /var/spool/cron
mkdir /var/spool/cron/crontabs
"#;

/// As the first process of its pid namespace, so that nothing outlives it. It ends when its stdin does.
const CRON: &str = r#"
/usr/sbin/cron -f &
cron=$!
read -r _ || :
tries=600
while [ $tries -gt 0 ] && ps -o pid= --ppid $cron >/dev/null; do
    tries=$((tries - 1))
    sleep 0.05
done
"#;

/// A place for [`HOST`], with a shedlock of the whole host's.
fn host() -> Place {
    let place = Place::new();
    for directory in ["etc/cron.d", "etc/shedlock", "bin", "locks"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    copy_program(env!("CARGO_BIN_EXE_shedlock"), place.path("bin/shedlock"));
    fs::write(place.path("etc/shedlock/backend"), "sqlite:/run/stage/locks/shared.db?mode=0660\n").unwrap();
    change("chmod", "0755", &place.path(""));
    change("chmod", "0640", &place.path("etc/shedlock/backend"));
    change("chmod", "2770", &place.path("locks"));
    change("chgrp", "61000", &place.path("locks"));
    for file in ["ran", "codes"] {
        fs::write(place.path(file), "").unwrap();
        change("chmod", "0666", &place.path(file));
    }
    place
}

fn directory(place: &Place) -> String {
    place.path("").to_str().unwrap().trim_end_matches('/').to_owned()
}

struct Cron {
    stage: Child,
    stdin: Option<ChildStdin>,
}

impl Cron {
    fn start(place: &Place) -> Self {
        let script = format!("set -eu\n{HOST}{CRON}");
        let words = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script, "sh"];
        let mut unshare = Command::new("unshare");
        unshare.args(words).arg(directory(place));
        let stderr = fs::File::create(place.path("stage.log")).unwrap();
        let mut command = by_root(&["env"], &unshare);
        let mut stage = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let stdin = stage.stdin.take();
        Self { stage, stdin }
    }

    fn wait_until(&mut self, place: &Place, what: &str, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(self.stage.try_wait().unwrap().is_none(), "cron has ended: {}", place.read("stage.log"));
            assert!(
                begun.elapsed() < PATIENCE,
                "waited in vain for {what}: {} {}",
                place.read("mails"),
                place.read("ran")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.stage.wait();
    }
}

/// The table with each line due every minute.
fn every_minute(table: &str) -> String {
    table
        .lines()
        .map(|line| match line.starts_with(|first: char| first.is_ascii_digit() || first == '*') {
            true => format!("* * * * * {}\n", line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")),
            false => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn cron_runs_the_lines_of_cron_d_as_their_users_and_mails_what_the_documentation_says() {
    let place = host();
    write_script(&place, "bin/report", "#!/bin/sh\necho \"report $(id -un)\" >>/run/stage/ran\n");
    let backup = "#!/bin/sh\n[ \"$1\" = \"$(date +%F)\" ] && echo \"backup $(id -un)\" >>/run/stage/ran\n";
    write_script(&place, "bin/backup", backup);
    let table = every_minute(&example("cron.d-report")).replace("--at-least 1m", "--at-least 20m");
    // Twice the same line: one of the two finds the lock held. What fails is mailed only if it prints something.
    let report = table.lines().find(|line| line.contains("-- report")).unwrap();
    let table = format!(
        "{table}{report}\n\
         * * * * * root shedlock run --name silent --at-most 1m -- sh -c 'exit 3'; echo silent $? >>/run/stage/codes\n\
         * * * * * root shedlock run --name gone --at-most 1m -- gone\n\
         * * * * * root shedlock run --name late --at-most 1s -- sleep 100\n\
         * * * * * root shedlock run --name away --at-most 1m --backend redis://127.0.0.1:1 --backend-timeout 0 -- true\n"
    );
    fs::write(place.path("etc/cron.d/report"), &table).unwrap();
    let page = every_minute(&example("cron.d-jobs-page")).replace("/var/www/html/jobs", "/run/stage/www");
    fs::write(place.path("etc/cron.d/jobs-page"), page).unwrap();
    fs::create_dir(place.path("www")).unwrap();
    change("chown", "61001", &place.path("www"));
    // Names with a dot are not read.
    fs::write(place.path("etc/cron.d/report.bak"), "* * * * * root echo dotted\n").unwrap();
    let mut cron = Cron::start(&place);
    let mails = |text: &str| place.read("mails").contains(text);
    cron.wait_until(&place, "the jobs and the mails", || {
        place.lines("ran").len() >= 2
            && !place.lines("codes").is_empty()
            && place.path("www/index.html").exists()
            && ["cannot run `gone`", "--at-most 1s is used up", "127.0.0.1:1"].iter().all(|text| mails(text))
    });
    drop(cron);
    assert!(!place.read("mails").contains("dotted"));
    let mut ran = place.lines("ran");
    ran.sort();
    ran.dedup();
    assert_eq!(ran, ["backup backup", "report reports"]);
    assert_eq!(place.lines("ran").len(), 2, "{:?}", place.lines("ran"));
    assert!(place.lines("codes").iter().all(|line| line == "silent 3"));
    // A web server, which is another user, may read the page.
    assert!(place.read("www/index.html").contains("<h2>Locks now</h2>"));
    assert_eq!(fs::metadata(place.path("www/index.html")).unwrap().permissions().mode() & 0o777, 0o644);
    let mails = place.read("mails");
    let about = |what: &str| mails.lines().filter(|line| line.starts_with("Subject:") && line.contains(what)).count();
    assert_eq!((about("-- report"), about("-- backup"), about("exit 3"), about("--html")), (0, 0, 0, 0), "{mails}");
    assert!(mails.contains("To: ops@example.org"), "{mails}");
}

/// The scripts of /etc/cron.daily, run by these words.
fn daily(place: &Place, words: &[&str]) -> super::support::Finished {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", "/usr/bin:/bin");
    let setup = format!("set -- {} \"$@\"\n{HOST}shift", directory(place));
    finish(&mut among_mounts(&setup, &command))
}

#[test]
fn run_parts_starts_the_daily_script_once_and_tells_of_a_failure() {
    let place = host();
    fs::create_dir(place.path("etc/cron.daily")).unwrap();
    write_script(&place, "etc/cron.daily/report", &example("cron.daily-report"));
    write_script(&place, "bin/report", "#!/bin/sh\necho ran >>/run/stage/ran\n");
    let run_parts = ["run-parts", "--report", "/etc/cron.daily"];
    // The second host of the day finds the lock held, and that is no failure.
    daily(&place, &run_parts).is_silent_with(0);
    daily(&place, &run_parts).is_silent_with(0);
    assert_eq!(place.lines("ran"), ["ran"]);
    write_script(
        &place,
        "etc/cron.daily/report",
        &example("cron.daily-report").replace("daily-report", "another -E 75"),
    );
    write_script(&place, "bin/report", "#!/bin/sh\nexit 3\n");
    let finished = daily(&place, &run_parts);
    assert_eq!(finished.code(), Some(1));
    assert!(finished.stderr.contains("/etc/cron.daily/report exited with return code 3"), "{finished:?}");
    let finished = daily(&place, &run_parts);
    assert!(finished.stderr.contains("exited with return code 75"), "{finished:?}");
}

#[test]
fn anacron_runs_the_daily_script_and_mails_what_it_prints() {
    let place = host();
    fs::create_dir(place.path("etc/cron.daily")).unwrap();
    write_script(&place, "etc/cron.daily/report", &example("cron.daily-report"));
    write_script(&place, "bin/report", "#!/bin/sh\necho the report\n");
    fs::write(place.path("etc/anacrontab"), "PATH=/usr/bin:/bin\n1 0 cron.daily run-parts --report /etc/cron.daily\n")
        .unwrap();
    fs::create_dir(place.path("spool")).unwrap();
    let anacron = fs::canonicalize("/usr/sbin/anacron").unwrap();
    copy_program(anacron, place.path("bin/anacron"));
    let words = ["/usr/local/bin/anacron", "-d", "-f", "-n", "-S", "/run/stage/spool"];
    assert_eq!(daily(&place, &words).code(), Some(0));
    assert_eq!(place.read("mails").matches("the report").count(), 1, "{}", place.read("mails"));
    assert_eq!(daily(&place, &words).code(), Some(0));
    assert_eq!(place.read("mails").matches("end of mail").count(), 1, "{}", place.read("mails"));
}
