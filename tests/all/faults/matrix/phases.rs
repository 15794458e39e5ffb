//! The phases of a run, and how a run is brought into each: by a sign, never by waiting for a while.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::environment::{Backend, Environment};
use super::faults::{FOR_EVER, Fault};
use super::gate::{FileGate, Gate, Relay};
use super::witness::{self, Job, Mode};
use crate::support::process::{DETACHED, Started, touch, under};
use crate::support::{PATIENCE, is_alive, kill, wait_until};
use servers::stores::Store;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Another holds the lock.
    Waiting,
    /// The request for the lock, or its answer, is in flight.
    Taking,
    Running,
    /// A renewal, or its answer, is in flight.
    Renewing,
    /// The job has ended; the release, or its answer, is in flight.
    Releasing,
}

impl Phase {
    pub(super) const ALL: [Self; 5] = [Self::Waiting, Self::Taking, Self::Running, Self::Renewing, Self::Releasing];

    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Taking => "taking",
            Self::Running => "running",
            Self::Renewing => "renewing",
            Self::Releasing => "releasing",
        }
    }
}

/// One lock, the run that is brought into a phase, and those who want the lock as well.
pub(super) struct Scene<'a> {
    pub(super) site: &'a Environment,
    pub(super) phase: Phase,
    /// Of the lock.
    pub(super) name: &'static str,
    pub(super) gate: Gate,
    /// When the gate was opened after the fault.
    pub(super) opened: Option<Duration>,
    log: PathBuf,
    pub(super) runner: Option<Started>,
    pub(super) holder: Option<Started>,
    pub(super) contender: Option<Started>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(site: &'a Environment, phase: Phase) -> Self {
        let name = phase.name();
        let gate = if site.backend == Backend::Sqlite {
            let directory = site.place.path(name);
            fs::create_dir(&directory).unwrap();
            site.warm(&site.url(name));
            Gate::File(FileGate::new(&directory.join("locks.db")))
        } else {
            if site.store().is_some_and(Store::in_one_record) {
                // What is held is an acquisition, and no making of its record.
                site.place.make_lock(name, &site.url(name));
            }
            Gate::Relay(Relay::new(site.address(), site.port(), site.needle(name)))
        };
        let log = site.place.path(&format!("{name}.log"));
        fs::write(&log, "").unwrap();
        Self { site, phase, name, gate, opened: None, log, runner: None, holder: None, contender: None }
    }

    /// Starts the run that is to hold the lock when the fault comes. In an acquisition there is none.
    pub(super) fn prepare(&mut self) {
        match self.phase {
            Phase::Taking => {}
            Phase::Waiting => {
                let url = self.site.url(self.name);
                self.holder = Some(self.start("holder", &url, self.site.fault.mode(self.phase), &[]));
            }
            Phase::Running | Phase::Renewing | Phase::Releasing => self.start_runner(),
        }
    }

    /// Starts the runs that wait for the lock, once it is held.
    pub(super) fn crowd(&mut self, contends: bool) {
        if let Some(holder) = self.holder.as_ref().or(self.runner.as_ref()) {
            self.wait_for_job(holder.pid());
            if self.phase == Phase::Waiting {
                self.start_runner();
            }
            if contends {
                self.contend();
            }
        }
    }

    /// Waits until they know that they have to wait.
    pub(super) fn wait_until_crowded(&self) {
        let waiting = (self.phase == Phase::Waiting).then_some(self.runner.as_ref()).flatten();
        for run in waiting.into_iter().chain(&self.contender) {
            self.wait_until_told(run, "waiting", 0);
        }
    }

    /// Takes the last step into the phase.
    pub(super) fn enter(&mut self) {
        let hold = self.site.fault.hold(self.phase);
        match self.phase {
            Phase::Waiting | Phase::Running => {}
            Phase::Taking => {
                self.gate.close(hold);
                self.start_runner();
                self.gate.wait_until_held(self.runner_pid());
            }
            Phase::Renewing => {
                self.wait_until_file_is_closed();
                self.gate.close(hold);
                self.gate.wait_until_held(self.runner_pid());
            }
            Phase::Releasing => {
                let runner = self.runner_pid();
                let job = self.wait_for_job(runner);
                if self.site.fault == Fault::JobIgnoresTerm {
                    // No renewal comes after that.
                    wait_until("the job to be asked to stop", || self.job_of(runner).filter(|job| job.asked));
                } else {
                    self.wait_until_file_is_closed();
                    if self.site.store().is_some_and(Store::starts_programs) {
                        // The first renewal takes a while, comes when that of the scene before does, and is not to be held here.
                        self.wait_until_told(self.runner.as_ref().unwrap(), "was renewed", 0);
                    }
                }
                self.gate.close(hold);
                match self.site.fault {
                    Fault::JobKilled => kill(job.pid, "KILL"),
                    Fault::JobIgnoresTerm => {}
                    _ => self.tell(),
                }
                wait_until("the end of the job", || (!is_alive(job.pid)).then_some(()));
                self.gate.wait_until_held(runner);
            }
        }
    }

    /// Starts the run that gets the lock as soon as it is free.
    pub(super) fn contend(&mut self) {
        let job = witness::job(&self.log, Mode::Plain, None);
        // Without a lease no answer comes too late for it.
        let command = self.command(&self.site.url(self.name), &[("--at-most", FOR_EVER)], &job);
        self.contender = Some(self.start_as("contender", &under(&DETACHED, &command)));
    }

    /// Waits until the run whose acquisition was in flight has ended, and says whether it went another way than to lose the
    /// lock at its first renewal: the answer came too late to be believed, it asked again and has the lock anew, or MariaDB had
    /// begun to answer when its clock was moved, and not yet looked at the lock that it had written.
    pub(super) fn goes_another_way(&self, runner: &mut Started) -> bool {
        let contender = self.contender.as_ref().unwrap().pid();
        wait_until(&format!("the end or the job of the run of {:?} while {}", self.site.fault, self.name), || {
            let told = runner.stderr();
            if ["to grant the lock", "was renewed", "stores the lock for no time"].iter().any(|way| told.contains(way))
            {
                return Some(true);
            }
            if runner.has_ended() {
                return Some(false);
            }
            let (ours, next) = (self.job_of(runner.pid())?, self.job_of(contender)?);
            (ours.start > next.last && next.ends > 0).then_some(true)
        })
    }

    /// Opens the gate.
    pub(super) fn open(&mut self) {
        self.gate.open(self.site.fate(self.phase));
        self.opened = Some(witness::now());
    }

    /// Tells the run's job to end.
    pub(super) fn tell(&self) {
        touch(&self.site.place, &format!("{}.runner", self.name));
    }

    /// Tells the holder's job to end.
    pub(super) fn tell_holder(&self) {
        touch(&self.site.place, &format!("{}.holder", self.name));
    }

    pub(super) fn runner_pid(&self) -> i32 {
        self.runner.as_ref().unwrap().pid()
    }

    pub(super) fn jobs(&self) -> Vec<Job> {
        witness::read(&fs::read_to_string(&self.log).unwrap())
    }

    /// Returns the job of a run, by the run's pid, which is in its owner.
    pub(super) fn job_of(&self, run: i32) -> Option<Job> {
        self.jobs().into_iter().find(|job| job.owner.rsplit(':').nth(1) == Some(&run.to_string()))
    }

    /// Returns the job that holds the lock before the fault.
    pub(super) fn held_by(&self) -> Option<Job> {
        self.job_of(self.holder.as_ref().or(self.runner.as_ref()).unwrap().pid())
    }

    pub(super) fn wait_for_job(&self, run: i32) -> Job {
        wait_until(&format!("a job while {}", self.name), || self.job_of(run))
    }

    /// Waits until a run has been told once more that its lock was renewed.
    pub(super) fn wait_for_renewal(&self, run: &Started) {
        self.wait_until_told(run, "was renewed", run.stderr().matches("was renewed").count());
    }

    /// Waits until a run has said something for more than the `before`th time.
    fn wait_until_told(&self, run: &Started, what: &str, before: usize) {
        let begun = Instant::now();
        while run.stderr().matches(what).count() <= before {
            let label = format!("{:?} while {}", self.site.fault, self.name);
            assert!(
                begun.elapsed() < PATIENCE + self.site.outage(),
                "{label}: no `{what}` from {}: {}",
                run.pid(),
                run.stderr()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a run closes its file, after a while without need.
    fn wait_until_file_is_closed(&self) {
        if let Gate::File(file) = &self.gate {
            wait_until("the file to be closed", || (!file.is_open_in(self.runner_pid())).then_some(()));
        }
    }

    fn start_runner(&mut self) {
        let url = match &self.gate {
            Gate::Relay(relay) => self.site.url_through(relay.port),
            Gate::File(_) => self.site.url(self.name),
        };
        let words = self.site.network().map_or(Vec::new(), |network| network.words().to_vec());
        // While it waits, the fault is in the holder's job.
        let mode = if self.phase == Phase::Waiting { Mode::Plain } else { self.site.fault.mode(self.phase) };
        self.runner = Some(self.start("runner", &url, mode, &words));
    }

    /// Starts a run whose job goes on until it is told.
    fn start(&self, tag: &str, url: &str, mode: Mode, words: &[&str]) -> Started {
        let tell = self.site.place.path(&format!("{}.{tag}", self.name));
        let job = witness::job(&self.log, mode, Some(&tell));
        let (at_most, lease) = self.site.fault.times(self.site, self.phase, mode);
        let command = self.command(url, &[("--at-most", at_most), ("--lease", lease)], &job);
        let words: Vec<&str> = words.iter().chain(&DETACHED).copied().collect();
        self.start_as(tag, &under(&words, &command))
    }

    fn start_as(&self, tag: &str, command: &Command) -> Started {
        let mut same = under::<&str>(&["env"], command);
        Started::new(&self.site.place, &format!("{}.{tag}", self.name), &mut same)
    }

    fn command(&self, url: &str, times: &[(&str, Duration)], job: &[String]) -> Command {
        let mut command = self.site.place.shedlock(["run", "--name", self.name, "-E", "75", "-vv", "--wait", "2m"]);
        let patience = [("--backend-timeout", self.site.fault.patience(self.site))];
        for (option, time) in times.iter().chain(&patience) {
            command.arg(option).arg(format!("{}ms", time.as_millis()));
        }
        if (self.site.fault, self.phase) == (Fault::JobLeavesDaemon, Phase::Releasing) {
            command.args(["--wait-for", "tree"]);
        }
        command.arg("--").args(job);
        command.env("SHEDLOCK_BACKEND", url).env("MATRIX", &self.site.marker);
        command
    }
}
