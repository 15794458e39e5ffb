//! The rules of a lock that are tried, a line of the report each, and what was seen of one.

/// Names a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    /// Two owners never hold a lock at once.
    Exclusion,
    /// An owner that acquires its lock again has it.
    Again,
    /// A lock that is not released frees at its time, not sooner and not much later.
    Expiry,
    /// A renewal extends, and never shortens.
    Renewal,
    /// A late owner's renewal, release and change are answered *lost*, and harm nobody.
    Late,
    /// A lock that is kept after its release is kept for its time, and no longer.
    Hold,
    /// Tokens grow.
    Token,
    /// A request that was cut off never takes effect after its acquisition was undone.
    Cut,
    /// A refusal names the holder.
    Refusal,
    /// The store's clock runs as this host's does, and never jumps.
    Clock,
    /// The list of locks and the history say what happened.
    Record,
}

/// The rules in the order of the report.
pub(crate) const RULES: [Rule; 11] = [
    Rule::Exclusion,
    Rule::Again,
    Rule::Expiry,
    Rule::Renewal,
    Rule::Late,
    Rule::Hold,
    Rule::Token,
    Rule::Cut,
    Rule::Refusal,
    Rule::Clock,
    Rule::Record,
];

/// Sums up what was seen of a rule. Of two the worse counts; see [`Verdict::merge`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How often the rule could have been broken.
    pub(crate) checked: u64,
    /// How often it was broken.
    pub(crate) broken: u64,
    /// How often it held, but unwisely: a lock that freed much later than its time.
    pub(crate) doubtful: u64,
    /// The worst case, as a sentence without a full stop, with both owners and the times since the start.
    pub(crate) worst: Option<Case>,
    /// The largest value that was measured and is in order, such as how late a lock freed.
    pub(crate) most: Option<std::time::Duration>,
}

/// Tells of a case that broke a rule, or nearly did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// How bad it is: the time by which the rule was missed. Of two cases the larger one is reported.
    pub(crate) by: std::time::Duration,
    pub(crate) broken: bool,
    pub(crate) text: String,
}

impl Verdict {
    /// Adds what was seen in another round.
    pub(crate) fn merge(&mut self, other: Self) {
        self.checked += other.checked;
        self.broken += other.broken;
        self.doubtful += other.doubtful;
        self.most = self.most.max(other.most);
        let rank = |case: &Option<Case>| case.as_ref().map(|case| (case.broken, case.by));
        if rank(&other.worst) > rank(&self.worst) {
            self.worst = other.worst;
        }
    }
}
