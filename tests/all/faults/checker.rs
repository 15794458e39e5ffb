//! The checker itself: what it takes for proved, and that what it breaks on purpose is still where it looks for it.

#[path = "../../checker/broken.rs"]
mod broken;
#[path = "../../checker/holds.rs"]
mod holds;
#[path = "../../checker/log.rs"]
#[expect(dead_code, reason = "here nothing is written")]
mod log;
#[path = "../../checker/plan.rs"]
#[expect(dead_code, reason = "here nothing is fired")]
mod plan;
#[path = "../../checker/proof.rs"]
mod proof;
#[path = "../../../src/prove/random.rs"]
#[expect(dead_code, reason = "here nobody chooses")]
mod random;
#[path = "../../checker/record.rs"]
#[expect(dead_code, reason = "here nothing is struck")]
mod record;

use std::path::Path;

use log::{Line, MILLI};
use proof::Verdict;

/// Returns the verdict of the proof on these lines, whose times are milliseconds. The hosts stopped firing at `over`.
fn proved(over: u64, lines: &[&str]) -> Verdict {
    let mut record = record::Record::default();
    for line in lines {
        let mut line = Line::parse(line).unwrap();
        line.at *= MILLI;
        record.add(&line);
    }
    proof::prove(&record, Some(over * MILLI))
}

/// Asserts that the only violation that these lines show is this one; none if it is empty.
#[track_caller]
fn shows(violation: &str, lines: &[&str]) {
    let violations = proved(0, lines).violations;
    assert!(violations.len() == usize::from(!violation.is_empty()), "{violations:?}");
    assert!(violations.iter().all(|text| text.starts_with(violation)), "{violations:?}");
}

/// A run without a lease, one with 3 s, and another that starts at 4 s.
const PLAIN: &str = "FIRE 1000 10 a h1 0,9000,0,200,false";
const LEASED: &str = "FIRE 1000 10 a h1 3000,9000,0,200,false";
const OTHER: [&str; 4] = [
    "FIRE 3900 20 b h2 0,9000,0,200,false,child",
    "START 4000 21 b command 2 b:1",
    "END 4500 21 b command 2 b:1",
    "EXIT 4510 20 b code:0",
];

fn with_other(lines: &[&str]) -> Vec<String> {
    lines.iter().chain(&OTHER).map(|line| (*line).to_owned()).collect()
}

