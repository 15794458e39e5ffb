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

/// Starts a program for each connection to a port, which is its stdin and stdout. It ends with all of them.
const PORT: &str = r"
    use IO::Socket::INET;
    my ($port, @program) = @ARGV;
    $SIG{CHLD} = 'IGNORE';
    $SIG{TERM} = sub { $SIG{TERM} = 'IGNORE'; kill TERM => 0; exit };
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1, Listen => 128)
        or die qq($!\n);
    while (1) {
        my $client = $listener->accept or next;
        next if fork;
        open STDIN, '<&', $client;
        open STDOUT, '>&', $client;
        exec @program;
    }
";

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
            let start = ["perl", "-e", PORT, &port_text, "/usr/bin/python3", "-I", &example];
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
