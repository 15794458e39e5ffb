use proptest::prelude::*;
use proptest::test_runner::Config;

use super::fields::CUT;
use super::login::*;
use super::result::*;
use super::*;
use crate::backend::sql::engine::Cell;

/// A greeting as MariaDB sends it: version 10, its name, a thread, a nonce, what it can do, a plugin.
const GREETING: &[u8] = b"\x0a5.5.5-10.11.6-MariaDB\0\x01\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\
    \0\0\0\0\0\0\0\0\0\0abcdefghijkl\0mysql_native_password\0";

fn complaint(code: u16, message: &str) -> ServerError {
    ServerError { code, message: message.to_owned() }
}

#[test]
fn a_greeting_has_a_nonce_and_a_plugin() {
    let greeting = read_greeting(GREETING).unwrap().unwrap();
    assert_eq!(&greeting.nonce, b"abcdefghabcdefghijkl");
    assert_eq!((greeting.plugin.as_str(), greeting.capabilities), ("mysql_native_password", 0x81ff_f7fe));
    let cut = |length: usize| read_greeting(&GREETING[..length]);
    assert_eq!(cut(30), Err(CUT));
    assert_eq!(cut(0), Err(ProtocolError("unsupported protocol version")));
    // A server from before plugins, and one from before version 4.1.
    assert_eq!(cut(GREETING.len() - 22).unwrap().unwrap().plugin, "");
    let old = [&GREETING[..36], b"\0\0"].concat();
    assert!(read_greeting(&old).is_err_and(|strange| strange.0.contains("CLIENT_PROTOCOL_41")));
    assert!(read_greeting(b"HTTP/1.1 400 Bad Request").is_err());
}

#[test]
fn an_error_has_its_code_and_words_without_a_state_and_no_more_than_a_server_says() {
    let full = b"\xff\x10\x04#08004Too many connections";
    assert_eq!(read_greeting(full), Ok(Err(complaint(1040, "Too many connections"))));
    assert_eq!(read_login_step(b"\xff\x10\x04Too many"), Ok(Err(complaint(1040, "Too many"))));
    assert_eq!(read_first(b"\xff\x15\x04"), Ok(Err(complaint(1045, ""))));
    assert_eq!(read_first(b"\xff\x15\x04#"), Ok(Err(complaint(1045, "#"))));
    assert_eq!(read_first(b"\xff\x15"), Err(CUT));
    let long = [b"\xff\x15\x04#28000".as_slice(), &[b'x'; 60_000]].concat();
    assert_eq!(read_first(&long).unwrap().unwrap_err().message.len(), 512);
}

#[test]
fn a_login_says_only_what_both_sides_know() {
    let mut greeting = read_greeting(GREETING).unwrap().unwrap();
    assert!(!Capabilities::new(&greeting, true, true).has_tls(), "this server has none");
    greeting.capabilities |= TLS;
    let capabilities = Capabilities::new(&greeting, true, true);
    assert_eq!(capabilities.0, CAPABILITIES | DATABASE | TLS);
    let body = login(capabilities, "jobs", "ops", "mysql_native_password", &[7; 20]);
    assert_eq!(body[..4], capabilities.0.to_le_bytes());
    assert_eq!(body[4..9], [0, 0, 16, 0, 45]);
    let rest = [b"jobs\0\x14".as_slice(), &[7; 20], b"ops\0mysql_native_password\0"].concat();
    assert_eq!(body[32..], [rest.as_slice(), b"\x16\x0cprogram_name\x08shedlock"].concat());
    // A server takes what the request for TLS says for what the login will.
    assert_eq!(tls_request(capabilities), body[..32]);
    let without = Capabilities::new(&greeting, false, false);
    assert!(!without.has_tls() && without.0 == CAPABILITIES);
    greeting.capabilities &= !(PLUGINS | ATTRIBUTES | DATABASE | TLS | ANSWER_LENGTH);
    let old = Capabilities::new(&greeting, true, true);
    assert!(!old.has_tls() && old.0 & ANSWER_LENGTH != 0);
    assert_eq!(login(old, "jobs", "ops", "x", b"")[32..], *b"jobs\0\0ops\0");
    assert_eq!(Capabilities::new(&greeting, false, true).0 & DATABASE, 0);
}

#[test]
fn a_login_goes_on_with_another_plugin_or_what_the_plugin_says() {
    let switch = |plugin: &str, data: &[u8]| Ok(Ok(LoginStep::Switch(plugin.to_owned(), data.to_vec())));
    assert_eq!(read_login_step(b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0"), {
        switch("caching_sha2_password", b"abcdefghijklmnopqrst\0")
    });
    assert_eq!(read_login_step(b"\xfe"), switch("mysql_old_password", b""));
    assert_eq!(read_login_step(b"\x01\x04"), Ok(Ok(LoginStep::More(vec![4]))));
    assert_eq!(read_login_step(b"\0\0\0\x02\0\0\0"), Ok(Ok(LoginStep::LoggedIn)));
    assert!(read_login_step(b"").is_err() && read_login_step(b"\x02").is_err());
}

