//! The list of all locks.

use super::stored_record::read_record;
use super::wire::{self, Answer, Request};
use super::{LockNodes, MAX_READS, ZooKeeper, errors, path, state_path};
use crate::backend::record::engine::RecordSink;
use crate::lock::BackendError;
use crate::system::Timestamp;

/// Number of locks that are read in one round trip.
const LOCKS_PER_REQUEST: usize = 32;
/// The most nodes that are listed: a server could go on for ever.
const MAX_NODES: usize = 2_000_000;

impl ZooKeeper {
    /// Passes on the records of all locks. A user who may only read sees them as well; then the time is this host's.
    pub(crate) fn list_all(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        let answers = self.ask(&[self.clock_request(), Request::children(&self.root)])?;
        let [time, children] = <[Answer; 2]>::try_from(answers).map_err(|_| errors::unexpected_answer())?;
        let now = match time {
            Ok(body) => wire::read_stat(&body).ok_or_else(errors::unexpected_answer)?.written_at,
            Err(errors::NO_NODE | errors::NO_AUTH) => Timestamp::now(),
            Err(code) => return Err(self.node_error(code, &self.root)),
        };
        let mut nodes = self.children(children, "")?;
        let mut listed = nodes.len();
        while !nodes.is_empty() {
            let next = nodes.split_off(nodes.len().saturating_sub(LOCKS_PER_REQUEST));
            let below = self.read_locks(&next, sink)?;
            listed += below.len();
            if listed > MAX_NODES {
                return Err(BackendError::permanent(format!("the list has more than {MAX_NODES} nodes"))
                    .hint("check that host and port are those of the right server; of a list that long, ask for single locks by name"));
            }
            nodes.extend(below);
        }
        Ok(now)
    }

    /// Reads these locks, and returns the nodes below them that are locks too.
    fn read_locks(&mut self, nodes: &[String], sink: RecordSink<'_>) -> Result<Vec<String>, BackendError> {
        let requests = nodes.iter().flat_map(|node| {
            let lock = format!("{}/{node}", self.root);
            [Request::get(&lock), Request::get(&state_path(&lock)), Request::children(&lock)]
        });
        let requests = requests.collect::<Vec<_>>();
        let mut answers = self.ask(&requests)?.into_iter();
        let mut below = Vec::new();
        for node in nodes {
            let lock = format!("{}/{node}", self.root);
            let mut next = || answers.next().ok_or_else(errors::unexpected_answer);
            let (found, state, children) = (next()?, next()?, next()?);
            let nodes = match self.whole_lock(found, state, &lock)? {
                Some(nodes) => nodes,
                None => self.read_again(&lock)?,
            };
            // The node may have been removed meanwhile.
            let Some((found, state)) = nodes else { continue };
            if node.split('/').count() < path::MAX_DEPTH {
                below.extend(self.children(children, node)?);
            }
            // A node that only leads to deeper ones is no lock: no program has acquired it.
            if state.is_some() || found.data != Timestamp(0).to_string().as_bytes() {
                let name = path::lock_name(node);
                let record = read_record(&name, &found, state.as_ref());
                sink(name, record);
            }
        }
        Ok(below)
    }

    /// Reads the nodes of a lock that was written while it was read.
    fn read_again(&mut self, lock: &str) -> Result<Option<LockNodes>, BackendError> {
        for _ in 0..MAX_READS {
            let answers = self.ask(&[Request::get(lock), Request::get(&state_path(lock))])?;
            let [found, state] = <[Answer; 2]>::try_from(answers).map_err(|_| errors::unexpected_answer())?;
            if let Some(nodes) = self.whole_lock(found, state, lock)? {
                return Ok(nodes);
            }
        }
        Err(errors::keeps_changing())
    }

    fn children(&self, answer: Answer, node: &str) -> Result<Vec<String>, BackendError> {
        let names = match answer {
            Ok(body) => wire::read_children(&body).ok_or_else(errors::unexpected_answer)?,
            Err(errors::NO_NODE) => Vec::new(),
            Err(code) => return Err(self.node_error(code, &format!("{}/{node}", self.root))),
        };
        let names = names.into_iter().filter(|name| name != path::STATE_NODE);
        Ok(names.map(|name| if node.is_empty() { name } else { format!("{node}/{name}") }).collect())
    }
}
