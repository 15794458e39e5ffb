//! The course of a run, known beforehand: what happens when, if the lock is free.

use std::time::Duration;

use super::policy::{OnExpiry, OnFailure, OnLost, Policy};
use super::timing::Timing;
use crate::duration::format;
use crate::system::Moment;

/// A time of a run, counted from the acquisition of the lock, and what happens then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) what: String,
}

/// The course of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// In the order of their times.
    pub(crate) steps: Vec<Step>,
    /// The longest that the job may run.
    pub(crate) job: Duration,
    /// When a job that is being stopped is dead.
    pub(crate) dead: Duration,
    /// The longest that the lock stays held.
    pub(crate) lock: Duration,
    /// Remarks about a dead host, a failed job and a lost lock.
    pub(crate) remarks: Vec<String>,
}

/// Returns the course of a run that is granted its lock at once.
pub(crate) fn forecast(policy: &Policy) -> Forecast {
    let timing = Timing::new(policy);
    let since = |moment: Moment| moment.since(START);
    let limit = START + policy.at_most;
    let (stop, kill) = (since(timing.before_limit.stop_at(limit)), since(timing.before_limit.kill_at(limit)));
    let at_most = policy.at_most;
    let every = policy.every.map_or(Duration::ZERO, |every| every.hold(Duration::ZERO));
    let earliest = policy.at_least.max(every);
    let mut steps = vec![step(
        Duration::ZERO,
        format!("the lock is taken for {}, and the job starts", format(policy.first_lease())),
    )];
    let renewed = since(timing.renew_at(START));
    if policy.renews() {
        let until =
            if policy.on_expiry == OnExpiry::Extend { "for as long as the job lives" } else { "never past --at-most" };
        steps.push(step(renewed, format!("the lock is renewed, and then every {}, {until}", format(renewed))));
    }
    if !earliest.is_zero() {
        let why = if every > policy.at_least { "--every" } else { "--at-least" };
        steps.push(step(earliest, format!("the lock of a job that has ended by now is free ({why})")));
    }
    match policy.on_expiry {
        OnExpiry::Kill => {
            steps.push(step(stop, format!("a job that is still running gets {}", policy.signal)));
            steps.push(step(kill, "what is left of it gets SIGKILL".to_owned()));
            if earliest < at_most {
                steps.push(step(at_most, "the lock is free in any case".to_owned()));
            }
        }
        OnExpiry::Extend => {
            steps.push(step(at_most, "a job that is still running goes on, and keeps its lock".to_owned()));
        }
        OnExpiry::Ignore => {
            steps
                .push(step(at_most, "the lock is free, also of a job that is still running, which goes on".to_owned()));
        }
    }
    steps.sort_by_key(|step| step.at);
    let (job, dead) = if policy.on_expiry == OnExpiry::Kill { (stop, kill) } else { (at_most, at_most) };
    Forecast { steps, job, dead, lock: at_most.max(earliest), remarks: remarks(policy) }
}

/// Returns the remarks about a dead host, a failed job and a lost lock.
fn remarks(policy: &Policy) -> Vec<String> {
    let lease = policy.lease().max(policy.at_least);
    let mut remarks = vec![match policy.lease {
        Some(_) => format!("if this host dies, the lock is free {} after its last renewal", format(policy.lease())),
        None => format!("if this host dies, the lock is free {} after it was taken", format(lease)),
    }];
    if policy.lease.is_some() && policy.at_least > policy.lease() {
        remarks.push(format!("the lock stays held for {} in any case (--at-least)", format(policy.at_least)));
    }
    match policy.on_failure {
        OnFailure::AtLeast => {}
        OnFailure::Release => {
            remarks.push("if the job fails, the lock is free at once (--on-failure release)".to_owned());
        }
        OnFailure::Hold => {
            remarks.push("if the job fails, the lock stays held to its end (--on-failure hold)".to_owned());
        }
    }
    if policy.on_lost == OnLost::Kill && policy.renews() {
        remarks.push("if the lock cannot be renewed in time, the job is stopped before its end".to_owned());
    }
    remarks
}

fn step(at: Duration, what: String) -> Step {
    Step { at, what }
}

/// The start of the run in a forecast: a run is the same whenever it starts.
const START: Moment = Moment::at(Duration::ZERO);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::policy::Every;

    fn told(policy: &Policy) -> Vec<String> {
        forecast(policy).steps.into_iter().map(|step| format!("{} {}", format(step.at), step.what)).collect()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_plain_run_is_stopped_in_time() {
        assert_eq!(
            told(&Policy { at_most: seconds(3600), ..Policy::plain() }),
            [
                "0s the lock is taken for 1h, and the job starts",
                "59m46.2s a job that is still running gets SIGTERM",
                "59m56.2s what is left of it gets SIGKILL",
                "1h the lock is free in any case",
            ]
        );
    }

    #[test]
    fn every_holds_the_lock_for_nine_tenths_and_may_outlast_at_most() {
        let policy = Policy {
            at_most: seconds(60),
            every: Some(Every(seconds(3600))),
            lease: Some(seconds(30)),
            ..Policy::plain()
        };
        let told = told(&policy);
        assert_eq!(told[0], "0s the lock is taken for 30s, and the job starts");
        assert_eq!(told[1], "10s the lock is renewed, and then every 10s, never past --at-most");
        assert_eq!(told.last().unwrap(), "54m the lock of a job that has ended by now is free (--every)");
        assert!(!told.iter().any(|step| step.contains("in any case")), "{told:?}");
    }

    #[test]
    fn a_job_that_may_outlive_at_most_is_not_stopped() {
        for on_expiry in [OnExpiry::Extend, OnExpiry::Ignore] {
            let told = told(&Policy { on_expiry, at_least: seconds(5), ..Policy::plain() });
            assert!(!told.iter().any(|step| step.contains("SIGTERM") || step.contains("SIGKILL")), "{told:?}");
            assert!(told.iter().any(|step| step.starts_with("5s ") && step.ends_with("(--at-least)")), "{told:?}");
        }
    }
}
