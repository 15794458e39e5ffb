//! PgBouncer before the plain PostgreSQL server.

use std::fs;
use std::ops::Deref;

use nix::sys::signal::Signal;

use super::postgres::PostgresDatabase;
use super::server::{Plan, Server};

/// A pooler in transaction mode that trusts everybody and works as `postgres`. A database's URL through it is
/// `database.at_port(pgbouncer.port()).url()`.
pub struct PgBouncer {
    server: Server,
}

impl PgBouncer {
    /// A pooler of a test's own, before the PostgreSQL server at that port. Settings are such as `pool_mode=session`.
    pub fn fresh(postgres: u16, settings: &[&str]) -> Self {
        let server = Server::new(|directory, port| {
            let (file, socket) = (directory.file("pgbouncer.ini"), directory.path().display().to_string());
            let settings = settings.join("\n");
            let text = format!(
                "[databases]\n* = host=127.0.0.1 port={postgres} user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
                 listen_port={port}\nunix_socket_dir={socket}\nauth_type=any\nadmin_users=postgres\n\
                 pool_mode=transaction\nmax_client_conn=300\n{settings}\n"
            );
            fs::write(&file, text).unwrap();
            let port = port.to_string();
            let ask = ["psql", "-X", "-h", &socket, "-p", &port, "-U", "postgres", "-d", "postgres", "-c", "select 1"];
            Plan {
                start: ["pgbouncer", &file].map(str::to_owned).into(),
                ask: ask.map(str::to_owned).into(),
                stop: Signal::SIGTERM,
            }
        });
        Self { server }
    }

    /// The URL of a database of the server behind it.
    pub fn url(&self, database: &PostgresDatabase) -> String {
        database.at_port(self.port()).url()
    }
}

impl Deref for PgBouncer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
