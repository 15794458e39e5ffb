//! What a server lies to shedlock that speaks, or seems to speak, this protocol.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use super::{Case, First, Lie, NAME, Phase, Place, Protocol, Rogue, Then, finish_in_time, later};
use servers::stores::RedisStore;

fn lies() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |what: &str, head: &str, then: Then| {
        all.push(Case::new(Phase::Connecting, what, head, then.clone()));
        all.extend(later(what, head.as_bytes(), &then));
    };
    let repeat = |part: &str| Then::Repeat(part.as_bytes().to_vec());
    add("zeros without end", "", Then::Repeat(vec![0; 4096]));
    add("nothing", "", Then::Silence);
    add("half an answer", "$10\r\nab", Then::Silence);
    add("an answer that ends", "*3\r\n:1\r\n", Then::Close);
    // Lengths and counts that were never meant, with what they announce or without.
    for head in ["$500000000", "*2147483647", "$4611686018427387904", "$-2147483648"] {
        add(head, &format!("{head}\r\n"), Then::Silence);
    }
    for (head, part) in [
        ("$500000000", "x"),
        ("$99999999999999999999", "x"),
        ("*2147483647", ":1\r\n"),
        ("*2147483647", "*0\r\n"),
        ("*4611686018427387904", "$0\r\n\r\n"),
        ("%4611686018427387904", "+\r\n"),
        ("=999999999", "x"),
        ("!999999999", "x"),
        ("~2147483647", "_\r\n"),
        (">2147483647", "+\r\n"),
        ("|2147483647", ":1\r\n"),
    ] {
        add(&format!("{head} and {part:?}"), &format!("{head}\r\n"), repeat(part));
    }
    // What has no end.
    for part in [
        "*1\r\n",
        "*1000\r\n",
        "*1\r\n*0\r\n",
        "+OK\r\n",
        "$1000\r\n",
        "-",
        "-MOVED 1 ",
        "+",
        ":1",
        "$1",
        "\r\n",
        "_\r\n",
    ] {
        add(&format!("{part:?} without end"), "", repeat(part));
    }
    add("texts without end", "*16000\r\n", repeat(&format!("$1000\r\n{}\r\n", "x".repeat(1000))));
    add("a long refusal", &format!("-ERR {}\r\n", "x".repeat(60_000)), Then::Silence);
    add("a refusal that is too long", &format!("-ERR {}\r\n", "x".repeat(1 << 20)), Then::Silence);
    // Refusals on and on.
    for refusal in
        ["-NOSCRIPT x\r\n", "-LOADING x\r\n", "-READONLY x\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-NOAUTH x\r\n", "-\r\n"]
    {
        add(refusal.trim(), refusal, Then::Converse(vec![refusal.as_bytes().to_vec(); 1000]));
    }
    all
}

#[test]
fn a_server_that_lies_is_borne() {
    let protocol = Protocol {
        first: First::Client,
        alone: &|port| format!("redis://:secret@127.0.0.1:{port}"),
        store: &RedisStore::new(),
        needle: NAME.as_bytes().to_vec(),
    };
    protocol.is_safe_from(lies());
}

/// A node or a sentinel that names a socket of this host, or no place at all.
#[test]
fn a_password_is_sent_to_a_host_and_a_port_alone() {
    let place = Place::new();
    let socket = place.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let socket = socket.to_str().unwrap();
    let master = |name: &str, port: &str| format!("*2\r\n${}\r\n{name}\r\n${}\r\n{port}\r\n", name.len(), port.len());
    for (url, answer) in [
        ("redis-cluster://:secret@127.0.0.1:PORT", format!("-MOVED 1 {socket}:1\r\n")),
        ("redis-cluster://:secret@127.0.0.1:PORT", format!("-ASK 1 {socket}:1\r\n")),
        ("redis-cluster://:secret@127.0.0.1:PORT", "-MOVED 1 127.0.0.1:0\r\n".to_owned()),
        ("redis-cluster://:secret@127.0.0.1:PORT", "-MOVED 1 0.0.0.0:1\r\n".to_owned()),
        ("redis-sentinel://:secret@127.0.0.1:PORT/main", master(socket, "1")),
        ("redis-sentinel://:secret@127.0.0.1:PORT/main", master("127.0.0.1", "0")),
        ("redis-sentinel://:secret@127.0.0.1:PORT/main", master("", "1")),
    ] {
        // A node has to accept the login first.
        let (login, then) = match url.starts_with("redis-cluster") {
            true => ("+OK\r\n", Then::Converse(vec![answer.clone().into_bytes()])),
            false => (answer.as_str(), Then::Silence),
        };
        let rogue = Rogue::alone(First::Client, Lie { head: login.into(), then });
        let url = url.replace("PORT", &rogue.port().to_string());
        let mut run = place.run("a", ["--backend-timeout", "1s", "--", "true"]);
        let finished = finish_in_time(run.env("SHEDLOCK_BACKEND", &url));
        finished.complains(125, "which is not a host and a port");
        assert!(!finished.stderr.contains("secret"), "{finished:?}");
        let connected = listener.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(connected, Err(ErrorKind::WouldBlock), "{answer}");
    }
}
