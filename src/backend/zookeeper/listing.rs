//! All locks, the nodes that they need, and the commands that create these by hand.

use super::super::BackendError;
use super::super::cas::Take;
use super::wire::{self, Answer, Request};
use super::{ZooKeeper, errors, path, record};
use crate::system::Timestamp;

/// Number of locks that are read in one round trip.
const AT_ONCE: usize = 32;

/// The output of `shedlock schema`.
const SCHEMA: &str = "\
# For zkCli.sh -server HOST. The last node is created by the first lock as well, if shedlock may.
{create}#
# Every client may write these nodes and the locks below, as the Java library's. For one user alone, set the rights after
# addauth digest USER:PASSWORD, and give shedlock the same user and password:
#   setAcl {root} auth::cdrwa
";

impl ZooKeeper {
    /// Passes on the records of all locks. A user who may only read sees them as well; then the time is this host's.
    pub(super) fn list_all(&mut self, take: Take<'_>) -> Result<Timestamp, BackendError> {
        let answers = self.ask(&[self.clock(), Request::children(&self.root)])?;
        let [time, children] = <[Answer; 2]>::try_from(answers).map_err(|_| errors::strange())?;
        let now = match time {
            Ok(body) => wire::read_stat(&body).ok_or_else(errors::strange)?.written_at,
            Err(errors::NO_NODE | errors::NO_AUTH) => Timestamp::now(),
            Err(code) => return Err(self.refused(code, &self.root)),
        };
        let mut nodes = self.children(children, "")?;
        while !nodes.is_empty() {
            let rest = nodes.split_off(nodes.len().min(AT_ONCE));
            let below = self.list_each(&nodes, take)?;
            nodes = rest;
            nodes.extend(below);
        }
        Ok(now)
    }

    /// Reads these locks, and returns the nodes below them that are locks too.
    fn list_each(&mut self, nodes: &[String], take: Take<'_>) -> Result<Vec<String>, BackendError> {
        let requests = nodes.iter().flat_map(|node| {
            let lock = format!("{}/{node}", self.root);
            let own = format!("{lock}/{}", path::STATE);
            [Request::get(&lock), Request::get(&own), Request::children(&lock)]
        });
        let requests = requests.collect::<Vec<_>>();
        let mut answers = self.ask(&requests)?.into_iter();
        let mut below = Vec::new();
        for node in nodes {
            let lock = format!("{}/{node}", self.root);
            let mut next = || answers.next().ok_or_else(errors::strange);
            let (found, state, children) = (next()?, next()?, next()?);
            // It may have been removed meanwhile.
            let Some(found) = self.node(found, &lock)? else { continue };
            let state = self.node(state, &lock)?;
            if node.split('/').count() < path::DEEPEST {
                below.extend(self.children(children, node)?);
            }
            // A node that only leads to deeper ones is no lock that anybody took.
            if state.is_some() || found.data != Timestamp(0).to_string().as_bytes() {
                let name = path::to_name(node);
                let record = record(&name, &found, state.as_ref());
                take(name, record);
            }
        }
        Ok(below)
    }

    fn children(&self, answer: Answer, node: &str) -> Result<Vec<String>, BackendError> {
        let names = match answer {
            Ok(body) => wire::read_children(&body).ok_or_else(errors::strange)?,
            Err(errors::NO_NODE) => Vec::new(),
            Err(code) => return Err(self.refused(code, &format!("{}/{node}", self.root))),
        };
        let names = names.into_iter().filter(|name| name != path::STATE);
        Ok(names.map(|name| if node.is_empty() { name } else { format!("{node}/{name}") }).collect())
    }

    /// Creates the chroot and the root, and returns a line for each that was missing, and for the root.
    pub(super) fn make_nodes(&mut self) -> Result<Vec<String>, BackendError> {
        let nodes = self.needed();
        let made = self.create_missing(nodes.into_iter().map(|node| (node, String::new())).collect())?;
        let mut lines: Vec<_> = made.iter().map(|node| format!("created the node {node}")).collect();
        if !made.contains(&self.root) {
            lines.push(format!("the node {} is there", self.root));
        }
        Ok(lines)
    }

    /// Creates those of these nodes that do not exist, in their order, and returns their paths. A user may have no right to
    /// create a node that exists.
    pub(super) fn create_missing(&mut self, nodes: Vec<(String, String)>) -> Result<Vec<String>, BackendError> {
        let questions: Vec<_> = nodes.iter().map(|(node, _)| Request::exists(node)).collect();
        let mut made = Vec::new();
        for ((node, data), answer) in nodes.into_iter().zip(self.ask(&questions)?) {
            match answer {
                Ok(_) => continue,
                Err(errors::NO_NODE) => {}
                Err(code) => return Err(self.refused(code, &node)),
            }
            match self.ask_one(Request::create(&node, data.as_bytes(), self.access()))? {
                Ok(_) => made.push(node),
                Err(errors::NODE_EXISTS) => {}
                Err(errors::NO_NODE) => return Err(self.refused(errors::NO_NODE, &self.chroot)),
                Err(code) => return Err(self.refused(code, &node)),
            }
        }
        Ok(made)
    }

    /// Returns the nodes above the locks, from the top.
    fn needed(&self) -> Vec<String> {
        let ends = self.root.match_indices('/').map(|(place, _)| place).skip(1).chain([self.root.len()]);
        ends.map(|end| self.root[..end].to_owned()).collect()
    }

    pub(super) fn commands(&self) -> String {
        let create: String = self.needed().iter().map(|node| format!("create {node} \"\"\n")).collect();
        SCHEMA.replace("{create}", &create).replace("{root}", &self.root)
    }
}
