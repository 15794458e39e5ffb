//! What a host does at each of its minutes: the options of a run, and the job under them.

use std::path::Path;

use super::random::Random;

/// The lock.
pub(crate) const NAME: &str = "j";
/// The exit code of a skip, and of a job that fails.
pub(crate) const SKIPPED: i32 = 75;
pub(crate) const FAILED: i32 = 7;
/// The longest that a process of a job lives, and thus how long it takes until nothing is left.
pub(crate) const LONGEST: u64 = 9_000;

/// What the proof has to know of a run. Milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Option<u64>,
    pub(crate) at_most: u64,
    pub(crate) at_least: u64,
    pub(crate) kill_after: u64,
    pub(crate) extends: bool,
    /// `child`, `group` or `tree`.
    pub(crate) wait_for: String,
}

/// A run to be started.
pub(crate) struct Firing {
    pub(crate) terms: Terms,
    /// `shedlock` and its arguments.
    pub(crate) words: Vec<String>,
}

/// Returns when the next minute begins, in milliseconds from the one before; the same on all hosts.
pub(crate) fn minute(seed: u64, number: u64) -> u64 {
    Random::new(seed, number << 8).within(400..1_200)
}

/// Returns what a host fires at a minute; nothing, at times.
pub(crate) fn firing(seed: u64, host: u64, minute: u64, log: &Path, shedlock: &Path) -> Option<Firing> {
    let mut random = Random::new(seed, (minute << 8) + host + 1);
    if random.percent(15) {
        return None;
    }
    let lease =
        random.percent(65).then(|| [2_000, 2_000, 3_000, 6_000, 6_000][usize::try_from(random.within(0..5)).unwrap()]);
    let at_most = lease.unwrap_or(1_000) + random.within(200..3_000) + if lease == Some(6_000) { 3_000 } else { 0 };
    let at_least = if random.percent(15) { random.within(500..1_500) } else { 0 };
    let extends = random.percent(10);
    let wait_for =
        ["child", "child", "tree", "tree", "group"][usize::try_from(random.within(0..5)).unwrap()].to_owned();
    // At most a fifth is used.
    let longest = at_most / 5;
    let long = lease == Some(6_000);
    let kill_after = if random.percent(50) || long { longest.min(200) } else { longest };
    let terms = Terms { lease, at_most, at_least, kill_after, extends, wait_for };

    let mut words: Vec<String> = vec![shedlock.display().to_string()];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(&["run", "--name", NAME, "-E", &SKIPPED.to_string(), "--backend-timeout", "2s"]);
    add(&["--at-most", &format!("{at_most}ms"), "--wait-for", &terms.wait_for]);
    if let Some(lease) = lease {
        add(&["--lease", &format!("{lease}ms")]);
    }
    if at_least > 0 {
        add(&["--at-least", &format!("{at_least}ms")]);
    }
    if extends {
        add(&["--on-expiry", "extend"]);
    }
    if random.percent(60) {
        add(&["--wait", &format!("{}ms", random.within(200..5_000))]);
    }
    if kill_after < longest {
        add(&["--kill-after", "200ms"]);
    }
    add(&["--"]);
    // What is ignored stays ignored over exec.
    if random.percent(40) {
        add(&["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"]);
    }
    let run = format!("h{host}-{minute}");
    let length = match random.within(0..100) {
        // A host that is frozen under such a one is seen to be late.
        _ if long && random.percent(60) => random.within(5_000..LONGEST),
        0..50 => random.within(50..800),
        50..70 => random.within(500..4_000),
        _ => at_most + random.within(0..2_000),
    };
    let code = if random.percent(10) { FAILED } else { 0 };
    let me = std::env::current_exe().unwrap().display().to_string();
    add(&[&me, "job", &log.display().to_string(), &run, "command"]);
    add(&[&length.min(LONGEST).to_string(), &code.to_string()]);
    for kind in ["child", "daemon"] {
        if random.percent(30) {
            add(&[&format!("{kind}:{}", random.within(500..LONGEST))]);
        }
    }
    if random.percent(8) {
        add(&[&format!("nested:{}:{}", random.within(100..1_500), shedlock.display())]);
    }
    Some(Firing { terms, words })
}

impl Terms {
    /// Returns how long a run that is not there any more holds the lock at most.
    pub(crate) fn hold(&self) -> u64 {
        self.lease.unwrap_or(self.at_most).max(self.at_least)
    }

    /// Returns the firing as a word for the log.
    pub(crate) fn word(&self) -> String {
        let Self { lease, at_most, at_least, kill_after, extends, wait_for } = self;
        format!("{},{at_most},{at_least},{kill_after},{extends},{wait_for}", lease.unwrap_or_default())
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let mut words = word.split(',');
        let mut number = || words.next()?.parse().ok();
        let (lease, at_most, at_least, kill_after) = (number()?, number()?, number()?, number()?);
        Some(Self {
            lease: Some(lease).filter(|lease| *lease > 0),
            at_most,
            at_least,
            kill_after,
            extends: words.next()? == "true",
            wait_for: words.next()?.to_owned(),
        })
    }
}
