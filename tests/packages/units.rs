//! The units of packaging/examples, under the real systemd.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::example;
use super::support::fixtures::{among_mounts, names_in};
use super::support::process::write_script;
use super::support::{Place, finish, wait_until};
use super::systemd::Systemd;
use servers::PostgresDatabase;

/// All units among the examples.
const UNITS: [&str; 9] = [
    "job-failed@.service",
    "job@.service",
    "job@.timer",
    "jobs-succeeded.service",
    "jobs-succeeded.timer",
    "report-logged.service",
    "report-networked.service",
    "report.service",
    "report.timer",
];

/// A place with all units, of which each job is this script, and with the locks of root's database.
fn scene(job: &str) -> Place {
    let place = Place::new();
    Systemd::prepare(&place);
    UNITS.iter().for_each(|unit| Systemd::install(&place, unit, &example(unit)));
    write_script(&place, "bin/report", &format!("#!/bin/sh\n{job}\n"));
    place
}

/// Sets what root's configuration says, and so where the locks are.
fn configure(place: &Place, text: &str) {
    let backend = "backend = \"sqlite:/run/stage/locks.db\"\n";
    fs::write(place.path("etc/shedlock/config.toml"), format!("{backend}{text}")).unwrap();
}

fn failed(code: &str) -> [String; 3] {
    ["failed", "exit-code", code].map(str::to_owned)
}

fn done(code: &str) -> [String; 3] {
    ["inactive", "success", code].map(str::to_owned)
}

/// Takes a lock for an hour, as another would, and returns the handle.
fn take(systemd: &Systemd, name: &str) -> String {
    let acquired = finish(&mut systemd.command(&["shedlock", "acquire", "--name", name, "--at-most", "1h"]));
    assert_eq!(acquired.code(), Some(0), "{acquired:?}");
    acquired.stdout.trim().to_owned()
}

/// A job that notes whom it gets a TERM from, and ends then.
const PATIENT: &str = r#"#!/usr/bin/perl
use POSIX;
open(LOG, '>>', '/run/stage/signals') or die;
LOG->autoflush(1);
my $end = sub { print LOG $_[1]{pid} == getppid ? "TERM from shedlock\n" : "TERM from $_[1]{pid}\n"; exit 0 };
sigaction(SIGTERM, POSIX::SigAction->new($end, POSIX::SigSet->new, SA_SIGINFO)) or die;
print LOG "up\n";
select(undef, undef, undef, 0.02) while -e '/run/stage/bin';
"#;

#[test]
fn no_unit_goes_unseen() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples");
    let found = names_in(&examples).into_iter().filter(|name| name.ends_with(".service") || name.ends_with(".timer"));
    assert_eq!(found.collect::<Vec<_>>(), UNITS);
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    let place = scene("true");
    write_script(&place, "bin/nightly", "#!/bin/sh\n");
    let units: Vec<String> =
        UNITS.iter().map(|unit| place.path(&format!("units/{unit}")).display().to_string()).collect();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).args(&units);
    let bin = place.path("bin");
    let finished = finish(&mut among_mounts(&format!("mount --bind {} /usr/local/bin", bin.display()), &verify));
    finished.is_silent_with(0);
}

#[test]
fn the_networked_job_is_shut_off_as_far_as_systemd_can_tell() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples/report-networked.service");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=yes", "--threshold=15", "--no-pager"]).arg(unit);
    let finished = finish(&mut security);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

#[test]
fn every_unit_of_a_job_leaves_it_to_shedlock_to_stop_the_job() {
    let place = scene("true");
    let systemd = Systemd::start(&place);
    let is_of_a_job =
        |unit: &&str| unit.ends_with(".service") && !["job-failed@.service", "jobs-succeeded.service"].contains(unit);
    let jobs = UNITS.iter().copied().filter(is_of_a_job);
    for unit in jobs.map(|unit| unit.replace('@', "@nightly")) {
        assert_eq!(systemd.show(&unit, "KillMode"), "mixed", "{unit}");
    }
}

