//! A name server of a test's own, at the only port where one is looked for: it needs a network of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// How it answers to those who ask by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Whole,
    /// As if the answer did not fit: they have to come again by TCP.
    Truncated,
    /// Not at all, and nobody is told that it does not.
    Silent,
}

/// What the tests and the threads of the server share.
#[derive(Clone)]
pub(crate) struct NameServer {
    manner: Arc<Mutex<Manner>>,
    asked: Arc<Mutex<Vec<String>>>,
    known: Arc<Vec<String>>,
}

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
/// No such name.
const NXDOMAIN: u16 = 3;
/// An answer to one who wished for recursion, which is available.
const ANSWER: u16 = 0x8180;
const TRUNCATED: u16 = 0x0200;

/// From now on this thread, and what it starts, is in a network that has nothing but 127.0.0.1.
pub(crate) fn leave_the_network() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap_or_else(|error| panic!("a network of the test's own needs root: {error}"));
    let up = "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up";
    assert!(Command::new("sh").args(["-c", up]).status().unwrap().success(), "it needs ip(8) of iproute2");
}

impl NameServer {
    /// Answers at 127.0.0.1 in this thread's network, for as long as the test program runs: these names are 127.0.0.1, and
    /// others do not exist.
    pub(crate) fn start(known: &[&str]) -> Self {
        let known = known.iter().map(|name| (*name).to_owned()).collect();
        let server =
            Self { manner: Arc::new(Mutex::new(Manner::Whole)), asked: Arc::default(), known: Arc::new(known) };
        let (datagrams, listener) =
            (UdpSocket::bind("127.0.0.1:53").unwrap(), TcpListener::bind("127.0.0.1:53").unwrap());
        let by_udp = server.clone();
        thread::spawn(move || by_udp.serve(&datagrams));
        let by_tcp = server.clone();
        thread::spawn(move || by_tcp.listen(&listener));
        server
    }

    pub(crate) fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// What was asked for since the last look: `udp NAME` or `tcp NAME`, each once, in the order of the first question.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().split_off(0);
        let mut seen = std::collections::HashSet::new();
        asked.retain(|question| seen.insert(question.clone()));
        asked
    }

    fn serve(&self, datagrams: &UdpSocket) {
        let mut question = [0; 1500];
        while let Ok((length, asker)) = datagrams.recv_from(&mut question) {
            let manner = *self.manner.lock().unwrap();
            let answer = self.answer(&question[..length], "udp", manner);
            if manner != Manner::Silent {
                let _ = datagrams.send_to(&answer, asker);
            }
        }
    }

    fn listen(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            let (mut stream, server) = (stream.unwrap(), self.clone());
            // One who asks for two addresses may do so by two connections.
            thread::spawn(move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; u16::from_be_bytes(length).into()];
                    stream.read_exact(&mut question).unwrap();
                    let answer = server.answer(&question, "tcp", Manner::Whole);
                    let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                    let _ = stream.write_all(&[&length, &answer[..]].concat());
                }
            });
        }
    }

    fn answer(&self, question: &[u8], way: &str, manner: Manner) -> Vec<u8> {
        let (mut at, mut labels) = (HEADER, Vec::new());
        while question[at] != 0 {
            let end = at + 1 + usize::from(question[at]);
            labels.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
            at = end;
        }
        let name = labels.join(".").to_lowercase();
        let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
        let is_known = self.known.contains(&name);
        self.asked.lock().unwrap().push(format!("{way} {name}"));
        let has_address = is_known && kind == TYPE_A && manner == Manner::Whole;
        let mut flags = ANSWER | if is_known { 0 } else { NXDOMAIN };
        if manner == Manner::Truncated {
            flags |= TRUNCATED;
        }
        let mut answer = question[..2].to_vec();
        for number in [flags, 1, u16::from(has_address), 0, 0] {
            answer.extend(number.to_be_bytes());
        }
        answer.extend(&question[HEADER..at + 5]);
        if has_address {
            // The name of the question, type A, class IN, a minute, four bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        answer
    }
}
