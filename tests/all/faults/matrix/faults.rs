//! The faults: what each does to the scenes, and how it is over.

use std::time::Duration;

use super::environment::{Backend, Environment};
use super::gate::{Fate, Gate, Hold};
use super::phases::{Phase, Scene};
use super::witness::Mode;
use crate::support::process::{wait_for_end, wait_for_state};
use crate::support::{kill, wait_until};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    ShedlockKilled,
    /// Until another has had the lock.
    ShedlockStopped,
    JobKilled,
    JobIgnoresTerm,
    /// A daemon in a session of its own, which ignores TERM too.
    JobLeavesDaemon,
    /// With SIGKILL, for good. For a file: its directory is gone.
    ServerKilled,
    /// Until the jobs that depend on it have been stopped.
    ServerKilledAndBack,
    /// The same. For a file: another holds its write lock.
    ServerFrozen,
    ServerRestarted,
    Flushed,
    RowStolen,
    NetworkCut,
    /// An hour forward: the server's, or that of the host if the store is a file.
    ClockMoved,
    /// An hour back.
    ClockMovedBack,
}

/// At-most of a job that ends before.
pub(super) const FOR_EVER: Duration = Duration::from_mins(3);
/// How long to try to reach a store that comes back soon.
const PATIENCE: Duration = Duration::from_secs(15);

/// Returns how long a job may run that does not heed the signal at its end.
pub(super) fn at_most(site: &Environment) -> Duration {
    site.lease * 5 / 4
}

impl Fault {
    pub(super) const ALL: [Self; 14] = [
        Self::ShedlockKilled,
        Self::ShedlockStopped,
        Self::JobKilled,
        Self::JobIgnoresTerm,
        Self::JobLeavesDaemon,
        Self::ServerKilled,
        Self::ServerKilledAndBack,
        Self::ServerFrozen,
        Self::ServerRestarted,
        Self::Flushed,
        Self::RowStolen,
        Self::NetworkCut,
        Self::ClockMoved,
        Self::ClockMovedBack,
    ];

    /// Returns the kind of job that the fault takes. Where a running job is always ended, all that it started has to end with
    /// it.
    pub(super) fn mode(self, phase: Phase) -> Mode {
        match (self, phase) {
            (Self::JobIgnoresTerm, _) => Mode::Deaf,
            (Self::JobLeavesDaemon, _) => Mode::Daemon,
            (
                Self::ShedlockKilled
                | Self::ShedlockStopped
                | Self::ServerKilled
                | Self::ServerKilledAndBack
                | Self::ServerFrozen
                | Self::RowStolen,
                Phase::Running,
            ) => Mode::Daemon,
            _ => Mode::Plain,
        }
    }

    /// Returns at-most and lease of the run with such a job.
    pub(super) fn times(self, site: &Environment, phase: Phase, mode: Mode) -> (Duration, Duration) {
        match (self, phase) {
            // The one that waits has a job that ends when it is told, however late that is.
            (_, Phase::Waiting) if mode == Mode::Plain && self.mode(phase) != Mode::Plain => (FOR_EVER, site.lease),
            (Self::JobIgnoresTerm | Self::JobLeavesDaemon, Phase::Waiting | Phase::Running)
            | (Self::JobIgnoresTerm, Phase::Releasing) => (at_most(site), site.lease),
            // Long enough that nobody takes the end of a lease for a release, and that a clock is moved in time.
            (Self::JobKilled | Self::ClockMovedBack, _) => (FOR_EVER, site.lease * 5 / 2),
            (Self::ServerRestarted, _) => (FOR_EVER, site.outage()),
            // Long enough for the first answer of a server that has just started.
            (Self::ServerKilledAndBack, Phase::Taking) if site.backend != Backend::Sqlite => (FOR_EVER, site.outage()),
            _ => (FOR_EVER, site.lease),
        }
    }

    /// Returns how long to try to reach the store.
    pub(super) fn patience(self, site: &Environment) -> Duration {
        match self {
            Self::ServerKilled => Duration::from_secs(1),
            Self::ServerRestarted | Self::ServerKilledAndBack if site.backend != Backend::Sqlite => {
                site.outage().max(PATIENCE)
            }
            _ => PATIENCE,
        }
    }

