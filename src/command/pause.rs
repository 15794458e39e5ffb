//! `shedlock pause`: takes a lock for an operator, so that no job runs under it.

use std::thread;
use std::time::Duration;

use clap::ArgMatches;

use super::arguments;
use super::inspect::{MAX_READS, Seen, TOLERANCE, check_change, print_lines, suggest_lock, time_until};
use super::operator::{self, Operator};
use super::output::{refuse, remark};
use super::process::{host, random};
use crate::config::{self, Mistake};
use crate::exit::{Exit, ExitReason};
use crate::job::Signals;
use crate::lock::{Acquired, BackendError, ENDLESS, ErrorClass, StillHeld};
use crate::lock::{Change, Claim, Holder, LockName, LockState, Owner, Purpose, RunQuery};
use crate::run::{WaitLimit, Waiting};
use crate::system::Moment;
use crate::system::Signal;
use crate::system::user;

/// The pause that the arguments ask for.
struct PauseRequest {
    name: LockName,
    user: String,
    host: String,
    random: u64,
    reason: String,
    length: Duration,
    wait: WaitLimit,
}

/// The result of an attempt to pause the lock.
enum Attempt {
    Paused,
    /// Another owner took the lock first.
    Beaten,
    /// A signal stopped shedlock in the meantime, and the lock is resumed.
    Stopped(Signal),
}

/// The answer to a request, or the error of a full server if --wait allows waiting for room.
type Answer<T> = anyhow::Result<Result<T, BackendError>>;

/// Pauses a lock, which keeps every host, and Java applications, from running its job.
pub(crate) fn pause(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let request = PauseRequest::parse(matches)?;
    let mut operator = Operator::new(matches, Some(&request.name))?;
    let mut waiting = Waiting::new(request.wait, operator.timeout(), request.random);
    // Whether the backend knew the lock at first, and the last reason why it could not be taken.
    let (mut known, mut held, mut full) = (None, None, None);
    let mut races = 0;
    loop {
        let sent = Moment::now();
        let mut left = Duration::MAX;
        match request.read(&mut operator)? {
            Ok(seen) => {
                let known = *known.get_or_insert(seen.is_known());
                if seen.owner().is_none() && request.is_doubtful(&mut operator) {
                    return Ok(request.no_such_lock(&mut operator, &seen));
                }
                match seen.held().map(|record| (record, Holder::parse(&record.owner))) {
                    // An earlier request took the lock, and its answer was lost.
                    Some((record, _)) if request.is_this_pause(record) => {
                        return request.report_done(&mut operator, known);
                    }
                    Some((_, holder)) if holder.is_paused() => {
                        let hint = format!("`shedlock resume {}` ends a pause", request.name.shell_word());
                        return Ok(refuse(&format!("the lock `{}` {}", request.name, seen.state()), Some(&hint)));
                    }
                    Some((record, holder)) if !holder.has_ended() => {
                        left = record.left;
                        held = Some(seen.state());
                    }
                    _ => match request.take(&mut operator, &seen)? {
                        Ok(Attempt::Paused) => return request.report_done(&mut operator, known),
                        Ok(Attempt::Stopped(signal)) => return Ok(ExitReason::Stopped(signal).exit(0)),
                        Ok(Attempt::Beaten) if races < MAX_READS => {
                            races += 1;
                            continue;
                        }
                        Ok(Attempt::Beaten) => held = Some("keeps changing hands".to_owned()),
                        Err(error) => full = Some(error),
                    },
                }
            }
            Err(error) => full = Some(error),
        }
        let now = Moment::now();
        waiting.answered(now.since(sent));
        let Some(next_try) = waiting.next_try(now, left) else {
            return match (held, full) {
                (None, Some(error)) => Err(operator::failure(error)),
                (held, _) => Ok(request.not_paused(&held.unwrap_or_default())),
            };
        };
        // Keep no connection while waiting.
        operator.disconnect();
        thread::sleep(next_try.since(Moment::now()));
    }
}

