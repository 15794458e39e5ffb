//! The numbers and the rules of a lock in a store whose clocks differ and are set.

/// How long a lock is taken for, and renewed for, in ticks: `--lease`.
pub(crate) const LEASE: u8 = 4;
/// With so much left of its lease a run renews it: when a third is over, rounded to ticks.
pub(crate) const RENEW_WITH: u8 = 3;
/// An answer to an acquisition that is older than this is given back.
pub(crate) const HALF: u8 = LEASE / 2;
/// The longest that a job may hold the lock: `--at-most`.
pub(crate) const AT_MOST: u8 = 7;
/// The shortest that it stays held: `--at-least`, longer than the lease.
pub(crate) const AT_LEAST: u8 = 6;
/// From one run to the next: `--every`, longer than at-most.
pub(crate) const EVERY: u8 = 9;
/// How much later than its time a lease of the store may end: whole seconds, and the time that the store takes.
pub(crate) const ROUNDING: u8 = 1;
/// A lock whose taking lies further in the future, or whose end so much further than it can reach, comes from a clock that was
/// ahead.
pub(crate) const BOUND: i8 = 2;
/// How long a run waits for an answer, and tries to release.
pub(crate) const PATIENCE: u8 = HALF + 1;

/// What makes a lock end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A lease of the store's own, which counts and knows no time of day, one for all servers: etcd.
    Leased,
    /// The end that is stored, compared with the clock of the server that is asked: all others.
    Dated,
}

/// What is asked of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terms {
    Plain,
    AtLeast,
    Every,
}

/// How a renewal finds out what there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// By what this process was granted when, on its own boot clock: the new lease reaches no less far.
    ByBootClock,
    /// Broken: nothing is written if the stored end, by the clock that answered, seems to reach far enough.
    ByShownTime,
    /// Broken: nothing is written if what was granted surely reaches far enough, and else a lease of `--lease`. The end that is
    /// sure is earlier than the real one by as long as the acquisition was under way.
    IfNotSure,
    /// Broken: the new lease is as long as `--lease`, whatever at-least has left.
    Shortens,
}

/// What carries the time for which a lock stays held after its run, where the store has leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// A lease over what is left of it, counted by the boot clock from when the answer to the acquisition came.
    Lease,
    /// Broken: counted from before the acquisition was asked for, which may be earlier than it was.
    LeaseSinceAsked,
    /// Broken: the stored end, by the clock of the server that is asked for the lock.
    ShownTime,
}

/// What becomes of a lock whose taking lies in the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Future {
    /// A kept one is free; a held one is moved to the present by the next acquisition that meets it.
    FreeOrMoved,
    /// Broken: it stays until the clock has come to its end.
    Stays,
    /// Broken: a held one is free as well.
    Free,
}

/// By what a lock is known to come from a clock that was ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// By the time of its acquisition, and by its end.
    ByEndToo,
    /// Broken: by the time of its acquisition alone, which an acquisition that is repeated sets anew.
    ByTaking,
}

/// What the protocol demands of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) engine: Engine,
    pub(crate) renewal: Renewal,
    pub(crate) hold: Hold,
    /// A release keeps the lock for the hold after the present time at most; broken: after the stored time of the acquisition.
    pub(crate) clamped: bool,
    pub(crate) future: Future,
    pub(crate) ahead: Ahead,
}

impl Rules {
    pub(crate) const LEASED: Self = Self {
        engine: Engine::Leased,
        renewal: Renewal::ByBootClock,
        hold: Hold::Lease,
        clamped: true,
        future: Future::FreeOrMoved,
        ahead: Ahead::ByEndToo,
    };
    pub(crate) const DATED: Self = Self { engine: Engine::Dated, ..Self::LEASED };
    /// The rules of etcd that let two jobs run.
    pub(crate) const AS_IT_WAS: Self = Self { renewal: Renewal::ByShownTime, hold: Hold::ShownTime, ..Self::LEASED };

    /// Returns whether a time that is stored or shown decides anything. A time that nothing looks at would only make more
    /// worlds.
    pub(crate) fn looks_at_times(self) -> bool {
        self.engine == Engine::Dated || self.renewal == Renewal::ByShownTime || self.hold == Hold::ShownTime
    }
}

/// What may happen besides the passing of time, and how often in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// A request or its answer takes its time, or never comes.
    pub(crate) network: u8,
    /// A host dies.
    pub(crate) crashes: u8,
    /// Another server leads from now on, and lets every lease begin anew.
    pub(crate) leaders: u8,
    /// A clock is set.
    pub(crate) jumps: u8,
}

impl Faults {
    pub(crate) const NONE: Self = Self { network: 0, crashes: 0, leaders: 0, jumps: 0 };
}

/// The clocks of the servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// What each of them shows at first, against the true time.
    pub(crate) first: [i8; 2],
    /// What a clock may be set to.
    pub(crate) places: &'static [i8],
    pub(crate) set: Setting,
}

/// How clocks are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// There is one clock, and it is only ever set back.
    OneBack,
    /// There is one clock, which is set to anything.
    One,
    /// Each server has its own, which is set to anything.
    Each,
}

impl Terms {
    /// Returns how long the lock stays held at least, counted from the acquisition.
    pub(crate) fn hold(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::AtLeast => AT_LEAST,
            Self::Every => EVERY,
        }
    }

    /// Returns the part of the hold that a run whose host dies has, too.
    pub(crate) fn at_least(self) -> u8 {
        if self == Self::AtLeast { AT_LEAST } else { 0 }
    }

    /// Returns the time that the lock is acquired for.
    pub(crate) fn span(self) -> u8 {
        LEASE.max(self.at_least())
    }
}

impl Clocks {
    /// Returns by how much two of the servers' clocks can differ.
    pub(crate) fn difference(&self) -> u8 {
        let all = self.first.iter().chain(self.places);
        let (least, most) = all.fold((i8::MAX, i8::MIN), |(least, most), place| (least.min(*place), most.max(*place)));
        most.abs_diff(least)
    }
}
