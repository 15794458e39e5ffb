//! `shedlock status`: shows who holds which lock, and how the last runs ended.

mod age;
mod listing;
mod prometheus;
mod view;
mod warnings;
mod watch;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::arguments::{lock_arguments, only_lock, zone};
use super::operator::Operator;
use super::output::print_all;
use crate::config::Mistake;
use crate::exit::{self, Exit};
use crate::report::{Screen, lock_views, shown_runs};
use age::{max_age, print_ages};
pub(super) use listing::Listing;
use prometheus::print_metrics;
use view::View;
use warnings::warn;
use watch::watch;

/// Prints the locks in the form that the options ask for.
pub(crate) fn status(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let names = lock_arguments(matches)?;
    refuse_exclusive(matches)?;
    let most = max_age(matches, &names)?;
    let mut operator = Operator::new(matches, only_lock(&names).as_ref())?;
    if let Some(most) = most {
        return print_ages(&names, most, &mut operator, &zone(matches)?);
    }
    let watches = matches.get_flag("watch");
    let prometheus = matches.get_flag("prometheus");
    let view = View { names, zone: zone(matches)?, json: matches.get_flag("json"), screen: Screen::for_stdout() };
    let first = operator.ask(|backend| Listing::read(backend, &view.names))?;
    if watches {
        return watch(&mut operator, &view, first);
    }
    let shown = shown_runs(&first.runs.runs, &first.locks);
    let views = lock_views(&first.names, &first.locks, &shown);
    if prometheus {
        return print_metrics(&first, &views, &mut operator);
    }
    warn(&view, &first, &views, &mut operator);
    let done = print_all(view.pieces(&first, &views))?;
    // A name that the backend has never seen is more likely mistyped than free. Some backends know a free lock only from its
    // history.
    let no = views.iter().any(|one| one.is_held() || !one.is_known() && first.unread.is_none());
    Ok(if no && matches.get_flag("exit-code") { Exit { code: exit::NO, raise: None } } else { done })
}

/// The options of `status` that exclude each other.
const EXCLUSIVE_OPTIONS: [(&str, &[&str]); 3] = [
    ("max-age", &["json", "prometheus", "watch", "exit-code"]),
    ("prometheus", &["json", "watch", "exit-code"]),
    ("watch", &["exit-code"]),
];

fn refuse_exclusive(matches: &ArgMatches) -> Result<(), Mistake> {
    let is_given = |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
    for (one, others) in EXCLUSIVE_OPTIONS.iter().filter(|(one, _)| is_given(one)) {
        if let Some(other) = others.iter().find(|other| is_given(other)) {
            return Err(Mistake::new(format!("--{one} and --{other} exclude each other")).hint("give only one of them"));
        }
    }
    Ok(())
}
