//! What is promised in each cell of the matrix: the table itself.

use super::environment::Backend;
use super::faults::Fault;
use super::phases::Phase;

/// What a cell promises.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// The exit codes that the run may have; [`KILLED`] is death by SIGKILL.
    pub(super) codes: &'static [i32],
    /// The exit code of the one that holds the lock for which the run waits.
    pub(super) holder: i32,
    pub(super) frees: Frees,
    /// Why two jobs may live at once, until the next renewal: a store that forgets a lock, or whose clock says that it
    /// is over, gives it to another before the job can know.
    pub(super) overlap: Option<&'static str>,
}

/// When the next one gets the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frees {
    /// As soon as the job has ended and the store can be asked.
    AtOnce,
    /// When the lease is over.
    WithTheLease,
    /// The store is gone for good: who wants the lock is told so.
    Never,
}

pub(super) const KILLED: i32 = -9;

/// The answer to an acquisition comes too late to be believed: the lock is given back, which counts as trouble with the
/// backend. A try that was given up before, since its own time was over, is made again.
const AGAIN_OR_LATE: &[i32] = &[0, 125];

const FORGOTTEN: &str = "the store has forgotten the lock; its holder learns of it at its next renewal";
const CLOCK: &str = "time is the server's: when its clock jumps past the lease, the lock is over";

const NO_JOB_YET: &str = "while the lock is being taken there is no job";
const NO_SERVER: &str = "a file has no server; that a writer who is killed within its transaction does no harm is shown \
                         by sqlite::a_kill_at_any_instant_damages_nothing_and_blocks_nobody_else";

const NO_CLOCK: &str =
    "the API server's clock is the machine's; that a clock which jumps ends locks is shown on the others";

const STEADY: &str =
    "etcd's leases go by a clock that is never set, and the libraries that move a clock do not reach a program in Go";

const fn cell(codes: &'static [i32], frees: Frees) -> Cell {
    Cell { codes, holder: 0, frees, overlap: None }
}

/// Returns the cell while another run holds the lock, which ends with this code.
const fn after(holder: i32, codes: &'static [i32], frees: Frees) -> Cell {
    Cell { codes, holder, frees, overlap: None }
}

impl Cell {
    const fn overlapping(self, why: &'static str) -> Self {
        Self { overlap: Some(why), ..self }
    }
}

