//! What a server lies to shedlock that speaks, or seems to speak, this protocol.

use super::{Case, First, NAME, Phase, Protocol, Then, later};
use servers::stores::PostgresStore;

/// Returns a message of this length, which its body need not have.
fn claimed(tag: u8, length: i32, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    claimed(tag, i32::try_from(body.len() + 4).unwrap(), body)
}

fn error(code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{code}\0M{text}\0\0").as_bytes())
}

/// Returns the description of rows with so many columns of a type.
fn columns(count: u16, kind: u32) -> Vec<u8> {
    let column = [b"a\0\0\0\0\0\0\0".as_slice(), &kind.to_be_bytes(), &[0; 8]].concat();
    message(b'T', &[&count.to_be_bytes()[..], &column.repeat(count.into())].concat())
}

/// Returns a row with a text of this length.
fn row(length: i32) -> Vec<u8> {
    let text = vec![b'x'; usize::try_from(length).unwrap()];
    message(b'D', &[b"\0\x01".as_slice(), &length.to_be_bytes(), &text].concat())
}

const TEXT: u32 = 25;
const UNKNOWN: u32 = 99_999;

/// Returns answers that have no end wherever they come.
fn endless() -> Vec<(&'static str, Vec<u8>, Then)> {
    let repeat = |part: Vec<u8>| Then::Repeat(part);
    let mut all = vec![
        ("zeros", Vec::new(), repeat(vec![0; 4096])),
        ("nothing", Vec::new(), Then::Silence),
        ("an end", Vec::new(), Then::Close),
        ("notices", Vec::new(), repeat(message(b'N', b"SNOTICE\0C00000\0Mx\0\0"))),
        ("notifications", Vec::new(), repeat(message(b'A', b"\0\0\0\x01a\0b\0"))),
        ("parameters", Vec::new(), repeat(message(b'S', b"a\0b\0"))),
        ("answers", Vec::new(), repeat(message(b'Z', b"I"))),
        ("a long error", error("XX000", &"x".repeat(60_000)), repeat(message(b'Z', b"I"))),
        ("an error that is too long", error("XX000", &"x".repeat(2 << 20)), Then::Silence),
        ("a length that cannot be", claimed(b'E', 3, b""), repeat(vec![b'x'; 4096])),
        ("data to copy", message(b'H', b"\0\0\0"), repeat(message(b'd', &[b'x'; 1000]))),
        ("a wish for data", message(b'G', b"\0\0\0"), Then::Silence),
    ];
    for tag in *b"RSNADTEKtd!" {
        all.push(("a message without end", claimed(tag, i32::MAX, b""), repeat(vec![b'x'; 4096])));
    }
    all.push(("a message that is announced", claimed(b'D', i32::MAX, b""), Then::Silence));
    all
}

fn lies() -> Vec<Case> {
    let mut all = vec![
        Case::new(Phase::Connecting, "TLS and silence", "S", Then::Silence),
        Case::new(Phase::Connecting, "TLS that is none", "S", Then::Repeat(vec![0; 4096])),
        Case::new(Phase::Connecting, "TLS without end", "S\x16\x03\x03\x40\0", Then::Repeat(vec![2; 4096])),
        Case::new(Phase::Connecting, "warnings", "S", Then::Repeat(b"\x15\x03\x03\0\x02\x01\0".to_vec())),
    ];
    let let_in = message(b'R', &[0; 4]);
    for (what, head, then) in endless() {
        let what = format!("{what}, {:?}", String::from_utf8_lossy(&head[..head.len().min(5)]));
        all.push(Case::new(Phase::Connecting, &what, [b"N", &head[..]].concat(), then.clone()));
        let login = format!("a login and {what}");
        // An answer, or no answer, to the login is one to an acquisition as well.
        if !what.starts_with("answers") {
            all.push(Case::new(Phase::Connecting, &login, [b"N", &let_in[..], &head].concat(), then.clone()));
        }
        all.extend(later(&what, &head, &then));
    }
    let parameters = (0..100_000).flat_map(|number| message(b'S', format!("a{number}\0b\0").as_bytes()));
    let parameters = [b"N".to_vec(), let_in, parameters.collect()].concat();
    all.push(Case::new(Phase::Connecting, "100,000 parameters", parameters, Then::Silence));

    let begun = [message(b'1', b""), message(b'2', b"")].concat();
    let mut add = |what: &str, head: &[&[u8]], then: Then| all.extend(later(what, &head.concat(), &then));
    add("rows", &[&begun, &columns(1, TEXT)], Then::Repeat(row(1000)));
    add("rows of nothing", &[&begun, &columns(0, TEXT)], Then::Repeat(message(b'D', b"\0\0")));
    add("one long row", &[&begun, &columns(1, TEXT), &row(2 << 20)], Then::Silence);
    add("60,000 columns", &[&begun, &columns(60_000, TEXT)], Then::Silence);
    add("columns that do not come", &[&begun, &message(b'T', b"\xff\xff")], Then::Silence);
    add("values that do not come", &[&begun, &columns(1, TEXT), &message(b'D', b"\xff\xff")], Then::Silence);
    // The driver asks for a type that it does not know, in words with a parameter of a type that it does not know.
    let types =
        [&message(b'1', b"")[..], &message(b't', b"\0\x01\0\x01\x86\x9f"), &message(b'n', b""), &message(b'Z', b"I")];
    let first = [&begun[..], &columns(1, UNKNOWN), &message(b'C', b"SELECT 0\0"), &message(b'Z', b"I")];
    add("types of types", &first, Then::Converse(vec![types.concat(); 50_000]));
    for code in ["42P01", "22012", "2201W", "40001", "53300", "57P01", "28P01", "25006", "55P03"] {
        let refusal = [error(code, "x"), message(b'Z', b"I")].concat();
        let on_and_on = Then::Converse(vec![refusal.clone(); 1000]);
        // A renewal that is refused on and on fails.
        for (phase, then) in
            [(Phase::Taking, &on_and_on), (Phase::Renewing, &Then::Close), (Phase::Releasing, &on_and_on)]
        {
            all.push(Case::new(phase, &format!("the error {code}"), refusal.clone(), then.clone()));
        }
    }
    all
}

#[test]
fn a_server_that_lies_is_borne() {
    let protocol = Protocol {
        first: First::Client,
        alone: &|port| format!("postgres://jobs:secret@127.0.0.1:{port}/x"),
        store: &PostgresStore::new(),
        needle: NAME.as_bytes().to_vec(),
    };
    protocol.is_safe_from(lies());
}
