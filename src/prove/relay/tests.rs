//! Tests the relay with plain sockets.

#![cfg(test)]

use std::io::{ErrorKind, Read};

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A server, and connections to it through a relay.
struct Scene {
    relay: Relay,
    listener: TcpListener,
}

impl Scene {
    fn new() -> Self {
        Self::at("127.0.0.1")
    }

    fn at(host: &str) -> Self {
        Self { relay: Relay::new().unwrap(), listener: TcpListener::bind((host, 0)).unwrap() }
    }

    /// Connects, and returns the client's side and the server's.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.relay.detour().to(self.listener.local_addr().unwrap(), LONG).unwrap();
        let (client, server) = (TcpStream::connect(client).unwrap(), self.listener.accept().unwrap().0);
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(LONG)).unwrap();
        }
        (client, server)
    }
}

fn read(socket: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    socket.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads all until the connection ends, in either way.
fn read_to_end(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8(bytes).unwrap()
}

/// Fails if anything comes.
fn is_silent(socket: &TcpStream) {
    socket.set_nonblocking(true).unwrap();
    assert_eq!((&mut &*socket).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).unwrap();
}

#[test]
fn what_passes_is_unchanged_and_a_half_close_too() {
    for host in ["127.0.0.1", "::1"] {
        let scene = Scene::at(host);
        assert!(!scene.relay.was_used());
        let (mut client, mut server) = scene.connect();
        server.write_all(b"welcome").unwrap();
        assert_eq!(read(&mut client, 7), "welcome");
        let much = "x".repeat(3 << 20);
        thread::scope(|scope| {
            scope.spawn(|| client.write_all(much.as_bytes()).and_then(|()| client.shutdown(std::net::Shutdown::Write)));
            assert_eq!(read_to_end(&mut server).len(), much.len());
            server.write_all(b"bye").unwrap();
            drop(server);
        });
        assert_eq!(read_to_end(&mut client), "bye");
        assert!(scene.relay.settle(LONG) && scene.relay.was_used() && !scene.relay.struck());
    }
}

#[test]
fn a_request_is_cut_after_so_many_bytes_once() {
    for after in [0, 1, 4] {
        let scene = Scene::new();
        let (mut client, mut server) = scene.connect();
        client.write_all(b"before").unwrap();
        assert_eq!(read(&mut server, 6), "before");
        scene.relay.arm(Fault::CutRequest { after });
        assert!(!scene.relay.struck());
        client.write_all(b"late").unwrap();
        assert_eq!(read_to_end(&mut server), "late"[..after]);
        assert_eq!(read_to_end(&mut client), "");
        assert!(scene.relay.struck());
        let (mut client, mut server) = scene.connect();
        client.write_all(b"next").unwrap();
        assert_eq!(read(&mut server, 4), "next");
        scene.relay.arm(Fault::CutRequest { after: 5 });
        assert!(!scene.relay.struck());
        // A request that is shorter leaves the rest of the count to the next one.
        client.write_all(b"1234").unwrap();
        assert_eq!(read(&mut server, 4), "1234");
        assert!(!scene.relay.struck());
        client.write_all(b"5678").unwrap();
        assert_eq!(read_to_end(&mut server), "5");
    }
}

#[test]
fn an_answer_is_cut_after_so_many_bytes_and_the_request_has_arrived() {
    for after in [0, 3, 6] {
        let scene = Scene::new();
        let (mut client, mut server) = scene.connect();
        scene.relay.arm(Fault::CutAnswer { after });
        client.write_all(b"request").unwrap();
        assert_eq!(read(&mut server, 7), "request");
        assert!(!scene.relay.struck());
        server.write_all(b"answer").unwrap();
        assert_eq!(read_to_end(&mut client), "answer"[..after]);
        assert_eq!(read_to_end(&mut server), "");
        assert!(scene.relay.struck());
    }
}

#[test]
fn a_frozen_request_arrives_after_the_thaw_although_its_client_has_gone() {
    for after in [0, 2, 4] {
        let scene = Scene::new();
        let (mut client, mut server) = scene.connect();
        scene.relay.arm(Fault::Freeze { after });
        client.write_all(b"late").and_then(|()| client.write_all(b"r")).unwrap();
        drop(client);
        // Another connection of the client passes, and disarming does not thaw.
        assert_eq!(read(&mut server, after), "late"[..after]);
        assert!(scene.relay.settle(LONG) && scene.relay.struck());
        scene.relay.disarm();
        let (mut other, mut other_server) = scene.connect();
        other.write_all(b"other").unwrap();
        assert_eq!(read(&mut other_server, 5), "other");
        is_silent(&server);
        scene.relay.thaw();
        assert_eq!(read(&mut server, 5 - after), "later"[after..]);
        // The server learns that the client has gone at the latest when it has answered.
        server.write_all(b"answer").unwrap();
        assert_eq!(read_to_end(&mut server), "");
        assert!(!scene.relay.settle(Duration::ZERO));
        drop(server);
        assert!(scene.relay.settle(LONG));
    }
}

#[test]
fn a_thawed_connection_whose_client_has_waited_goes_on() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    scene.relay.arm(Fault::Freeze { after: 0 });
    client.write_all(b"late").unwrap();
    // What the server sends still comes.
    server.write_all(b"notice").unwrap();
    assert_eq!(read(&mut client, 6), "notice");
    is_silent(&server);
    scene.relay.thaw();
    assert_eq!(read(&mut server, 4), "late");
    server.write_all(b"answer").unwrap();
    assert_eq!(read(&mut client, 6), "answer");
    client.write_all(b"next").unwrap();
    assert_eq!(read(&mut server, 4), "next");
}

