//! A connection through the relay: two sockets, and what is kept between them.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

use super::super::history::Fault;
use super::faults::Faults;
use crate::system::Moment;

/// Bytes that are kept in each direction, and those of a frozen request.
const BUFFER_BYTES: usize = 64 << 10;
const FROZEN_BYTES: usize = 1 << 20;
/// The time that a side has to close its end after the other has: then the connection is closed.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// The time that a server has to answer a late request before it learns that the client has gone: some servers drop the
/// request of a client that has closed its connection.
const LATE_ANSWER_TIME: Duration = Duration::from_secs(1);

/// Passes bytes between a client and a server.
pub(super) struct Connection {
    /// The client's side; `None` once it was cut off.
    client: Option<TcpStream>,
    server: TcpStream,
    to_server: Flow,
    to_client: Flow,
    is_frozen: bool,
    /// Nothing more is read from the client, and nothing more of the server's passed on.
    is_cut: bool,
    /// Until when the server does not learn that the client has gone.
    hides_end_until: Option<Moment>,
    closes_at: Option<Moment>,
}

/// What goes in one direction.
#[derive(Default)]
struct Flow {
    kept: Vec<u8>,
    /// When a delay is over.
    due: Option<Moment>,
    /// The sender has closed its side.
    has_ended: bool,
    /// The receiver was told so.
    is_shut: bool,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Connection {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> Result<Self> {
        for socket in [&client, &server] {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
        }
        Ok(Self {
            client: Some(client),
            server,
            to_server: Flow::default(),
            to_client: Flow::default(),
            is_frozen: false,
            is_cut: false,
            hides_end_until: None,
            closes_at: None,
        })
    }

    /// Lets go what a frozen connection keeps.
    pub(super) fn thaw(&mut self, now: Moment) {
        if std::mem::take(&mut self.is_frozen) {
            self.hides_end_until = Some(now + LATE_ANSWER_TIME);
        }
    }

    /// Passes on what there is, as far as the armed fault lets it.
    pub(super) fn pass(&mut self, faults: &mut Faults, now: Moment) {
        if !matches!(faults.armed, Some(Fault::Delay { .. })) {
            (self.to_server.due, self.to_client.due) = (None, None);
        }
        self.receive(Way::ToServer, faults, now);
        self.receive(Way::ToClient, faults, now);
        if !self.is_frozen && self.to_server.is_due(now) && self.to_server.send(&self.server).is_err() {
            self.to_server = Flow { has_ended: true, is_shut: true, ..Flow::default() };
        }
        let client = self.client.as_ref();
        if self.to_client.is_due(now) && client.is_some_and(|client| self.to_client.send(client).is_err()) {
            self.lose_client();
        }
        self.pass_ends(now);
    }

    /// Returns whether nothing more can come of it.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        let is_done = self.to_server.is_shut && self.to_client.has_ended && self.to_client.kept.is_empty();
        is_done || self.closes_at.is_some_and(|time| time <= now)
    }

    /// Returns whether the client has gone and the server is still to learn what it sent.
    pub(super) fn is_leaving(&self) -> bool {
        self.has_left() && !self.is_frozen
    }

