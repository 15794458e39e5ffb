//! `shedlock extend`.

use clap::ArgMatches;

use super::own::{lost, own, wrong};
use super::remark;
use crate::backend::Kept;
use crate::config;
use crate::exit::Exit;
use crate::lock::{Claim, Purpose};

/// Extends our lock to this duration from now, unless it is lost or ends later anyway.
pub(crate) fn extend(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let text = matches.get_one::<String>("DURATION").map(String::as_str).unwrap_or_default();
    let lease = config::at_least_a_second(text).map_err(|why| wrong("DURATION", &why))?;
    let (handle, mut operator) = own(matches)?;
    let claim = Claim { name: handle.name.clone(), owner: handle.owner.clone(), lease, keep: 0, purpose: Purpose::Run };
    let reply = operator.ask(|backend| backend.renew(&claim))?;
    Ok(match reply.answer {
        Kept::Kept => {
            if let Some(until) = reply.remark.cut {
                remark(&format!("warning: the lock ends at {until}, the latest time that the backend can store"), None);
            }
            Exit { code: 0, raise: None }
        }
        Kept::Lost => lost(&handle, &mut operator),
    })
}
