//! What must never be, and what must sometimes be, lest the model proves only that nothing happens.

use crate::action::Action;
use crate::host::{Flight, Host, Phase, Shedlock};
use crate::rules::{HALF, LEASE};
use crate::store::Request;
use crate::world::World;

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Property {
    /// 1. Two jobs run at once, what they have left behind included.
    TwoAtOnce,
    /// 1. A job runs although its at-most, and what that was extended to, is used up.
    Overran,
    /// 2. The lock is held for longer than a lease from now, whoever dies now.
    HeldTooLong,
    /// 2. A run that has ended in an orderly way left its lock held.
    Leaked,
    /// 2. A lock that was free is held again, and nobody took it.
    Revived,
    /// 2. An acquisition was carried out after it was given back, and holds the lock for nobody.
    TakenLate,
    /// 3. A token is not larger than all that were granted before.
    TokenWentBack,
    /// 3. A resource that refuses older tokens accepted a write from one whose lock had passed on.
    Overwritten,
}

/// All of them: the promise.
pub(crate) const PROMISE: &[Property] = &[
    Property::TwoAtOnce,
    Property::HeldTooLong,
    Property::Leaked,
    Property::Revived,
    Property::TakenLate,
    Property::TokenWentBack,
    Property::Overwritten,
];

/// What is promised of a job that may be extended, where clocks are exact: a clock that loses a tick in every lease has lost
/// more than the margin by the end of at-most, of which it really is no more than a two-thousandth.
pub(crate) const PUNCTUAL: &[Property] = &[
    Property::TwoAtOnce,
    Property::Overran,
    Property::HeldTooLong,
    Property::Leaked,
    Property::Revived,
    Property::TakenLate,
    Property::TokenWentBack,
    Property::Overwritten,
];

/// Returns the properties that a world violates.
pub(crate) fn violated(world: &World) -> impl Iterator<Item = Property> {
    let jobs = world.hosts.iter().filter(|host| host.has_job_that_runs()).count();
    [
        (Property::TwoAtOnce, jobs > 1),
        (Property::Overran, jobs > 0 && world.store.allowed == 0),
        (Property::HeldTooLong, world.store.left > LEASE),
        (Property::Leaked, world.leaked),
        (Property::Revived, world.store.revived),
        (Property::TakenLate, world.store.taken_late),
        (Property::TokenWentBack, world.store.went_back),
        (Property::Overwritten, world.resource.overwritten),
    ]
    .into_iter()
    .filter_map(|(property, wrong)| wrong.then_some(property))
}

/// What has been seen to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moments(u32);

