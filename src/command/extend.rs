//! `shedlock extend`: makes the lock of a script or a job last longer.

use clap::ArgMatches;

use super::handle::{bad_argument, find_own, refuse_lost};
use super::output::remark;
use crate::config;
use crate::exit::Exit;
use crate::lock::StillHeld;
use crate::lock::{Claim, Purpose};

/// Extends the lock to this duration from now, unless it is lost or ends later anyway.
pub(crate) fn extend(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let text = matches.get_one::<String>("DURATION").map(String::as_str).unwrap_or_default();
    let lease = config::parse_from_one_second(text).map_err(|why| bad_argument("DURATION", &why))?;
    let (handle, mut operator) = find_own(matches)?;
    let claim = Claim { name: handle.name.clone(), owner: handle.owner.clone(), lease, keep: 0, purpose: Purpose::Run };
    let reply = operator.ask(|backend| backend.renew(&claim))?;
    Ok(match reply.answer {
        StillHeld::Held => {
            if let Some(until) = reply.remark.cut {
                remark(&format!("warning: the lock ends at {until}, the latest time that the backend can store"), None);
            }
            Exit { code: 0, raise: None }
        }
        StillHeld::Lost => refuse_lost(&handle, &mut operator),
    })
}
