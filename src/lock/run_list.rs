//! Recorded runs, many of them in little memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use crate::system::Timestamp;

/// A run as recorded in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub(crate) token: u64,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) host: String,
    /// `None` if the stored value is not a time.
    pub(crate) started_at: Option<Timestamp>,
    /// `None` while the run lasts, and for good if it never came back.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) exit_code: Option<i64>,
    /// The stored outcome, a word of [`crate::lock::RunOutcome`].
    pub(crate) outcome: Option<String>,
}

/// Runs in an order: each takes 48 bytes, and every name, host and ending is kept once. A history has hundreds of thousands of
/// runs, of which a command needs one after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunList {
    runs: Vec<PackedRun>,
    names: Interner<Box<str>>,
    hosts: Interner<Box<str>>,
    /// Owners of another form than `HOST:PID:RANDOM`.
    owners: Interner<Box<str>>,
    /// Exit codes with outcomes.
    endings: Interner<(Option<i64>, Option<Box<str>>)>,
}

/// A run; the numbers of 32 bits are places of values that are kept once.
#[derive(Debug, Clone, Copy)]
struct PackedRun {
    token: u64,
    /// The time in milliseconds; the largest number stands for no time.
    started_at: u64,
    ended_at: u64,
    /// The random number of the owner; or the owner's place, if the process id is zero.
    random: u64,
    pid: u32,
    name: u32,
    host: u32,
    ending: u32,
}

const NO_TIME: u64 = u64::MAX;

