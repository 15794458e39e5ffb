//! A network of a test's own: a namespace with one wire to this host, which can be cut. It is gone with the test, since
//! only the processes in it keep it.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use crate::support::fixtures::by_root;

pub(super) struct Network {
    /// Lives in it until the end of its stdin.
    keeper: Child,
    pid: String,
    link: String,
    /// Our end of the wire.
    pub(super) address: Ipv4Addr,
}

/// `ip` is not in everybody's PATH.
const SET_UP: &str = r#"
    PATH=$PATH:/usr/sbin:/sbin
    ip link add "$1" type veth peer name wire netns "$2"
    ip address add "$3/30" dev "$1"
    ip link set "$1" up
    nsenter --target "$2" --net sh -ec "ip address add $4/30 dev wire; ip link set wire up; ip link set lo up"
"#;

impl Network {
    pub(super) fn new() -> Self {
        let mut keeper = by_root(&["unshare", "--net"], Command::new("sh").args(["-c", "echo $$; exec cat"]));
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        // A block of four addresses of the network that is for tests alone, 198.18.0.0/15.
        let random = u32::try_from(RandomState::new().hash_one(0) % (1 << 15)).unwrap();
        let block = (198 << 24) + (18 << 16) + (random << 2);
        let [address, inside] = [1, 2].map(|host| Ipv4Addr::from_bits(block + host));
        let network = Self { keeper, pid: pid.trim().to_owned(), link: format!("shl{random}"), address };
        network.by_root(SET_UP, &[&network.link, &network.pid, &address.to_string(), &inside.to_string()]);
        network
    }

    /// Returns the words that start a command in the network.
    pub(super) fn words(&self) -> [&str; 4] {
        ["nsenter", "--target", &self.pid, "--net"]
    }

    /// Lets nothing through from now on, and tells nobody.
    pub(super) fn cut(&self) {
        self.set("down");
    }

    pub(super) fn mend(&self) {
        self.set("up");
    }

    fn set(&self, state: &str) {
        self.by_root("PATH=$PATH:/usr/sbin:/sbin; ip link set \"$1\" \"$2\"", &[&self.link, state]);
    }

    fn by_root(&self, script: &str, arguments: &[&str]) {
        let status = by_root(&["sh"], Command::new("-ec").arg(script).arg("sh").args(arguments)).status().unwrap();
        assert!(status.success(), "{arguments:?}: no network of the test's own; it needs ip(8) and root");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
