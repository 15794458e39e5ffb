//! Shows the state of locks, as a table and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::json_array::json_array;
use super::runs::{RunState, ShownRun, ShownRuns, text, time};
use super::table::{Cell, Column, Narrow, table};
use crate::lock::{Holder, Lock, Locks};
use crate::report::screen::{Paint, Screen};
use crate::report::skew::{skew, skew_hint, skew_of_run};
use crate::report::times::{Zone, ago, in_largest_unit, in_two_units};
use crate::system::Timestamp;

/// A lock as it is shown: its state, its token and its last run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockView<'a> {
    pub(crate) name: &'a str,
    state: State,
    /// The lock as the backend lists it.
    lock: Option<&'a Lock>,
    /// The token of the run that holds the lock.
    token: Option<u64>,
    /// All runs, and the place of the newest of this lock other than the one that holds it: that with the largest token,
    /// because its times may be those of a clock that was ahead.
    runs: &'a ShownRuns<'a>,
    last: Option<u32>,
    /// Whether the backend knows the lock.
    known: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Held,
    /// Held for at-least or every, although its run has ended.
    HeldAfterRun,
    Paused,
}

impl State {
    /// Returns the word for the state in tables and in JSON.
    const fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::HeldAfterRun => "kept",
            Self::Paused => "paused",
        }
    }
}

/// A pause longer than this counts as one without an end.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 365 * 86_400);

/// Combines locks and runs, sorted by name, for these names or, without names, for all. Read the runs after the locks.
pub(crate) fn lock_views<'a>(names: &'a [String], locks: &'a Locks, runs: &'a ShownRuns<'a>) -> Vec<LockView<'a>> {
    let mut all: Vec<_> = locks.locks.iter().map(|lock| LockView::new(&lock.name, Some(lock), runs)).collect();
    all.sort_by_key(|view| view.name);
    all.dedup_by_key(|view| view.name);
    let mut others: BTreeMap<&str, LockView<'_>> = BTreeMap::new();
    for run in 0..runs.len() {
        let name = runs.name(run);
        match all.binary_search_by_key(&name, |view| view.name) {
            Ok(place) => all[place].add(run),
            Err(_) => others.entry(name).or_insert_with(|| LockView::new(name, None, runs)).add(run),
        }
    }
    for name in names {
        // A backend that ignores case answers with the lock `Job` for `job`. It is shown under its stored name, unless `Job`
        // was requested as well.
        let stands_for = |known: &str| {
            *known == *name || known.to_lowercase() == name.to_lowercase() && !names.iter().any(|other| other == known)
        };
        if !all.iter().map(|view| view.name).chain(others.keys().copied()).any(stands_for) {
            others.insert(name, LockView::new(name, None, runs));
        }
    }
    all.extend(others.into_values());
    all.sort_by_key(|view| view.name);
    all
}

impl<'a> LockView<'a> {
    /// Returns the view of a lock without its runs.
    fn new(name: &'a str, lock: Option<&'a Lock>, runs: &'a ShownRuns<'a>) -> Self {
        let state = match lock.filter(|lock| lock.is_held()).map(|lock| Holder::parse(&lock.state.owner)) {
            None => State::Free,
            Some(holder) if holder.is_paused() => State::Paused,
            Some(holder) if holder.has_ended() => State::HeldAfterRun,
            Some(_) => State::Held,
        };
        let known = lock.is_some_and(|lock| !lock.is_past_pause());
        Self { name, state, lock, token: None, runs, last: None, known }
    }

    /// Adds a run of the lock, at this place among all runs.
    fn add(&mut self, place: usize) {
        self.known = true;
        let is_newer = self.last.is_none_or(|last| self.runs.token(last as usize) < self.runs.token(place));
        if is_newer && self.runs.state(place) != RunState::Running {
            self.last = u32::try_from(place).ok();
        }
        if self.token.is_none() && self.holder().is_some() {
            let run = self.runs.get(place).record;
            self.token = self.holder().filter(|holder| holder.owner() == run.owner).map(|_| run.token);
        }
    }

    /// Returns whether the lock is taken.
    pub(crate) fn is_held(&self) -> bool {
        self.state != State::Free
    }

