//! The proof: what the record says against what shedlock promises.
//!
//! A job lives from its START to the last sign of life of whatever belongs to it. Not everything that it started does:
//!
//! * What the command left behind when it ended by itself goes on, unless `--wait-for` says otherwise.
//! * Without `--lease`, what the command had started survives a shedlock that is killed.
//! * Where the store has forgotten the lock, two may run until the first one's renewal learns of it; without renewals until
//!   its at-most is used up. A host that was frozen meanwhile, so long that a renewal is more than a second late, must hold
//!   its job until then, unless it had renewed until the end of at-most; a job that is stopped has `--kill-after` to end. A
//!   shedlock that is stopped itself sees nothing of that, and its guardian ends the job with the lease.
//! * Of a host that was frozen as a whole, processes go on before shedlock has looked at the clock: [`GRACE`] is for that.

use std::collections::BTreeMap;

use super::holds;
use super::log::{MILLI, SECOND};
use super::plan::{FAILED, SKIPPED, Terms};
use super::record::{End, JobRecord, Process, Record, RunRecord, Stretch};

/// For so long a job may go on after its host was thawed.
pub(crate) const GRACE: u64 = 250 * MILLI;
/// What no supervisor sees as a stall.
const UNSEEN: u64 = 1_100 * MILLI;
/// The longest time that nobody has the lock and nothing is in the way: a lease that nobody knows of, and hosts fire every second
/// or so.
pub(crate) const BOUND: u64 = 9 * SECOND;
/// What passes after trouble until runs get in again.
const RECOVERY: u64 = SECOND;

const STORE_FAULTS: [&str; 7] = [
    "kill-server",
    "restart-server",
    "freeze-server",
    "busy",
    // Those that are left may have to elect another leader first.
    "kill-member",
    "restart-member",
    "freeze-member",
];

/// What is wrong, and what is worth telling.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<String>,
    /// Overlaps that are excused, and the longest in nanoseconds.
    pub(crate) forgotten: (usize, u64),
    pub(crate) thawed: (usize, u64),
    /// After a shedlock was killed whose job ran: how long until the next START.
    pub(crate) takeovers: Vec<u64>,
    pub(crate) longest_gap: u64,
    pub(crate) without_fault: usize,
}

/// Proves what can be proved of runs that have ended. `over` is when the hosts stopped firing, if they have.
pub(crate) fn prove(record: &Record, over: Option<u64>) -> Verdict {
    let mut verdict = Verdict::default();
    let jobs = record.jobs_in_order();
    for (place, (owner, job)) in jobs.iter().enumerate() {
        check_overlap(record, owner, job, &jobs[place + 1..], &mut verdict);
        check_death(record, owner, job, &mut verdict);
    }
    check_tokens(record, &jobs, &mut verdict);
    holds::check(record, &jobs, &mut verdict);
    let mut started: BTreeMap<&str, &JobRecord> = BTreeMap::new();
    for (_, job) in jobs.iter().rev() {
        started.insert(&job.run, job);
    }
    for (name, run) in &record.runs {
        check_end(record, name, run, started.get(name.as_str()).copied(), &mut verdict);
    }
    check_gaps(record, &jobs, over, &mut verdict);
    verdict
}

/// Returns which process of a job has to be dead before the lock frees. `None` while that is not known.
fn counts<'a>(record: &'a Record, job: &'a JobRecord) -> Option<impl Fn(i32, &Process) -> bool + use<'a>> {
    let run = record.runs.get(&job.run)?;
    let (_, end) = run.ended?;
    let ended = by_itself(record, job);
    let waits = run.terms.wait_for.as_str();
    let nothing_else = match end {
        End::Signal(_) => run.terms.lease.is_none() || (ended && waits == "child"),
        End::Code(123 | 124) => false,
        End::Code(_) => waits == "child",
    };
    let group_only = !matches!(end, End::Code(123 | 124)) && waits == "group" && (ended || matches!(end, End::Code(_)));
    let command = job.command;
    Some(move |pid: i32, process: &Process| pid == command || !nothing_else && (!group_only || process.role == "child"))
}

/// Returns whether the command ended without anything that shedlock did.
fn by_itself(record: &Record, job: &JobRecord) -> bool {
    job.end.is_some() || record.faults_of(&job.run, &["kill-job", "term-shedlock"]).next().is_some()
}