    /// Returns the message in flight when the fault comes, which may then be carried out twice, too late or never.
    pub(super) fn hold(self, phase: Phase) -> Hold {
        match (self, phase) {
            (Self::ServerFrozen, _) => Hold::Request,
            // Nobody is to get the lock before the server dies.
            (Self::ServerKilled, Phase::Releasing) => Hold::Request,
            (Self::ServerKilled | Self::ServerKilledAndBack | Self::ServerRestarted, _) | (_, Phase::Taking) => {
                Hold::Answer
            }
            (_, Phase::Waiting | Phase::Running | Phase::Releasing) => Hold::Request,
            (Self::ShedlockKilled | Self::ShedlockStopped | Self::JobKilled | Self::NetworkCut, Phase::Renewing) => {
                Hold::Answer
            }
            (_, Phase::Renewing) => Hold::Request,
        }
    }

    /// Returns what becomes of the message in flight; [`Environment::fate`] knows more.
    pub(super) fn fate(self) -> Fate {
        match self {
            Self::ServerKilled | Self::ServerKilledAndBack | Self::ServerRestarted => Fate::Broken,
            _ => Fate::Passed,
        }
    }

    /// Returns whether the holder of the lock for which a run waits is told to end as soon as the fault has come.
    fn frees_the_lock(self) -> bool {
        matches!(self, Self::ShedlockKilled | Self::ShedlockStopped | Self::NetworkCut)
    }

    /// Returns whether the gate stays closed until the fault is over.
    fn keeps_the_gate(self, scene: &Scene<'_>) -> bool {
        match self {
            // A file's gate keeps everybody out, also the one who is to come next.
            Self::ShedlockStopped => scene.site.backend != Backend::Sqlite,
            Self::JobIgnoresTerm | Self::JobLeavesDaemon => scene.phase == Phase::Renewing,
            Self::ServerFrozen => scene.site.backend == Backend::Sqlite,
            _ => false,
        }
    }

