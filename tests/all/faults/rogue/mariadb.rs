//! What a server lies to shedlock that speaks, or seems to speak, the protocol of MySQL and MariaDB.

use super::{Case, First, NAME, Phase, Protocol, Then, later};
use servers::stores::MariaDbStore;

/// Bits of what a server can do: TLS.
const TLS: u8 = 0x08;
const OK: &[u8] = b"\0\0\0\x02\0\0\0";

fn packet(number: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], body].concat()
}

/// Returns packets with the numbers that follow, as many as there are numbers: they can be said again and again.
fn endless(first: u8, body: &[u8]) -> Then {
    Then::Repeat((0..=255).flat_map(|more| packet(first.wrapping_add(more), body)).collect())
}

/// Returns a greeting of MySQL, with a plugin and what the server can do beside the usual.
fn greeting(plugin: &str, more: u8) -> Vec<u8> {
    let head = b"\x0a9.7.0\0\x01\0\0\0abcdefgh\0\xff".to_vec();
    let can = [0xf7 | more, 0x2d, 0x02, 0, 0xff, 0x81, 0x15];
    let rest = format!("abcdefghijkl\0{plugin}\0");
    packet(0, &[&head, can.as_slice(), &[0; 10], rest.as_bytes()].concat())
}

fn native() -> Vec<u8> {
    greeting("mysql_native_password", 0)
}

/// Returns a first packet that announces so many columns.
fn columns(count: u64) -> Vec<u8> {
    packet(1, &[b"\xfe".as_slice(), &count.to_le_bytes()].concat())
}

/// Returns the beginning of a result with one column; its rows have the numbers from 4 on.
fn one_column() -> Vec<u8> {
    let column = b"\x03def\0\0\0\x01x\0\x0c\x2d\0\0\x01\0\0\xfd\0\0\0\0\0";
    [packet(1, b"\x01"), packet(2, column), packet(3, b"\xfe\0\0\x02\0")].concat()
}

/// Returns many packets in one go.
fn many(first: u8, body: &[u8]) -> Vec<u8> {
    (0..2000).flat_map(|more| packet(first.wrapping_add((more % 256) as u8), body)).collect()
}

fn before_the_login() -> Vec<Case> {
    let case = |what: &str, head: Vec<u8>, then: Then| Case::new(Phase::Connecting, what, head, then);
    let said = |what: &str, head: Vec<u8>, answers: Vec<Vec<u8>>| case(what, head, Then::Converse(answers));
    let switch =
        |number, plugin: &str| packet(number, &[b"\xfe", plugin.as_bytes(), b"\0abcdefghijklmnopqrst\0"].concat());
    let caching = || greeting("caching_sha2_password", 0);
    let long = |letter: u8| [b"\xff\x10\x04#08004".as_slice(), &vec![letter; 60_000]].concat();
    let key = |body: &[u8]| packet(4, &[b"\x01-----BEGIN PUBLIC KEY-----\n", body].concat());
    vec![
        case("zeros without end", Vec::new(), Then::Repeat(vec![0; 4096])),
        case("packets of 16 MiB", b"\xff\xff\xff\0".to_vec(), Then::Repeat(vec![b'x'; 4096])),
        case("a name without end", b"\xff\xff\0\0\x0a".to_vec(), Then::Repeat(vec![b'9'; 4096])),
        case("a length that never comes", b"\x4a\0\0\0".to_vec(), Then::Silence),
        case("nothing", Vec::new(), Then::Silence),
        case("an error of 60 KB", packet(0, &long(b'x')), Then::Close),
        case("an error of 60,000 lines", packet(0, &long(b'\n')), Then::Close),
        case("a greeting with a wrong number", packet(7, &native()[4..]), Then::Silence),
        case("a greeting, and nothing", native(), Then::Silence),
        case("a greeting, and no number", native(), Then::Repeat(packet(9, OK))),
        said("a wrong number", native(), vec![packet(9, OK)]),
        said("an error of 60 KB after the greeting", native(), vec![packet(2, &long(b'x'))]),
        said(
            "a way to log in for ever",
            native(),
            (1..100).map(|at| switch(at * 2, "mysql_native_password")).collect(),
        ),
        said("a way to log in of 60 KB", native(), vec![switch(2, &"x".repeat(60_000))]),
        said("the password in the clear", native(), vec![switch(2, "mysql_clear_password")]),
        said("an old way to log in", native(), vec![packet(2, b"\xfe")]),
        said("more of the plugin for ever", caching(), vec![many(2, b"\x01\x04")]),
        said("more of another plugin", native(), vec![many(2, b"\x01\x04")]),
        said("a key that is none", caching(), vec![packet(2, b"\x01\x04"), key(b"hello")]),
        said("a key without end", caching(), vec![packet(2, b"\x01\x04"), key(&vec![b'A'; 100_000])]),
        said("no more after the login", native(), vec![packet(2, OK)]),
        said("2^33 columns", native(), vec![packet(2, OK), columns(1 << 33)]),
        said("2^60 columns", native(), vec![packet(2, OK), columns(1 << 60)]),
    ]
}

