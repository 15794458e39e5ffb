//! A lock stays held for at-least, also after its job has ended.

use super::log::MILLI;
use super::proof::{Verdict, thaw_before};
use super::record::{End, JobRecord, Record};

/// Checks that no job starts before at-least has passed since an acquisition. The time of the acquisition is not known, but it
/// is not before the run was fired or the job before it started.
pub(crate) fn check(record: &Record, jobs: &[(&str, &JobRecord)], verdict: &mut Verdict) {
    let mut before = 0;
    for pair in jobs.windows(2) {
        let [(owner, job), (_, other)] = pair else { continue };
        let earliest = std::mem::replace(&mut before, job.start);
        let (Some(run), Some(next)) = (record.runs.get(&job.run), record.runs.get(&other.run)) else { continue };
        let kept_until = run.fired.max(earliest) + run.terms.at_least * MILLI;
        let keeps = run.ended.is_some_and(|(_, end)| end != End::Code(123));
        let mut robbed = record.faults_of("-", &["forget", "steal"]);
        let is_robbed = robbed.any(|fault| fault.end() >= run.fired && fault.from <= other.start);
        let thawed = thaw_before(record, next, (other.start, other.start)).is_some();
        if keeps && other.start < kept_until && !is_robbed && !thawed {
            let early = (kept_until - other.start) / MILLI;
            verdict.violations.push(format!(
                "hold: {} starts at {}, {early} ms before the {} ms of {} ({owner}) are over",
                other.run, other.start, run.terms.at_least, job.run
            ));
        }
    }
}