#[test]
fn a_frozen_request_is_bounded() {
    let scene = Scene::new();
    let (mut client, server) = scene.connect();
    scene.relay.arm(Fault::Freeze { after: 0 });
    client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // The rest fills the buffers of the system.
    let sent = (0..4096).take_while(|_| client.write_all(&[0; 16 << 10]).is_ok()).count();
    assert!((64..4096).contains(&sent), "{sent}");
    is_silent(&server);
}

#[test]
fn what_is_delayed_comes_after_the_time_or_when_the_delay_is_disarmed() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    let by = Duration::from_millis(100);
    scene.relay.arm(Fault::Delay { by });
    let begun = Moment::now();
    client.write_all(b"request").unwrap();
    assert_eq!(read(&mut server, 7), "request");
    assert!(Moment::now().since(begun) >= by);
    server.write_all(b"answer").unwrap();
    assert_eq!(read(&mut client, 6), "answer");
    assert!(Moment::now().since(begun) >= 2 * by);
    assert!(scene.relay.struck());
    scene.relay.arm(Fault::Delay { by: LONG * 10 });
    client.write_all(b"request").unwrap();
    scene.relay.disarm();
    assert_eq!(read(&mut server, 7), "request");
    assert!(Moment::now().since(begun) < LONG);
}

#[test]
fn a_server_that_refuses_is_the_error_and_one_address_is_good_for_one_connection() {
    let scene = Scene::new();
    let address = scene.listener.local_addr().unwrap();
    let client = scene.relay.detour().to(address, LONG).unwrap();
    assert!(client.ip().is_loopback() && client != address);
    let mut first = TcpStream::connect(client).unwrap();
    let mut server = scene.listener.accept().unwrap().0;
    server.write_all(b"welcome").unwrap();
    assert_eq!(read(&mut first, 7), "welcome");
    assert_eq!(TcpStream::connect(client).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(scene.listener);
    assert_eq!(scene.relay.detour().to(address, LONG).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_relay_that_ends_closes_its_connections() {
    let scene = Scene::new();
    let (mut client, mut server) = scene.connect();
    let (detour, address) = (scene.relay.detour(), scene.listener.local_addr().unwrap());
    scene.relay.arm(Fault::Freeze { after: 0 });
    client.write_all(b"never").unwrap();
    drop(scene.relay);
    assert_eq!((read_to_end(&mut client), read_to_end(&mut server)), (String::new(), String::new()));
    assert!(detour.to(address, LONG).is_err());
}
