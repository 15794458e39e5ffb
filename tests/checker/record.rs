//! What the log says, put together: runs, those that had the lock, and faults.

use std::collections::BTreeMap;

use super::log::{Line, MILLI};
use super::plan::Terms;

/// Signs of life with no longer pause between them are one stretch.
const PAUSE: u64 = 100 * MILLI;

/// From and to, in nanoseconds.
pub(crate) type Stretch = (u64, u64);

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) runs: BTreeMap<String, RunRecord>,
    /// By the owner of the lock.
    pub(crate) jobs: BTreeMap<String, JobRecord>,
    pub(crate) faults: Vec<Fault>,
}

/// A `shedlock run` that a host has started.
pub(crate) struct RunRecord {
    pub(crate) host: String,
    pub(crate) pid: i32,
    pub(crate) fired: u64,
    pub(crate) terms: Terms,
    pub(crate) ended: Option<(u64, End)>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

/// What ran under one owner.
pub(crate) struct JobRecord {
    pub(crate) run: String,
    pub(crate) start: u64,
    pub(crate) token: Option<u64>,
    /// The process that started first: the command.
    pub(crate) command: i32,
    /// When that said that it ends.
    pub(crate) end: Option<u64>,
    pub(crate) processes: BTreeMap<i32, Process>,
}

pub(crate) struct Process {
    pub(crate) role: String,
    pub(crate) alive: Vec<Stretch>,
}

/// Something bad, and until when it lasted.
pub(crate) struct Fault {
    pub(crate) kind: String,
    /// The run or the host; `-` for the store.
    pub(crate) whom: String,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

impl Record {
    /// Takes in a line.
    pub(crate) fn add(&mut self, line: &Line) {
        match line.kind.as_str() {
            "FIRE" => {
                let terms = Terms::parse(line.word(1)).unwrap();
                let run =
                    RunRecord { host: line.word(0).to_owned(), pid: line.pid, fired: line.at, terms, ended: None };
                self.runs.insert(line.run.clone(), run);
            }
            "EXIT" => {
                let (kind, number) = line.word(0).split_once(':').unwrap();
                let number = number.parse().unwrap();
                let end = if kind == "code" { End::Code(number) } else { End::Signal(number) };
                // A host writes the one after the other.
                self.runs.get_mut(&line.run).unwrap().ended = Some((line.at, end));
            }
            "FAULT" => {
                let (kind, whom) = (line.word(0).to_owned(), line.run.clone());
                self.faults.push(Fault { kind, whom, from: line.at, to: None });
            }
            "HEAL" => {
                let open =
                    |fault: &&mut Fault| fault.kind == line.word(0) && fault.whom == line.run && fault.to.is_none();
                if let Some(fault) = self.faults.iter_mut().rev().find(open) {
                    fault.to = Some(line.at);
                }
            }
            _ => self.add_sign(line),
        }
    }

    fn add_sign(&mut self, line: &Line) {
        let (role, token, owner) = (line.word(0), line.word(1), line.word(2));
        let job = self.jobs.entry(owner.to_owned()).or_insert_with(|| JobRecord {
            run: line.run.clone(),
            start: line.at,
            token: token.parse().ok(),
            command: line.pid,
            end: None,
            processes: BTreeMap::new(),
        });
        if line.kind == "END" && line.pid == job.command {
            job.end = Some(line.at);
        }
        let process = job.processes.entry(line.pid);
        let process = process.or_insert_with(|| Process { role: role.to_owned(), alive: vec![(line.at, line.at)] });
        match process.alive.last_mut() {
            Some((_, to)) if line.at <= *to + PAUSE => *to = line.at.max(*to),
            _ => process.alive.push((line.at, line.at)),
        }
    }

    /// Returns the faults of these kinds that concern this one.
    pub(crate) fn faults_of<'a>(&'a self, whom: &'a str, kinds: &'a [&str]) -> impl Iterator<Item = &'a Fault> {
        self.faults.iter().filter(move |fault| fault.whom == whom && kinds.contains(&fault.kind.as_str()))
    }

    /// Returns the runs that had the lock, in the order in which they started.
    pub(crate) fn jobs_in_order(&self) -> Vec<(&str, &JobRecord)> {
        let mut jobs: Vec<_> = self.jobs.iter().map(|(owner, job)| (owner.as_str(), job)).collect();
        jobs.sort_by_key(|(_, job)| job.start);
        jobs
    }
}

impl Fault {
    /// Returns the end of the fault, or that of time if it lasts.
    pub(crate) fn end(&self) -> u64 {
        self.to.unwrap_or(u64::MAX)
    }
}

impl JobRecord {
    /// Returns the last sign of life of the processes that `counts`.
    pub(crate) fn last_sign(&self, counts: impl Fn(i32, &Process) -> bool) -> u64 {
        let counted = self.processes.iter().filter(|(pid, process)| counts(**pid, process));
        counted.filter_map(|(_, process)| process.alive.last()).map(|(_, to)| *to).max().unwrap_or(self.start)
    }
}
