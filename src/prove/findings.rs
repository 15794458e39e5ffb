//! Says what was seen of each rule, in the form of `check`'s findings.

use std::time::Duration;

use super::rules::{RULES, Rule, Verdict};
use crate::backend::{Finding, Grade};
use crate::duration::brief;
use crate::prove::figures::Figures;
use crate::prove::rounds::Outcome;

/// How late a lock may free before the report remarks upon it even though nothing is wrong.
const WORTH_SAYING: Duration = Duration::from_millis(1);

/// The part of the requests, of those that met no fault of ours, that may fail before the report remarks upon it: one of two.
const FAILING: u64 = 2;

/// Returns a finding for each rule, and those beside them.
pub(crate) fn findings(outcome: &Outcome) -> Vec<Finding> {
    let rules = RULES.into_iter().map(|rule| finding(rule, outcome));
    outcome.functions.iter().cloned().chain(rules).chain(about_errors(&outcome.figures)).collect()
}

/// Returns the finding that most requests failed: then the rules were seldom tried.
fn about_errors(figures: &Figures) -> Option<Finding> {
    let (errors, asked) = (figures.errors.count, figures.requests - figures.cuts);
    let is_most = errors > asked / FAILING;
    let (message, times) = figures.errors.by_message.iter().max_by_key(|(_, count)| **count).filter(|_| is_most)?;
    Some(Finding::unwise(
        "errors",
        format!("{errors} of {asked} requests failed; {times} times: {message}"),
        "the rules were tried on the answers alone: find out why, and prove again",
    ))
}

fn finding(rule: Rule, outcome: &Outcome) -> Finding {
    let verdict = outcome.judgement.verdicts.get(&rule).cloned().unwrap_or_default();
    let subject = subject(rule);
    let worst = verdict.worst.as_ref().map(|case| case.text.clone()).unwrap_or_default();
    if verdict.broken > 0 {
        let seen = format!("{}, {} times; the worst: {worst}", broken(rule), verdict.broken);
        return Finding::bad(subject, seen, advice(rule, outcome));
    }
    if verdict.doubtful > 0 {
        return Finding::unwise(subject, format!("{}: {worst}", doubtful(rule)), advice(rule, outcome));
    }
    match not_tried(rule, &verdict, outcome) {
        Some(why) => {
            Finding { grade: Grade::Unwise, subject: subject.into(), seen: format!("not tried: {why}"), advice: None }
        }
        None => Finding::good(subject, good(rule, &verdict)),
    }
}

/// Returns the thing that a rule is about.
fn subject(rule: Rule) -> &'static str {
    match rule {
        Rule::Exclusion => "one holder",
        Rule::Again => "taken again",
        Rule::Expiry => "expiry",
        Rule::Renewal => "renewal",
        Rule::Late => "late owner",
        Rule::Hold => "release",
        Rule::Token => "token",
        Rule::Cut => "cut off",
        Rule::Refusal => "skip",
        Rule::Clock => "clock",
        Rule::Record => "record",
    }
}

fn good(rule: Rule, verdict: &Verdict) -> String {
    let late = verdict.most.filter(|late| *late >= WORTH_SAYING).map(brief);
    let at_most = |what: &str| late.as_ref().map(|late| format!(", at most {late} {what}")).unwrap_or_default();
    let kept = match rule {
        Rule::Exclusion => "never two at once".to_owned(),
        Rule::Again => "an owner that acquires its lock again has it".to_owned(),
        Rule::Expiry => format!("a lock that is not released frees at its time{}", at_most("later")),
        Rule::Renewal => "a renewal extends, and never shortens".to_owned(),
        Rule::Late => "a late owner is answered lost, and harms nobody".to_owned(),
        Rule::Hold => format!("a released lock is kept for its time{}", at_most("longer")),
        Rule::Token => "each token is larger than those before".to_owned(),
        Rule::Cut => "what was cut off and undone never takes effect later".to_owned(),
        Rule::Refusal => "each skip names the holder".to_owned(),
        Rule::Clock => "it runs like this host's clock".to_owned(),
        Rule::Record => "status and history say what happened".to_owned(),
    };
    format!("{kept} ({} tried)", verdict.checked)
}

fn broken(rule: Rule) -> &'static str {
    match rule {
        Rule::Exclusion => "two owners held the lock at once",
        Rule::Again => "an owner was refused its own lock",
        Rule::Expiry => "a lock did not free at its time",
        Rule::Renewal => "a renewal did not keep the lock for its time",
        Rule::Late => "a late owner harmed the next one",
        Rule::Hold => "a lock was not kept for its time after the release, or longer",
        Rule::Token => "a token was no larger than those before",
        Rule::Cut => "a request took effect after it was undone",
        Rule::Refusal => "a skip named somebody who did not hold the lock",
        Rule::Clock => "the server's clock does not run like this host's",
        Rule::Record => "status or history did not tell what had happened",
    }
}

