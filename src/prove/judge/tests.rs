//! Histories of stores: whatever a correct one answers breaks no rule, and each way to be broken is found.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{Judgement, judge};
use crate::lock::{ErrorClass, LockState, Owner, StillHeld};
use crate::prove::history::{Answer, Call, Fault, Request};
use crate::prove::random::Random;
use crate::prove::rules::Rule;
use crate::system::{Moment, Timestamp};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn start() -> Moment {
    Moment::at(Duration::from_secs(1_000))
}

/// A call of an owner of lock 0, sent and answered so many milliseconds after the start.
fn call(owner: &str, request: Request, (sent, answered): (u64, u64), answer: Answer) -> Call {
    let (sent, answered) = (start() + MS(sent), start() + MS(answered));
    Call { lock: 0, owner: owner.to_owned(), request, sent, answered, answer, fault: None }
}

fn acquire(owner: &str, times: (u64, u64), lease: u64, token: u64) -> Call {
    call(owner, Request::Acquire { lease: MS(lease) }, times, Answer::Granted { token: Some(token) })
}

fn refused(owner: &str, times: (u64, u64), holder: &str) -> Call {
    call(owner, Request::Acquire { lease: MS(1_000) }, times, Answer::Refused(state(holder, 100)))
}

fn renew(owner: &str, times: (u64, u64), lease: u64, answer: StillHeld) -> Call {
    call(owner, Request::Renew { lease: MS(lease) }, times, Answer::StillHeld(answer))
}

fn release(owner: &str, times: (u64, u64), hold: u64, answer: StillHeld) -> Call {
    call(owner, Request::Release { hold: MS(hold), undo: false }, times, Answer::StillHeld(answer))
}

fn undo(owner: &str, times: (u64, u64)) -> Call {
    call(owner, Request::Release { hold: MS(0), undo: true }, times, Answer::StillHeld(StillHeld::Lost))
}

fn failed(owner: &str, request: Request, times: (u64, u64)) -> Call {
    let answer = Answer::Failed { class: ErrorClass::Transient, ambiguous: true, message: "cut".to_owned() };
    Call { fault: Some(Fault::CutAnswer { after: 0 }), ..call(owner, request, times, answer) }
}

fn list(times: (u64, u64), holder: Option<&str>) -> Call {
    let state = holder.map(|holder| state(holder, 100));
    call("list", Request::List, times, Answer::Listed { now: Timestamp(1_000_000 + times.0), state })
}

fn state(owner: &str, left: u64) -> LockState {
    LockState { owner: owner.to_owned(), since: None, until: None, left: MS(left) }
}

/// Returns the rules that are broken, and the words of the worst case of the last.
fn broken(calls: &[Call]) -> (Vec<Rule>, String) {
    let Judgement { verdicts, .. } = judge(calls, start());
    let broken: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.broken > 0).collect();
    let text = broken.last().and_then(|(_, verdict)| verdict.worst.clone()).map(|case| case.text).unwrap_or_default();
    (broken.into_iter().map(|(rule, _)| *rule).collect(), text)
}

