//! What monitors are told: the recipe of docs/running.md for one that wants a plugin, Prometheus' rules and questions, and times
//! of a clock that was ahead, which must not hide failures.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use crate::support::fixtures::{edit, hold, open};
use crate::support::markdown::run_by;
use crate::support::prometheus::is_accepted;
use crate::support::repository::ROOT;
use crate::support::{Place, finish, finish_child, kill, start, wait_until};

#[test]
fn the_plugin_answers_in_the_words_and_codes_of_nagios() {
    let place = Place::new();
    let plugin = |words: &[&str]| {
        let shedlock = place.shedlock([""; 0]);
        let mut command = Command::new("sh");
        command.arg(format!("{ROOT}/packaging/examples/check_shedlock")).args(words).current_dir(place.path(""));
        for (key, value) in shedlock.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
        command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
        let finished = finish(&mut command);
        assert_eq!(finished.stderr, "", "{finished:?}");
        (finished.code(), finished.stdout)
    };
    finish(&mut place.run("report", ["true"])).is_silent_with(0);
    finish(&mut place.run("backup", ["false"]));
    let (code, said) = plugin(&["26h", "report"]);
    assert!(code == Some(0) && said.starts_with("SHEDLOCK OK: report: last success 20"), "{code:?} {said}");
    let (code, said) = plugin(&["26h", "report", "backup"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("SHEDLOCK CRITICAL: report: last success 20"), "{said}");
    assert!(said.contains("\nbackup: no success is recorded; last run: failure 20"), "{said}");
    // The shell's echo would make a tab of it, or end the line.
    let (code, said) = plugin(&["26h", r"a\tb\c"]);
    assert!(code == Some(2) && said.starts_with("SHEDLOCK CRITICAL: a\\tb\\c: no success is recorded; "), "{said}");
    let (code, said) = plugin(&["26h"]);
    assert_eq!((code, said.as_str()), (Some(3), "SHEDLOCK UNKNOWN: usage: check_shedlock DURATION NAME...\n"));
    let (code, said) = plugin(&["long", "report"]);
    assert!(code == Some(3) && said.contains("--max-age `long` is not"), "{code:?} {said}");
}

/// Returns the value of a series, without a label that is not given.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(&format!("{series} "))?.parse().ok())
}