fn check_overlap(record: &Record, owner: &str, job: &JobRecord, later: &[(&str, &JobRecord)], verdict: &mut Verdict) {
    let Some((next, other)) = later.first() else { return };
    let (Some(counts), Some(run)) = (counts(record, job), record.runs.get(&job.run)) else { return };
    let (mut forgotten, mut thawed) = (0, 0);
    for (pid, process) in job.processes.iter().filter(|(pid, process)| counts(**pid, process)) {
        for (from, to) in process.alive.iter().filter(|(_, to)| *to > other.start) {
            let from = (*from).max(other.start);
            if let Some(thaw) = thaw_before(record, run, (from, *to)) {
                thawed = thawed.max(to - thaw);
            } else if is_forgotten(record, run, job, (from, *to)) {
                forgotten = forgotten.max(to - from);
            } else {
                let whose = |job: &JobRecord, owner: &str| format!("{} ({owner})", job.run);
                verdict.violations.push(format!(
                    "overlap: {} of {} lives until {}, {} ms after the START of {} at {}",
                    format_args!("{} {pid}", process.role),
                    whose(job, owner),
                    to,
                    (to - other.start) / MILLI,
                    whose(other, next),
                    other.start
                ));
            }
        }
    }
    for (counter, longest) in [(&mut verdict.forgotten, forgotten), (&mut verdict.thawed, thawed)] {
        if longest > 0 {
            *counter = (counter.0 + 1, counter.1.max(longest));
        }
    }
}

/// Returns when the host was thawed, if all of this stretch comes shortly after that.
pub(crate) fn thaw_before(record: &Record, run: &RunRecord, (from, to): Stretch) -> Option<u64> {
    let thaws = record.faults_of(&run.host, &["freeze-host"]).filter_map(|fault| fault.to);
    thaws.into_iter().find(|thaw| from >= *thaw && to <= thaw + GRACE)
}

/// Returns whether the store had forgotten the lock, and this job could not know it yet, or was about to end.
fn is_forgotten(record: &Record, run: &RunRecord, job: &JobRecord, (from, to): Stretch) -> bool {
    let Terms { lease, at_most, kill_after, extends, .. } = &run.terms;
    let lease = lease.or(extends.then_some(*at_most)).map(|lease| lease * MILLI);
    record.faults_of("-", &["forget"]).filter(|forget| run.fired < forget.from).any(|forget| match lease {
        None => to <= job.start + at_most * MILLI,
        Some(lease) => {
            // Who has renewed until at-most is used up is late for nothing.
            let end = if *extends { u64::MAX } else { job.start + (at_most - 200) * MILLI };
            let mut freezes = record.faults_of(&run.host, &["freeze-host"]);
            let is_stopped =
                |at: u64| record.faults_of(&job.run, &["stop-shedlock"]).any(|stop| stop.from < at && at < stop.end());
            let held = freezes.any(|freeze| {
                let unseen = lease / 3 + UNSEEN;
                let asleep = freeze.from < forget.from && forget.from < freeze.end();
                asleep && !is_stopped(freeze.end()) && freeze.end() > freeze.from + unseen && freeze.from + lease < end
            });
            to <= forget.from + lease && (!held || to - from <= kill_after * MILLI + GRACE)
        }
    })
}

/// Checks that with `--lease` nothing outlives a killed shedlock for longer than the lease, whether anybody waits for it or
/// not.
fn check_death(record: &Record, owner: &str, job: &JobRecord, verdict: &mut Verdict) {
    let (Some(counts), Some(run)) = (counts(record, job), record.runs.get(&job.run)) else { return };
    let Some(killed) = record.faults_of(&job.run, &["kill-shedlock"]).next() else { return };
    let Some(hold) = run.terms.lease.map(|_| run.terms.hold() * MILLI) else { return };
    let last = job.last_sign(&counts);
    let thawed = thaw_before(record, run, (last, last)).is_some();
    if matches!(run.ended, Some((_, End::Signal(9)))) && last > killed.from + hold && !thawed {
        verdict.violations.push(format!(
            "outlived: something of {} ({owner}) lives {} ms after its shedlock was killed, with a lease of {} ms",
            job.run,
            (last - killed.from) / MILLI,
            hold / MILLI
        ));
    }
}

fn check_tokens(record: &Record, jobs: &[(&str, &JobRecord)], verdict: &mut Verdict) {
    let mut greatest = (0, "nobody");
    for (owner, job) in jobs {
        let Some(token) = job.token else {
            verdict.violations.push(format!("token: {} ({owner}) has none", job.run));
            continue;
        };
        if token > greatest.0 {
            greatest = (token, *owner);
        } else {
            let run = record.runs.get(&job.run);
            let thawed = run.is_some_and(|run| thaw_before(record, run, (job.start, job.start)).is_some());
            if !thawed {
                let before = greatest;
                verdict.violations.push(format!(
                    "token: {} ({owner}) starts at {} with {token}, after {} of {}",
                    job.run, job.start, before.0, before.1
                ));
            }
        }
    }
}

