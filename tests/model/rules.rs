//! The numbers and the rules of the protocol. A broken variant is the same protocol with one of them changed.

/// How long a lock is taken for, and renewed for, in ticks: `--lease`.
pub(crate) const LEASE: u8 = 6;
/// A lease is renewed when this much of it is over (`Timing::renew_at`).
pub(crate) const THIRD: u8 = LEASE / 3;
/// An answer to the acquisition that is older than this is given back (`Run::on_granted`).
pub(crate) const HALF: u8 = LEASE / 2;
/// The longest that a job may hold the lock: `--at-most`. So much more than the lease that some renewals are
/// whole and the last one is cut.
pub(crate) const AT_MOST: u8 = LEASE + 2 * THIRD + 1;
/// What `shedlock extend` makes of the time that is left: so much from then on.
pub(crate) const EXTENSION: u8 = LEASE;
/// The shortest that it stays held: `--at-least`.
pub(crate) const AT_LEAST: u8 = 1;
/// Between the first signal and SIGKILL: `--kill-after`, at most a fifth of the lease (`Timing::new`).
pub(crate) const KILL_AFTER: u8 = 1;
/// What the kernel may need to end all of the job after SIGKILL, and shedlock or its guardian to notice that it is time: the first
/// part of `timing::margin`. A job that was sent SIGKILL in one tick may do anything until that tick is over.
pub(crate) const REACTION: u8 = 1;
/// What a host's clock loses against the store's within a lease at most: the second part of `timing::margin`.
pub(crate) const DRIFT: u8 = 1;
/// How long a run waits for an answer; what is still under way then may be carried out at any time.
pub(crate) const LONGEST_DELAY: u8 = LEASE;
/// How long a run that leaves tries to give back what it may have taken (`run::GIVE_BACK`), and to release
/// (`--backend-timeout`).
pub(crate) const GIVE_BACK: u8 = 1;

/// Who may give a lock back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// Only its owner, and only before it has expired.
    ByOwner,
    /// Broken: anybody, as with `UPDATE … WHERE name = ?`.
    ByAnybody,
    /// Broken: anybody, as with `DELETE … WHERE name = ?`.
    DeletesTheRow,
}

/// Who may renew it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Only its owner, and only before it has expired.
    ByOwner,
    /// Broken: anybody.
    ByAnybody,
    /// Broken: its owner, also when it is free.
    AlsoExpired,
}

/// From when a host counts a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedFrom {
    /// From before the request was sent, which is never later than the store's counting.
    TheRequest,
    /// Broken: from when the answer came.
    TheAnswer,
}

/// What a host takes for an extension of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Believed {
    /// An end that is later than anything that it has asked for itself can make it, whenever that is carried out.
    BeyondOurs,
    /// Broken: an end that is later than its own renewals made it, if all of them were carried out before it gave them up.
    BeyondAnswered,
    /// Broken: also that there was no answer.
    Silence,
}

/// Where a token comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// The last one plus one, or the store's time if that is more: a store that has lost its memory goes on above.
    AboveLastAndTime,
    /// Broken: the last one plus one, and that is all.
    AboveLast,
}

/// The locks that an operator may forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// A lock that is free when the store does it.
    OnlyFree,
    /// Broken: one that was free when the operator looked.
    Any,
}

