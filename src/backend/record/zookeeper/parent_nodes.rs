//! The nodes above the locks: their creation, and the commands that create them by hand.

use super::wire::Request;
use super::{ZooKeeper, errors};
use crate::lock::BackendError;
use crate::system::Timestamp;

/// The output of `shedlock schema`.
const SCHEMA: &str = "\
# For zkCli.sh -server HOST. The last node is created by the first lock as well, if shedlock may.
{create}#
# Every client may write these nodes and the locks below, as the Java library's. For one user alone, set the rights after
# addauth digest USER:PASSWORD, and give shedlock the same user and password:
#   setAcl {root} auth::cdrwa
";

impl ZooKeeper {
    /// Creates the nodes above a lock's that are missing. Those between the root and the lock have a time that has passed:
    /// to the Java library a node without a time is a lock that is held for ever.
    pub(crate) fn create_parents(&mut self, lock: &str) -> Result<(), BackendError> {
        let below = lock.strip_prefix(&self.root).unwrap_or_default();
        let mut nodes = vec![(self.root.clone(), String::new())];
        for (place, _) in below.match_indices('/').skip(1) {
            nodes.push((format!("{}{}", self.root, &below[..place]), Timestamp(0).to_string()));
        }
        self.create_missing(nodes).map(drop)
    }

    /// Creates the chroot and the root, and returns a line for each that was missing, and for the root.
    pub(crate) fn create_root_nodes(&mut self) -> Result<Vec<String>, BackendError> {
        let nodes = self.root_nodes();
        let made = self.create_missing(nodes.into_iter().map(|node| (node, String::new())).collect())?;
        let mut lines: Vec<_> = made.iter().map(|node| format!("created the node {node}")).collect();
        if !made.contains(&self.root) {
            lines.push(format!("the node {} is there", self.root));
        }
        Ok(lines)
    }

    /// Creates those of these nodes that do not exist, in their order, and returns their paths. A user may have no right to
    /// create a node that exists.
    pub(crate) fn create_missing(&mut self, nodes: Vec<(String, String)>) -> Result<Vec<String>, BackendError> {
        let questions: Vec<_> = nodes.iter().map(|(node, _)| Request::exists(node)).collect();
        let mut made = Vec::new();
        for ((node, data), answer) in nodes.into_iter().zip(self.ask(&questions)?) {
            match answer {
                Ok(_) => continue,
                Err(errors::NO_NODE) => {}
                Err(code) => return Err(self.node_error(code, &node)),
            }
            match self.ask_one(Request::create(&node, data.as_bytes(), self.new_node_access()))? {
                Ok(_) => made.push(node),
                Err(errors::NODE_EXISTS) => {}
                Err(errors::NO_NODE) => return Err(self.node_error(errors::NO_NODE, &self.chroot)),
                Err(code) => return Err(self.node_error(code, &node)),
            }
        }
        Ok(made)
    }

    /// Returns the nodes above the locks, from the top.
    fn root_nodes(&self) -> Vec<String> {
        let ends = self.root.match_indices('/').map(|(place, _)| place).skip(1).chain([self.root.len()]);
        ends.map(|end| self.root[..end].to_owned()).collect()
    }

    pub(crate) fn setup_commands(&self) -> String {
        let create: String = self.root_nodes().iter().map(|node| format!("create {node} \"\"\n")).collect();
        SCHEMA.replace("{create}", &create).replace("{root}", &self.root)
    }
}