#[test]
fn a_result_says_what_was_changed_and_whether_another_follows() {
    let done = |bytes: &[u8]| read_first(bytes).unwrap().unwrap();
    let written = Written::default();
    let first = |changed, id, more| FirstPacket::Completed(Completed { changed, id, more, written });
    assert_eq!(done(b"\0\x01\xfc\x2c\x01\x0a\0\0\0"), first(1, Some(300), true));
    assert_eq!(done(b"\0\0\0\x02\0\0\0"), first(0, None, false));
    assert_eq!(done(b"\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0"), first(u64::MAX, None, false));
    assert_eq!(read_first(b"\0\x01"), Err(CUT));
    assert_eq!(read_first(b"\x07"), Ok(Ok(FirstPacket::Rows(7))));
    assert_eq!(read_first(b"\xfc\0\x10"), Ok(Ok(FirstPacket::Rows(4096))));
}

#[test]
fn a_result_says_what_kinds_of_tables_were_written() {
    let written = |rest: &[u8]| match read_first(&[b"\0\x01\0", rest].concat()) {
        Ok(Ok(FirstPacket::Completed(done))) => done.written,
        other => panic!("{other:?}"),
    };
    let kinds = |within, outside| Written { within, outside };
    // As MariaDB sends it: the status, warnings, no text, and one change of eleven bytes.
    assert_eq!(written(b"\x0b\x40\0\0\0\x0b\x05\x09\x08T___W___"), kinds(true, false));
    assert_eq!(written(b"\x0b\x40\0\0\0\x0b\x05\x09\x08Tr_w____"), kinds(false, true));
    assert_eq!(written(b"\x0b\x40\0\0\0\x0b\x05\x09\x08T__wW___"), kinds(true, true));
    // A schema that was changed before it, and a text.
    assert_eq!(written(b"\x0b\x40\0\0\x01x\x0f\x01\x02\x01d\x05\x09\x08T__w____"), kinds(false, true));
    for nothing in [
        b"\x0b\x40\0\0".as_slice(),
        b"\x0b\x40\0\0\0\x0b\x05\x09\x08T__w",
        b"\x0b\0\0\0\0\x0b\x05\x09\x08T__w____",
        b"",
    ] {
        assert_eq!(written(nothing), kinds(false, false), "{nothing:?}");
    }
}

#[test]
fn no_file_is_sent_and_no_more_columns_are_believed_than_a_table_can_have() {
    assert!(read_first(b"\xfb/etc/passwd").is_err_and(|strange| strange.0.contains("file")));
    for count in [4097_u64, 1 << 33, 1 << 60, u64::MAX] {
        let bytes = [b"\xfe".as_slice(), &count.to_le_bytes()].concat();
        assert!(read_first(&bytes).is_err_and(|strange| strange.0.contains("columns")), "{count}");
    }
    assert_eq!(read_first(b"\xfe\0\0"), Err(CUT));
    assert_eq!(read_first(b""), Err(CUT));
}

#[test]
fn rows_have_texts_and_nothing_and_end() {
    let row = |bytes: &[u8], columns| match read_next(bytes, columns) {
        Ok(Ok(NextPacket::Row(row))) => Some(row.0),
        _ => None,
    };
    let text = |text: &str| Cell::Text(text.to_owned());
    assert_eq!(row(b"\x01a\xfb\0", 3), Some(vec![text("a"), Cell::Null, text("")]));
    assert_eq!(row(b"\x02\xff\xfe", 1), Some(vec![text("\u{fffd}\u{fffd}")]));
    assert_eq!(row(b"\x01a", 2), None);
    assert_eq!(row(b"\xfd\xff\xff\xffa", 1), None);
    assert!(matches!(read_next(b"\xfe\0\0\x0a\0", 1), Ok(Ok(NextPacket::End(true)))));
    assert!(matches!(read_next(b"\xfe\0\0\x02\0", 1), Ok(Ok(NextPacket::End(false)))));
    assert!(read_end_of_columns(b"\xfe\0\0\x02\0").is_ok() && read_end_of_columns(b"\x01a").is_err());
    let column = b"\x03def\x01d\x01t\x01t\x0alock_until\x01u\x0c\x3f\0\x17\0\0\0\x07\x81\x04\x03\0\0";
    assert_eq!(read_column(column), Ok(Ok(Column { kind: TIMESTAMP, decimals: 3 })));
    assert_eq!(read_column(&column[..column.len() - 3]), Err(CUT));
}

#[test]
fn a_message_of_any_length_is_packets() {
    assert_eq!(packets(&query("x"), 0), b"\x02\0\0\0\x03x");
    assert_eq!(packets(&vec![0; MAX_PACKET_BODY], 255)[HEAD_LENGTH + MAX_PACKET_BODY..], [0, 0, 0, 0]);
    assert_eq!(packets(&vec![0; MAX_PACKET_BODY + 7], 1)[HEAD_LENGTH + MAX_PACKET_BODY..][..HEAD_LENGTH], [7, 0, 0, 2]);
    assert_eq!(head(b"\x02\x01\0\x05"), Some((258, 5)));
    assert_eq!(head(b"\x02\0\0"), None);
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(2000) })]

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), columns in 1..MAX_COLUMNS) {
        let _ = (head(&bytes), read_greeting(&bytes), read_login_step(&bytes), read_first(&bytes));
        let _ = (read_column(&bytes), read_end_of_columns(&bytes), read_next(&bytes, columns));
    }

    #[test]
    fn a_greeting_that_is_damaged_is_one_or_an_error(at in 0..GREETING.len(), byte: u8, end in 0..=GREETING.len()) {
        let mut bytes = GREETING.to_vec();
        bytes[at] = byte;
        let _ = read_greeting(&bytes[..end]);
    }
}
