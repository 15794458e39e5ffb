//! `shedlock check`: tests whether this host can lock here. The backend's own diagnosis comes first; then a lock is really
//! taken.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use clap::ArgMatches;

use super::operator::Operator;
use super::random;
use super::run::host;
use crate::backend::{Acquired, BackendError, CLOCK_WAS_AHEAD, Finding, Grade, Kept, Reached, Reply};
use crate::config::is_of_a_service;
use crate::duration::brief;
use crate::exit::{self, Exit};
use crate::job;
use crate::lock::{Claim, Closing, Holder, Lock, LockName, Locks, Owner, Purpose};
use crate::report::{Findings, SKEW_HINT, skew};
use crate::system::Moment;
use crate::text::shown;

/// The lock that a check takes.
pub(super) const NAME: &str = "shedlock-check";
/// The lease: a check that dies frees its lock after this time.
const LEASE: Duration = Duration::from_secs(10);
/// The extra time, beyond `--backend-timeout`, to wait for the lock of another check, which may have died; and the pause
/// between tries.
const MORE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// The number of runs that the history keeps. A check removes its own run; of checks that died, at most the last one stays.
const KEEP: u32 = 1;

/// Prints each finding as soon as it is known.
pub(crate) fn check(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let mut operator = Operator::new(matches, None)?;
    job::ignore_pipe();
    let mut findings = Findings::new(matches.get_flag("json"));
    findings.tell(Finding::good("backend", format!("{}, from {}", operator.address(), operator.source())));
    findings_of(operator.unknown_variables()).into_iter().for_each(|finding| findings.tell(finding));
    let reached = operator.backend().check(&mut |finding| findings.tell(finding));
    if reached == Reached::Yes {
        Trial { operator: &mut operator, findings: &mut findings, closing: Closing::Unused }.all();
        // Locks that cannot be read have been reported before.
        if let Ok(locks) = operator.try_ask(|backend| backend.locks(&[])) {
            times(&locks.locks).into_iter().chain(clock_was_ahead(&locks)).for_each(|finding| findings.tell(finding));
        }
        operator.backend().disconnect();
    }
    findings.finish(reached)?;
    Ok(Exit { code: if findings.worst() == Grade::Bad { exit::NO } else { 0 }, raise: None })
}

