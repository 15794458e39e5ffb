//! The example provider at the other end of a connection: a port where each connection is a life of the example. The provider of
//! `wire:` carries what shedlock says to it and back, so that all that can happen to a connection happens to what a provider
//! is asked and answers: a request or an answer is lost, late, altered or cut, and the provider dies with its connection.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::Deref;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::directory::Directory;
use super::server::{Plan, Server};

/// Lets the example live in a copy of this process for each connection to a port, which is its stdin and stdout. What it imports is
/// there already: an interpreter for each would keep the processors busy. It ends with all of them.
const PORT: &str = r#"
import contextlib, errno, fcntl, hashlib, json, os, pathlib, re, signal, socket, sys, time, traceback, urllib.parse

def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    os._exit(0)

def live(client):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for stream in 0, 1:
        os.dup2(client.fileno(), stream)
    listener.close()
    client.close()
    exec(example, {"__name__": "__main__"})

port, path = sys.argv[1:]
example = compile(pathlib.Path(path).read_bytes(), path, "exec")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, stop)
listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
while True:
    client, _ = listener.accept()
    if os.fork() == 0:
        try:
            live(client)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    client.close()
"#;

/// The example itself.
const EXAMPLE: &str = include_str!("../../providers/example/shedlock-provider-example");

/// A port of 127.0.0.1 behind which the example lives.
pub struct Wire(Server);

impl Wire {
    /// A port that one test has for itself.
    pub fn fresh() -> Self {
        Self::new(|plan, _| plan)
    }

    /// A port behind which the example's clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        Self::new(Plan::with_moving_clock)
    }

    fn new(change: impl Fn(Plan, &Directory) -> Plan) -> Self {
        Self(Server::new(|directory, port| {
            let example = directory.file("example");
            fs::write(&example, EXAMPLE).unwrap();
            let port_text = port.to_string();
            let start = ["/usr/bin/python3", "-I", "-c", PORT, &port_text, &example];
            let ask = ["bash", "-c", &format!("3<>/dev/tcp/127.0.0.1/{port}")];
            let [start, ask] =
                [&start[..], &ask[..]].map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            change(Plan { start, ask, stop: Signal::SIGTERM }, directory)
        }))
    }

    /// Asks an example of its own, which keeps its locks in this directory.
    pub fn ask(port: u16, directory: &str, request: &Value) -> Value {
        let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
        let url = format!("example:{directory}");
        let open = json!({"op": "open", "protocol": 1, "url": url, "password": null, "timeout": 60_000});
        let mut line = String::new();
        for request in [&open, request] {
            writeln!(connection.get_mut(), "{request}").unwrap();
            line.clear();
            connection.read_line(&mut line).unwrap();
        }
        serde_json::from_str(&line).unwrap()
    }
}

impl Deref for Wire {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