/// A database with a password, whose URL only root may read.
fn networked(place: &Place) -> PostgresDatabase {
    let database = servers::postgres_tls().database_of("clerk").login("clerk:s3cret");
    let file = place.path("etc/shedlock/backend");
    fs::write(&file, database.url()).unwrap();
    super::support::fixtures::change("chmod", "0600", &file);
    database
}

#[test]
fn a_networked_job_gets_its_lock_without_a_user_a_home_or_a_writable_system() {
    let job = "grep -q '^Seccomp:.*2' /proc/self/status && [ \"$(id -u)\" -ge 61184 ] && [ \"$SHEDLOCK_LOCK_TOKEN\" -ge 1 ] && ! touch /etc/x 2>/dev/null \
               && ! cat /etc/shedlock/backend 2>/dev/null && ! env | grep s3cret && shedlock verify && echo done";
    let place = scene(&format!("{job} || exit 9"));
    let database = networked(&place);
    let systemd = Systemd::start(&place);
    let finished = systemd.run("report-networked.service");
    assert_eq!(finished.code(), Some(0), "{finished:?} {}", place.read("printed"));
    assert!(place.read("printed").ends_with("done\n"), "{}", place.read("printed"));
    let runs = database.psql("select outcome, exit_code from shedlock_history");
    assert_eq!(runs.trim(), "success|0");
}

#[test]
fn a_unit_that_watches_the_jobs_of_all_hosts_fails_when_one_has_not_succeeded() {
    let place = scene("true");
    configure(&place, "");
    fs::write(place.path("etc/shedlock/backend"), "sqlite:/run/stage/locks.db?mode=0666\n").unwrap();
    // What it starts when it has failed.
    write_script(&place, "bin/mail", "#!/bin/sh\necho \"$2\" >> /run/stage/mails\n");
    let mailing = example("job-failed@.service").replace("| mail", "| /usr/local/bin/mail");
    Systemd::install(&place, "job-failed@.service", &mailing);
    // Without a user of its own it may write beside the file, as SQLite wants.
    let unit = example("jobs-succeeded.service").replace("DynamicUser=yes", "");
    Systemd::install(&place, "jobs-succeeded.service", &unit);
    let systemd = Systemd::start(&place);
    let run = |name: &str| {
        let words = ["shedlock", "run", "--name", name, "--at-most", "1m", "true"];
        finish(&mut systemd.command(&words)).is_silent_with(0);
    };
    run("nightly-report");
    systemd.run("jobs-succeeded.service");
    assert_eq!(systemd.outcome("jobs-succeeded.service"), failed("1"));
    wait_until("the mail", || {
        (fs::read_to_string(place.path("mails")).ok()?.contains("jobs-succeeded.service failed")).then_some(())
    });
    run("backup");
    systemd.run("jobs-succeeded.service");
    assert_eq!(systemd.outcome("jobs-succeeded.service"), done("0"));
}

#[test]
fn systemd_counts_each_exit_code_as_the_documentation_says() {
    let place = scene("exit $(cat /run/stage/code)");
    configure(&place, "");
    let short = example("report.service").replace("--at-most 30m", "--at-most 1s");
    Systemd::install(&place, "short.service", &short);
    let missing = example("report.service").replace("/usr/local/bin/report", "/usr/local/bin/missing");
    Systemd::install(&place, "missing.service", &missing);
    let unreachable = "report --backend redis://127.0.0.1:1 --backend-timeout 0";
    let unreachable = example("report.service").replace("--name report", &format!("--name {unreachable}"));
    Systemd::install(&place, "unreachable.service", &unreachable);
    let systemd = Systemd::start(&place);

    let outcome = |unit: &str, code: &str| {
        fs::write(place.path("code"), code).unwrap();
        systemd.run(unit);
        systemd.outcome(unit)
    };
    assert_eq!(outcome("report.service", "0"), done("0"));
    assert_eq!(outcome("report.service", "3"), failed("3"));
    assert_eq!(outcome("missing.service", ""), failed("127"));
    assert_eq!(outcome("unreachable.service", ""), failed("125"));
    write_script(&place, "bin/report", "#!/bin/sh\nexec sleep 100\n");
    assert_eq!(outcome("short.service", ""), failed("124"));
    // A death by a signal is a code to systemd, since shedlock itself exits.
    write_script(&place, "bin/report", "#!/bin/sh\nkill -TERM $$\n");
    assert_eq!(outcome("report.service", ""), failed("143"));
    take(&systemd, "report");
    assert_eq!(outcome("report.service", ""), done("75"));
}

