//! What a check came to, for people.

use std::collections::BTreeMap;

use super::log::{MILLI, SECOND};
use super::proof::Verdict;
use super::record::{End, Record};

/// Prints the summary of a check.
pub(crate) fn print(record: &Record, verdict: &Verdict) {
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for run in record.runs.values() {
        let end = match run.ended {
            Some((_, End::Code(code))) => code.to_string(),
            Some((_, End::Signal(_))) => "killed".to_owned(),
            None => "none".to_owned(),
        };
        *ends.entry(end).or_default() += 1;
    }
    for fault in &record.faults {
        *faults.entry(&fault.kind).or_default() += 1;
    }
    let count = |code: &str| ends.get(code).copied().unwrap_or_default();
    let all = |counted: Vec<String>| counted.join(", ");
    println!("  fired   {}; jobs {}, skips {}", record.runs.len(), record.jobs.len(), count("75"));
    println!("  exits   {}", all(ends.iter().map(|(end, count)| format!("{end}: {count}")).collect()));
    println!("  faults  {}", all(faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect()));
    let sum: u64 = verdict.takeovers.iter().sum();
    let longest = verdict.takeovers.iter().copied().max().unwrap_or_default();
    let mean = sum / u64::try_from(verdict.takeovers.len()).unwrap_or(1).max(1);
    println!(
        "  deaths  {} shedlocks were killed while their job ran; the next job started {} later on average, {} at most",
        verdict.takeovers.len(),
        seconds(mean),
        seconds(longest)
    );
    println!("  free    for {} at most, with nothing in the way of an acquisition", seconds(verdict.longest_gap));
    println!(
        "  excused {} overlaps with a lock that the store had forgotten ({} at most), {} after a thaw ({} ms at most)",
        verdict.forgotten.0,
        seconds(verdict.forgotten.1),
        verdict.thawed.0,
        verdict.thawed.1 / MILLI
    );
    if verdict.without_fault > 0 {
        println!("  note    {} runs ended with 123 although nothing was wrong", verdict.without_fault);
    }
}

fn seconds(nanos: u64) -> String {
    format!("{}.{} s", nanos / SECOND, nanos % SECOND / (100 * MILLI))
}