impl PauseRequest {
    fn parse(matches: &ArgMatches) -> anyhow::Result<Self> {
        let text = |option| matches.get_one::<String>(option).map(String::as_str);
        let of = |option: &str, why: String| Mistake::new(format!("--{option} {why}"));
        Ok(Self {
            name: arguments::lock_argument(matches)?,
            user: user(),
            host: host(),
            random: random()?,
            reason: reason(text("reason").unwrap_or_default()).map_err(|why| of("reason", why))?,
            length: text("for").map_or(Ok(ENDLESS), config::parse_from_one_second).map_err(|why| of("for", why))?,
            wait: text("wait")
                .map_or(Ok(WaitLimit::UpTo(Duration::ZERO)), config::parse_wait_limit)
                .map_err(|why| of("wait", why))?,
        })
    }

    fn read(&self, operator: &mut Operator) -> Answer<Seen> {
        operator.ask(|backend| self.unless_full(Seen::read_once(backend, &self.name)))
    }

    /// Makes the error of a full server an answer if --wait allows waiting.
    fn unless_full<T>(&self, answer: Result<T, BackendError>) -> Result<Result<T, BackendError>, BackendError> {
        match answer {
            Err(error) if error.class == ErrorClass::Overloaded && self.wait.waits() => Ok(Err(error)),
            answer => answer.map(Ok),
        }
    }

    fn is_this_pause(&self, record: &LockState) -> bool {
        Holder::parse(&record.owner).is_paused() && record.owner.ends_with(&format!(":{:016x}", self.random))
    }

    /// Takes a lock that was free, or kept after a run. If a signal stops shedlock in the meantime, ends the pause again:
    /// one that nobody knows of would keep the job from running for ever.
    fn take(&self, operator: &mut Operator, seen: &Seen) -> Answer<Attempt> {
        let kept_until = seen.held().and_then(|record| record.until);
        let owner = Owner::for_pause(&self.user, &self.host, self.random, kept_until, &self.reason);
        let (signals, inherited) = Signals::block_stop_signals()?;
        let (mut ambiguous, mut stopped) = (false, None);
        let answer = operator.ask(|backend| {
            let answer = match seen.held() {
                // Not for less than the lock is kept anyway, or the job could run too early.
                Some(record) => {
                    let (from, left) = (record.owner.clone(), self.length.max(record.left));
                    let change = Change { name: self.name.clone(), from, to: owner.as_str().to_owned(), left };
                    backend.change(&change).map(|kept| kept == StillHeld::Held)
                }
                None => {
                    // A pause is no run, and has no record.
                    let claim = Claim {
                        name: self.name.clone(),
                        owner: owner.clone(),
                        lease: self.length,
                        keep: 0,
                        purpose: Purpose::Pause,
                    };
                    backend.acquire(&claim).map(|reply| matches!(reply.answer, Acquired::Granted(_)))
                }
            };
            let Err(error) = answer else { return answer.map(Ok) };
            ambiguous |= error.ambiguous;
            stopped = signals.next();
            if stopped.is_some() { Ok(Err(error)) } else { self.unless_full(Err(error)) }
        });
        let stopped = stopped.or_else(|| signals.next());
        if stopped.is_some() && (ambiguous || matches!(answer, Ok(Ok(true)))) {
            let (name, from) = (self.name.clone(), owner.as_str().to_owned());
            let back = Change { name, from, to: owner.ended(), left: time_until(kept_until, seen.clock()) };
            let _ = operator.ask(|backend| backend.change(&back));
        }
        // Once the lock is paused, only the output is left.
        if stopped.is_some() || !matches!(answer, Ok(Ok(true))) {
            signals.unblock(&inherited);
        }
        match (stopped, answer) {
            (Some(stopped), _) => Ok(Ok(Attempt::Stopped(stopped.signal))),
            (None, Ok(answer)) => {
                if let (Ok(_), Some(kept)) = (&answer, seen.held()) {
                    check_change(operator, &self.name, kept, owner.as_str(), self.length.max(kept.left))?;
                }
                Ok(answer.map(|is_paused| if is_paused { Attempt::Paused } else { Attempt::Beaten }))
            }
            (None, Err(error)) if ambiguous => {
                let hint =
                    format!("the lock may be paused anyway: `shedlock status {}` shows it", self.name.shell_word());
                Err(Mistake::new(format!("{error:#}")).hint(hint).into())
            }
            (None, Err(error)) => Err(error),
        }
    }

