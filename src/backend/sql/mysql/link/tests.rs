use std::io::Write;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::Detour;

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const COLUMN: &[u8] = b"\x03def\0\0\0\x01x\0\x0c\x2d\0\0\x01\0\0\xfd\0\0\0\0\0";

fn packets(first: u8, bodies: &[&[u8]]) -> Vec<u8> {
    bodies.iter().zip(first..).flat_map(|(body, number)| wire::packets(body, number)).collect()
}

/// Connects to a server that accepts any login, and has sent all of this already.
fn connected(answers: &[Vec<u8>]) -> (Link, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let limit = Duration::from_secs(60);
    let stream = Stream::tcp(listener.local_addr().unwrap(), &Detour::default(), limit).unwrap();
    let mut server = listener.accept().unwrap().0;
    let greeting = [b"\x0a9\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15".as_slice(), &[0; 23]].concat();
    let login = [packets(0, &[&greeting]), packets(2, &[OK])].concat();
    server.write_all(&[login, answers.concat()].concat()).unwrap();
    let opening =
        Opening { user: "jobs", password: "", database: "", tls: None, may_do_without: false, is_private: false };
    let link = Link::open(stream, opening, limit).unwrap_or_else(|trouble| panic!("{trouble:?}"));
    (link, server)
}

/// Returns the parts of an answer, in a word each.
fn parts(link: &mut Link) -> Vec<String> {
    let mut words = Vec::new();
    loop {
        words.push(match link.next() {
            Ok(None) => return words,
            Ok(Some(AnswerPart::Completed(done))) => format!("{} changed", done.changed),
            Ok(Some(AnswerPart::Columns(columns))) => format!("{} columns", columns.len()),
            Ok(Some(AnswerPart::Row(row))) => row.text_or_empty(0),
            Ok(Some(AnswerPart::End)) => "end".to_owned(),
            Err(trouble) => {
                words.push(format!("{trouble:?}"));
                return words;
            }
        });
    }
}

#[test]
fn the_answer_to_several_statements_has_parts() {
    let done = b"\0\x03\0\x0a\0\0\0".as_slice();
    let rows = [b"\x01", COLUMN, b"\xfe\0\0\x02\0", b"\x01a", b"\x01b", b"\xfe\0\0\x0a\0"];
    let (mut link, _server) = connected(&[packets(1, &[&[done], &rows[..], &[OK]].concat())]);
    link.ask("x; y; z", Extent::Answer).unwrap();
    assert_eq!(parts(&mut link), ["3 changed", "1 columns", "a", "b", "end", "0 changed"]);
    assert!(link.next().unwrap().is_none());
}

#[test]
fn a_connection_is_used_on_after_an_error_of_the_server_and_not_after_another() {
    let refusal = packets(1, &[b"\0\0\0\x0a\0\0\0", b"\xff\x7a\x04#42S02no such table"]);
    let strange = packets(7, &[OK]);
    let (mut link, _server) = connected(&[refusal, packets(1, &[OK]), strange, packets(1, &[OK])]);
    link.ask("x; y", Extent::Answer).unwrap();
    assert!(parts(&mut link)[1].contains("no such table"));
    link.ask("x", Extent::Answer).unwrap();
    assert_eq!(parts(&mut link), ["0 changed"]);
    link.ask("x", Extent::Answer).unwrap();
    assert!(parts(&mut link)[0].contains("out of sync"));
    assert!(matches!(link.ask("x", Extent::Answer), Err(LinkError::Network(_))));
}

#[test]
fn an_answer_has_an_end() {
    let row = [b"\xfc\x00\x40".as_slice(), &[b'x'; 0x4000]].concat();
    let mut rows = vec![b"\x01".as_slice(), COLUMN, b"\xfe\0\0\x02\0"];
    rows.extend([row.as_slice(); 80]);
    let (link, server) = connected(&[]);
    let sent = packets(1, &rows);
    std::thread::scope(|scope| {
        scope.spawn(|| (&server).write_all(&sent));
        // The client hangs up once it has read enough.
        let mut link = link;
        link.ask("x", Extent::Answer).unwrap();
        assert!(parts(&mut link).last().unwrap().contains("TooLong"));
    });
}