    /// Lets it come.
    pub(super) fn strike(self, site: &Environment, scenes: &mut [Scene<'_>]) {
        let is_file = site.backend == Backend::Sqlite;
        match self {
            Self::ShedlockKilled => scenes.iter().for_each(|scene| kill(scene.runner_pid(), "KILL")),
            Self::ShedlockStopped => {
                scenes.iter().for_each(|scene| kill(scene.runner_pid(), "STOP"));
                scenes.iter().for_each(|scene| wait_for_state(scene.runner_pid(), "T"));
            }
            // Where the run is releasing, that was what made it.
            Self::JobKilled => {
                scenes.iter().filter(|scene| scene.phase != Phase::Releasing).for_each(|scene| {
                    kill(scene.held_by().unwrap().pid, "KILL");
                });
            }
            // Their time comes.
            Self::JobIgnoresTerm | Self::JobLeavesDaemon => {}
            Self::ServerKilled | Self::ServerKilledAndBack if is_file => {
                scenes.iter().for_each(|scene| scene.move_directory("", ".away"));
            }
            Self::ServerKilled | Self::ServerKilledAndBack => site.server().kill(),
            Self::ServerFrozen if is_file => scenes.iter_mut().for_each(|scene| scene.gate.close(Hold::Request)),
            Self::ServerFrozen => site.server().freeze(),
            Self::ServerRestarted => {
                site.server().stop();
                site.server().start();
            }
            Self::Flushed if is_file => scenes.iter().for_each(|scene| scene.change("DELETE FROM shedlock")),
            Self::Flushed => site.forget(&scenes.iter().map(|scene| scene.name).collect::<Vec<_>>()),
            Self::RowStolen => scenes.iter_mut().for_each(|scene| {
                steal(scene);
                scene.open();
            }),
            Self::NetworkCut => site.network().unwrap().cut(),
            Self::ClockMoved if is_file => scenes.iter().for_each(|scene| scene.move_clock("-1 hour")),
            Self::ClockMoved => site.server().set_clock("+1h"),
            Self::ClockMovedBack if is_file => scenes.iter().for_each(|scene| scene.move_clock("+1 hour")),
            Self::ClockMovedBack => {
                let now = || site.store().unwrap().stored(scenes.last().unwrap().name).unwrap().now;
                let before = now();
                site.server().set_clock("-1h");
                // Nothing else would show that it has not moved.
                wait_until("the clock to move", || (now() < before).then_some(()));
            }
        }
        for scene in scenes {
            if !self.keeps_the_gate(scene) {
                scene.open();
            }
            if self.frees_the_lock() && scene.phase == Phase::Waiting {
                scene.tell_holder();
            }
        }
    }

    /// Lets it be over.
    pub(super) fn heal(self, site: &Environment, scenes: &mut [Scene<'_>]) {
        let is_file = site.backend == Backend::Sqlite;
        match self {
            Self::ShedlockStopped => {
                scenes.iter().for_each(wait_for_contender);
                for scene in scenes {
                    kill(scene.runner_pid(), "CONT");
                    if self.keeps_the_gate(scene) {
                        scene.open();
                    }
                }
            }
            Self::JobIgnoresTerm | Self::JobLeavesDaemon => {
                for scene in scenes.iter_mut().filter(|scene| scene.phase == Phase::Renewing) {
                    wait_for_end(scene.held_by().unwrap().pid);
                    scene.open();
                }
            }
            Self::ServerKilledAndBack if is_file => {
                wait_for_the_jobs(scenes);
                scenes.iter().for_each(|scene| scene.move_directory(".away", ""));
            }
            Self::ServerKilledAndBack => {
                wait_for_the_jobs(scenes);
                site.server().start();
            }
            Self::ServerFrozen => {
                wait_for_the_jobs(scenes);
                if is_file {
                    scenes.iter_mut().for_each(Scene::open);
                } else {
                    site.server().thaw();
                }
            }
            Self::NetworkCut => {
                if !is_file {
                    scenes.iter().for_each(wait_for_contender);
                }
                site.network().unwrap().mend();
            }
            _ => {}
        }
    }
}

const THIEF: &str = "thief:1:0000000000000000";

/// Gives the lock to a thief, who leaves its times.
fn steal(scene: &Scene<'_>) {
    match scene.site.store() {
        Some(store) => store.steal(scene.name, THIEF),
        // The gate may be in the way of the first row.
        None => scene.change(&format!(
            "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
             VALUES ('{}', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 seconds'), \
                     strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), '{THIEF}') \
             ON CONFLICT (name) DO UPDATE SET locked_by = excluded.locked_by",
            scene.name
        )),
    }
}

/// Waits until another has had the lock.
fn wait_for_contender(scene: &Scene<'_>) {
    let contender = scene.contender.as_ref().unwrap().pid();
    wait_until(&format!("the one who comes next while {}", scene.name), || {
        scene.job_of(contender).filter(|job| job.ends > 0)
    });
}

/// Waits until the jobs that cannot be renewed have been stopped.
fn wait_for_the_jobs(scenes: &[Scene<'_>]) {
    let unsure = [Phase::Waiting, Phase::Running, Phase::Renewing];
    for scene in scenes.iter().filter(|scene| unsure.contains(&scene.phase)) {
        wait_for_end(scene.held_by().unwrap().pid);
    }
}

impl Scene<'_> {
    fn change(&self, sql: &str) {
        if let Gate::File(file) = &self.gate {
            file.change(sql);
        }
    }

    /// Makes the row what it would be if the clock of the host had been moved after it was written: of a time that is
    /// off by so much the other way.
    fn move_clock(&self, by: &str) {
        let moved = |column: &str| format!("strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '{by}')");
        let (until, since) = (moved("lock_until"), moved("locked_at"));
        self.change(&format!(
            "UPDATE shedlock SET lock_until = {until}, locked_at = {since}, \
             boot_for = CASE boot_for WHEN locked_by || ' ' || lock_until THEN locked_by || ' ' || {until} END"
        ));
    }

    fn move_directory(&self, from: &str, to: &str) {
        let path = |suffix: &str| self.site.place.path(&format!("{}{suffix}", self.name));
        std::fs::rename(path(from), path(to)).unwrap();
    }
}