    /// Prints that the lock is paused, and until when; warns if the name may be mistyped.
    fn report_done(&self, operator: &mut Operator, known: bool) -> anyhow::Result<Exit> {
        let seen = Seen::read(operator, &self.name).ok();
        let pause = seen.as_ref().and_then(Seen::held).filter(|record| self.is_this_pause(record));
        let mut line = format!("paused `{}`", self.name);
        if let Some(until) = seen.as_ref().filter(|_| pause.is_some()).and_then(Seen::until) {
            line += &format!(" until {until}");
        }
        if pause.is_some_and(|record| record.left + TOLERANCE < self.length) {
            line += ", the latest time that the backend can store";
        } else if pause.is_some_and(|record| record.left > self.length + TOLERANCE) {
            line += ": until then it is kept after its last run anyway";
        }
        let exit = print_lines(&[line])?;
        if let Some(seen) = seen.filter(|_| !known && !self.may_have_run(operator)) {
            let hint = suggest_lock(operator, &self.name, &seen, |_| true);
            remark(&format!("warning: no run of `{}` is known", self.name), hint.as_deref());
        }
        Ok(exit)
    }

    /// Returns whether the history has a run of the lock, or cannot be read. Some backends know a free lock only from its
    /// history.
    fn may_have_run(&self, operator: &mut Operator) -> bool {
        let wanted = RunQuery { names: vec![self.name.as_str().to_owned()], limit: Some(1), ..RunQuery::default() };
        operator.ask(|backend| backend.runs(&wanted)).map_or(true, |found| !found.runs.is_empty())
    }

    /// Returns whether the pause of a lock that the backend does not know would be one of no job. No job of shedlock has an
    /// odd name, and one of Java's would be in the backend. It is rather a name with a space too many.
    fn is_doubtful(&self, operator: &mut Operator) -> bool {
        self.name.is_invalid_for_run() && !operator.backend().drops_free_locks()
    }

    fn no_such_lock(&self, operator: &mut Operator, seen: &Seen) -> Exit {
        let message =
            format!("there is no lock `{}`, and no job of shedlock may have that name; it is not paused", self.name);
        let hint = suggest_lock(operator, &self.name, seen, |_| true);
        refuse(
            &message,
            hint.as_deref().or(Some("an application has to have taken such a lock before it can be paused")),
        )
    }

    fn not_paused(&self, state: &str) -> Exit {
        let message = format!("the lock `{}` {state}; it is not paused", self.name);
        let hint = match self.wait.waits() {
            true => "its job did not end in time; --wait forever waits for as long as it takes",
            false => "--wait DURATION waits for its job to end",
        };
        refuse(&message, Some(hint))
    }
}

/// Returns the name of the user, also after sudo(8).
fn user() -> String {
    let sudo = std::env::var("SUDO_USER").ok().filter(|user| !user.is_empty());
    sudo.or_else(user::name).unwrap_or_else(|| nix::unistd::geteuid().to_string())
}

/// Parses the reason for a pause; the error is the end of a sentence that begins with the option.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Err(format!("{text:?} is more than one line, or has a control character"));
    }
    match text.chars().count() {
        length if length > Owner::MAX_REASON => {
            Err(format!("has {length} characters; at most {} are allowed", Owner::MAX_REASON))
        }
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line_of_up_to_100_characters() {
        assert_eq!(reason(" disk 'a' \"b\": ä@ü "), Ok("disk 'a' \"b\": ä@ü".to_owned()));
        assert!(reason(&"ä".repeat(100)).is_ok());
        assert!(reason(&"ä".repeat(101)).unwrap_err().contains("101 characters"));
        for bad in ["a\nb", "a\tb", "a\u{1b}[1m", "a\u{2028}b"] {
            assert!(reason(bad).is_err(), "{bad:?}");
        }
    }
}
