//! A group of two MySQL servers that replicate to each other (Group Replication).

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::{MariaDb, program};

/// Two members, which both take writes.
pub struct Group {
    pub members: [MariaDb; 2],
}

const NAME: &str = "5d2b1ff2-6d36-4f0c-9b0d-0e1f3d0c7a51";
const START: &str = "start group_replication user='root'";

impl Group {
    /// Needs a MySQL server in the place of MariaDB, with the plugin beside it.
    pub fn fresh() -> Self {
        let ports = [program::free_port(), program::free_port()];
        let members = [0, 1].map(|at| member(at, ports));
        members[0].mariadb(&format!(
            "set global group_replication_bootstrap_group = on; {START}; set global group_replication_bootstrap_group = off"
        ));
        let group = Self { members };
        group.join();
        group
    }

    /// Has the second member leave: it is up, and takes no writes.
    pub fn leave(&self) {
        self.members[1].mariadb("stop group_replication");
    }

    fn join(&self) {
        self.members[1].mariadb(START);
        let online = "select count(*) from performance_schema.replication_group_members where member_state = 'ONLINE'";
        for _ in 0..1800 {
            if self.members.iter().all(|member| member.mariadb(online) == "2") {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("the second member did not join: {}", self.members[1].log());
    }
}

fn member(at: usize, ports: [u16; 2]) -> MariaDb {
    let mysqld = program::instead("TESTS_MYSQLD")
        .expect("tests/run fetches a MySQL server: TESTS_MYSQLD=target/newer-servers/bin/mysqld");
    let mysqld = fs::canonicalize(&mysqld).unwrap();
    let plugins =
        mysqld.ancestors().nth(2).map_or_else(|| Path::new("/").into(), |root| root.join("root/usr/lib/mysql/plugin"));
    let address = |port: u16| format!("127.0.0.1:{port}");
    let server = MariaDb::fresh(&[
        &format!("--server-id={}", at + 1),
        "--log-bin",
        "--performance-schema=1",
        "--gtid-mode=on",
        "--enforce-gtid-consistency=on",
        "--report-host=127.0.0.1",
        &format!("--plugin-dir={}", plugins.display()),
        "--plugin-load-add=group_replication.so",
        &format!("--loose-group-replication-group-name={NAME}"),
        &format!("--loose-group-replication-local-address={}", address(ports[at])),
        &format!("--loose-group-replication-group-seeds={},{}", address(ports[0]), address(ports[1])),
        "--loose-group-replication-single-primary-mode=off",
        "--loose-group-replication-start-on-boot=off",
        "--loose-group-replication-ip-allowlist=127.0.0.1",
        "--loose-group-replication-recovery-get-public-key=on",
    ]);
    // What the making of the data wrote into the log is in each of them.
    server.mariadb("reset binary logs and gtids");
    server
}