/// What the protocol demands of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// How long before the end of the lease everything must be dead (`Timing::kill_at`).
    pub(crate) margin: u8,
    /// What SIGKILL ends is all of the job, and the lock goes back when none of it lives (`job::tree`, `Action::KillTree`,
    /// `Event::TreeGone`); broken: only the command counts.
    pub(crate) whole_tree: bool,
    /// A lock ends when its time is up; broken: only when it was given back.
    pub(crate) expires: bool,
    pub(crate) release: Release,
    pub(crate) renewal: Renewal,
    pub(crate) counted_from: CountedFrom,
    /// An answer older than half of the lease is given back.
    pub(crate) too_late_goes_back: bool,
    /// A run that gives up after an answer was lost sends a release (`Run::return_unused`).
    pub(crate) unclear_goes_back: bool,
    /// Broken: that another holds the lock counts as the answer to every request before it (`Run::on_acquired`).
    pub(crate) held_clears_up: bool,
    /// What gives an acquisition back makes it void (`an_acquisition_that_comes_after_it_was_given_back_takes_nothing`, `src/backend/testing/conformance.rs`).
    pub(crate) given_up_is_void: bool,
    /// After a stall the job is held until the lease was looked at.
    pub(crate) checked_after_stall: bool,
    /// A process of its own ends the job when shedlock is dead, or stopped at the end of the lease.
    pub(crate) guardian: bool,
    pub(crate) token: Token,
    pub(crate) removal: Removal,
    /// Shortly before at-most is used up the lock's end is asked for (`Run::look`).
    pub(crate) looks: bool,
    pub(crate) believed: Believed,
    /// From when an end that was seen is counted.
    pub(crate) seen_from: CountedFrom,
    /// How much a host's clock really loses within a lease; more than [`DRIFT`] is a world we do not promise for.
    pub(crate) drift: u8,
}

impl Rules {
    /// The protocol as it is.
    pub(crate) const KEPT: Self = Self {
        margin: REACTION + DRIFT,
        whole_tree: true,
        expires: true,
        release: Release::ByOwner,
        renewal: Renewal::ByOwner,
        counted_from: CountedFrom::TheRequest,
        too_late_goes_back: true,
        unclear_goes_back: true,
        held_clears_up: false,
        given_up_is_void: true,
        checked_after_stall: true,
        guardian: true,
        token: Token::AboveLastAndTime,
        removal: Removal::OnlyFree,
        looks: false,
        believed: Believed::BeyondOurs,
        seen_from: CountedFrom::TheRequest,
        drift: DRIFT,
    };
    /// The same, where at-most may be extended.
    pub(crate) const LOOKING: Self = Self { looks: true, ..Self::KEPT };
    /// The same with clocks that are exact, so that a renewal that meets silence has the time for a second try.
    pub(crate) const EXACT: Self = Self { margin: REACTION, drift: 0, ..Self::LOOKING };

    /// Returns how much of the lease is left when the job gets its first signal (`Timing::stop_at`).
    pub(crate) fn stop_with(self) -> u8 {
        self.margin + KILL_AFTER
    }

    /// Returns how much of at-most is left when the lock's end is queried (`Timing::look_ahead`).
    pub(crate) fn look_with(self) -> u8 {
        self.stop_with() + 2
    }
}

/// What may happen in a world besides the passing of time, and how often in one history of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// A request or an answer is lost, or comes late.
    pub(crate) network: u8,
    /// a shedlock is killed with SIGKILL.
    pub(crate) kills: u8,
    /// a shedlock is stopped, until it is continued.
    pub(crate) stops: u8,
    /// A whole host dies.
    pub(crate) crashes: u8,
    /// A whole host is suspended, and its clock shows it afterwards.
    pub(crate) suspensions: u8,
    /// A whole host is paused from outside, and none of its clocks shows it.
    pub(crate) pauses: u8,
    /// The store loses its memory.
    pub(crate) flushes: u8,
    /// A person frees the lock.
    pub(crate) unlocks: u8,
    /// A person forgets the lock: `shedlock forget`.
    pub(crate) forgets: u8,
    /// The job, or a person, extends the lock: `shedlock extend`. One without an answer is carried out at any time, too, and
    /// like every renewal only for its owner.
    pub(crate) extensions: u8,
    /// A job starts a daemon in a session of its own.
    pub(crate) daemons: u8,
    /// Host clocks run slow. Not counted down: [`Rules::drift`] says by how much.
    pub(crate) drift: bool,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        network: 0,
        kills: 0,
        stops: 0,
        crashes: 0,
        suspensions: 0,
        pauses: 0,
        flushes: 0,
        unlocks: 0,
        forgets: 0,
        extensions: 0,
        daemons: 0,
        drift: false,
    };
    /// Job and clocks may do what they like, and nothing else goes wrong.
    pub(crate) const EVERY_DAY: Self = Self { daemons: 1, drift: true, ..Self::NONE };
}
