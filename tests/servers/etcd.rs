//! etcd, which only the benchmark uses, as a peer.

use std::ops::Deref;

use nix::sys::signal::Signal;

use super::program;
use super::server::{Plan, Server};

/// A cluster of one.
pub struct Etcd {
    server: Server,
}

impl Etcd {
    pub fn fresh() -> Self {
        let server = Server::new(|directory, port| {
            let (client, peer) =
                (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", program::free_port()));
            let data = directory.file("data");
            let start = format!(
                "etcd --name=bench --unsafe-no-fsync --data-dir={data} --listen-client-urls={client} \
                 --advertise-client-urls={client} --listen-peer-urls={peer} --initial-advertise-peer-urls={peer} \
                 --initial-cluster=bench={peer}"
            );
            let ask = ["etcdctl", "--endpoints", &client, "endpoint", "health"];
            Plan {
                start: start.split(' ').map(str::to_owned).collect(),
                ask: ask.map(str::to_owned).into(),
                stop: Signal::SIGTERM,
            }
        });
        Self { server }
    }
}

impl Deref for Etcd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
