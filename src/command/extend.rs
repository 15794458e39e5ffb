//! `shedlock extend`: makes the lock of a script, of this job or of a run on any host last longer.

use std::time::Duration;

use clap::ArgMatches;

use super::consent::{Consent, is_agreed, refuse_unasked};
use super::handle::{bad_argument, find_own, refuse_lost};
use super::inspect::{Seen, print_lines, suggest_lock};
use super::operator::Operator;
use super::output::{refuse, remark};
use crate::exit::Exit;
use crate::lock::{Claim, Lock, LockName, Owner, Purpose, Reply, StillHeld};
use crate::{config, duration};

/// Extends the lock to this duration from now, unless it is lost or ends later anyway.
pub(crate) fn extend(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let text = matches.get_one::<String>("DURATION").map(String::as_str).unwrap_or_default();
    let lease = config::parse_from_one_second(text).map_err(|why| bad_argument("DURATION", &why))?;
    if let Some(text) = matches.get_one::<String>("HANDLE").filter(|text| !is_like_handle(text)) {
        let name = LockName::new(text).map_err(|why| bad_argument("NAME", &why))?;
        return extend_run(matches, &name, lease);
    }
    let (handle, mut operator) = find_own(matches)?;
    let claim = Claim { name: handle.name.clone(), owner: handle.owner.clone(), lease, keep: 0, purpose: Purpose::Run };
    let reply = operator.ask(|backend| backend.renew(&claim))?;
    Ok(match reply.answer {
        StillHeld::Held => {
            warn_if_cut(&reply);
            Exit { code: 0, raise: None }
        }
        StillHeld::Lost => refuse_lost(&handle, &mut operator),
    })
}

/// Returns whether a text was meant as a handle: a name has hardly ever an `@` with an owner behind it.
fn is_like_handle(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(_, owner)| owner.contains(':'))
}

/// Extends the lock of the run that holds it now, which is shown first.
fn extend_run(matches: &ArgMatches, name: &LockName, lease: Duration) -> anyhow::Result<Exit> {
    let mut operator = Operator::new(matches, Some(name))?;
    let consent = Consent::from(matches);
    let seen = Seen::read(&mut operator, name)?;
    let Some(record) = seen.held() else {
        let hint = suggest_lock(&mut operator, name, &seen, Lock::is_held);
        return Ok(refuse(&format!("the lock `{name}` is free"), hint.as_deref()));
    };
    let state = format!("the lock `{name}` {}", seen.state());
    let Ok(owner) = Owner::parse(&record.owner) else {
        return Ok(refuse(&state, Some("only a run of shedlock can be given more time")));
    };
    let effect = format!("its job may run for {} from now, unless it has longer anyway", duration::format(lease));
    match consent {
        Consent::Missing => return Ok(refuse_unasked(&state, "extends")),
        Consent::ToAsk => {
            operator.disconnect();
            if !is_agreed(&state, &effect, "extend it?") {
                return Ok(refuse(&format!("the lock `{name}` is left unchanged"), None));
            }
        }
        Consent::Forced => {}
    }
    let claim = Claim { name: name.clone(), owner: owner.clone(), lease, keep: 0, purpose: Purpose::Run };
    let reply = operator.ask(|backend| backend.renew(&claim))?;
    warn_if_cut(&reply);
    let after = Seen::read(&mut operator, name)?;
    match (reply.answer, after.until()) {
        (StillHeld::Held, Some(until)) => print_lines(&[format!("`{name}` is held until {until}")]),
        (StillHeld::Held, None) => print_lines(&[format!("`{name}` was extended, and has been released since")]),
        (StillHeld::Lost, _) => {
            let message = format!("the lock `{name}` has changed hands in the meantime: it {}", after.state());
            Ok(refuse(&message, None))
        }
    }
}

fn warn_if_cut(reply: &Reply<StillHeld>) {
    if let Some(until) = reply.remark.cut {
        remark(&format!("warning: the lock ends at {until}, the latest time that the backend can store"), None);
    }
}