fn check_end(record: &Record, name: &str, run: &RunRecord, job: Option<&JobRecord>, verdict: &mut Verdict) {
    let Some((at, end)) = run.ended else { return };
    let had = |kinds: &[&str]| record.faults_of(name, kinds).next().is_some();
    let since_fired = at.saturating_sub(run.fired) / MILLI;
    let complaint = match (end, job) {
        (End::Code(0 | FAILED), Some(job)) if job.end.is_some() => None,
        (End::Code(0 | FAILED), _) => Some("although its job did not end so"),
        (End::Code(SKIPPED | 125), Some(_)) => Some("although its job ran"),
        (End::Code(SKIPPED | 125), None) => None,
        (End::Code(124), Some(_)) if since_fired >= run.terms.at_most * 7 / 10 => None,
        (End::Code(124), _) => Some("although at-most was not used up"),
        (End::Code(123), Some(_)) => {
            let any = record.faults.iter().any(|fault| fault.from <= at && fault.end() >= run.fired);
            verdict.without_fault += usize::from(!any);
            None
        }
        // A command that is about to start has said nothing yet.
        (End::Code(123), None) => None,
        (End::Code(137), _) if had(&["kill-job"]) => None,
        (End::Code(143), _) if had(&["term-shedlock"]) => None,
        (End::Signal(9), _) if had(&["kill-shedlock"]) => None,
        _ => Some("which nothing explains"),
    };
    if let Some(complaint) = complaint {
        verdict.violations.push(format!("exit: {name} ended with {end:?} after {since_fired} ms, {complaint}"));
    }
}

/// Checks that no run waits, for longer than the record explains, for a lock that nobody has.
fn check_gaps(record: &Record, jobs: &[(&str, &JobRecord)], over: Option<u64>, verdict: &mut Verdict) {
    let mut taken: Vec<Stretch> = Vec::new();
    let hosts_too =
        STORE_FAULTS.iter().chain(if is_file(record) { &["freeze-host", "stop-shedlock"][..] } else { &[] });
    let of_store: Vec<&str> = hosts_too.copied().collect();
    let outages: Vec<Stretch> = record
        .faults
        .iter()
        .filter(|fault| of_store.contains(&fault.kind.as_str()))
        .map(|fault| (fault.from, fault.end().saturating_add(RECOVERY)))
        .collect();
    for job in jobs.iter().map(|(_, job)| job) {
        let Some(run) = record.runs.get(&job.run) else { continue };
        let last = job.last_sign(|pid, _| pid == job.command);
        let end = run.ended.map_or(u64::MAX, |(at, _)| at.max(last));
        // One that is killed, cut off, or robbed leaves the lock held until its time is up; a nested one has three seconds.
        let troubled = is_troubled(record, run, &job.run, (last.saturating_sub(3 * SECOND), end), &outages);
        let hold = if troubled { run.terms.hold().max(3_000) * MILLI } else { 0 };
        taken.push((job.start, end.saturating_add(hold).max(job.start + run.terms.at_least * MILLI)));
    }
    // One that was skipped has nothing, but for a request that was carried out when it had given it up: that is in the bound.
    let may_have = |(name, run): &(&String, &RunRecord)| {
        !matches!(run.ended, Some((_, End::Code(SKIPPED)))) && !jobs.iter().any(|(_, job)| job.run == **name)
    };
    for (name, run) in record.runs.iter().filter(may_have) {
        let end = run.ended.map_or(u64::MAX, |(at, _)| at);
        if is_troubled(record, run, name, (run.fired, end), &outages) {
            taken.push((run.fired, end.saturating_add(run.terms.hold() * MILLI)));
        }
    }
    taken.extend(outages);
    taken.sort_unstable();
    let mut free_since = taken.first().map_or(0, |(from, _)| *from);
    for (from, to) in taken.iter().copied().chain(over.map(|over| (over, over))) {
        let from = over.map_or(from, |over| from.min(over));
        if from > free_since {
            let gap = from - free_since;
            verdict.longest_gap = verdict.longest_gap.max(gap);
            if gap > BOUND {
                verdict.violations.push(format!("stuck: nobody takes the lock from {free_since} to {from}"));
            }
        }
        free_since = free_since.max(to);
    }
    for fault in record.faults.iter().filter(|fault| fault.kind == "kill-shedlock") {
        let held = jobs.iter().any(|(_, job)| {
            job.run == fault.whom && job.start < fault.from && job.end.is_none_or(|end| end > fault.from)
        });
        let next = jobs.iter().map(|(_, job)| job.start).find(|start| *start > fault.from);
        verdict.takeovers.extend(next.filter(|_| held).map(|next| next - fault.from));
    }
}

fn is_troubled(record: &Record, run: &RunRecord, name: &str, span: Stretch, outages: &[Stretch]) -> bool {
    let touches = |(from, to): Stretch| from <= span.1 && to >= span.0;
    let own = record.faults.iter().filter(|fault| {
        let kind = fault.kind.as_str();
        let of_host = matches!(kind, "freeze-host" | "cut-link") && fault.whom == run.host;
        let of_run = matches!(kind, "kill-shedlock" | "stop-shedlock" | "term-shedlock") && fault.whom == name;
        of_host || of_run || kind == "steal"
    });
    own.map(|fault| (fault.from, fault.end().saturating_add(RECOVERY))).chain(outages.iter().copied()).any(touches)
}

/// Returns whether the store is a file: a process that stops in the middle of writing it keeps all others from it.
fn is_file(record: &Record) -> bool {
    record.faults.iter().any(|fault| fault.kind == "busy")
}