/// Returns the finding about variables that begin like those of options and set nothing.
fn findings_of(unknown: &[String]) -> Option<Finding> {
    let seen = || format!("{} set nothing", unknown.join(", "));
    match unknown {
        [] => None,
        // No person has set these.
        _ if unknown.iter().all(|name| is_of_a_service(name)) => {
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
fn clock_was_ahead(locks: &Locks) -> Option<Finding> {
    let latest = locks.now + CLOCK_WAS_AHEAD;
    let is_of_a_future = |lock: &&Lock| {
        let holder = Holder::of(&lock.state.owner);
        lock.state.since.is_some_and(|since| since > latest) && !lock.state.owner.is_empty() && !holder.is_foreign()
    };
    let mut taken = locks.locks.iter().filter(is_of_a_future);
    let first = taken.next()?;
    let ahead = first.state.since.unwrap_or(latest).since(locks.now);
    let more = match taken.count() {
        0 => String::new(),
        more => format!("; and of {more} more"),
    };
    Some(Finding::bad(
        "clock",
        format!("the clock was ahead when `{}` was taken, {} after now{more}", shown(&first.name), brief(ahead)),
        "let every server of the backend get its time from NTP before it starts; the next run of a lock corrects it, \
         `shedlock forget` removes one that is not used any more, and `shedlock unlock` frees one whose holder is dead",
    ))
}

/// Returns the finding about the times that other programs have written.
fn times(locks: &[Lock]) -> Option<Finding> {
    let of_others: Vec<&Lock> =
        locks.iter().filter(|lock| lock.is_held() && Holder::of(&lock.state.owner).is_foreign()).collect();
    let mut wrong =
        of_others.iter().filter_map(|lock| Some(format!("the lock `{}` {}", shown(&lock.name), skew(&lock.state)?)));
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

/// A trial of a lock, with everything that a run and its rivals do.
struct Trial<'a> {
    operator: &'a mut Operator,
    findings: &'a mut Findings,
    /// The kind of release: without a mark if every request was answered.
    closing: Closing,
}

impl Trial<'_> {
    /// Takes a lock, renews it, checks that a second owner is refused, reads it, takes it again and releases it.
    fn all(&mut self) {
        let (Ok(ours), Ok(other)) = (claim(), claim()) else {
            return self.findings.tell(Finding::bad(
                "take",
                "the system returned no random number",
                "check /dev/urandom",
            ));
        };
        let Some(token) = self.take(&ours) else { return };
        // After one missing answer, do not wait as long for the others.
        let _ = self.renew(&ours) && self.refuse(&other) && self.verify(&ours) && self.take_again(&ours, token);
        self.release(&ours);
    }

    /// Takes the lock. The outer `Option` is `None` if that failed, the inner one if there is no token.
    fn take(&mut self, claim: &Claim) -> Option<Option<u64>> {
        let deadline = Moment::now() + self.operator.timeout() + MORE;
        loop {
            let (reply, took) = self.acquire(claim);
            let finding = match reply.map(|Reply { answer, remark }| (answer, remark.unrecorded)) {
                Ok((Acquired::Granted(grant), unrecorded)) => {
                    self.findings.tell(taken(grant.token, unrecorded, took));
                    return Some(grant.token);
                }
                Ok((Acquired::Held(_), _)) if Moment::now() < deadline => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Ok((Acquired::Held(record), _)) => Finding::bad(
                    "take",
                    format!("the lock {NAME} is held by {} for another {}", record.owner, brief(record.left)),
                    match record.left <= LEASE {
                        true => "another check is running or has died: check again when that time is over".to_owned(),
                        false => format!("no job may use this name; free it with `shedlock unlock {NAME}`"),
                    },
                ),
                Err(error) => {
                    if error.ambiguous {
                        // The lock may have been taken all the same. If it cannot be released either, it frees itself.
                        let _ = self.operator.backend().release(claim, Duration::ZERO, self.closing);
                    }
                    Finding::of_trouble("take", error)
                }
            };
            self.findings.tell(finding);
            return None;
        }
    }

    fn renew(&mut self, claim: &Claim) -> bool {
        let (answer, took) = self.timed(|operator| operator.try_ask(|backend| backend.renew(claim)));
        self.tell("renew", answer, |reply| match reply.answer {
            Kept::Kept => Ok(format!("renewed it in {}", brief(took))),
            Kept::Lost => Err("the lock was lost as soon as it was taken".to_owned()),
        })
    }

    /// Checks that a second owner is refused.
    fn refuse(&mut self, other: &Claim) -> bool {
        let (answer, took) = self.acquire(other);
        self.tell("refuse", answer, |reply| match reply.answer {
            Acquired::Held(_) => Ok(format!("a second owner was refused in {}", brief(took))),
            Acquired::Granted(_) => Err("a second owner got the lock while the first one held it".to_owned()),
        })
    }

    fn verify(&mut self, claim: &Claim) -> bool {
        let (answer, took) = self.timed(|operator| operator.try_ask(|backend| backend.locks(&[NAME])));
        self.tell("verify", answer, |locks| match locks.locks.iter().find(|lock| lock.name == NAME) {
            Some(lock) if lock.is_held() && lock.state.owner == claim.owner.as_str() => {
                Ok(format!("found it held by us in {}", brief(took)))
            }
            Some(lock) => Err(format!("the lock's owner is {}", lock.state.owner)),
            None => Err("the lock is missing after it was taken".to_owned()),
        })
    }

    /// Takes the lock again with the same owner, as after a lost answer: this must succeed, with a larger token.
    fn take_again(&mut self, claim: &Claim, before: Option<u64>) -> bool {
        let (answer, took) = self.acquire(claim);
        self.tell("again", answer, |reply| match (reply.answer, before) {
            (Acquired::Held(record), _) => {
                Err(format!("the lock's own owner was refused; the lock is held by {}", record.owner))
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
                closing.set(Closing::GivenUp);
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
        self.tell("release", answer, |reply| match reply.answer {
            Kept::Kept => Ok(format!("released it in {}", brief(took))),
            Kept::Lost => Err("the lock was lost before it was released".to_owned()),
        });
    }

    fn timed<T>(&mut self, what: impl FnOnce(&mut Operator) -> T) -> (T, Duration) {
        let begun = Moment::now();
        let answer = what(self.operator);
        (answer, Moment::now().since(begun))
    }

    /// Prints the finding, and returns whether there was an answer.
    fn tell<T>(
        &mut self,
        subject: &'static str,
        answer: Result<T, BackendError>,
        judge: impl FnOnce(T) -> Result<String, String>,
    ) -> bool {
        let answered = answer.is_ok();
        self.findings.tell(match answer.map(judge) {
            Ok(Ok(seen)) => Finding::good(subject, seen),
            Ok(Err(seen)) => Finding::bad(
                subject,
                seen,
                "something else writes to this backend, or the backend loses writes; jobs would overlap",
            ),
            Err(error) => Finding::of_trouble(subject, error),
        });
        answered
    }
}

/// Returns a claim with an owner of its own.
fn claim() -> anyhow::Result<Claim> {
    let name = LockName::new(NAME).map_err(anyhow::Error::msg)?;
    Ok(Claim {
        name,
        owner: Owner::new(&host(), std::process::id(), random()?),
        lease: LEASE,
        keep: KEEP,
        purpose: Purpose::Run,
    })
}

/// Returns the finding about a lock that was taken. Without a token, nothing is protected from a run that stalled.
fn taken(token: Option<u64>, unrecorded: Option<BackendError>, took: Duration) -> Finding {
    let seen = format!("took the lock {NAME} in {}", brief(took));
    let seen = match token {
        Some(token) => format!("{seen}, with token {token}"),
        None => format!("{seen}, without a token"),
    };
    match (token, unrecorded) {
        (_, Some(why)) => {
            let why = Finding::of_trouble("take", why);
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
        let told = |locks: &[Lock]| clock_was_ahead(&Locks { now, locks: locks.to_vec() });
        let owner = "web1:42:00000000000000ff";
        let [soon, java] = [taken("a", owner, 60), taken("b", "java-host", 7200)];
        assert_eq!(told(&[soon.clone(), java.clone(), taken("c", "", 7200)]), None);
        let finding = told(&[soon, java, taken("report", &format!("{owner}:ended"), 7200)]).unwrap();
        assert_eq!(finding.grade, Grade::Bad);
        // `unlock` refuses what is free, and so may be the lock that is named.
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
