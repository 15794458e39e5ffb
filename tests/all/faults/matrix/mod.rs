//! The fault matrix: each fault, in each phase of a run, on each backend. From outside it is seen that jobs of one lock
//! never live at once, that the lock is had again as soon as is promised, that the exit code is the one that is
//! documented, and that no process is left.
//!
//! | file | what it is for |
//! | --- | --- |
//! | `cells.rs` | the table: what each cell promises, or why it is empty |
//! | `faults.rs` | what each fault does to the scenes, and how it is over |
//! | `phases.rs` | how a run is brought into a phase |
//! | `witness.rs` | the job, and the judge of what the jobs wrote |
//! | `environment.rs`, `gate.rs`, `network.rs` | the store, what stands before it, and a wire that can be cut |
//!
//! The five phases of a fault on a backend are five locks in one store, struck by one blow.

mod cells;
mod environment;
mod faults;
mod gate;
mod network;
mod phases;
mod witness;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use cells::{Cell, Frees, KILLED, look_up};
use environment::{Backend, Environment};
use faults::{Fault, at_most};
use phases::{Phase, Scene};

use crate::support::process::Started;
use crate::support::{PATIENCE, is_alive, wait_until};

/// How often a waiter asks.
const POLL: Duration = Duration::from_secs(1);
/// What a busy machine may add to a promise.
const SLACK: Duration = Duration::from_secs(3);
/// What a busy machine may add to the moment in which all of a job is dead.
const DELAY: Duration = Duration::from_millis(500);

/// An answer to an acquisition that is held for longer than half of the lease is not believed, so those are struck first.
const URGENT_FIRST: [Phase; 5] = [Phase::Taking, Phase::Renewing, Phase::Releasing, Phase::Running, Phase::Waiting];

macro_rules! matrix {
    ($($test:ident: $fault:ident;)*) => {
        matrix!(@ sqlite: Sqlite; $($test: $fault;)*);
        matrix!(@ postgres: Postgres; $($test: $fault;)*);
        matrix!(@ mariadb: MariaDb; $($test: $fault;)*);
        matrix!(@ redis: Redis; $($test: $fault;)*);
        matrix!(@ zookeeper: ZooKeeper; $($test: $fault;)*);
        matrix!(@ kubernetes: Kubernetes; $($test: $fault;)*);
        matrix!(@ etcd: Etcd; $($test: $fault;)*);
        #[cfg(feature = "provider")]
        matrix!(@ mongodb: MongoDb; $($test: $fault;)*);
        #[cfg(feature = "provider")]
        matrix!(@ example: Example; $($test: $fault;)*);
    };
    (@ $module:ident: $backend:ident; $($test:ident: $fault:ident;)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::play(super::Fault::$fault, super::Backend::$backend);
                }
            )*
        }
    };
}

matrix! {
    a_shedlock_is_killed: ShedlockKilled;
    a_shedlock_is_stopped_past_its_lease_and_goes_on: ShedlockStopped;
    a_job_is_killed: JobKilled;
    a_job_ignores_term: JobIgnoresTerm;
    a_job_leaves_a_daemon: JobLeavesDaemon;
    a_server_is_killed: ServerKilled;
    a_server_is_killed_and_comes_back: ServerKilledAndBack;
    a_server_is_frozen_for_a_while: ServerFrozen;
    a_server_is_restarted: ServerRestarted;
    a_store_is_flushed: Flushed;
    a_row_is_stolen: RowStolen;
    a_network_is_cut_for_a_while: NetworkCut;
    a_clock_is_moved_forward_by_an_hour: ClockMoved;
    a_clock_is_moved_back_by_an_hour: ClockMovedBack;
}

/// Plays the five phases of a fault at once.
fn play(fault: Fault, backend: Backend) {
    let cells: Vec<(Phase, Cell)> =
        URGENT_FIRST.into_iter().filter_map(|phase| Some((phase, look_up(fault, phase, backend).ok()?))).collect();
    if cells.is_empty() {
        return;
    }
    let site = Environment::new(fault, backend);
    let mut scenes: Vec<Scene<'_>> = cells.iter().map(|(phase, _)| Scene::new(&site, *phase)).collect();
    let contends = !contends_late(&site);
    scenes.iter_mut().for_each(Scene::prepare);
    scenes.iter_mut().for_each(|scene| scene.crowd(contends));
    scenes.iter().for_each(Scene::wait_until_crowded);
    // What is in flight cannot stay there for long, so that comes last, and first what lasts longest.
    for phase in [Phase::Renewing, Phase::Releasing, Phase::Taking] {
        for scene in scenes.iter_mut().filter(|scene| scene.phase == phase) {
            scene.enter();
            if contends && phase == Phase::Taking {
                scene.contend();
            }
        }
    }
    fault.strike(&site, &mut scenes);
    let struck = witness::now();
    fault.heal(&site, &mut scenes);
    let healed = witness::now();
    if !contends {
        scenes.iter_mut().for_each(Scene::contend);
    }
    for (scene, (_, cell)) in scenes.into_iter().zip(&cells) {
        let label = format!("{fault:?} while {:?} on {backend:?}", scene.phase);
        finish(scene, cell, [struck, healed], &label);
    }
    nothing_is_left(&site);
}

