//! Remarks on stderr about what a listing lacks, and about names that are probably mistyped.

use super::super::operator::Operator;
use super::super::output::remark;
use super::listing::Listing;
use super::view::View;
use crate::report::LockView;
use crate::suggest::{did_you_mean, nearest};
use crate::text::printable_name;

/// Prints on stderr which parts of the listing are missing.
pub(super) fn warn(view: &View, listing: &Listing, views: &[LockView<'_>], operator: &mut Operator) {
    if let Some(why) = &listing.unread {
        remark(&format!("the last runs are not shown: {why}"), None);
    }
    if views.is_empty() && !view.json {
        remark(&format!("there is no lock yet in {}", operator.address()), None);
    }
    for (name, (skew, hint)) in views.iter().filter_map(|one| Some((one.name, one.skew()?))) {
        remark(&format!("the lock `{}` {skew}", printable_name(name)), Some(hint));
    }
    for (name, skew) in views.iter().filter_map(|one| Some((one.name, one.skew_of_last_run(listing.locks.now)?))) {
        remark(&format!("the last run of the lock `{}` {skew}", printable_name(name)), None);
    }
    let unknown: Vec<&str> = views.iter().filter(|one| !one.is_known()).map(|one| one.name).collect();
    warn_of_unknown(&unknown, operator);
}

/// Prints on stderr which names are probably mistyped.
pub(super) fn warn_of_unknown(unknown: &[&str], operator: &mut Operator) {
    if unknown.is_empty() {
        return;
    }
    // If the names cannot be read, there is no suggestion.
    let all = operator.ask(|backend| backend.locks(&[])).map(|all| all.locks).unwrap_or_default();
    for name in unknown {
        let others = all.iter().filter(|lock| lock.name != *name && !lock.is_past_pause());
        let near = nearest(name, others.map(|lock| &lock.name[..]));
        let hint = near.map(|near| did_you_mean(&printable_name(near)));
        remark(&format!("there is no lock `{}` yet", printable_name(name)), hint.as_deref());
    }
}