#[track_caller]
fn beside_another(violation: &str, lines: &[&str]) {
    let lines = with_other(lines);
    shows(violation, &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn every_protection_that_the_checker_breaks_is_where_it_looks_for_it() {
    for edit in broken::BROKEN.iter().flat_map(|broken| broken.edits) {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(edit.file)).unwrap();
        assert_eq!(text.matches(edit.text).count(), 1, "`{}` in {}", edit.text, edit.file);
        assert_ne!(edit.text, edit.replacement);
    }
    assert!(broken::BROKEN.iter().all(|broken| !broken.name.is_empty()));
}

#[test]
fn two_commands_at_once_are_an_overlap() {
    let fire = &format!("{LEASED},child");
    beside_another(
        "overlap",
        &[
            fire,
            "START 2000 11 a command 1 a:1",
            "BEAT 4020 11 a command 1 a:1",
            "END 4100 11 a command 1 a:1",
            "EXIT 4110 10 a code:0",
        ],
    );
    beside_another(
        "",
        &[fire, "START 2000 11 a command 1 a:1", "END 3990 11 a command 1 a:1", "EXIT 4010 10 a code:0"],
    );
}

#[test]
fn what_a_command_left_behind_counts_if_the_lock_was_to_wait_for_it_or_the_job_was_stopped() {
    for (wait_for, exit, role, counts) in [
        ("child", "code:0", "daemon", false),
        ("group", "code:0", "daemon", false),
        ("group", "code:0", "child", true),
        ("tree", "code:0", "daemon", true),
        ("child", "code:123", "daemon", true),
    ] {
        beside_another(
            if counts { "overlap" } else { "" },
            &[
                &format!("{LEASED},{wait_for}"),
                "START 2000 11 a command 1 a:1",
                &format!("START 2000 12 a {role} 1 a:1"),
                "END 3900 11 a command 1 a:1",
                &format!("BEAT 4200 12 a {role} 1 a:1"),
                &format!("EXIT 4300 10 a {exit}"),
            ],
        );
    }
}

#[test]
fn after_a_kill_the_guardian_is_to_have_ended_all_and_without_a_lease_only_the_command_is_dead() {
    for (fire, violations) in [(LEASED, 1), (PLAIN, 0)] {
        let lines = with_other(&[
            &format!("{fire},child"),
            "START 2000 11 a command 1 a:1",
            "START 2000 12 a daemon 1 a:1",
            "FAULT 2100 10 a kill-shedlock",
            "HEAL 2100 10 a kill-shedlock",
            "EXIT 2110 10 a signal:9",
            "BEAT 4200 12 a daemon 1 a:1",
        ]);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(proved(0, &lines).violations.len(), violations);
    }
    // Nobody is there to see it, and it is too long all the same.
    shows(
        "outlived",
        &[
            &format!("{LEASED},child"),
            "START 2000 11 a command 1 a:1",
            "START 2000 12 a daemon 1 a:1",
            "FAULT 2100 10 a kill-shedlock",
            "HEAL 2100 10 a kill-shedlock",
            "EXIT 2110 10 a signal:9",
            "BEAT 5200 12 a daemon 1 a:1",
        ],
    );
}

#[test]
fn shortly_after_a_thaw_a_job_may_go_on_and_not_longer() {
    for (last, violation) in [(8_100, ""), (8_400, "overlap")] {
        let lines: Vec<String> = (8_010..=last).step_by(90).map(|at| format!("BEAT {at} 11 a command 1 a:1")).collect();
        let fire = format!("{LEASED},child");
        let mut all = vec![
            fire.as_str(),
            "START 2000 11 a command 1 a:1",
            "FAULT 2500 0 h1 freeze-host",
            "HEAL 8000 0 h1 freeze-host",
            "EXIT 8500 10 a code:123",
        ];
        all.extend(lines.iter().map(String::as_str));
        beside_another(violation, &all);
    }
}

#[test]
fn a_job_whose_lock_was_forgotten_may_go_on_until_its_renewal_is_answered() {
    for (last, violation) in [(5_900, ""), (6_300, "overlap")] {
        beside_another(
            violation,
            &[
                &format!("{LEASED},child"),
                "START 2000 11 a command 1 a:1",
                "FAULT 3000 0 - forget",
                "HEAL 3000 0 - forget",
                "BEAT 4200 11 a command 1 a:1",
                &format!("BEAT {last} 11 a command 1 a:1"),
                &format!("EXIT {} 10 a code:123", last + 10),
            ],
        );
    }
}

#[test]
fn a_job_whose_lock_was_forgotten_while_its_host_was_frozen_is_held_until_that_is_known() {
    for (first, violation) in [(5_300, ""), (5_010, "overlap")] {
        let beats: Vec<String> =
            (first..=5_700).step_by(50).map(|at| format!("BEAT {at} 11 a command 1 a:1")).collect();
        let fire = format!("{LEASED},child");
        let mut all = vec![
            fire.as_str(),
            "START 2000 11 a command 1 a:1",
            "FAULT 2800 0 h1 freeze-host",
            "FAULT 3000 0 - forget",
            "HEAL 3000 0 - forget",
            "HEAL 5000 0 h1 freeze-host",
            "EXIT 5800 10 a code:123",
        ];
        all.extend(beats.iter().map(String::as_str));
        beside_another(violation, &all);
    }
}

#[test]
fn tokens_have_to_be_there_and_to_grow() {
    let run = |token: &str| {
        vec![
            format!("{LEASED},child"),
            format!("START 2000 11 a command {token} a:1"),
            format!("END 3000 11 a command {token} a:1"),
            "EXIT 3010 10 a code:0".to_owned(),
        ]
    };
    for (token, violation) in [("1", ""), ("2", "token"), ("3", "token"), ("-", "token")] {
        beside_another(violation, &run(token).iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn an_exit_code_that_nothing_explains_is_a_violation() {
    let fire = &format!("{LEASED},child");
    let start = "START 2000 11 a command 1 a:1";
    let end = "END 2500 11 a command 1 a:1";
    shows("", &[fire, start, end, "EXIT 2510 10 a code:7"]);
    shows("exit", &[fire, start, "EXIT 2510 10 a code:0"]);
    shows("exit", &[fire, start, end, "EXIT 2510 10 a code:75"]);
    shows("exit", &[fire, start, "EXIT 2510 10 a code:124"]);
    shows("exit", &[fire, start, "EXIT 2510 10 a code:137"]);
    shows("exit", &[fire, start, end, "EXIT 2510 10 a code:101"]);
    shows("exit", &[fire, "EXIT 1010 10 a code:127"]);
    shows("", &[fire, start, "FAULT 2500 11 a kill-job", "HEAL 2500 11 a kill-job", "EXIT 2510 10 a code:137"]);
}

#[test]
fn a_lock_that_nobody_takes_for_long_is_stuck_unless_that_is_explained() {
    let fire = &format!("{LEASED},child");
    let run = [fire, "START 1100 11 a command 1 a:1", "END 1500 11 a command 1 a:1", "EXIT 1510 10 a code:0"];
    let stuck = |over: u64, more: &[&str]| {
        let lines: Vec<&str> = run.iter().chain(more).copied().collect();
        proved(over, &lines).violations.iter().any(|violation| violation.starts_with("stuck"))
    };
    assert!(!stuck(10_000, &[]));
    assert!(stuck(11_000, &[]));
    assert!(!stuck(11_000, &["FAULT 3000 0 - kill-server", "HEAL 7000 0 - kill-server"]));
    // A run that was killed while it asked may have taken the lock.
    let killed = [
        "FIRE 2000 20 b h2 0,5000,0,200,false,child",
        "FAULT 2100 20 b kill-shedlock",
        "HEAL 2100 20 b kill-shedlock",
        "EXIT 2110 20 b signal:9",
    ];
    assert!(!stuck(15_000, &killed));
    assert!(stuck(17_000, &killed));
}
