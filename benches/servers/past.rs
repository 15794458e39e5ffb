//! Measures what a run costs on each backend, by the length of its lock's history.

use crate::load::cpu_time;
use crate::measure::{command, measure, quantile, run};
use crate::{Place, listen_with};

/// Number of records before the first measured run.
const LENGTHS: [usize; 3] = [10, 100, 1000];
const RUNS: usize = 100;

pub(crate) fn print(places: &[Place]) {
    println!("\n{:<26} {:>23} {:>23} {:>25}", "runs in the history:", "run, ms", "server's CPU, ms", "kB out and in");
    let heads = LENGTHS.map(|length| format!("{length:>7}")).concat();
    println!("{:<26} {:>23} {:>23} {:>25}", "", heads, heads, LENGTHS.map(|length| format!("{length:>8}")).concat());
    for place in places.iter().filter(|place| place.plain.is_some() || place.servers.is_empty()) {
        let measured = LENGTHS.map(|length| of_length(place, length));
        let column = |number: usize| measured.map(|row| format!("{:>7.2}", row[number])).concat();
        let bytes = measured.map(|row| format!("{:>8.1}", row[2])).concat();
        println!("{:<26} {:>23} {:>23} {bytes:>25}", place.name, column(0), column(1));
    }
    println!("the job is `true`; --history-keep 1000; median of {RUNS} runs, and their mean of the server's CPU");
}

/// Returns the time of a run, the CPU time of the servers for it, both in milliseconds, and the kilobytes on the network.
fn of_length(place: &Place, length: usize) -> [f64; 3] {
    let name = format!("past-{length:0>4}");
    let options = ["--history-keep", "1000"];
    let arguments = run(&place.url, &name, &[&options[..], &["true"]].concat());
    for _ in 0..length {
        assert!(command(&arguments).status().unwrap().success());
    }
    let cpu = cpu_time(&place.servers);
    let times = (0..RUNS).map(|_| measure(&arguments).0.as_secs_f64() * 1e3).collect();
    let cpu = (cpu_time(&place.servers) - cpu) * 1e3 / RUNS as f64;
    let flights = place.plain.as_ref().map(|plain| listen_with(plain, &name, &options)).unwrap_or_default();
    let bytes: usize = flights.iter().map(|flight| flight.said.len() + flight.heard).sum();
    [quantile(times, 0.5), cpu, bytes as f64 / 1e3]
}