fn doubtful(rule: Rule) -> &'static str {
    match rule {
        Rule::Expiry | Rule::Hold => "a lock freed late",
        Rule::Clock => {
            "the server's clock does not run like this host's; the times that are shown go by it, the ends of locks do not"
        }
        _ => "in doubt",
    }
}

fn advice(rule: Rule, outcome: &Outcome) -> &'static str {
    if outcome.functions.is_empty() { advice_on_server(rule) } else { advice_on_provider(rule) }
}

/// Says which of a provider's functions may be wrong.
fn advice_on_provider(rule: Rule) -> &'static str {
    match rule {
        Rule::Exclusion | Rule::Again => {
            "two jobs can run at once: do not lock here; in `write` the store itself has to compare the version and write, in \
             one step, and no version may repeat"
        }
        Rule::Late => {
            "a job that was suspended can free the lock of the next one: `write` has to refuse every version but the last"
        }
        Rule::Expiry | Rule::Renewal | Rule::Hold => {
            "`read` has to return `until` and `set_at` as the last `write` got them, and the store's clock as `now`; a `write` \
             that answers true has to be done, and to last"
        }
        Rule::Token => {
            "fencing does not work here: keep `token` as it is, and let `floor` be larger than every token so far, or 0"
        }
        Rule::Cut => {
            "a `write` that came late took effect: the provider must not send it again, and `write` has to refuse every version \
             but the last, none of which may repeat; a lock can stay held after its job"
        }
        Rule::Refusal | Rule::Record => {
            "`read` and `list` have to return what was written last, with all runs, and not what a cache or a replica has"
        }
        Rule::Clock => {
            "let `now` be the store's own clock, in milliseconds since 1970, and let its servers get it from NTP"
        }
    }
}

fn advice_on_server(rule: Rule) -> &'static str {
    match rule {
        Rule::Exclusion | Rule::Again => {
            "two jobs can run at once: do not lock here; look for a proxy, a pool or a cache before the server, or several \
             servers that each accept writes"
        }
        Rule::Expiry | Rule::Renewal => {
            "look for triggers, eviction, a server that lost its data or a replica that lagged behind, and for a clock that is not \
             kept by NTP"
        }
        Rule::Late => {
            "a job that was suspended can free the lock of the next one: something between here and the server drops conditions"
        }
        Rule::Hold => {
            "--at-least and --every do not hold here, so a job can run twice or not at all: look for triggers, caches and replicas"
        }
        Rule::Token => "fencing does not work here: the history lost records, or two servers count apart",
        Rule::Cut => {
            "something between here and the server sends requests again or late; a lock can stay held after its job"
        }
        Rule::Refusal | Rule::Record => {
            "answers come from a cache or a replica: let shedlock ask the server that accepts writes"
        }
        Rule::Clock => "let every server get its time from NTP",
    }
}

/// Returns why a rule was not tried.
fn not_tried(rule: Rule, verdict: &Verdict, outcome: &Outcome) -> Option<&'static str> {
    match rule {
        _ if verdict.checked > 0 && rule != Rule::Cut => None,
        Rule::Cut if !outcome.is_relayed => Some("this backend has no connection that could be cut"),
        Rule::Cut if verdict.checked > 0 => None,
        Rule::Token => Some("there were no tokens; `shedlock check` says why"),
        _ => Some("there was no time for it; try a longer --for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::ErrorClass;
    use crate::prove::history::{Answer, Call, Fault, Request};
    use crate::system::Moment;

    /// Returns what is said of so many requests that are answered, fail, and fail as one is cut.
    fn said(answered: u64, failed: u64, cut: u64) -> Option<String> {
        let now = Moment::at(Duration::ZERO);
        let call = |fails: bool, fault: Option<Fault>| Call {
            lock: 0,
            owner: String::new(),
            request: Request::Runs,
            sent: now,
            answered: now,
            answer: match fails {
                true => Answer::Failed { class: ErrorClass::Transient, ambiguous: true, message: "locked".to_owned() },
                false => Answer::Runs(Vec::new()),
            },
            fault,
        };
        let mut figures = Figures::new(now);
        (0..answered).for_each(|_| figures.add(&call(false, None)));
        (0..failed).for_each(|_| figures.add(&call(true, None)));
        (0..cut).for_each(|_| figures.add(&call(true, Some(Fault::CutAnswer { after: 0 }))));
        about_errors(&figures).map(|finding| finding.seen)
    }

    #[test]
    fn most_requests_have_to_fail_by_themselves_to_be_remarked_upon() {
        assert_eq!(said(0, 0, 0), None);
        assert_eq!(said(50, 50, 0), None, "as a failover or a busy file does");
        assert_eq!(said(50, 10, 200), None, "these are ours");
        assert_eq!(said(10, 11, 3).unwrap(), "11 of 21 requests failed; 11 times: locked");
    }
}
