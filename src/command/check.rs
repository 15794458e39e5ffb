//! `shedlock check`: tests whether this host can lock here. The backend's own diagnosis comes first; then a lock is really
//! taken.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use clap::ArgMatches;

use super::operator::Operator;
use super::process::{host, random};
use crate::backend::clock::MIN_CLOCK_LEAD;
use crate::backend::{Finding, Grade, LockTest};
use crate::config::is_kubernetes_service;
use crate::duration::brief;
use crate::exit::{self, Exit};
use crate::job;
use crate::lock::{Acquired, BackendError, Reply, StillHeld};
use crate::lock::{Claim, Closing, Holder, Lock, LockName, Locks, Owner, Purpose};
use crate::report::{Findings, SKEW_HINT, skew};
use crate::system::Moment;
use crate::text::{printable_name, shorten};

/// The lock that a check takes.
pub(super) const CHECK_LOCK: &str = "shedlock-check";
/// The lease of the lock that a check takes: a check that dies frees its lock after this time.
const LEASE: Duration = Duration::from_secs(10);
/// The extra time, beyond `--backend-timeout`, to wait for the lock of another check, which may have died; and the pause
/// between tries.
const EXTRA_WAIT: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The number of runs that the history keeps of the lock that a check takes. A check removes its own run; of checks that died,
/// at most the last one stays.
const HISTORY_KEEP: u32 = 1;

/// Tests whether this host can lock here, and prints each finding as soon as it is known.
pub(crate) fn check(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let mut operator = Operator::new(matches, None)?;
    job::ignore_pipe();
    let mut findings = Findings::new(matches.get_flag("json"));
    findings.add(Finding::good("backend", format!("{}, from {}", operator.address(), operator.source())));
    about_variables(operator.unknown_variables()).into_iter().for_each(|finding| findings.add(finding));
    let reached = operator.backend().check(&mut |finding| findings.add(finding));
    if reached == LockTest::Possible {
        Trial { operator: &mut operator, findings: &mut findings, closing: Closing::Unused }.run();
        // Locks that cannot be read have been reported before.
        if let Ok(locks) = operator.try_ask(|backend| backend.locks(&[])) {
            about_times(&locks.locks).into_iter().chain(about_clock(&locks)).for_each(|finding| findings.add(finding));
        }
        operator.backend().disconnect();
    }
    findings.finish(reached)?;
    Ok(Exit { code: if findings.worst() == Grade::Bad { exit::NO } else { 0 }, raise: None })
}

/// Returns the finding about variables that begin like those of options and set nothing.
fn about_variables(unknown: &[String]) -> Option<Finding> {
    let seen = || format!("{} set nothing", unknown.join(", "));
    match unknown {
        [] => None,
        // No person has set these.
        _ if unknown.iter().all(|name| is_kubernetes_service(name)) => {
            Some(Finding::good("variables", format!("{}: Kubernetes sets them for services", seen())))
        }
        _ => Some(Finding::unwise(
            "variables",
            seen(),
            "shedlock-run(1) lists the variables; unset these, or rename them",
        )),
    }
}

/// Returns the finding about locks that shedlock took in the future: the backend's clock was ahead, and may be again.
fn about_clock(locks: &Locks) -> Option<Finding> {
    let latest = locks.now + MIN_CLOCK_LEAD;
    let is_of_the_future = |lock: &&Lock| {
        let holder = Holder::parse(&lock.state.owner);
        lock.state.since.is_some_and(|since| since > latest) && !lock.state.owner.is_empty() && !holder.is_foreign()
    };
    let mut taken = locks.locks.iter().filter(is_of_the_future);
    let first = taken.next()?;
    let ahead = first.state.since.unwrap_or(latest).since(locks.now);
    let more = match taken.count() {
        0 => String::new(),
        more => format!("; and of {more} more"),
    };
    Some(Finding::bad(
        "clock",
        format!(
            "the clock was ahead when `{}` was taken, {} after now{more}",
            printable_name(&shorten(&first.name)),
            brief(ahead)
        ),
        "let every server of the backend get its time from NTP before it starts; the next run of a lock corrects it, \
         `shedlock forget` removes one that is not used any more, and `shedlock unlock` frees one whose holder is dead",
    ))
}

/// Returns the finding about the times that other programs have written.
fn about_times(locks: &[Lock]) -> Option<Finding> {
    let of_others: Vec<&Lock> =
        locks.iter().filter(|lock| lock.is_held() && Holder::parse(&lock.state.owner).is_foreign()).collect();
    let mut wrong = of_others
        .iter()
        .filter_map(|lock| Some(format!("the lock `{}` {}", printable_name(&shorten(&lock.name)), skew(&lock.state)?)));
    match (wrong.next(), wrong.count(), of_others.len()) {
        (None, _, 0) => None,
        (None, _, held) => Some(Finding::good(
            "times",
            format!("other programs, such as Java applications, hold {held} of the locks, since times that can be"),
        )),
        (Some(wrong), 0, _) => Some(Finding::unwise("times", wrong, SKEW_HINT)),
        (Some(wrong), more, _) => {
            Some(Finding::unwise("times", format!("{wrong}; and {more} more, see `shedlock status`"), SKEW_HINT))
        }
    }
}