#[track_caller]
fn breaks(rules: &[Rule], words: &str, calls: &[Call]) {
    let (found, text) = broken(calls);
    assert_eq!(found, rules, "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn what_could_be_in_order_breaks_nothing() {
    // The second was granted when the first one's time may have been up.
    breaks(&[], "", &[acquire("a:1", (0, 10), 1_000, 1), acquire("b:1", (900, 1_005), 1_000, 2)]);
    // The first was released while the second was under way.
    breaks(
        &[],
        "",
        &[
            acquire("a:1", (0, 10), 5_000, 1),
            acquire("b:1", (100, 300), 5_000, 2),
            release("a:1", (110, 290), 0, StillHeld::Held),
        ],
    );
    // A request without an answer may be carried out at any time, and its owner be named, until it is undone.
    breaks(
        &[],
        "",
        &[
            failed("a:1", Request::Acquire { lease: MS(1_000) }, (0, 10)),
            refused("b:1", (4_000, 4_010), "a:1"),
            undo("a:1", (4_020, 4_030)),
            refused("b:1", (4_025, 4_040), "a:1"),
        ],
    );
    // The release was carried out, and its answer lost.
    breaks(
        &[],
        "",
        &[
            acquire("a:1", (0, 10), 5_000, 1),
            failed("a:1", Request::Release { hold: MS(0), undo: false }, (20, 30)),
            acquire("b:1", (31, 40), 5_000, 2),
            release("a:1", (50, 60), 0, StillHeld::Lost),
        ],
    );
    // It was acquired again after its time: between the two it was free.
    breaks(
        &[],
        "",
        &[
            acquire("a:1", (0, 10), 1_000, 1),
            list((1_100, 1_110), None),
            acquire("a:1", (900, 1_300), 1_000, 2),
            list((1_400, 1_410), Some("a:1")),
        ],
    );
    // It was granted, and its time up before the backend saw that; then another one had it.
    breaks(
        &[],
        "",
        &[
            list((300, 310), Some("a:1")),
            refused("b:1", (320, 330), "a:1"),
            acquire("b:2", (1_350, 1_360), 1_000, 2),
            refused("a:1", (0, 1_500), "b:2"),
        ],
    );
    // An ended owner keeps its lock.
    breaks(
        &[],
        "",
        &[
            acquire("a:1", (0, 10), 5_000, 1),
            release("a:1", (20, 30), 1_000, StillHeld::Held),
            refused("b:1", (500, 510), &format!("a:1{}", Owner::ENDED_SUFFIX)),
            renew("a:1", (520, 530), 1_000, StillHeld::Lost),
        ],
    );
}

#[test]
fn two_that_hold_a_lock_at_once_are_found() {
    let calls = [acquire("a:1", (0, 10), 1_000, 1), acquire("b:1", (5, 12), 1_000, 2)];
    breaks(&[Rule::Exclusion], "a:1 held it from 0.010 s to 0.988 s and b:1 from 0.012 s to 0.993 s", &calls);
    let [first, _] = calls;
    breaks(&[Rule::Exclusion, Rule::Expiry], "b:1 got it", &[first, acquire("b:1", (500, 510), 1_000, 2)]);
}

#[test]
fn a_lock_that_is_lost_before_its_time_is_found() {
    let calls = [acquire("a:1", (0, 10), 1_000, 1), renew("a:1", (400, 410), 1_000, StillHeld::Lost)];
    breaks(&[Rule::Expiry], "a:1 was told at 0.410 s that its lock was lost, 0.578 s before its time was up", &calls);
    assert_eq!(judge(&calls, start()).forgotten, 1);
}

#[test]
fn a_renewal_that_shortens_or_does_nothing_is_found() {
    let shorter = renew("a:1", (100, 110), 100, StillHeld::Held);
    let calls = [acquire("a:1", (0, 10), 1_000, 1), shorter, acquire("b:1", (500, 510), 1_000, 2)];
    breaks(&[Rule::Exclusion, Rule::Renewal], "b:1 got it", &calls);
    let nothing = renew("a:1", (900, 910), 1_000, StillHeld::Held);
    let calls = [acquire("a:1", (0, 10), 1_000, 1), nothing, acquire("b:1", (1_200, 1_210), 1_000, 2)];
    breaks(&[Rule::Exclusion, Rule::Renewal], "b:1 got it", &calls);
}

#[test]
fn a_late_owner_that_is_believed_or_harms_the_next_one_is_found() {
    let both = [acquire("a:1", (0, 10), 1_000, 1), acquire("b:1", (1_500, 1_510), 3_000, 2)];
    let mut calls = both.to_vec();
    calls.push(renew("a:1", (1_600, 1_610), 1_000, StillHeld::Held));
    breaks(&[Rule::Late], "a:1 was told at 1.610 s that it still held the lock, which b:1 held", &calls);
    let mut calls = both.to_vec();
    calls.push(release("a:1", (1_600, 1_610), 0, StillHeld::Lost));
    breaks(&[], "", &calls);
    calls.push(acquire("c:1", (1_700, 1_710), 1_000, 3));
    breaks(&[Rule::Exclusion, Rule::Late], "b:1 had it until", &calls);
}

#[test]
fn a_lock_that_is_not_kept_or_not_released_is_found() {
    let kept = [acquire("a:1", (0, 10), 5_000, 1), release("a:1", (20, 30), 1_000, StillHeld::Held)];
    let mut calls = kept.to_vec();
    calls.push(acquire("b:1", (300, 310), 1_000, 2));
    breaks(&[Rule::Exclusion, Rule::Hold], "b:1 got it", &calls);
    let released = [acquire("a:1", (0, 10), 5_000, 1), release("a:1", (20, 30), 0, StillHeld::Held)];
    let mut calls = released.to_vec();
    calls.push(refused("b:1", (1_000, 1_010), "a:1"));
    breaks(&[Rule::Hold], "at 1.000 s a:1 held the lock, 0.970 s after it was released", &calls);
}

#[test]
fn a_lock_that_frees_late_is_remarked_upon_and_one_that_stays_is_broken() {
    let calls = |late: u64| [acquire("a:1", (0, 10), 1_000, 1), refused("b:1", (1_010 + late, 1_020 + late), "a:1")];
    let seen = |late| judge(&calls(late), start()).verdicts[&Rule::Expiry].clone();
    // Every time that is known lies on one millisecond, as far as there is any: the store's clock may be coarse.
    for (late, doubtful, wrong) in [(500, 0, 0), (2_900, 1, 0), (8_500, 0, 1)] {
        let verdict = seen(late);
        assert_eq!((verdict.doubtful, verdict.broken, verdict.most), (doubtful, wrong, Some(MS(late))), "{verdict:?}");
    }
}

#[test]
fn tokens_that_do_not_grow_are_found() {
    let calls = |token| {
        [
            acquire("a:1", (0, 10), 5_000, 7),
            release("a:1", (20, 30), 0, StillHeld::Held),
            acquire("b:1", (40, 50), 5_000, token),
        ]
    };
    breaks(&[], "", &calls(8));
    breaks(&[Rule::Token], "b:1 got the token 7 at 0.050 s, after a:1 had got 7 at 0.010 s", &calls(7));
    breaks(&[Rule::Token], "b:1 got the token 3", &calls(3));
    // Of two at the same time, either may be the first.
    breaks(&[], "", &[acquire("a:1", (0, 50), 10, 7), acquire("b:1", (40, 60), 10, 3)]);
}

#[test]
fn an_owner_that_is_refused_its_own_lock_is_found() {
    let calls = [acquire("a:1", (0, 10), 1_000, 1), refused("a:1", (20, 30), "a:1")];
    breaks(&[Rule::Again], "a:1 was refused its own lock at 0.020 s", &calls);
}

#[test]
fn what_takes_effect_after_it_was_undone_is_found() {
    let mut calls = vec![failed("a:1", Request::Acquire { lease: MS(5_000) }, (0, 10)), undo("a:1", (20, 30))];
    breaks(&[], "", &calls);
    calls.push(list((100, 110), Some("a:1")));
    breaks(&[Rule::Cut], "at 0.100 s a:1 held the lock, 0.070 s after its acquisition was undone", &calls);
    let cut = failed("a:1", Request::Renew { lease: MS(5_000) }, (20, 30));
    let released = release("a:1", (40, 50), 0, StillHeld::Held);
    let calls = [acquire("a:1", (0, 10), 5_000, 1), cut, released, refused("b:1", (100, 110), "a:1")];
    breaks(&[Rule::Cut], "0.050 s after it was released", &calls);
}

#[test]
fn a_refusal_that_names_nobody_is_found() {
    let first = acquire("a:1", (0, 10), 1_000, 1);
    breaks(&[Rule::Refusal], "by x:9, whom nobody knows", &[first.clone(), refused("b:1", (20, 30), "x:9")]);
    let later = acquire("c:1", (5_000, 5_010), 1_000, 2);
    breaks(&[Rule::Refusal], "did not have the lock yet", &[first, refused("b:1", (20, 30), "c:1"), later]);
}

#[test]
fn a_list_that_shows_another_state_is_found() {
    let first = acquire("a:1", (0, 10), 1_000, 1);
    breaks(&[], "", &[first.clone(), list((20, 30), Some("a:1"))]);
    breaks(&[Rule::Record], "shows a free lock, which a:1 held", &[first.clone(), list((20, 30), None)]);
    breaks(&[Rule::Record], "names x:9; the holder was a:1", &[first, list((20, 30), Some("x:9"))]);
}

/// A correct store of one lock, with a clock that may free a lock late.
#[derive(Default)]
struct Store {
    /// Owner, when it was acquired, and until when it is held.
    held: Option<(String, u64, u64)>,
    token: u64,
    void: Vec<String>,
}

impl Store {
    fn settle(&mut self, now: u64) {
        if self.held.as_ref().is_some_and(|(_, _, until)| *until <= now) {
            self.held = None;
        }
    }

    /// Carries out a request at a time.
    fn carry_out(&mut self, now: u64, owner: &str, request: Request) -> Answer {
        self.settle(now);
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        let holds = self.held.as_ref().is_some_and(|(holder, _, _)| holder == owner);
        match request {
            Request::Acquire { lease } => match &self.held {
                _ if self.void.iter().any(|void| void == owner) => {
                    Answer::Failed { class: ErrorClass::Permanent, ambiguous: false, message: "void".to_owned() }
                }
                Some((holder, _, until)) if holder != owner => Answer::Refused(state(holder, until - now)),
                _ => {
                    self.token += 1;
                    self.held = Some((owner.to_owned(), now, now + ms(lease)));
                    Answer::Granted { token: Some(self.token) }
                }
            },
            Request::Renew { lease } => {
                if let Some((_, _, until)) = self.held.as_mut().filter(|_| holds) {
                    *until = (*until).max(now + ms(lease));
                }
                Answer::StillHeld(StillHeld::from_owned(holds))
            }
            Request::Release { hold, undo } => {
                if undo {
                    self.void.push(owner.to_owned());
                }
                let ended = format!("{owner}{}", Owner::ENDED_SUFFIX);
                let was_released = self.held.as_ref().is_some_and(|(holder, _, _)| *holder == ended);
                if let Some((_, since, _)) = self.held.take_if(|_| holds)
                    && since + ms(hold) > now
                {
                    self.held = Some((ended, since, since + ms(hold)));
                }
                Answer::StillHeld(StillHeld::from_owned(holds || was_released))
            }
            Request::Change { left } => {
                if let Some((_, _, until)) = self.held.as_mut().filter(|_| holds) {
                    *until = now + ms(left);
                }
                Answer::StillHeld(StillHeld::from_owned(holds))
            }
            Request::List => Answer::Listed {
                now: Timestamp(1_000_000 + now),
                state: self.held.as_ref().map(|(holder, _, until)| state(holder, until - now)),
            },
            Request::Runs => Answer::Runs(Vec::new()),
        }
    }
}

/// Plays clients that do anything with a correct store: requests overlap and are slow, answers get lost, and what was lost arrives
/// late.
fn any_history(seed: u64) -> Vec<Call> {
    let mut random = Random::new(seed, 0);
    let mut store = Store::default();
    let mut calls = Vec::new();
    // Requests that arrive late: when, owner, request.
    let mut late: Vec<(u64, String, Request)> = Vec::new();
    let clients = 3;
    let (mut free_at, mut idle_since) = ([0_u64; 3], [0_u64; 3]);
    let mut owners: Vec<(u64, bool)> = vec![(1, false); clients];
    for _ in 0..60 {
        let client = (0..clients).min_by_key(|client| free_at[*client]).unwrap();
        let sent = free_at[client] + if random.percent(5) { random.within(0..1_000) } else { random.within(0..40) };
        // The store carries out in the order of time: nobody else is before this.
        let effect = sent + random.within(0..10);
        let answered = effect + if random.percent(5) { random.within(0..1_500) } else { random.within(0..10) };
        free_at = free_at.map(|at| at.max(sent));
        // It may have been on its way for as long as its client has asked for nothing else.
        let sent = if random.percent(10) {
            idle_since[client] + random.within(0..sent + 1 - idle_since[client])
        } else {
            sent
        };
        idle_since[client] = answered + 1;
        free_at[client] = answered + 1;
        for place in (0..late.len()).rev() {
            if late[place].0 <= effect {
                let (at, owner, request) = late.remove(place);
                store.carry_out(at.max(effect), &owner, request);
            }
        }
        let (number, must_undo) = owners[client];
        let any_lease = MS(200 + random.within(0..800));
        let mut request = match random.below(9) {
            0..3 => Request::Acquire { lease: any_lease },
            3..5 => Request::Renew { lease: any_lease },
            5 => Request::Release { hold: MS(0), undo: false },
            6 => Request::Release { hold: MS(random.within(0..600)), undo: false },
            7 => Request::Change { left: any_lease },
            _ => Request::List,
        };
        if must_undo {
            request = Request::Release { hold: MS(0), undo: true };
            owners[client].1 = false;
        } else if matches!(request, Request::Acquire { .. }) && random.percent(80) {
            owners[client] = (number + 1, false);
        }
        let owner = format!("c{client}:{}:0", owners[client].0);
        let is_lost = !matches!(request, Request::Release { undo: true, .. } | Request::List) && random.percent(15);
        if !is_lost {
            let answer = store.carry_out(effect, &owner, request);
            // An owner is used no more once it has released its lock, or lost it.
            if !matches!(request, Request::Acquire { .. } | Request::List) {
                let goes_on = matches!(
                    (request, &answer),
                    (Request::Renew { .. } | Request::Change { .. }, Answer::StillHeld(StillHeld::Held))
                );
                if !goes_on {
                    owners[client].0 += 1;
                }
            }
            calls.push(call(&owner, request, (sent, answered), answer));
            continue;
        }
        if random.percent(50) {
            store.carry_out(effect, &owner, request);
        } else {
            late.push((effect + random.within(0..300), owner.clone(), request));
        }
        calls.push(failed(&owner, request, (sent, answered)));
        owners[client].1 = true;
    }
    calls
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(3000) })]

    #[test]
    fn whatever_a_correct_store_answers_breaks_no_rule(seed in any::<u64>()) {
        let calls = any_history(seed);
        let (rules, text) = broken(&calls);
        let told: Vec<_> = calls.iter().map(|call| format!("{call:?}\n")).collect();
        prop_assert!(rules.is_empty(), "{rules:?}: {text}\n{}", told.concat());
    }
}