#[test]
fn a_success_of_the_future_is_no_recent_one_and_hides_no_failure() {
    let place = Place::new();
    // More than `status` reads of each lock.
    for _ in 0..3 {
        finish(&mut place.run("job", ["true"])).is_silent_with(0);
    }
    let ahead =
        "UPDATE shedlock_history SET started_at = '2999-01-01T00:00:00.000Z', ended_at = '2999-01-01T00:00:01.000Z'";
    assert_eq!(open(&place).execute(ahead, ()).unwrap(), 3);
    let status = finish(&mut place.shedlock(["status"]));
    let said = "shedlock: the last run of the lock `job` ended ";
    assert!(status.code() == Some(0) && status.stderr.starts_with(said), "{status:?}");
    assert!(status.stderr.contains(" after now, by the backend's clock, ") && status.stderr.lines().count() == 1);

    let asked = || {
        let asked = finish(&mut place.shedlock(["status", "--max-age", "26h", "job"]));
        assert_eq!(asked.stderr, "", "{asked:?}");
        (asked.code(), asked.stdout)
    };
    let (code, line) = asked();
    assert!(code == Some(1) && line.starts_with("job: no success up to now is recorded; "), "{code:?} {line}");
    assert!(line.contains("the success of 2999-01-01 00:00:01Z (in "), "{line}");
    for _ in 0..3 {
        finish(&mut place.run("job", ["false"])).is_silent_with(1);
    }
    let (code, line) = asked();
    assert!(code == Some(1) && line.contains("; last run: failure 20"), "{code:?} {line}");
    let status = finish(&mut place.shedlock(["status", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&told[0]["last"]["outcome"], status.stderr.as_str()), (&"failure".into(), ""), "{told}");
    let text = finish(&mut place.shedlock(["status", "--prometheus"])).stdout;
    is_accepted(&text);
    assert!(!text.contains("last_success"), "{text}");
    assert_eq!(value(&text, "shedlock_last_outcome{name=\"job\",outcome=\"failure\"}"), Some(1.0), "{text}");
    let end = value(&text, "shedlock_last_end_timestamp_seconds{name=\"job\",source=\"backend\"}");
    assert!(end.is_some_and(|end| end < 4e9), "{text}");

    finish(&mut place.run("job", ["true"])).is_silent_with(0);
    let (code, line) = asked();
    assert!(code == Some(0) && line.starts_with("job: last success 20"), "{code:?} {line}");
}

#[test]
fn a_lock_that_was_taken_in_the_future_is_remarked_upon() {
    let place = Place::new();
    let holder = hold(&place, "job");
    assert_eq!(finish(&mut place.shedlock(["status"])).stderr, "");
    edit(&place, "UPDATE shedlock SET locked_at = '2998-01-01T00:00:00.000Z', lock_until = '2998-01-01T01:00:00.000Z'");
    let status = finish(&mut place.shedlock(["status"]));
    assert!(status.stderr.starts_with("shedlock: the lock `job` was taken "), "{status:?}");
    assert!(status.stderr.contains(" after now, by the backend's clock: that clock was ahead "), "{status:?}");
    assert!(status.stderr.contains("\nhint: A CLOCK THAT WAS AHEAD in shedlock-backends(7) "), "{status:?}");
    holder.end();
}

#[test]
fn a_file_of_metrics_keeps_no_time_of_the_future() {
    let place = Place::new();
    fs::create_dir(place.path("metrics")).unwrap();
    let file = "metrics/shedlock-job.prom";
    let ran = |job: &str| finish(&mut place.run("job", ["--metrics-dir", "metrics", "-E", "75", job]));
    ran("true").is_silent_with(0);
    let series = ["runs_created", "last_start", "last_end", "last_success"]
        .map(|metric| format!("shedlock_{metric}_timestamp_seconds{{name=\"job\"}}"));
    let ahead = |line: &str| match series.iter().any(|series| line.starts_with(&format!("{series} "))) {
        true => format!("{} 32503680000\n", line.rsplit_once(' ').unwrap().0),
        false => format!("{line}\n"),
    };
    let text: String = place.read(file).lines().map(ahead).collect();
    fs::write(place.path(file), &text).unwrap();
    assert_eq!(series.each_ref().map(|series| value(&text, series)), [Some(32_503_680_000.0); 4]);
    // Also by a run that is only skipped.
    let holder = hold(&place, "job");
    ran("true").is_silent_with(75);
    holder.end().is_silent_with(0);
    let text = place.read(file);
    is_accepted(&text);
    let [created, started, ended, success] = series.each_ref().map(|series| value(&text, series));
    assert!([started, ended].iter().all(|time| time.is_some_and(|time| time < 4e9)), "{text}");
    // What was counted then is alerted neither as a success nor as new.
    assert_eq!((created, success), (None, None), "{text}");
    assert_eq!(value(&text, "shedlock_runs_total{name=\"job\",outcome=\"success\"}"), Some(1.0));
}

/// The line of cron.d-locks-metrics, under the umask of a careful host.
#[test]
fn node_exporter_reads_the_files_of_jobs_beside_that_of_the_backend() {
    let place = Place::new();
    fs::create_dir(place.path("metrics")).unwrap();
    finish(&mut place.run("job", ["--metrics-dir", "metrics", "true"])).is_silent_with(0);
    let crontab = fs::read_to_string(format!("{ROOT}/packaging/examples/cron.d-locks-metrics")).unwrap();
    let line = crontab.lines().last().unwrap().strip_prefix("* * * * *  reports  ").unwrap();
    let line = line.replace("/var/lib/shedlock-metrics", place.path("metrics").to_str().unwrap());
    let cron = |backend: Option<&str>| {
        let shedlock = place.shedlock([""; 0]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask 077; sh -c '{line}'")]).current_dir(place.path(""));
        command.envs(shedlock.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.envs(backend.map(|backend| ("SHEDLOCK_BACKEND", backend)));
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
        finish(command.env("PATH", format!("{}:/usr/bin:/bin", program.display())))
    };
    cron(None).is_silent_with(0);
    let file = place.path("metrics/locks.prom");
    let of = || fs::metadata(&file).unwrap();
    assert_eq!(of().permissions().mode() & 0o777, 0o644, "node_exporter is another user");
    let before = of().ino();
    cron(None).is_silent_with(0);
    assert_ne!(of().ino(), before, "replaced as a whole");
    let before = (of().ino(), fs::read_to_string(&file).unwrap());
    cron(Some("sqlite:/no/such/directory/db")).complains(125, "/no/such/directory");
    assert_eq!((of().ino(), fs::read_to_string(&file).unwrap()), before, "nothing is no metrics");

    let mut exporter = Command::new("prometheus-node-exporter");
    exporter.args(["--collector.disable-defaults", "--collector.textfile", "--web.listen-address=127.0.0.1:0"]);
    exporter.arg(format!("--collector.textfile.directory={}", place.path("metrics").display()));
    let log = || place.read("exporter.log");
    exporter.stdin(Stdio::null()).stderr(fs::File::create(place.path("exporter.log")).unwrap());
    let mut exporter = exporter.spawn().expect("prometheus-node-exporter is installed");
    let address = wait_until("node_exporter to listen", || {
        assert!(exporter.try_wait().unwrap().is_none(), "{}", log());
        let log = log();
        let (_, rest) = log.split_once("msg=\"Listening on\" address=")?;
        Some(rest.split_once(char::is_whitespace)?.0.to_owned())
    });
    let asked = finish(Command::new("curl").args(["-sSf", &format!("http://{address}/metrics")]));
    kill(exporter.id().try_into().unwrap(), "KILL");
    exporter.wait().unwrap();
    assert!(!log().contains("error gathering metrics"), "{}", log());
    for series in ["{name=\"job\"}", "{name=\"job\",source=\"backend\"}"] {
        let series = format!("shedlock_last_success_timestamp_seconds{series}");
        assert!(value(&asked.stdout, &series).is_some(), "{series}: {}", asked.stdout);
    }
    assert_eq!(value(&asked.stdout, "node_textfile_scrape_error"), Some(0.0));
}

/// Checks the answers of one question to these series, in lines of promtool's form.
fn answered(place: &Place, expression: &str, rules: &str, series: &str, at: &str, answers: &str) {
    fs::write(place.path("rules.yml"), rules).unwrap();
    let test = format!(
        "rule_files: [rules.yml]\nevaluation_interval: 1h\ntests:\n  - interval: 1h\n    input_series: [{series}]\n    \
         promql_expr_test:\n      - expr: >-\n          {expression}\n        eval_time: {at}\n        \
         exp_samples: [{answers}]\n"
    );
    fs::write(place.path("test.yml"), &test).unwrap();
    let mut promtool = Command::new("promtool");
    let finished = finish_child(start(promtool.args(["test", "rules", "test.yml"]).current_dir(place.path(""))));
    assert_eq!(finished.code(), Some(0), "{finished:?}\n{test}");
}

#[test]
fn the_question_for_jobs_that_ran_nowhere_finds_those_that_were_skipped_and_those_that_could_not_be_started() {
    let place = Place::new();
    let questions = run_by("packaging/prometheus/README.md", "the_questions_of_the_readme_can_be_asked");
    let series = [
        ("shedlock_runs_total{name=\"skipped\", outcome=\"skipped\", instance=\"web1\"}", "0+1x30"),
        ("shedlock_runs_total{name=\"broken\", outcome=\"error\", instance=\"web1\"}", "0+1x30"),
        // The backend records a start of what could not be started.
        ("shedlock_last_start_timestamp_seconds{name=\"broken\", source=\"backend\"}", "0+3600x30"),
        ("shedlock_last_start_timestamp_seconds{name=\"old\", instance=\"web1\"}", "0x30"),
        // On one of two hosts, for the first time: its counter was born with 1.
        ("shedlock_runs_total{name=\"new\", outcome=\"success\", instance=\"web1\"}", "_x20 1x10"),
        ("shedlock_last_start_timestamp_seconds{name=\"new\", instance=\"web1\"}", "_x20 72000x10"),
        ("shedlock_runs_total{name=\"new\", outcome=\"skipped\", instance=\"web2\"}", "0+1x30"),
    ];
    let series = series.map(|(series, values)| format!("{{series: '{series}', values: '{values}'}}")).join(", ");
    let answers = [("broken", 1), ("old", 90_000), ("skipped", 1)]
        .map(|(name, value)| format!("{{labels: '{{name=\"{name}\"}}', value: {value}}}"));
    answered(&place, questions.last().unwrap().trim(), "", &series, "25h", &answers.join(", "));
}

#[test]
fn the_limits_of_jobs_in_pods_can_be_given_by_a_rule() {
    let place = Place::new();
    let this = "the_limits_of_jobs_in_pods_can_be_given_by_a_rule";
    let [rule] = run_by("packaging/prometheus/README.md", this).try_into().unwrap();
    let answer = "{labels: 'shedlock_at_most_seconds{name=\"nightly-report\"}', value: 10800}";
    answered(&place, "shedlock_at_most_seconds", &rule, "", "1h", answer);
}