    /// Returns the word for the state.
    pub(crate) fn word(&self) -> &'static str {
        self.state.word()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    /// Returns when the lock will be free, if that is known.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.held().filter(|lock| !self.is_endless(lock))?.state.until
    }

    /// Returns the newest run other than the one that holds the lock.
    pub(crate) fn last_run(&self) -> Option<ShownRun> {
        self.last.map(|place| self.runs.get(place as usize))
    }

    /// Returns when a run of the history last started.
    pub(crate) fn last_start(&self) -> Option<Timestamp> {
        let of_holder = self.token.and_then(|_| self.since()).filter(|_| self.state == State::Held);
        of_holder.or_else(|| self.last_run()?.record.started_at)
    }

    /// Returns whether the backend knows the lock.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    fn held(&self) -> Option<&Lock> {
        self.lock.filter(|_| self.is_held())
    }

    fn holder(&self) -> Option<Holder<'_>> {
        self.held().map(|lock| Holder::parse(&lock.state.owner))
    }

    fn state_cell(&self) -> Cell {
        let paint = match self.state {
            State::Free => Paint::Faint,
            State::Held | State::HeldAfterRun => Paint::Live,
            State::Paused => Paint::Warning,
        };
        Cell::new(self.state.word(), paint)
    }

    /// Returns the holder's host, or the author of a pause and its reason.
    fn holder_text(&self) -> String {
        let Some(holder) = self.holder() else { return String::new() };
        match holder.pause().filter(|_| holder.is_paused()) {
            Some(pause) if pause.reason.is_empty() => pause.by.to_owned(),
            Some(pause) => format!("{}: {}", pause.by, pause.reason),
            // Kept as it was before a pause; the run before the pause is no longer known.
            None if holder.pause().is_some() => String::new(),
            None => holder.host().to_owned(),
        }
    }

    fn since(&self) -> Option<Timestamp> {
        self.held()?.state.since
    }

    /// Returns the end of a sentence that begins with the lock, if it cannot have been taken when it says so, and a hint.
    pub(crate) fn skew(&self) -> Option<(String, &'static str)> {
        let state = &self.lock?.state;
        Some((skew(state)?, skew_hint(state)))
    }

    /// Returns the end of a sentence that begins with the last run, if it cannot have been when it says so.
    pub(crate) fn skew_of_last_run(&self, now: Timestamp) -> Option<String> {
        let last = self.last? as usize;
        skew_of_run(self.runs.started_at(last), self.runs.ended_at(last), now)
    }

    fn until(&self, show: impl Fn(Timestamp) -> String) -> String {
        match self.held() {
            Some(lock) if self.is_endless(lock) => "resumed".to_owned(),
            Some(lock) => lock.state.until.map(show).unwrap_or_default(),
            None => String::new(),
        }
    }

    fn left(&self) -> String {
        match self.held() {
            Some(lock) if !self.is_endless(lock) => in_largest_unit(lock.state.left),
            _ => String::new(),
        }
    }

    fn is_endless(&self, lock: &Lock) -> bool {
        self.state == State::Paused && lock.state.left > LONGEST_PAUSE
    }

    /// Returns how and when the last run ended.
    fn last_run_cell(&self, now: Timestamp, show: &dyn Fn(&ShownRun, Option<Timestamp>) -> String) -> Cell {
        match self.last_run() {
            None => Cell::plain(""),
            Some(run) => {
                let when = run.record.ended_at.or(run.record.started_at).filter(|when| *when <= now);
                Cell::new(&show(&run, when), run.paint())
            }
        }
    }

    /// Returns the lock as the JSON object that shedlock-json(5) describes.
    fn json(&self) -> Value {
        let lock = self.held();
        let holder = self.holder();
        let reason = holder.filter(Holder::is_paused).and_then(|holder| text(holder.pause()?.reason));
        json!({
            "name": self.name,
            "state": self.state.word(),
            "held": self.state == State::Held,
            "paused": self.state == State::Paused,
            "reason": reason,
            "owner": lock.map(|lock| &lock.state.owner),
            "host": holder.filter(|holder| !holder.has_ended() || holder.pause().is_none()).and_then(|holder| text(holder.host())),
            "since": time(self.since()),
            "until": time(lock.and_then(|lock| lock.state.until)),
            "token": self.token,
            "last": self.last_run().map(|run| run.json()),
        })
    }
}

/// Returns the array of the locks, in pieces.
pub(crate) fn locks_json(views: &[LockView<'_>]) -> impl Iterator<Item = String> {
    json_array(views.iter().map(LockView::json))
}

/// Returns the table of the locks, line by line.
pub(crate) fn locks_table<'a>(
    views: &'a [LockView<'a>],
    now: Timestamp,
    zone: &'a Zone,
    screen: &Screen,
) -> impl Iterator<Item = String> + 'a {
    table(|| views.iter(), locks_columns(now, zone, screen.width.is_some()), &NARROWING, *screen)
}