/// Tries a lock out, with everything that a run and its rivals do.
struct Trial<'a> {
    operator: &'a mut Operator,
    findings: &'a mut Findings,
    /// Tells the backend at the release how the run ended: nothing if every request was answered.
    closing: Closing,
}

impl Trial<'_> {
    /// Acquires a lock, renews it, checks that a second owner is refused, reads it, acquires it again and releases it.
    fn run(&mut self) {
        let (Ok(own), Ok(other)) = (claim(), claim()) else {
            return self.findings.add(Finding::bad(
                "take",
                "the system returned no random number",
                "check /dev/urandom",
            ));
        };
        let Some(token) = self.take(&own) else { return };
        // After one missing answer, do not wait as long for the others.
        let _ = self.renew(&own) && self.refuse(&other) && self.verify(&own) && self.take_again(&own, token);
        self.release(&own);
    }

    /// Acquires the lock. The outer `Option` is `None` if that failed, the inner one if there is no token.
    fn take(&mut self, claim: &Claim) -> Option<Option<u64>> {
        let deadline = Moment::now() + self.operator.timeout() + EXTRA_WAIT;
        loop {
            let (reply, took) = self.acquire(claim);
            let finding = match reply.map(|Reply { answer, remark }| (answer, remark.unrecorded)) {
                Ok((Acquired::Granted(grant), unrecorded)) => {
                    self.findings.add(taken(grant.token, unrecorded, took));
                    return Some(grant.token);
                }
                Ok((Acquired::Held(_), _)) if Moment::now() < deadline => {
                    thread::sleep(RETRY_PAUSE);
                    continue;
                }
                Ok((Acquired::Held(record), _)) => Finding::bad(
                    "take",
                    format!(
                        "the lock {CHECK_LOCK} is held by {} for another {}",
                        shorten(&record.owner),
                        brief(record.left)
                    ),
                    match record.left <= LEASE {
                        true => "another check is running or has died: check again when that time is over".to_owned(),
                        false => format!("no job may use this name; free it with `shedlock unlock {CHECK_LOCK}`"),
                    },
                ),
                Err(error) => {
                    if error.ambiguous {
                        // The lock may have been taken all the same. If it cannot be released either, it frees itself.
                        let _ = self.operator.backend().release(claim, Duration::ZERO, self.closing);
                    }
                    Finding::from_error("take", error)
                }
            };
            self.findings.add(finding);
            return None;
        }
    }

    fn renew(&mut self, claim: &Claim) -> bool {
        let (answer, took) = self.timed(|operator| operator.try_ask(|backend| backend.renew(claim)));
        self.report("renew", answer, |reply| match reply.answer {
            StillHeld::Held => Ok(format!("renewed it in {}", brief(took))),
            StillHeld::Lost => Err("the lock was lost as soon as it was taken".to_owned()),
        })
    }

    /// Checks that a second owner is refused.
    fn refuse(&mut self, other: &Claim) -> bool {
        let (answer, took) = self.acquire(other);
        self.report("refuse", answer, |reply| match reply.answer {
            Acquired::Held(_) => Ok(format!("a second owner was refused in {}", brief(took))),
            Acquired::Granted(_) => Err("a second owner got the lock while the first one held it".to_owned()),
        })
    }

    fn verify(&mut self, claim: &Claim) -> bool {
        let (answer, took) = self.timed(|operator| operator.try_ask(|backend| backend.locks(&[CHECK_LOCK])));
        self.report("verify", answer, |locks| match locks.locks.iter().find(|lock| lock.name == CHECK_LOCK) {
            Some(lock) if lock.is_held() && lock.state.owner == claim.owner.as_str() => {
                Ok(format!("found it held by us in {}", brief(took)))
            }
            Some(lock) => Err(format!("the lock's owner is {}", shorten(&lock.state.owner))),
            None => Err("the lock is missing after it was taken".to_owned()),
        })
    }

    /// Acquires the lock again with the same owner, as after a lost answer: this must succeed, with a larger token.
    fn take_again(&mut self, claim: &Claim, before: Option<u64>) -> bool {
        let (answer, took) = self.acquire(claim);
        self.report("again", answer, |reply| match (reply.answer, before) {
            (Acquired::Held(record), _) => {
                Err(format!("the lock's own owner was refused; the lock is held by {}", shorten(&record.owner)))
            }
            (Acquired::Granted(grant), Some(before)) if grant.token.is_some_and(|token| token <= before) => {
                Err(format!("the token {} does not follow {before}", grant.token.unwrap_or_default()))
            }
            (Acquired::Granted(grant), _) => {
                let with = grant.token.map(|token| format!(", with the larger token {token}")).unwrap_or_default();
                Ok(format!("took it again in {}{with}", brief(took)))
            }
        })
    }

    /// Requests the lock, and records whether an answer was lost.
    fn acquire(&mut self, claim: &Claim) -> (Result<Reply<Acquired>, BackendError>, Duration) {
        let closing = Cell::new(self.closing);
        let note = |error: &BackendError| {
            if error.ambiguous {
                closing.set(Closing::Undone);
            }
        };
        let answer = self.timed(|operator| operator.try_ask(|backend| backend.acquire(claim).inspect_err(note)));
        self.closing = closing.get();
        answer
    }

    fn release(&mut self, claim: &Claim) {
        let closing = self.closing;
        let release =
            |operator: &mut Operator| operator.try_ask(|backend| backend.release(claim, Duration::ZERO, closing));
        let (answer, took) = self.timed(release);
        self.report("release", answer, |reply| match reply.answer {
            StillHeld::Held => Ok(format!("released it in {}", brief(took))),
            StillHeld::Lost => Err("the lock was lost before it was released".to_owned()),
        });
    }

    fn timed<T>(&mut self, what: impl FnOnce(&mut Operator) -> T) -> (T, Duration) {
        let begun = Moment::now();
        let answer = what(self.operator);
        (answer, Moment::now().since(begun))
    }

    /// Prints what an answer means, and returns whether there was one.
    fn report<T>(
        &mut self,
        subject: &'static str,
        answer: Result<T, BackendError>,
        judge: impl FnOnce(T) -> Result<String, String>,
    ) -> bool {
        let answered = answer.is_ok();
        self.findings.add(match answer.map(judge) {
            Ok(Ok(seen)) => Finding::good(subject, seen),
            Ok(Err(seen)) => Finding::bad(
                subject,
                seen,
                "something else writes to this backend, or the backend loses writes; jobs would overlap",
            ),
            Err(error) => Finding::from_error(subject, error),
        });
        answered
    }
}