impl Moments {
    pub(crate) const JOB_RUNS: Self = Self(1);
    pub(crate) const FIRST_HOST: Self = Self(1 << 1);
    pub(crate) const SECOND_HOST: Self = Self(1 << 2);
    /// A renewal was answered with *kept*.
    pub(crate) const RENEWED: Self = Self(1 << 3);
    /// A renewal was answered with *lost* while the job ran.
    pub(crate) const LOSS_NOTICED: Self = Self(1 << 4);
    /// A lock was granted too late, and went back.
    pub(crate) const LATE_ANSWER_GOES_BACK: Self = Self(1 << 5);
    /// A lock whose holder died without releasing it was taken by the other.
    pub(crate) const CRASH_PASSES_ON: Self = Self(1 << 6);
    /// The guardian ended a job whose shedlock was dead.
    pub(crate) const GUARDIAN_AFTER_DEATH: Self = Self(1 << 7);
    /// The guardian ended a job whose shedlock was stopped.
    pub(crate) const GUARDIAN_IN_STOP: Self = Self(1 << 8);
    /// A job that was held after a stall went on.
    pub(crate) const HELD_GOES_ON: Self = Self(1 << 9);
    /// A job that was held after a stall was ended.
    pub(crate) const HELD_ENDS: Self = Self(1 << 10);
    /// A release came when another had the lock, or nobody.
    pub(crate) const LATE_RELEASE: Self = Self(1 << 11);
    /// A job that ignored its first signal was killed, and its daemon with it.
    pub(crate) const KILLED_WITH_DAEMON: Self = Self(1 << 12);
    /// A resource refused an older token.
    pub(crate) const REFUSED: Self = Self(1 << 13);
    /// An acquisition was carried out after its sender had gone.
    pub(crate) const STRAY_TAKING: Self = Self(1 << 14);
    /// A run ended and left its lock to its time, since it could not give it back.
    pub(crate) const LEFT_TO_ITS_TIME: Self = Self(1 << 16);
    /// The lock went back with a rest of at-least.
    pub(crate) const AT_LEAST: Self = Self(1 << 15);
    /// A run saw that its lock was extended.
    pub(crate) const EXTENDED: Self = Self(1 << 17);
    /// It asked for the end of its lock and learned that it was lost.
    pub(crate) const LOSS_SEEN: Self = Self(1 << 18);

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Moments {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Moments {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Returns the moments that happen in this step.
pub(crate) fn moments(world: &World, action: Action, next: &World) -> Moments {
    let mut seen = Moments::default();
    let mut see = |moment: Moments, condition: bool| {
        if condition {
            seen |= moment;
        }
    };
    see(Moments::FIRST_HOST, next.hosts[0].has_job_that_runs());
    see(Moments::SECOND_HOST, next.hosts[1].has_job_that_runs());
    see(Moments::REFUSED, next.resource.refused);
    see(Moments::STRAY_TAKING, action == Action::ServeStray && world.store.left == 0 && next.store.left > 0);
    for (n, (before, after)) in world.hosts.iter().zip(&next.hosts).enumerate() {
        let begins = !before.job.command && after.job.command;
        let ends = before.job.lives() && !after.job.lives();
        let arrived = matches!(action, Action::Serve(at) | Action::Arrive(at) if at == n);
        see(Moments::JOB_RUNS, begins);
        if arrived {
            let (asked, age) = match before.flight {
                Some(Flight { request, age, .. }) => (Some(request), age),
                None => (None, 0),
            };
            let late =
                matches!(asked, Some(Request::Take)) && matches!(after.phase, Phase::Releasing { .. }) && age > HALF;
            see(Moments::LATE_ANSWER_GOES_BACK, late && before.phase == Phase::Asking);
            see(Moments::RENEWED, before.lease.left < after.lease.left && before.job.command);
            see(Moments::EXTENDED, before.job.command && before.lease.at_most < after.lease.at_most);
            let seen = asked == Some(Request::Look) && after.lease.lost;
            see(Moments::LOSS_SEEN, before.job.lives() && !before.lease.lost && seen);
            see(Moments::LOSS_NOTICED, before.job.lives() && !before.lease.lost && after.lease.lost);
            see(Moments::HELD_GOES_ON, before.job.held && before.job.lives() && after.has_job_that_runs());
            let released = matches!(asked, Some(Request::Release { .. })) && after.phase == Phase::Idle;
            see(Moments::LATE_RELEASE, released && world.store.has_passed_on(before.owner));
            see(Moments::AT_LEAST, released && next.store.left > 0 && !next.store.is_held_by(before.owner));
        }
        let leaves = before.is_awake() && after.phase == Phase::Idle && action == Action::Tick([false, false]);
        see(Moments::LEFT_TO_ITS_TIME, leaves && next.store.is_held_by(before.owner));
        see(Moments::GUARDIAN_AFTER_DEATH, ends && by_sigkill(before) && before.shedlock == Shedlock::Dead);
        see(Moments::GUARDIAN_IN_STOP, ends && by_sigkill(before) && before.shedlock == Shedlock::Stopped);
        see(Moments::HELD_ENDS, ends && before.job.held);
        see(Moments::KILLED_WITH_DAEMON, ends && by_sigkill(before) && before.job.command && before.job.daemon);
        see(Moments::CRASH_PASSES_ON, begins && world.hosts[1 - n].crashed);
    }
    seen
}

fn by_sigkill(host: &Host) -> bool {
    host.job.killed.is_some()
}
