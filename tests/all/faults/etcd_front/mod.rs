//! etcd of which shedlock sees only a port before it, where clocks differ and answers change.

mod clocks;
mod proxies;

use crate::support::Place;
use servers::{Etcd, Front};

const KEY: &str = "shedlock:default:job";

struct Site {
    place: Place,
    server: Etcd,
    front: Front,
}

impl Site {
    fn new() -> Self {
        let server = Etcd::fresh();
        let front = Front::new("127.0.0.1", server.port());
        Self { place: Place::new(), server, front }
    }

    fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.front.port())
    }
}