#[test]
fn a_unit_that_is_stopped_ends_its_job_and_gives_the_lock_back() {
    let place = scene("true");
    configure(&place, "[jobs.nightly]\nat-most = \"1h\"\n");
    fs::create_dir(place.path("jobs")).unwrap();
    write_script(&place, "jobs/nightly", PATIENT);
    let unit = example("job@.service").replace("/usr/local/lib/jobs/", "/run/stage/jobs/");
    fs::write(place.path("units/job@.service"), unit).unwrap();
    let systemd = Systemd::start(&place);
    finish(&mut systemd.command(&["systemctl", "start", "--no-block", "job@nightly.service"])).is_silent_with(0);
    place.wait_for_lines("signals", 1);
    finish(&mut systemd.command(&["systemctl", "stop", "job@nightly.service"]));
    assert_eq!(place.lines("signals"), ["up", "TERM from shedlock"]);
    take(&systemd, "nightly");
}

#[test]
fn what_a_job_leaves_running_is_ended_by_systemd() {
    let place = scene(
        "setsid sh -c 'echo up >/run/stage/left; exec sleep 1000' & until [ -s /run/stage/left ]; do sleep 0.02; done",
    );
    configure(&place, "");
    let systemd = Systemd::start(&place);
    assert_eq!(systemd.run("report.service").code(), Some(0));
    let left = finish(&mut systemd.command(&["pgrep", "-x", "sleep"]));
    assert_eq!((left.code(), left.stdout.as_str()), (Some(1), ""), "{left:?}");
}

#[test]
fn a_failure_is_mailed_and_a_held_lock_is_not() {
    let place = scene("true");
    configure(&place, "at-most = \"1h\"\n");
    fs::create_dir(place.path("jobs")).unwrap();
    write_script(&place, "jobs/nightly", "#!/bin/sh\nexit 3\n");
    let unit = example("job@.service").replace("/usr/local/lib/jobs/", "/run/stage/jobs/");
    fs::write(place.path("units/job@.service"), unit).unwrap();
    let systemd = Systemd::start(&place);
    let handle = take(&systemd, "nightly");
    assert_eq!(systemd.run("job@nightly.service").code(), Some(0));
    finish(&mut systemd.command(&["shedlock", "release", &handle])).is_silent_with(0);
    assert_eq!(systemd.run("job@nightly.service").code(), Some(1));
    let mails = place.wait_for_lines("mails", 2);
    assert!(mails[0].starts_with("mail: job@nightly.service failed on "), "{mails:?}");
    assert!(mails.iter().any(|line| line.contains("status=3")), "{mails:?}");
    assert_eq!(mails.iter().filter(|line| line.starts_with("mail: ")).count(), 1, "{mails:?}");
}

#[test]
fn restart_on_failure_runs_a_job_again_that_failed_and_not_one_that_found_its_lock_held() {
    let place = scene("echo ran >>/run/stage/runs; [ $(wc -l </run/stage/runs) -ge 2 ]");
    configure(&place, "");
    let again = example("report.service").replace("KillMode", "Restart=on-failure\nRestartSec=10ms\nKillMode");
    Systemd::install(&place, "report.service", &again);
    let systemd = Systemd::start(&place);
    systemd.run("report.service");
    wait_until("the second run's success", || (systemd.outcome("report.service") == done("0")).then_some(()));
    assert_eq!(place.lines("runs").len(), 2);
    take(&systemd, "report");
    systemd.run("report.service");
    assert_eq!(systemd.outcome("report.service"), done("75"));
    assert_eq!(systemd.show("report.service", "NRestarts"), "0");
}
