//! `shedlock status`.

mod age;
mod watch;

use std::collections::HashMap;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::operator::{Operator, asked_names, nearest, only, zone};
use super::{check, print_all, remark};
use crate::backend::{Admin, BackendError};
use crate::config::Mistake;
use crate::exit::{self, Exit};
use crate::lock::{Locks, RunList, Runs, Wanted};
use crate::report::{
    Exposed, Past, Screen, Standing, Zone, exposition, last_success, locks_json, locks_table, past, standings,
};
use crate::system::Timestamp;
use crate::text::shown;
use age::{max_age, succeeded};
use watch::watched;

/// The output options.
struct View {
    names: Vec<String>,
    zone: Zone,
    json: bool,
    screen: Screen,
}

/// The backend's answer.
pub(super) struct Answer {
    /// The requested names, without duplicates for a backend that ignores case.
    pub(super) names: Vec<String>,
    pub(super) locks: Locks,
    pub(super) runs: Runs,
    /// The error of the history, if it could not be read.
    unread: Option<String>,
}

impl Answer {
    /// Returns an error if the last runs could not be read, for output that would hide that.
    pub(super) fn is_whole(&self) -> Result<(), Mistake> {
        self.unread.as_ref().map_or(Ok(()), |why| Err(Mistake::new(format!("the last runs could not be read: {why}"))))
    }
}

/// Prints locks.
pub(crate) fn status(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let names = asked_names(matches)?;
    exclusive(matches)?;
    let most = max_age(matches, &names)?;
    let mut operator = Operator::new(matches, only(&names).as_ref())?;
    if let Some(most) = most {
        return succeeded(&names, most, &mut operator, &zone(matches)?);
    }
    let watch = matches.get_flag("watch");
    let prometheus = matches.get_flag("prometheus");
    let view = View { names, zone: zone(matches)?, json: matches.get_flag("json"), screen: Screen::of_stdout() };
    let first = operator.ask(|backend| look(backend, &view.names))?;
    if watch {
        return watched(&mut operator, &view, first);
    }
    let past = past(&first.runs.runs, &first.locks);
    let standings = standings(&first.names, &first.locks, &past);
    if prometheus {
        return exposed(&first, &standings, &mut operator);
    }
    warn(&view, &first, &standings, &mut operator);
    let done = print_all(view.of(&first, &standings))?;
    // A name that the backend has never seen is more likely mistyped than free. Some backends know a free lock only from its
    // history.
    let no = standings.iter().any(|one| one.is_held() || !one.is_known() && first.unread.is_none());
    Ok(if no && matches.get_flag("exit-code") { Exit { code: exit::NO, raise: None } } else { done })
}

/// The options that exclude each other.
const MODES: [(&str, &[&str]); 3] = [
    ("max-age", &["json", "prometheus", "watch", "exit-code"]),
    ("prometheus", &["json", "watch", "exit-code"]),
    ("watch", &["exit-code"]),
];

fn exclusive(matches: &ArgMatches) -> Result<(), Mistake> {
    let is_given = |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
    for (one, others) in MODES.iter().filter(|(one, _)| is_given(one)) {
        if let Some(other) = others.iter().find(|other| is_given(other)) {
            return Err(Mistake::new(format!("--{one} and --{other} exclude each other")).hint("give only one of them"));
        }
    }
    Ok(())
}

