//! A Galera cluster of two MariaDB nodes.

use super::MariaDb;
use super::program;

/// What Debian's package calls the library.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// How a node's data get to another one.
const TRANSFER: &str = include_str!("galera.sh");

/// Two nodes, which both take writes. The first one alone decides which part of a divided cluster goes on.
pub struct Galera {
    pub nodes: [MariaDb; 2],
}

impl Galera {
    pub fn fresh() -> Self {
        let ports = [program::free_port(), program::free_port()];
        let first = node("gcomm://", ports[0], 3);
        let second = node(&format!("gcomm://127.0.0.1:{}", ports[0]), ports[1], 1);
        Self { nodes: [first, second] }
    }

    /// Lets the second node refuse every client's query, or no longer.
    pub fn reject_queries(&self, which: &str) {
        self.nodes[1].mariadb(&format!("set global wsrep_reject_queries = {which}"));
    }

    /// Cuts the second node off from the first: it is up, and not ready.
    pub fn isolate(&self) {
        self.nodes[1].mariadb("set global wsrep_provider_options = 'gmcast.isolate=1'");
    }

    /// Returns whether the second node takes queries.
    pub fn is_ready(&self) -> bool {
        self.nodes[1].mariadb("show status like 'wsrep_ready'").ends_with("ON")
    }
}

fn node(cluster: &str, port: u16, weight: u8) -> MariaDb {
    MariaDb::of_mariadb(
        ("wsrep_sst_tests", TRANSFER),
        &[
            "--wsrep-on=ON",
            &format!("--wsrep-provider={PROVIDER}"),
            &format!("--wsrep-cluster-address={cluster}"),
            &format!("--wsrep-node-address=127.0.0.1:{port}"),
            &format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{};\
             gcache.size=1M;pc.weight={weight}",
                program::free_port()
            ),
            "--wsrep-sst-method=tests",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        ],
    )
}