/// Returns the columns of the table of locks, for a person to read or for a program.
pub(crate) fn locks_columns<'a>(now: Timestamp, zone: &'a Zone, for_people: bool) -> Vec<Column<'a, &'a LockView<'a>>> {
    let clock = move |time: Timestamp| if for_people { zone.clock(time, now) } else { zone.stamp(time) };
    let both = move |time: Timestamp| format!("{} ({})", clock(time), ago(time, now));
    let with = |run: &ShownRun, when: Option<String>| {
        when.map_or_else(|| run.word().to_owned(), |when| format!("{} {when}", run.word()))
    };
    vec![
        Column::new("NAME", |one: &&LockView<'_>| Cell::name(one.name)),
        Column::new("STATE", |one: &&LockView<'_>| one.state_cell()),
        Column::new("HOLDER", |one: &&LockView<'_>| Cell::plain(&one.holder_text())),
        Column::new("SINCE", move |one: &&LockView<'_>| Cell::optional(one.since().map(both)))
            .or(move |one: &&LockView<'_>| Cell::optional(one.since().map(|since| ago(since, now)))),
        Column::new("UNTIL", move |one: &&LockView<'_>| Cell::plain(&one.until(clock))),
        Column::new("LEFT", |one: &&LockView<'_>| Cell::plain(&one.left())),
        Column::new("TOKEN", |one: &&LockView<'_>| Cell::optional(one.token.map(|token| token.to_string()))),
        Column::new("LAST RUN", move |one: &&LockView<'_>| {
            one.last_run_cell(now, &|run, when| {
                let took = run.took(now).map(|took| format!(", took {}", in_two_units(took))).unwrap_or_default();
                with(run, when.map(both)) + &took
            })
        })
        .or(move |one: &&LockView<'_>| one.last_run_cell(now, &|run, when| with(run, when.map(|when| ago(when, now)))))
        .or(move |one: &&LockView<'_>| one.last_run_cell(now, &|run, _| run.word().to_owned())),
    ]
}

const NARROWING: [Narrow; 15] = [
    Narrow::Cut("NAME", 32),
    Narrow::Cut("HOLDER", 44),
    Narrow::Shorten("LAST RUN"),
    Narrow::Drop("TOKEN"),
    Narrow::Cut("NAME", 20),
    // Room for the reason of a pause.
    Narrow::Cut("HOLDER", 32),
    Narrow::Shorten("SINCE"),
    Narrow::Cut("NAME", 14),
    Narrow::Cut("HOLDER", 20),
    Narrow::Drop("UNTIL"),
    Narrow::Cut("HOLDER", 14),
    Narrow::Shorten("LAST RUN"),
    Narrow::Drop("SINCE"),
    Narrow::Cut("HOLDER", 9),
    Narrow::Drop("LAST RUN"),
];

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::lock::{Owner, RunList};
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, lock, locks, run};
    use crate::report::tables::table::tests::{PIPED, on};
    use crate::report::times::tests::at;

    const DAY: u64 = 86_400;

    /// Returns one lock in each state.
    fn store() -> (Locks, RunList) {
        let pause = |reason: &str| Owner::for_pause("ada", "ops1", 7, None, reason).as_str().to_owned();
        let locks = locks(&[
            lock("backup", "db1:42:00000000000000ff", "2026-01-31T18:00:03Z", 3295),
            lock("import-of-orders", "web2:7:0000000000000001:ended", "2026-01-31T18:05:00Z", 57),
            lock("invoices", "billing-7d9c5b6f4-x2x9p", "2026-01-31T17:55:00Z", 1200),
            lock("nightly-report-of-all-subsidiaries", "web1:9:ff", "2026-01-30T18:00:00Z", 0),
            lock("rebuild-index", &pause("disk is being replaced"), "2026-01-29T09:12:00Z", 9 * 365 * DAY),
            lock("vacuum", &pause(""), "2026-01-31T17:00:00Z", 2 * 3600),
        ]);
        let runs = vec![
            run(4012, "import-of-orders", "web2", "2026-01-31T18:05:00Z", Some(1), "success"),
            run(4011, "backup", "db1", "2026-01-31T18:00:03Z", None, ""),
            run(4010, "backup", "db1", "2026-01-31T12:00:03Z", Some(900), "failure"),
            run(4009, "nightly-report-of-all-subsidiaries", "web1", "2026-01-30T18:00:00Z", None, ""),
            run(4001, "rebuild-index", "web3", "2026-01-29T07:00:00Z", Some(3600), "expired"),
        ];
        let mut runs = runs;
        runs[0].owner = "web2:7:0000000000000001".to_owned();
        runs[1].owner = "db1:42:00000000000000ff".to_owned();
        (locks, list(&runs))
    }

    fn shown(screen: &Screen) -> String {
        let (locks, runs) = store();
        locks_table(&lock_views(&[], &locks, &shown_runs(&runs, &locks)), at(NOW), &Zone::utc(), screen).collect()
    }

    #[test]
    fn a_program_gets_all_of_it() {
        assert_eq!(
            shown(&PIPED),
            "\
NAME                                STATE   HOLDER                            SINCE                           UNTIL                 LEFT  TOKEN  LAST RUN
backup                              held    db1                               2026-01-31 18:00:03Z (5m ago)   2026-01-31 18:59:58Z  54m   4011   failure 2026-01-31 12:15:03Z (5h ago), took 15m
import-of-orders                    kept    web2                              2026-01-31 18:05:00Z (3s ago)   2026-01-31 18:06:00Z  57s   4012   success 2026-01-31 18:05:01Z (2s ago), took 1.0s
invoices                            held    billing-7d9c5b6f4-x2x9p           2026-01-31 17:55:00Z (10m ago)  2026-01-31 18:25:03Z  20m   -      -
nightly-report-of-all-subsidiaries  free    -                                 -                               -                     -     -      never came back 2026-01-30 18:00:00Z (24h ago)
rebuild-index                       paused  ada@ops1: disk is being replaced  2026-01-29 09:12:00Z (2d ago)   resumed               -     -      expired 2026-01-29 08:00:00Z (2d ago), took 1h
vacuum                              paused  ada@ops1                          2026-01-31 17:00:00Z (1h ago)   2026-01-31 20:05:03Z  2h    -      -
"
        );
    }

    #[test]
    fn it_fits_120_columns_80_and_40() {
        assert_eq!(
            shown(&on(120)),
            "\
NAME                         STATE   HOLDER                            SINCE    UNTIL      LEFT  LAST RUN
backup                       held    db1                               5m ago   18:59:58Z  54m   failure 5h ago
import-of-orders             kept    web2                              3s ago   18:06:00Z  57s   success 2s ago
invoices                     held    billing-7d9c5b6f4-x2x9p           10m ago  18:25:03Z  20m   -
nightly-report-of-all-subs…  free    -                                 -        -          -     never came back 24h ago
rebuild-index                paused  ada@ops1: disk is being replaced  2d ago   resumed    -     expired 2d ago
vacuum                       paused  ada@ops1                          1h ago   20:05:03Z  2h    -
"
        );
        assert_eq!(
            shown(&on(80)),
            "\
NAME            STATE   HOLDER            SINCE    LEFT  LAST RUN
backup          held    db1               5m ago   54m   failure 5h ago
import-of-ord…  kept    web2              3s ago   57s   success 2s ago
invoices        held    billing-7d9c5b6…  10m ago  20m   -
nightly-repor…  free    -                 -        -     never came back 24h ago
rebuild-index   paused  ada@ops1: disk…   2d ago   -     expired 2d ago
vacuum          paused  ada@ops1          1h ago   2h    -
"
        );
        assert_eq!(
            shown(&on(40)),
            "\
NAME            STATE   HOLDER      LEFT
backup          held    db1         54m
import-of-ord…  kept    web2        57s
invoices        held    billing-7…  20m
nightly-repor…  free    -           -
rebuild-index   paused  ada@ops1:…  -
vacuum          paused  ada@ops1    2h
"
        );
    }

    #[test]
    fn a_lock_nobody_has_heard_of_is_free_and_unknown() {
        let (locks, _) = store();
        let only = Locks { locks: locks.locks[5..].to_vec(), ..locks };
        let none = RunList::default();
        let shown = shown_runs(&none, &only);
        let seen = |names: &[&str]| -> Vec<(String, bool, bool)> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = lock_views(&names, &only, &shown);
            found.iter().map(|one| (one.name.to_owned(), one.is_held(), one.is_known())).collect()
        };
        let vacuum = ("vacuum".to_owned(), true, true);
        assert_eq!(seen(&["vacum", "vacuum", "vacum"]), [("vacum".to_owned(), false, false), vacuum.clone()]);
        assert_eq!(seen(&["VACUUM"]), std::slice::from_ref(&vacuum), "the store ignores case");
        assert_eq!(seen(&["VACUUM", "vacuum"]), [("VACUUM".to_owned(), false, false), vacuum]);
    }

    #[test]
    fn a_lock_that_is_only_in_the_history_is_known() {
        let (_, runs) = store();
        let (none, names) = (locks(&[]), ["rebuild-index".to_owned()]);
        let runs: RunList = runs.iter().skip(4).collect();
        let shown = shown_runs(&runs, &none);
        let found = lock_views(&names, &none, &shown);
        assert!(found.len() == 1 && found[0].is_known() && !found[0].is_held());
    }

    #[test]
    fn the_last_run_has_the_largest_token_whatever_its_times_say() {
        let none = locks(&[]);
        let ghost = run(7, "backup", "db1", "2027-01-31T18:00:03Z", Some(60), "success");
        let failure = run(8, "backup", "db1", "2026-01-31T12:00:03Z", Some(60), "failure");
        let runs = list(&[ghost.clone(), failure]);
        let past_runs = shown_runs(&runs, &none);
        let found = lock_views(&[], &none, &past_runs);
        assert_eq!(found[0].last_run().map(|run| run.record.token), Some(8));
        assert_eq!(found[0].skew_of_last_run(at(NOW)), None);
        let runs = list(&[ghost]);
        let past_runs = shown_runs(&runs, &none);
        let found = lock_views(&[], &none, &past_runs);
        assert!(found[0].skew_of_last_run(at(NOW)).is_some_and(|told| told.starts_with("ended 364d23h")));
    }

    #[test]
    fn programs_read_the_fields_of_the_contract() {
        let (locks, runs) = store();
        let shown = shown_runs(&runs, &locks);
        let views = lock_views(&[], &locks, &shown);
        let told: Value = serde_json::from_str(&locks_json(&views).collect::<String>()).unwrap();
        assert_eq!(
            told[0],
            json!({
                "name": "backup", "state": "held", "held": true, "paused": false, "reason": null, "owner": "db1:42:00000000000000ff",
                "host": "db1", "since": "2026-01-31T18:00:03.000Z", "until": "2026-01-31T18:59:58.000Z", "token": 4011,
                "last": {
                    "token": 4010, "name": "backup", "owner": "db1:4010:00000000000000ff", "host": "db1",
                    "started_at": "2026-01-31T12:00:03.000Z", "ended_at": "2026-01-31T12:15:03.000Z", "exit_code": 3,
                    "outcome": "failure", "running": false,
                },
            })
        );
        let brief: Vec<_> = told
            .as_array()
            .unwrap()
            .iter()
            .map(|one| [&one["state"], &one["held"], &one["paused"], &one["token"]])
            .collect();
        let (yes, no) = (json!(true), json!(false));
        assert_eq!(brief[1], [&json!("kept"), &no, &no, &json!(4012)]);
        assert_eq!(brief[2], [&json!("held"), &yes, &no, &Value::Null], "by Java");
        assert_eq!(brief[3], [&json!("free"), &no, &no, &Value::Null]);
        assert_eq!(brief[4], [&json!("paused"), &no, &yes, &Value::Null]);
        assert_eq!((&told[3]["owner"], &told[3]["since"]), (&Value::Null, &Value::Null), "free");
        assert_eq!(told[4]["reason"], "disk is being replaced");
        assert_eq!(told[5]["reason"], Value::Null);
    }

    #[test]
    fn a_name_of_any_length_leaves_room_for_the_rest() {
        let long = "com.example.".repeat(30);
        let names = [&long[..], "report ", "a\tb", &format!("{long}\u{1b}[2J")];
        let locks = locks(&names.map(|name| lock(name, "web1:1:00000000000000ff", NOW, 60)));
        let none = RunList::default();
        let shown = shown_runs(&none, &locks);
        let views = lock_views(&[], &locks, &shown);
        let utc = Zone::utc();
        for width in [40, 80, 200] {
            let lines: Vec<String> = locks_table(&views, at(NOW), &utc, &on(width)).collect();
            for line in &lines[1..] {
                assert!(line.trim_end().width() <= width && line.contains("  held  "), "{width}: {line}");
            }
            assert!(lines.iter().any(|line| line.starts_with(r"$'a\tb'  ")) || width == 40, "{lines:?}");
        }
        // Nothing is cut for a program.
        let lines: Vec<String> = locks_table(&views, at(NOW), &utc, &PIPED).collect();
        assert!(lines.iter().any(|line| line.starts_with(&format!(r"$'{long}\033[2J'  held  "))), "{lines:?}");
    }

    #[test]
    fn no_times_are_no_trouble() {
        let mut odd = lock("odd", "", NOW, 60);
        (odd.state.since, odd.state.until) = (None, None);
        let locks = locks(&[odd]);
        let none = RunList::default();
        let shown = shown_runs(&none, &locks);
        let views = lock_views(&[], &locks, &shown);
        let utc = Zone::utc();
        let mut lines = locks_table(&views, at(NOW), &utc, &PIPED);
        assert_eq!(lines.nth(1).unwrap(), "odd   held   -       -      -      1m    -      -\n");
    }
}