    /// Adds the sockets that something is awaited of. Others are left out: an end that was seen would wake at once, again and
    /// again.
    pub(super) fn waits_for<'a>(&'a self, waited: &mut Vec<PollFd<'a>>) {
        let mut add = |socket: &'a TcpStream, reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, reads);
            flags.set(PollFlags::POLLOUT, writes);
            if !flags.is_empty() {
                waited.push(PollFd::new(socket.as_fd(), flags));
            }
        };
        let has_data = |flow: &Flow| flow.due.is_none() && !flow.kept.is_empty();
        if let Some(client) = &self.client {
            add(client, self.reads(Way::ToServer), has_data(&self.to_client));
        }
        add(&self.server, self.reads(Way::ToClient), has_data(&self.to_server) && !self.is_frozen);
    }

    /// Returns when something is to be done that no socket says.
    pub(super) fn next_time(&self) -> Option<Moment> {
        let hidden = self.hides_end_until.filter(|_| self.has_left());
        [self.to_server.due, self.to_client.due, hidden, self.closes_at].into_iter().flatten().min()
    }

    fn has_left(&self) -> bool {
        self.is_cut || self.to_server.has_ended
    }

    fn flow(&mut self, way: Way) -> &mut Flow {
        if way == Way::ToServer { &mut self.to_server } else { &mut self.to_client }
    }

    /// Returns how many bytes may be read at the most.
    fn room(&self, way: Way) -> usize {
        let (flow, max) = match way {
            Way::ToServer => (&self.to_server, if self.is_frozen { FROZEN_BYTES } else { BUFFER_BYTES }),
            Way::ToClient => (&self.to_client, BUFFER_BYTES),
        };
        max.saturating_sub(flow.kept.len())
    }

    fn reads(&self, way: Way) -> bool {
        let is_open = match way {
            Way::ToServer => !self.is_cut && !self.to_server.has_ended,
            Way::ToClient => !self.to_client.has_ended,
        };
        is_open && self.room(way) > 0
    }

    /// Reads what a side has sent.
    fn receive(&mut self, way: Way, faults: &mut Faults, now: Moment) {
        let mut part = [0; 16 << 10];
        while self.reads(way) {
            let max = self.room(way).min(part.len());
            let mut socket = match (way, &self.client) {
                (Way::ToServer, Some(client)) => client,
                (Way::ToServer, None) => return,
                (Way::ToClient, _) => &self.server,
            };
            match socket.read(&mut part[..max]) {
                Ok(0) => self.flow(way).has_ended = true,
                Ok(count) => self.take(way, &part[..count], faults, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) if way == Way::ToServer => self.lose_client(),
                Err(_) => {
                    self.to_client.has_ended = true;
                    self.to_server = Flow { has_ended: true, is_shut: true, ..Flow::default() };
                    self.is_cut = true;
                }
            }
        }
    }

    /// Takes bytes to be passed on, as the armed fault wants it.
    fn take(&mut self, way: Way, bytes: &[u8], faults: &mut Faults, now: Moment) {
        if way == Way::ToClient {
            // A server that answers has carried the request out.
            self.hides_end_until = None;
            if self.is_cut {
                return;
            }
        }
        let mut passed = bytes.len();
        match &mut faults.armed {
            _ if self.is_frozen && way == Way::ToServer => {}
            Some(Fault::CutRequest { after }) if way == Way::ToServer => {
                passed = passed.min(*after);
                *after -= passed;
                if *after == 0 {
                    self.is_cut = true;
                    faults.strike();
                }
            }
            Some(Fault::CutAnswer { after }) if way == Way::ToClient => {
                passed = passed.min(*after);
                *after -= passed;
                if *after == 0 {
                    self.is_cut = true;
                    faults.strike();
                }
            }
            Some(Fault::Freeze { after }) if way == Way::ToServer && *after < bytes.len() => {
                // What goes before the rest, which stays.
                self.to_server.kept.extend_from_slice(&bytes[..*after]);
                if self.to_server.send(&self.server).is_err() {
                    self.to_server = Flow { has_ended: true, is_shut: true, ..Flow::default() };
                    return;
                }
                let sent = *after;
                self.is_frozen = true;
                faults.strike();
                self.to_server.kept.extend_from_slice(&bytes[sent..]);
                return;
            }
            Some(Fault::Freeze { after }) if way == Way::ToServer => *after -= bytes.len(),
            Some(Fault::Delay { by }) => {
                let due = now + *by;
                self.flow(way).due.get_or_insert(due);
                faults.has_struck = true;
            }
            _ => {}
        }
        self.flow(way).kept.extend_from_slice(&bytes[..passed]);
    }

    /// Notes that the client has gone without a goodbye.
    fn lose_client(&mut self) {
        (self.client, self.is_cut) = (None, true);
        self.to_client.kept.clear();
    }

    /// Tells each side that the other has closed its own, once it has all before that.
    fn pass_ends(&mut self, now: Moment) {
        let hides_end = self.hides_end_until.is_some_and(|until| now < until);
        if self.has_left() && self.to_server.kept.is_empty() && !self.is_frozen && !hides_end && !self.to_server.is_shut
        {
            let _ = self.server.shutdown(Shutdown::Write);
            self.to_server.is_shut = true;
            self.closes_at = Some(now + CLOSE_TIME);
        }
        if self.is_cut && self.to_client.kept.is_empty() {
            self.client = None;
        }
        if self.to_client.has_ended && self.to_client.kept.is_empty() && !self.to_client.is_shut {
            let _ = self.client.as_ref().map(|client| client.shutdown(Shutdown::Write));
            self.to_client.is_shut = true;
            self.closes_at = Some(now + CLOSE_TIME);
        }
    }
}

impl Flow {
    /// Returns whether there is no delay, or it is over; then it is forgotten.
    fn is_due(&mut self, now: Moment) -> bool {
        self.due = self.due.filter(|due| now < *due);
        self.due.is_none()
    }

    /// Sends what is kept, as much as the receiver takes.
    fn send(&mut self, mut socket: &TcpStream) -> Result<()> {
        while !self.kept.is_empty() {
            match socket.write(&self.kept) {
                Ok(count) => drop(self.kept.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
