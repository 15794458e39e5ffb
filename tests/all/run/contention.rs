//! Many processes at once, on one lock and on many.

use std::process::{Child, Stdio};

use crate::support::{Place, finish_child, start, turn_of_a_herd};

/// Starts `count` processes as close together as the machine can.
fn stampede(count: usize, launch: impl Fn(usize) -> Child) -> Vec<Child> {
    (0..count).map(launch).collect()
}

#[test]
fn of_200_processes_on_one_name_one_runs_its_job() {
    let _turn = turn_of_a_herd();
    let place = Place::new();
    let job = "echo $$ >> runs; while [ ! -e done ]; do sleep 0.02; done";
    let mut children = stampede(200, |_| start(&mut place.run("herd", ["sh", "-c", job])));
    // The job runs until all others have had their answer.
    let others = 199;
    let mut answered = 0;
    while answered < others {
        answered = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::write(place.path("done"), "").unwrap();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(place.lines("runs").len(), 1);
}

#[test]
fn of_200_processes_on_200_names_all_run_their_jobs() {
    let _turn = turn_of_a_herd();
    let place = Place::new();
    let children = stampede(200, |index| {
        start(&mut place.run(&format!("job-{index}"), ["sh", "-c", &format!("echo {index} >> runs")]))
    });
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let mut runs: Vec<usize> = place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_counter_without_any_protection_but_the_lock_is_exact() {
    let (processes, rounds) = (16, 10);
    let place = Place::new();
    std::fs::write(place.path("counter"), "0\n").unwrap();
    let shedlock = env!("CARGO_BIN_EXE_shedlock");
    let increment = "read n < counter; echo $((n + 1)) > counter";
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do {shedlock} run --name counter --at-most 1m --wait 5m -E 99 sh -c '{increment}' || exit; i=$((i+1)); done"
    );
    let children = stampede(processes, |_| {
        let mut shell = place.shedlock::<_, &str>([]);
        let environment: Vec<_> = shell.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        let mut command = std::process::Command::new("sh");
        for (key, value) in environment {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        shell.stdin(Stdio::null());
        start(command.args(["-c", &script]).current_dir(place.path("")))
    });
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(place.read("counter"), format!("{}\n", processes * rounds));
}