impl RunList {
    pub(crate) fn push(&mut self, run: RunRecord) {
        let (pid, random) = match parts(&run.owner, &run.host) {
            Some(parts) => parts,
            None => (0, self.owners.place(run.owner.into()).into()),
        };
        self.runs.push(PackedRun {
            token: run.token,
            started_at: run.started_at.map_or(NO_TIME, |time| time.0),
            ended_at: run.ended_at.map_or(NO_TIME, |time| time.0),
            random,
            pid,
            name: self.names.place(run.name.into()),
            host: self.hosts.place(run.host.into()),
            ending: self.endings.place((run.exit_code, run.outcome.map(String::into_boxed_str))),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn truncate(&mut self, most: usize) {
        self.runs.truncate(most);
    }

    /// Returns the run at a place below `len`.
    pub(crate) fn get(&self, place: usize) -> RunRecord {
        let run = self.runs[place];
        let host = self.host(place);
        let (exit_code, outcome) = self.endings.get(run.ending);
        RunRecord {
            token: run.token,
            name: self.name(place).to_owned(),
            owner: match run.pid {
                0 => self.owners.get(u32::try_from(run.random).unwrap_or_default()).to_string(),
                pid => format!("{host}:{pid}:{:016x}", run.random),
            },
            host: host.to_owned(),
            started_at: self.started_at(place),
            ended_at: self.ended_at(place),
            exit_code: *exit_code,
            outcome: outcome.as_deref().map(str::to_owned),
        }
    }

    pub(crate) fn started_at(&self, place: usize) -> Option<Timestamp> {
        time(self.runs[place].started_at)
    }

    pub(crate) fn ended_at(&self, place: usize) -> Option<Timestamp> {
        time(self.runs[place].ended_at)
    }

    pub(crate) fn token(&self, place: usize) -> u64 {
        self.runs[place].token
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        self.names.get(self.runs[place].name)
    }

    pub(crate) fn host(&self, place: usize) -> &str {
        self.hosts.get(self.runs[place].host)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RunRecord> + '_ {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Sorts the runs, the newest first: by their beginning if that is wanted, and then by their token. Of two that are alike the
    /// one whose name came first stays before the other.
    #[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
    pub(super) fn sort(&mut self, by_start: bool) {
        // In place, because a stable sort needs half of the memory again. A run without a beginning is the oldest.
        self.runs.sort_unstable_by_key(|run| {
            let start = if by_start { run.started_at.wrapping_add(1) } else { 0 };
            (std::cmp::Reverse((start, run.token)), run.name)
        });
    }

    /// Keeps the first runs of each name.
    #[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
    pub(super) fn truncate_each_name(&mut self, most: u32) {
        let mut seen = vec![0_u32; self.names.values.len()];
        self.runs.retain(|run| {
            let count = &mut seen[run.name as usize];
            *count += 1;
            *count <= most
        });
    }
}

fn time(millis: u64) -> Option<Timestamp> {
    (millis != NO_TIME).then_some(Timestamp(millis))
}

/// Splits an owner `HOST:PID:RANDOM` into its numbers; `None` if putting the parts together would not give the same text.
fn parts(owner: &str, host: &str) -> Option<(u32, u64)> {
    let (pid, random) = owner.strip_prefix(host)?.strip_prefix(':')?.split_once(':')?;
    let is_number = !pid.starts_with(['0', '+']);
    let is_random = random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match is_number && is_random {
        true => Some((pid.parse().ok()?, u64::from_str_radix(random, 16).ok()?)),
        false => None,
    }
}

impl FromIterator<RunRecord> for RunList {
    fn from_iter<I: IntoIterator<Item = RunRecord>>(runs: I) -> Self {
        let mut list = Self::default();
        runs.into_iter().for_each(|run| list.push(run));
        list
    }
}

impl PartialEq for RunList {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for RunList {}

#[cfg(test)]
impl PartialEq<[RunRecord]> for RunList {
    fn eq(&self, other: &[RunRecord]) -> bool {
        self.iter().eq(other.iter().cloned())
    }
}

/// Keeps equal values once, mostly: of two values with the same hash, the second is kept each time.
#[derive(Debug, Clone)]
struct Interner<T> {
    values: Vec<T>,
    /// The place of the first value of a hash.
    places: HashMap<u64, u32>,
    hasher: RandomState,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: HashMap::new(), hasher: RandomState::new() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    fn place(&mut self, value: T) -> u32 {
        let new = u32::try_from(self.values.len()).expect("four thousand million runs do not fit into memory");
        let place = *self.places.entry(self.hasher.hash_one(&value)).or_insert(new);
        if self.values.get(place as usize) == Some(&value) {
            return place;
        }
        self.values.push(value);
        new
    }

    fn get(&self, place: u32) -> &T {
        &self.values[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_run() -> impl Strategy<Value = RunRecord> {
        let host = prop_oneof!["[a-c]{0,2}", "\\PC{0,6}"];
        let owner = prop_oneof![
            (any::<u32>(), any::<u64>()).prop_map(|(pid, random)| format!(":{pid}:{random:016x}")),
            Just(":01:00000000000000ff".to_owned()),
            Just(":+1:00000000000000ff".to_owned()),
            Just(":1:00000000000000FF".to_owned()),
            Just(":1:00000000000000ff:30s".to_owned()),
            "\\PC{0,20}",
        ];
        let time = || proptest::option::of((0..u64::MAX).prop_map(Timestamp));
        let ending = (proptest::option::of(any::<i64>()), proptest::option::of("[a-c]{0,1}"));
        (any::<u64>(), "[a-c]{1,2}", host, owner, time(), time(), ending).prop_map(
            |(token, name, host, owner, started_at, ended_at, (exit_code, outcome))| RunRecord {
                token,
                name,
                owner: host.clone() + &owner,
                host,
                started_at,
                ended_at,
                exit_code,
                outcome,
            },
        )
    }

    proptest! {
        #[test]
        fn a_run_comes_out_as_it_went_in(runs in proptest::collection::vec(any_run(), 0..40)) {
            let list: RunList = runs.iter().cloned().collect();
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), runs);
        }
    }

    #[test]
    fn a_run_of_ours_takes_48_bytes() {
        assert_eq!(size_of::<PackedRun>(), 48);
        let run = |number: u64| RunRecord {
            token: number,
            name: "job".to_owned(),
            owner: format!("web1:{}:{number:016x}", number + 1),
            host: "web1".to_owned(),
            started_at: Some(Timestamp(number)),
            ended_at: Some(Timestamp(number)),
            exit_code: Some(0),
            outcome: Some("success".to_owned()),
        };
        let list: RunList = (0..1000).map(run).collect();
        let kept = [list.names.values.len(), list.hosts.values.len(), list.owners.values.len()];
        assert_eq!((kept, list.endings.values.len()), ([1, 1, 0], 1));
    }
}
