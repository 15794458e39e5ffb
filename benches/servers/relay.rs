//! A relay before a server: it passes on what both sides say, and takes it down.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What a client said without hearing anything in between, and how much it heard then: a round trip, unless it is the
/// last, to which there may be no answer.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    pub(crate) at: Instant,
    pub(crate) said: Vec<u8>,
    pub(crate) heard: usize,
}

impl Flight {
    /// Whether a text is in what was said: as it is, in hexadecimal, as SQL may have it, or in base64, as etcd has it.
    pub(crate) fn says(&self, text: &str) -> bool {
        let has = |text: &str| self.said.windows(text.len()).any(|window| window == text.as_bytes());
        // Three bytes are four characters, so a third of all places begin anew with the text.
        let part = |start: usize| STANDARD.encode(&text.as_bytes()[start..start + (text.len() - start) / 3 * 3]);
        has(text) || has(&hexadecimal(text)) || (0..3).any(|start| has(&part(start)))
    }

    /// The same with another text of the same length in place of a text.
    pub(crate) fn renamed(&self, text: &str, other: &str) -> Self {
        let mut said = self.said.clone();
        for (text, other) in [(text.to_owned(), other.to_owned()), (hexadecimal(text), hexadecimal(other))] {
            for place in 0..(said.len() + 1).saturating_sub(text.len()) {
                if said[place..].starts_with(text.as_bytes()) {
                    said[place..place + text.len()].copy_from_slice(other.as_bytes());
                }
            }
        }
        Self { said, ..self.clone() }
    }
}

fn hexadecimal(text: &str) -> String {
    text.bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
}

/// What was said on one connection.
pub(crate) type Conversation = Vec<Flight>;

/// A relay that listens on a port of its own until the process ends.
pub(crate) struct Relay {
    pub(crate) port: u16,
    conversations: Receiver<Conversation>,
}

impl Relay {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (over, conversations) = channel();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, over) = (client.unwrap(), over.clone());
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                // A client may have several connections. Nobody may want to hear of this one any more.
                thread::spawn(move || drop(over.send(pass_on(&client, &server))));
            }
        });
        Self { port, conversations }
    }

    /// What was said on all connections since the last call, of which there is at least one, by time.
    pub(crate) fn conversation(&self) -> Conversation {
        let mut all = self.conversations.recv_timeout(Duration::from_secs(20)).unwrap();
        // The client has ended, so the relay hears the last of it at once.
        while let Ok(more) = self.conversations.recv_timeout(Duration::from_millis(100)) {
            all.extend(more);
        }
        all.sort_by_key(|flight| flight.at);
        all
    }
}

/// Passes on until one side hangs up.
fn pass_on(mut client: &TcpStream, mut server: &TcpStream) -> Conversation {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let mut conversation: Conversation = Vec::new();
    let mut bytes = vec![0; 65_536];
    loop {
        let mut sides = [client, server].map(|side| PollFd::new(side.as_fd(), PollFlags::POLLIN));
        poll(&mut sides, PollTimeout::NONE).unwrap();
        let [from_client, from_server] = sides.map(|side| side.any().unwrap_or_default());
        if from_server {
            let length = server.read(&mut bytes).unwrap_or(0);
            if length == 0 || client.write_all(&bytes[..length]).is_err() {
                return conversation;
            }
            match conversation.last_mut() {
                Some(flight) => flight.heard += length,
                // MySQL's server speaks first.
                None => conversation.push(Flight { at: Instant::now(), said: Vec::new(), heard: length }),
            }
        } else if from_client {
            let length = client.read(&mut bytes).unwrap_or(0);
            if length == 0 || server.write_all(&bytes[..length]).is_err() {
                return conversation;
            }
            match conversation.last_mut() {
                Some(flight) if flight.heard == 0 => flight.said.extend(&bytes[..length]),
                _ => conversation.push(Flight { at: Instant::now(), said: bytes[..length].to_vec(), heard: 0 }),
            }
        }
    }
}