/// Returns a claim of the lock for a new owner.
fn claim() -> anyhow::Result<Claim> {
    let name = LockName::new(CHECK_LOCK).map_err(anyhow::Error::msg)?;
    Ok(Claim {
        name,
        owner: Owner::new(&host(), std::process::id(), random()?),
        lease: LEASE,
        keep: HISTORY_KEEP,
        purpose: Purpose::Run,
    })
}

/// Returns the finding about a lock that was taken. Without a token, nothing is protected from a run that stalled.
fn taken(token: Option<u64>, unrecorded: Option<BackendError>, took: Duration) -> Finding {
    let seen = format!("took the lock {CHECK_LOCK} in {}", brief(took));
    let seen = match token {
        Some(token) => format!("{seen}, with token {token}"),
        None => format!("{seen}, without a token"),
    };
    match (token, unrecorded) {
        (_, Some(why)) => {
            let why = Finding::from_error("take", why);
            Finding { grade: Grade::Unwise, seen: format!("{seen}: {}", why.seen), ..why }
        }
        (Some(_), None) => Finding::good("take", seen),
        (None, None) => Finding::unwise("take", seen, "check the table of the history"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockState;
    use crate::system::Timestamp;

    #[test]
    fn a_lock_that_was_taken_more_than_a_minute_from_now_tells_that_the_clock_was_ahead() {
        let now = Timestamp(1_800_000_000_000);
        let taken = |name: &str, owner: &str, ahead: u64| Lock {
            name: name.to_owned(),
            state: LockState {
                owner: owner.to_owned(),
                since: Some(now + Duration::from_secs(ahead)),
                until: None,
                left: Duration::ZERO,
            },
        };
        let told = |locks: &[Lock]| about_clock(&Locks { now, locks: locks.to_vec() });
        let owner = "web1:42:00000000000000ff";
        let [soon, java] = [taken("a", owner, 60), taken("b", "java-host", 7200)];
        assert_eq!(told(&[soon.clone(), java.clone(), taken("c", "", 7200)]), None);
        let finding = told(&[soon, java, taken("report", &format!("{owner}:ended"), 7200)]).unwrap();
        assert_eq!(finding.grade, Grade::Bad);
        // `unlock` refuses a free lock, and the lock that is named may be free.
        assert!(
            ["next run", "shedlock forget", "shedlock unlock"]
                .iter()
                .all(|way| finding.advice.as_ref().is_some_and(|advice| advice.contains(way)))
        );
        assert_eq!(finding.seen, "the clock was ahead when `report` was taken, 2h after now");
        let finding = told(&[taken("a", owner, 61), taken("b", owner, 61)]).unwrap();
        assert!(finding.seen.ends_with("; and of 1 more"), "{}", finding.seen);
    }
}
