//! Every code that a job can exit with, and every signal that it can die of.

use super::sweep;
use crate::support::fixtures::find;
use crate::support::process::{DETACHED, under};
use crate::support::{Finished, Place, finish};

fn is_silent(finished: &Finished, code: i32) -> Result<(), String> {
    let found = (finished.code(), finished.stdout.as_str(), finished.stderr.as_str());
    if found == (Some(code), "", "") { Ok(()) } else { Err(format!("{finished:?}")) }
}

#[test]
fn all_256_codes_of_the_job_come_through_and_those_named_are_successes() {
    let place = Place::new();
    let codes: Vec<i32> = (0..256).collect();
    let is_success = |code: i32| code % 3 == 1;
    let named: Vec<String> = codes.iter().filter(|code| is_success(**code)).map(ToString::to_string).collect();
    let named = named.join(",");
    // The file is made once, or all would make it at once.
    finish(&mut place.run("first", ["true"])).is_silent_with(0);
    sweep(&codes, ToString::to_string, |code| {
        let job = format!("exit {code}");
        let name = format!("plain-{code}");
        is_silent(&finish(&mut place.run(&name, ["sh", "-c", &job])), *code)?;
        // All of them may take longer than a minute.
        let (name, at_most) = (format!("named-{code}"), "1h");
        let lock = ["run", "--name", &name, "--at-most", at_most, "--success-codes", &named, "--on-failure", "hold"];
        is_silent(&finish(&mut place.shedlock(lock.iter().chain(&["sh", "-c", &job]))), *code)
    });
    // What counts as a failure keeps the lock.
    for code in codes {
        let held = place.row(&format!("named-{code}")).unwrap().held;
        assert_eq!(held, !is_success(code), "{code}");
        let outcome = |kind| {
            let name = format!("{kind}-{code}");
            find::<String>(&place, &format!("SELECT outcome FROM shedlock_history WHERE name = '{name}'"))
        };
        assert_eq!(outcome("plain"), if code == 0 { "success" } else { "failure" }, "{code}");
        assert_eq!(outcome("named"), if is_success(code) { "success" } else { "failure" }, "{code}");
    }
}

#[test]
fn every_signal_that_ends_a_job_makes_128_and_its_number() {
    let place = Place::new();
    let quiet = [17, 18, 19, 20, 21, 22, 23, 28, 32, 33];
    let signals: Vec<i32> = (1..=64).filter(|number| !quiet.contains(number)).collect();
    finish(&mut place.run("first", ["true"])).is_silent_with(0);
    sweep(&signals, ToString::to_string, |number| {
        let word = number.to_string();
        let job = ["prlimit", "--core=0:0", "perl", "-e", "$SIG{FPE} = 'DEFAULT'; kill shift, $$; sleep 60", &word];
        let finished = finish(&mut under(&DETACHED, &place.run(&word, job)));
        if matches!(number, 2 | 3) {
            finished.died_of(*number);
            return Ok(());
        }
        is_silent(&finished, 128 + number)
    });
}