/// Returns the lies that a client gets that wants TLS.
fn before_tls() -> Vec<Case> {
    let greeting = || greeting("mysql_native_password", TLS);
    let said = |what: &str, head: Vec<u8>, answers: Vec<Vec<u8>>| {
        Case::new(Phase::Connecting, what, head, Then::Converse(answers))
    };
    vec![
        said("no TLS", native(), Vec::new()),
        said("TLS, and then not", greeting(), vec![b"hello".to_vec()]),
        said("TLS, and the login's answer in the clear", greeting(), vec![packet(2, OK)]),
        said("an answer before TLS", [greeting(), packet(2, OK)].concat(), vec![packet(3, OK)]),
        said("records without end", greeting(), vec![b"\x16\x03\x03\x3f\xff".repeat(100_000)]),
        said("alerts without end", greeting(), vec![b"\x15\x03\x03\0\x02\x01\0".repeat(100_000)]),
        Case::new(Phase::Connecting, "TLS without end", greeting(), Then::Repeat(vec![0x16; 4096])),
    ]
}

fn after_the_login() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |what: &str, head: Vec<u8>, then: Then| all.extend(later(what, &head, &then));
    for count in [4097, 1 << 33, 1 << 60, u64::MAX] {
        add(&format!("{count} columns"), columns(count), Then::Silence);
    }
    add("4,096 columns that never come", columns(4096), Then::Silence);
    add("rows without end", one_column(), endless(4, b"\x01x"));
    add("rows of nothing without end", one_column(), endless(4, b"\xfb"));
    add(
        "long rows without end",
        one_column(),
        endless(4, &[b"\xfd\0\0\x01".as_slice(), &vec![b'x'; 1 << 16]].concat()),
    );
    add(
        "a text of 2^63 bytes",
        [one_column(), packet(4, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fx")].concat(),
        Then::Silence,
    );
    add("a text of 16 MiB", [one_column(), b"\xff\xff\xff\x04\xfe".to_vec()].concat(), Then::Repeat(vec![b'x'; 4096]));
    add("results without end", Vec::new(), endless(1, b"\0\0\0\x0a\0\0\0"));
    add("columns that are none", packet(1, b"\x02"), endless(2, b"\x03def"));
    add("ends without end", one_column(), endless(4, b"\xfe\0\0\x0a\0"));
    add("packets of 16 MiB", b"\xff\xff\xff\x01".to_vec(), Then::Repeat(vec![0xff; 4096]));
    add("a length that never comes", b"\x07\0\0\x01\0".to_vec(), Then::Silence);
    add("half an answer", b"\x07\0\0\x01\0".to_vec(), Then::Close);
    add("a wrong number", packet(5, OK), Then::Silence);
    add("a file", packet(1, b"\xfb/etc/passwd"), Then::Silence);
    add("an error of 60 KB", packet(1, &[b"\xff\xbd\x04#40001".as_slice(), &[b'x'; 60_000]].concat()), Then::Silence);
    add("an error of two lines", packet(1, b"\xff\xbd\x04#40001two\nlines"), Then::Silence);
    add("an error without words", packet(1, b"\xff\xbd\x04"), Then::Silence);
    add("nothing", Vec::new(), Then::Silence);
    add("zeros without end", Vec::new(), Then::Repeat(vec![0; 4096]));
    all
}

#[test]
fn a_server_that_lies_is_borne() {
    let store = MariaDbStore::new();
    let needle = NAME.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
    let alone = |port| format!("mysql://jobs:secret@127.0.0.1:{port}/x");
    let protocol = Protocol { first: First::Server, alone: &alone, store: &store, needle };
    protocol.is_safe_from([before_the_login(), after_the_login()].into_iter().flatten().collect());
    let alone = |port| format!("mysql://jobs:secret@127.0.0.1:{port}/x?sslmode=require");
    Protocol { alone: &alone, ..protocol }.is_safe_from(before_tls());
}
