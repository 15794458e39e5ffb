//! Gives the fuzzer a way to parse a configuration file.

use std::path::Path;

use super::layers::Layers;
use super::policy::{ProcessContext, notify, policy};
use super::settings::verbosity;
use super::{Mistake, backend, file};
use crate::lock::LockName;

/// Makes settings of the text of a configuration file, for a job that it may name.
pub(crate) fn fuzz(text: &str, path: &Path) -> Result<(), Mistake> {
    let job = text.split_once("[jobs.").and_then(|(_, rest)| rest.split(']').next());
    let name = job.and_then(|job| LockName::new(job).ok());
    let file = file::parse(text, path)?;
    let layers = Layers::from_files(vec![file.job(name.as_ref()), file.defaults]);
    let process = ProcessContext { terminal: false, session_leader: false, enclosing: Vec::new(), random: 7 };
    let policy = policy(&layers, &process)?;
    assert!(policy.at_least <= policy.at_most && policy.at_most.as_secs() >= 1);
    assert!(policy.lease.is_none_or(|lease| lease.as_secs() >= 1));
    notify(&layers)?;
    verbosity(&layers)?;
    backend::history_keep(&layers)?;
    Ok(())
}