/// Returns whether a run that comes while a file's directory is away gives up at once: that is no trouble that passes.
fn contends_late(site: &Environment) -> bool {
    site.backend == Backend::Sqlite && site.fault == Fault::ServerKilledAndBack
}

/// Lets a scene come to its end, and checks what its cell promises.
fn finish(mut scene: Scene<'_>, cell: &Cell, [struck, healed]: [Duration; 2], label: &str) {
    let held_by = (scene.phase != Phase::Taking).then(|| scene.held_by().unwrap().owner);
    if let Some(holder) = scene.holder.take() {
        if cell.holder == 0 {
            if matches!(scene.site.fault, Fault::ClockMoved | Fault::ClockMovedBack) {
                scene.wait_for_renewal(&holder);
            }
            scene.tell_holder();
        }
        assert_code(holder, &[cell.holder], &format!("{label}, the holder"));
    }
    let mut runner = scene.runner.take().unwrap();
    let pid = runner.pid();
    if cell.codes.contains(&0) {
        if matches!(scene.phase, Phase::Running | Phase::Renewing) {
            scene.wait_for_renewal(&runner);
        }
        scene.tell();
    }
    let mut codes = cell.codes;
    if (scene.phase, codes) == (Phase::Taking, &[123]) && scene.goes_another_way(&mut runner) {
        codes = &[0, 123, 125];
        scene.tell();
    }
    assert_code(runner, codes, label);
    if let (Fault::RowStolen, Some(store)) = (scene.site.fault, scene.site.store()) {
        // A lock that another has taken is not touched.
        let is_ours = store.stored(scene.name).is_some_and(|stored| stored.owner.contains(&format!(":{pid}:")));
        assert!(!is_ours || scene.phase == Phase::Waiting, "{label}: the row is ours again");
    }
    let contender = scene.contender.take().unwrap();
    let next = contender.pid();
    let code = if cell.frees == Frees::Never { 125 } else { 0 };
    assert_code(contender, &[code], &format!("{label}, the one who comes next"));

    let jobs = scene.jobs();
    let lease = scene.site.lease;
    let judged = witness::judge(&jobs, cell.overlap.map(|_| lease + DELAY));
    assert!(judged.is_ok(), "{label}: {}", judged.unwrap_err());
    if let Some(job) = jobs.iter().find(|job| Some(&job.owner) == held_by.as_ref()) {
        let code = if scene.phase == Phase::Waiting { cell.holder } else { cell.codes[0] };
        match code {
            123 | KILLED => assert!(job.last < struck + lease + DELAY, "{label}: struck at {struck:?}: {job:?}"),
            124 => assert!(job.last < job.start + at_most(scene.site), "{label}: {job:?}"),
            _ => {}
        }
    }
    let ran = scene.job_of(pid).is_some();
    match (scene.phase, cell.codes) {
        (Phase::Waiting | Phase::Taking, [KILLED] | [125]) => assert!(!ran, "{label}: {jobs:?}"),
        // It may have been stopped before it could write anything, and it may have given up.
        (Phase::Taking, [123]) | (_, [0, 125]) => {}
        _ => assert!(ran, "{label}: {jobs:?}"),
    }
    let Some(next) = scene.job_of(next) else { return };
    // The lock could be free once the fault had come, nothing was in flight, and whoever had it before was gone; and if
    // the store itself had been away, once it was back.
    let was_away = matches!(scene.site.fault, Fault::ServerKilledAndBack | Fault::ServerFrozen);
    let before = jobs.iter().map(|job| job.last).chain(scene.opened).chain([healed]);
    let free =
        before.filter(|time| *time < next.start).chain(was_away.then_some(healed)).chain([struck]).max().unwrap();
    let promised = if cell.frees == Frees::WithTheLease { lease + POLL } else { POLL };
    let took = next.start.saturating_sub(free);
    // A lock ends later by as much as the store's clock is coarse, and the clock says so later by as much again.
    let coarse = scene.site.store().map_or(Duration::ZERO, |store| store.grain() * 2);
    assert!(took < promised + coarse + SLACK, "{label}: free after {took:?}: {jobs:?}");
    if let Some(store) = scene.site.store() {
        assert!(store.stored(scene.name).is_none_or(|stored| !stored.is_held()), "{label}: the lock is held");
    }
}

#[track_caller]
fn assert_code(mut run: Started, codes: &[i32], label: &str) {
    let begun = witness::now();
    while !run.has_ended() {
        assert!(witness::now() < begun + PATIENCE, "{label}: {} does not end: {}", run.pid(), run.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = run.finish();
    let code = ended.code().unwrap_or_else(|| -ended.status.signal().unwrap());
    assert!(codes.contains(&code), "{label}: {code} and not {codes:?}: {ended:?}");
}

/// Asserts that neither a job nor a daemon, wrapper or guardian is alive.
fn nothing_is_left(site: &Environment) {
    let marker = format!("MATRIX={}", site.marker);
    wait_until(&format!("the end of all processes of {:?} on {:?}", site.fault, site.backend), || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) && is_alive(*pid)
        };
        pids.find(is_ours).is_none().then_some(())
    });
}