/// Prints metrics of the locks.
fn exposed(answer: &Answer, standings: &[Standing<'_>], operator: &mut Operator) -> anyhow::Result<Exit> {
    answer.is_whole()?;
    let now = answer.locks.now;
    let known = || standings.iter().filter(|lock| lock.is_known());
    let success = |lock: &Standing<'_>| last_success(lock.last_run().into_iter(), now).end;
    // Where the last run did not succeed, or never came back, an earlier one may have.
    let unclear = known().filter(|lock| lock.last_run().is_some() && success(lock).is_none());
    let unclear = Wanted { names: unclear.map(|lock| lock.name.to_owned()).collect(), ..Wanted::default() };
    let runs = match unclear.names.is_empty() {
        true => RunList::default(),
        false => operator.ask(|backend| backend.runs(&unclear))?.runs,
    };
    let mut earlier: HashMap<String, (Option<Past>, Option<Timestamp>)> = HashMap::new();
    for past in past(&runs, &answer.locks).iter() {
        let (ended, success) = earlier.entry(past.run.name.clone()).or_default();
        *success = last_success(std::iter::once(past.clone()), now).end.max(*success);
        let is_newer = ended.as_ref().is_none_or(|other| other.run.token < past.run.token);
        if is_newer && past.run.ended_at.is_some() {
            *ended = Some(past);
        }
    }
    let locks: Vec<_> = known()
        .map(|lock| match earlier.remove(lock.name) {
            Some((ended, success)) => Exposed { lock, ended, success },
            None => Exposed { lock, ended: lock.last_run(), success: success(lock) },
        })
        .collect();
    print_all(exposition(&locks, now))
}

/// Reads the locks, and then their last runs. If the runs cannot be read, the locks are still shown.
pub(super) fn look(backend: &mut dyn Admin, names: &[String]) -> Result<Answer, BackendError> {
    let mut locks = backend.locks(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    // Hides the lock of `shedlock check`, unless it is held.
    locks.locks.retain(|lock| !names.is_empty() || lock.is_held() || lock.name != check::NAME);
    // The run that holds the lock, and the one before.
    let wanted = Wanted { names: names.to_vec(), of_each: Some(2), ..Wanted::default() };
    let runs = backend.runs(&wanted);
    let names = unfolded(backend, names, &locks)?;
    backend.disconnect();
    Ok(match runs {
        Ok(runs) => Answer { names, locks, runs, unread: None },
        Err(error) => {
            let runs = Runs { now: locks.now, runs: RunList::default() };
            Answer { names, locks, runs, unread: Some(error.message) }
        }
    })
}

/// Drops names that a case-insensitive backend stores under another requested name: for `job` alone it returns `Job`, while
/// other backends return nothing.
fn unfolded(backend: &mut dyn Admin, names: &[String], found: &Locks) -> Result<Vec<String>, BackendError> {
    let mut kept = Vec::new();
    for name in names {
        let has_twin = names.iter().any(|other| other != name && other.to_lowercase() == name.to_lowercase());
        let is_stored = found.locks.iter().any(|lock| lock.name == *name);
        if !has_twin || is_stored || backend.locks(&[name])?.locks.is_empty() {
            kept.push(name.clone());
        }
    }
    Ok(kept)
}

impl View {
    /// Returns the answer in pieces.
    fn of<'a>(&'a self, answer: &Answer, standings: &'a [Standing<'a>]) -> Box<dyn Iterator<Item = String> + 'a> {
        match self.json {
            true => Box::new(locks_json(standings)),
            false if standings.is_empty() => Box::new(std::iter::empty()),
            false => Box::new(locks_table(standings, answer.locks.now, &self.zone, &self.screen)),
        }
    }
}

/// Prints on stderr what is missing from the answer.
fn warn(view: &View, answer: &Answer, standings: &[Standing<'_>], operator: &mut Operator) {
    if let Some(why) = &answer.unread {
        remark(&format!("the last runs are not shown: {why}"), None);
    }
    if standings.is_empty() && !view.json {
        remark(&format!("there is no lock yet in {}", operator.address()), None);
    }
    for (name, (skew, hint)) in standings.iter().filter_map(|one| Some((one.name, one.skew()?))) {
        remark(&format!("the lock `{}` {skew}", shown(name)), Some(hint));
    }
    for (name, skew) in standings.iter().filter_map(|one| Some((one.name, one.skew_of_last_run(answer.locks.now)?))) {
        remark(&format!("the last run of the lock `{}` {skew}", shown(name)), None);
    }
    let unknown: Vec<&str> = standings.iter().filter(|one| !one.is_known()).map(|one| one.name).collect();
    warn_of_unknown(&unknown, operator);
}

/// Prints on stderr which names are probably mistyped.
fn warn_of_unknown(unknown: &[&str], operator: &mut Operator) {
    if unknown.is_empty() {
        return;
    }
    // If the names cannot be read, there is no suggestion.
    let all = operator.ask(|backend| backend.locks(&[])).map(|all| all.locks).unwrap_or_default();
    for name in unknown {
        let others = all.iter().filter(|lock| lock.name != *name && !lock.is_only_of_a_pause());
        let near = nearest(name, others.map(|lock| &lock.name[..]));
        let hint = near.map(|near| format!("did you mean `{}`?", shown(near)));
        remark(&format!("there is no lock `{}` yet", shown(name)), hint.as_deref());
    }
}
