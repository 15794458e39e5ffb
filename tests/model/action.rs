//! What can happen in the world.

use crate::world::HOSTS;

/// What can happen next. The number is the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The true time goes on; these hosts' clocks stand still meanwhile.
    Tick([bool; HOSTS]),
    /// Cron starts a run.
    Fire(usize),
    AskAgain(usize),
    GiveUp(usize),
    /// The store does what was asked, and its answer is under way.
    Serve(usize),
    /// The answer arrives.
    Arrive(usize),
    /// The request does not reach the store.
    LoseRequest(usize),
    /// The store has done it, but the answer does not come back.
    LoseAnswer(usize),
    /// It will take longer than it should.
    Delay(usize),
    /// The worker gives up a try that takes too long.
    TimeOut(usize),
    /// The store carries out what its sender has given up.
    ServeStray,
    LoseStray,
    CommandEnds(usize),
    DaemonStarts(usize),
    DaemonEnds(usize),
    KillWrapper(usize),
    StopWrapper(usize),
    ContinueWrapper(usize),
    Crash(usize),
    Suspend(usize),
    Pause(usize),
    Thaw(usize),
    /// A job that is held after a stall: the store is asked whether the lock is still ours.
    CheckHeld(usize),
    /// Or it is ended without asking.
    EndHeld(usize),
    Flush,
    Unlock,
    Forget,
    Extend,
    /// The job writes to the resource.
    Write(usize),
}