/// Returns the cell, or why there is none.
pub(super) fn look_up(fault: Fault, phase: Phase, backend: Backend) -> Result<Cell, &'static str> {
    use Frees::{AtOnce, Never, WithTheLease};
    let is_file = backend == Backend::Sqlite;
    let is_etcd = backend == Backend::Etcd;
    Ok(match (fault, phase) {
        (Fault::ClockMoved | Fault::ClockMovedBack, _) if is_etcd => return Err(STEADY),
        // The one that waits is killed, not the one that holds the lock.
        (Fault::ShedlockKilled, Phase::Waiting) => after(0, &[KILLED], AtOnce),
        (Fault::ShedlockKilled, Phase::Taking | Phase::Running | Phase::Renewing | Phase::Releasing) => {
            cell(&[KILLED], WithTheLease)
        }

        // It goes on waiting where it had stopped.
        (Fault::ShedlockStopped, Phase::Waiting) => after(0, AGAIN_OR_LATE, AtOnce),
        (Fault::ShedlockStopped, Phase::Taking) => cell(AGAIN_OR_LATE, WithTheLease),
        (Fault::ShedlockStopped, Phase::Running | Phase::Renewing) => cell(&[123], WithTheLease),
        // The job has ended well, and a release that comes too late touches nothing.
        (Fault::ShedlockStopped, Phase::Releasing) => cell(&[0], WithTheLease),

        (Fault::JobKilled | Fault::JobIgnoresTerm | Fault::JobLeavesDaemon, Phase::Taking) => return Err(NO_JOB_YET),
        // While waiting, it is the holder's job.
        (Fault::JobKilled, Phase::Waiting) => after(137, &[0], AtOnce),
        (Fault::JobKilled, Phase::Running | Phase::Renewing | Phase::Releasing) => cell(&[137], AtOnce),

        // At-most is used up, and TERM does not help.
        (Fault::JobIgnoresTerm | Fault::JobLeavesDaemon, Phase::Waiting) => after(124, &[0], AtOnce),
        (Fault::JobIgnoresTerm | Fault::JobLeavesDaemon, Phase::Running) => cell(&[124], AtOnce),
        // The renewal never comes back, and the lease runs out.
        (Fault::JobIgnoresTerm | Fault::JobLeavesDaemon, Phase::Renewing) => cell(&[123], WithTheLease),
        (Fault::JobIgnoresTerm, Phase::Releasing) => cell(&[124], AtOnce),
        // With `--wait-for tree` the release comes after the daemon's end.
        (Fault::JobLeavesDaemon, Phase::Releasing) => cell(&[0], AtOnce),

        // It takes the lock in the file that it has open, wherever that is by now, and cannot renew it.
        (Fault::ServerKilled, Phase::Taking) if is_file => cell(&[123], Never),
        (Fault::ServerKilledAndBack, Phase::Taking) if is_file => cell(&[123], WithTheLease),
        // A directory that is gone is no trouble that passes.
        (Fault::ServerKilled, Phase::Waiting) => after(123, &[125], Never),
        (Fault::ServerKilled, Phase::Taking) => cell(&[125], Never),
        (Fault::ServerKilled, Phase::Running | Phase::Renewing) => cell(&[123], Never),
        (Fault::ServerKilled, Phase::Releasing) => cell(&[0], Never),

        (Fault::ServerKilledAndBack, Phase::Waiting) if is_file => after(123, &[125], AtOnce),
        (Fault::ServerKilledAndBack, Phase::Releasing) if is_file => cell(&[0], WithTheLease),
        // These take their time for the first answer after a start: etcd elects itself a leader.
        (Fault::ServerKilledAndBack, Phase::Waiting) if matches!(backend, Backend::Kubernetes | Backend::Etcd) => {
            after(123, AGAIN_OR_LATE, AtOnce)
        }
        (Fault::ServerKilledAndBack, Phase::Waiting) => after(123, &[0], AtOnce),
        (Fault::ServerFrozen, Phase::Waiting) => after(123, AGAIN_OR_LATE, AtOnce),
        // What it had taken before the crash it finds to be its own.
        (Fault::ServerKilledAndBack, Phase::Taking) => cell(&[0], AtOnce),
        (Fault::ServerFrozen, Phase::Taking) => cell(AGAIN_OR_LATE, AtOnce),
        (Fault::ServerKilledAndBack | Fault::ServerFrozen, Phase::Running | Phase::Renewing) => cell(&[123], AtOnce),
        (Fault::ServerKilledAndBack | Fault::ServerFrozen, Phase::Releasing) => cell(&[0], AtOnce),

        (Fault::ServerRestarted, _) if is_file => return Err(NO_SERVER),
        // Nobody loses a lock by it.
        (Fault::ServerRestarted, Phase::Waiting) => after(0, &[0], AtOnce),
        (Fault::ServerRestarted, Phase::Taking | Phase::Running | Phase::Renewing | Phase::Releasing) => {
            cell(&[0], AtOnce)
        }

        // Redis forgets everything; elsewhere every row is deleted, as nobody should.
        (Fault::Flushed, Phase::Waiting) => after(123, &[0], AtOnce).overlapping(FORGOTTEN),
        // The gate of a file holds the acquisition itself, so there is nothing yet to be forgotten.
        (Fault::Flushed, Phase::Taking) if is_file => cell(&[0], AtOnce),
        (Fault::Flushed, Phase::Taking | Phase::Running | Phase::Renewing) => {
            cell(&[123], AtOnce).overlapping(FORGOTTEN)
        }
        (Fault::Flushed, Phase::Releasing) => cell(&[0], AtOnce),

        // The thief keeps the lock for as long as it was taken.
        (Fault::RowStolen, Phase::Waiting) => after(123, &[0], WithTheLease),
        (Fault::RowStolen, Phase::Taking) if is_file => cell(&[0], WithTheLease),
        (Fault::RowStolen, Phase::Taking | Phase::Running | Phase::Renewing) => cell(&[123], WithTheLease),
        (Fault::RowStolen, Phase::Releasing) => cell(&[0], WithTheLease),

        // A file is reached without a network: the run is in a namespace whose wire is cut, and nothing comes of it.
        (Fault::NetworkCut, Phase::Waiting) if is_file => after(0, &[0], AtOnce),
        (Fault::NetworkCut, _) if is_file => cell(&[0], AtOnce),
        (Fault::NetworkCut, Phase::Waiting) => after(0, AGAIN_OR_LATE, AtOnce),
        (Fault::NetworkCut, Phase::Taking) => cell(AGAIN_OR_LATE, WithTheLease),
        (Fault::NetworkCut, Phase::Running | Phase::Renewing) => cell(&[123], WithTheLease),
        (Fault::NetworkCut, Phase::Releasing) => cell(&[0], AtOnce),

        (Fault::ClockMoved | Fault::ClockMovedBack, _) if backend == Backend::Kubernetes => return Err(NO_CLOCK),

        // A running job's row is judged by the boot clock.
        (Fault::ClockMoved, Phase::Waiting) if is_file => after(0, &[0], AtOnce),
        (Fault::ClockMoved, _) if is_file => cell(&[0], AtOnce),
        (Fault::ClockMoved, Phase::Waiting) => after(123, &[0], AtOnce).overlapping(CLOCK),
        (Fault::ClockMoved, Phase::Taking | Phase::Running | Phase::Renewing) => {
            cell(&[123], AtOnce).overlapping(CLOCK)
        }
        (Fault::ClockMoved, Phase::Releasing) => cell(&[0], AtOnce),

        // Nobody loses a lock by it, and who gives one back frees it by the new time. Not in the matrix, since time is the
        // server's: if the holder dies now, a server keeps the lock for an hour longer.
        (Fault::ClockMovedBack, Phase::Waiting) => after(0, &[0], AtOnce),
        (Fault::ClockMovedBack, Phase::Taking | Phase::Running | Phase::Renewing | Phase::Releasing) => {
            cell(&[0], AtOnce)
        }
    })
}

#[test]
fn every_cell_promises_something_or_says_why_not() {
    let (mut cells, mut empty) = (0, 0);
    for fault in Fault::ALL {
        for phase in Phase::ALL {
            for &backend in Backend::ALL {
                cells += 1;
                match look_up(fault, phase, backend) {
                    Ok(cell) => {
                        assert!(!cell.codes.is_empty() && cell.overlap != Some(""), "{fault:?} {phase:?} {backend:?}");
                        // What overlaps is always ended by us.
                        assert!(cell.overlap.is_none() || cell.codes.contains(&123) || cell.holder == 123);
                    }
                    Err(reason) => {
                        assert!(!reason.is_empty());
                        empty += 1;
                    }
                }
            }
        }
    }
    let backends = Backend::ALL.len();
    assert_eq!((cells, empty), (14 * 5 * backends, 3 * backends + 5 + 2 * 2 * 5));
}
