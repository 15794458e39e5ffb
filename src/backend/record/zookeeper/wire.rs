//! ZooKeeper's protocol: requests as bytes, and answers read from bytes that may be anything.
//!
//! A message is a length of four bytes and that many more. Numbers are big-endian; a text or a buffer has its length
//! before it, and -1 stands for none.

use crate::backend::net::bounds::ANSWER_BYTES;
use crate::system::Timestamp;

/// The longest answer that is read. A list of a hundred thousand locks fits in.
pub(crate) const MAX_ANSWER_BYTES: usize = 1 << 24;
/// The most children of a node that are believed.
const MAX_CHILDREN: i32 = 1_000_000;
/// The version that stands for any version of a node.
pub(crate) const ANY_VERSION: i32 = -1;
/// The number of a reply to a login, which is no reply to a request.
pub(crate) const LOGIN_ID: i32 = -4;
/// The numbers of messages that a server may send unasked: the end of a ping, and an event.
pub(crate) const UNSOLICITED_IDS: [i32; 2] = [-2, -1];

const CHILDREN: i32 = 8;
const MULTI: i32 = 14;
const ERROR: i32 = -1;
const ALL_RIGHTS: i32 = 31;
const READ_RIGHT: i32 = 1;
/// The rights to write a node, and to create and delete those below it.
pub(crate) const WRITE_RIGHTS: i32 = 2 | 4 | 8;

/// Holds a request without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    code: i32,
    body: Vec<u8>,
}

/// Names the rights on a new node: everything, and reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody, as the Java library's nodes.
    Open,
    /// The user who is logged in; everybody may read.
    Creator,
}

/// Holds the answer to a request: the body, or the code of an error.
pub(crate) type Answer = Result<Vec<u8>, i32>;

/// Holds the metadata of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The number of the transaction that wrote the node last.
    pub(crate) written_by: u64,
    pub(crate) written_at: Timestamp,
    pub(crate) version: i32,
}

/// Holds the data and metadata of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) stat: Stat,
}

/// Says how the server answers the first message of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    Session,
    /// The server has lost its ensemble, and answers from its memory.
    ReadOnly,
    Expired,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self::new(4, |body| body.text(path).flag(false))
    }

    /// Asks for the [`Stat`] of a node, for which no right is needed.
    pub(crate) fn exists(path: &str) -> Self {
        Self::new(3, |body| body.text(path).flag(false))
    }

    pub(crate) fn rights(path: &str) -> Self {
        Self::new(6, |body| body.text(path))
    }

    pub(crate) fn children(path: &str) -> Self {
        Self::new(CHILDREN, |body| body.text(path).flag(false))
    }

    pub(crate) fn set(path: &str, data: &[u8], version: i32) -> Self {
        Self::new(5, |body| body.text(path).buffer(data).number(version))
    }

    /// Creates a persistent node.
    pub(crate) fn create(path: &str, data: &[u8], access: Access) -> Self {
        let rights: &[(i32, &str, &str)] = match access {
            Access::Open => &[(ALL_RIGHTS, "world", "anyone")],
            Access::Creator => &[(ALL_RIGHTS, "auth", ""), (READ_RIGHT, "world", "anyone")],
        };
        let right =
            |body: ByteWriter, (number, scheme, user): &(i32, &str, &str)| body.number(*number).text(scheme).text(user);
        let count = i32::try_from(rights.len()).unwrap_or(0);
        Self::new(1, |body| rights.iter().fold(body.text(path).buffer(data).number(count), right).number(0))
    }

    pub(crate) fn delete(path: &str, version: i32) -> Self {
        Self::new(2, |body| body.text(path).number(version))
    }

    /// Carries out all of these requests or none.
    pub(crate) fn transaction(requests: &[Self]) -> Self {
        let each =
            |body: ByteWriter, request: &Self| body.number(request.code).flag(false).number(-1).raw(&request.body);
        Self::new(MULTI, |body| requests.iter().fold(body, each).number(-1).flag(true).number(-1))
    }

    /// Ends the session.
    pub(crate) fn close() -> Self {
        Self::new(-11, |body| body)
    }

    fn new(code: i32, fill: impl FnOnce(ByteWriter) -> ByteWriter) -> Self {
        Self { code, body: fill(ByteWriter::default()).0 }
    }

    /// Returns the message with the number of the request.
    pub(crate) fn message(&self, number: i32) -> Vec<u8> {
        ByteWriter::default().number(number).number(self.code).raw(&self.body).message()
    }
}

/// Returns how many bytes the answers to these requests can have together. A node has a megabyte at most, unless the server
/// is configured otherwise.
pub(crate) fn longest_answers(requests: &[Request]) -> usize {
    let longest = |request: &Request| if request.code == CHILDREN { MAX_ANSWER_BYTES } else { 2 * ANSWER_BYTES };
    requests.iter().map(longest).sum::<usize>().min(MAX_ANSWER_BYTES + 2 * ANSWER_BYTES)
}

/// Returns the message that opens a session.
pub(crate) fn greeting(timeout_millis: i32) -> Vec<u8> {
    let (version, seen, session) = (0, 0, 0);
    let opening = ByteWriter::default().number(version).long(seen).number(timeout_millis).long(session);
    // The password of a new session, and whether a read-only server will do.
    opening.buffer(&[0; 16]).flag(false).message()
}

/// Returns the message that logs in with the scheme `digest`.
pub(crate) fn login(user: &str, password: &str) -> Vec<u8> {
    let secret = format!("{user}:{password}");
    ByteWriter::default().number(LOGIN_ID).number(100).number(0).text("digest").buffer(secret.as_bytes()).message()
}

/// Reads the answer to a greeting; `None` if it is no such answer.
pub(crate) fn read_greeting(bytes: &[u8]) -> Option<Greeting> {
    let mut reader = ByteReader(bytes);
    let (_, timeout, session) = (reader.number()?, reader.number()?, reader.long()?);
    reader.buffer()?;
    // Servers before 3.4 leave the last byte out.
    let read_only = reader.bytes(1).is_some_and(|byte| byte != [0]);
    Some(match timeout <= 0 || session == 0 {
        true => Greeting::Expired,
        false if read_only => Greeting::ReadOnly,
        false => Greeting::Session,
    })
}

/// Splits a reply into the number of its request and the answer; `None` if it is no reply.
pub(crate) fn read_reply(mut bytes: Vec<u8>) -> Option<(i32, Answer)> {
    let mut reader = ByteReader(&bytes);
    let (number, _, error) = (reader.number()?, reader.long()?, reader.number()?);
    let head = bytes.len() - reader.0.len();
    bytes.drain(..head);
    Some((number, if error == 0 { Ok(bytes) } else { Err(error) }))
}

pub(crate) fn read_node(body: &[u8]) -> Option<Node> {
    let mut reader = ByteReader(body);
    Some(Node { data: reader.buffer()?.to_vec(), stat: reader.stat()? })
}

pub(crate) fn read_stat(body: &[u8]) -> Option<Stat> {
    ByteReader(body).stat()
}

pub(crate) fn read_children(body: &[u8]) -> Option<Vec<String>> {
    let mut reader = ByteReader(body);
    let count = reader.number().filter(|count| *count <= MAX_CHILDREN)?;
    // Each name has at least the four bytes of its length, so that a wrong number ends soon.
    (0..count).map(|_| reader.text()).collect()
}

/// Describes a right of a node: what users of a scheme may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) numbers: i32,
    pub(crate) scheme: String,
}

pub(crate) fn read_rights(body: &[u8]) -> Option<Vec<Right>> {
    let mut reader = ByteReader(body);
    let count = reader.number()?;
    let mut right = || {
        let right = Right { numbers: reader.number()?, scheme: reader.text()? };
        reader.text()?;
        Some(right)
    };
    (0..count).map(|_| right()).collect()
}

/// Reads the answer to [`Request::transaction`]: the error of the first request that failed, if one did; `None` if it is no such
/// answer.
pub(crate) fn read_transaction(body: &[u8]) -> Option<Result<Option<Stat>, FailedRequest>> {
    let (mut reader, mut stat, mut index) = (ByteReader(body), None, 0);
    let mut refused = None;
    loop {
        let (code, is_end, _) = (reader.number()?, reader.bytes(1)? != [0], reader.number()?);
        match code {
            _ if is_end => return Some(refused.map_or(Ok(stat), Err)),
            // The requests before the one that failed have 0, those after it -2.
            ERROR => match reader.number()? {
                0 => {}
                error => {
                    refused.get_or_insert(FailedRequest { index, code: error });
                }
            },
            1 => drop(reader.text()?),
            5 => stat = Some(reader.stat()?),
            2 => {}
            _ => return None,
        }
        index += 1;
    }
}

/// Names the first of several requests that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedRequest {
    pub(crate) index: usize,
    pub(crate) code: i32,
}

/// Collects the bytes of a request.
#[derive(Default)]
struct ByteWriter(Vec<u8>);

impl ByteWriter {
    fn number(self, number: i32) -> Self {
        self.raw(&number.to_be_bytes())
    }

    fn long(self, number: i64) -> Self {
        self.raw(&number.to_be_bytes())
    }

    fn flag(self, flag: bool) -> Self {
        self.raw(&[u8::from(flag)])
    }

    fn text(self, text: &str) -> Self {
        self.buffer(text.as_bytes())
    }

    fn buffer(self, bytes: &[u8]) -> Self {
        self.raw(&length(bytes)).raw(bytes)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(self) -> Vec<u8> {
        [length(&self.0).as_slice(), &self.0].concat()
    }
}

/// Returns the length of something that shedlock sends, which is never long.
fn length(bytes: &[u8]) -> [u8; 4] {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes()
}

/// Reads values from the bytes of an answer, in their order.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<i32> {
        self.bytes(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.bytes(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    fn buffer(&mut self) -> Option<&'a [u8]> {
        match self.number()? {
            -1 => Some(&[]),
            length => self.bytes(usize::try_from(length).ok()?),
        }
    }

    fn text(&mut self) -> Option<String> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn stat(&mut self) -> Option<Stat> {
        let (_, written_by, _, written_at) = (self.long()?, self.long()?, self.long()?, self.long()?);
        let version = self.number()?;
        // The versions of children and rights, the session of an ephemeral node, lengths, and the last change of a child.
        self.bytes(4 + 4 + 8 + 4 + 4 + 8)?;
        let (written_by, written_at) = (u64::try_from(written_by).ok()?, u64::try_from(written_at).ok()?);
        Some(Stat { written_by, written_at: Timestamp(written_at), version })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    fn stat(written_by: i64, written_at: i64, version: i32) -> ByteWriter {
        let times = ByteWriter::default().long(1).long(written_by).long(2).long(written_at).number(version);
        times.raw(&[0; 32])
    }

    #[test]
    fn a_request_is_what_the_documentation_of_the_protocol_says() {
        let expected = b"\0\0\0\x11\0\0\0\x07\0\0\0\x04\0\0\0\x04/job\0";
        assert_eq!(Request::get("/job").message(7), expected);
        let set = Request::set("/a", b"x", 3).body;
        assert_eq!(set, b"\0\0\0\x02/a\0\0\0\x01x\0\0\0\x03");
        let all = Request::transaction(&[Request::delete("/a", ANY_VERSION)]);
        let begin = b"\0\0\0\x02\0\xff\xff\xff\xff\0\0\0\x02/a\xff\xff\xff\xff";
        assert_eq!(all.body, [begin.as_slice(), b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"].concat());
        assert_eq!(greeting(30_000).len(), 4 + 4 + 8 + 4 + 8 + 20 + 1);
    }

    #[test]
    fn a_node_has_data_and_the_transaction_that_wrote_it() {
        let body = ByteWriter::default().text("x").raw(&stat(9, 1_000, 4).0).0;
        let found = Stat { written_by: 9, written_at: Timestamp(1_000), version: 4 };
        assert_eq!(read_node(&body), Some(Node { data: b"x".to_vec(), stat: found }));
        let none = ByteWriter::default().number(-1).raw(&stat(9, 1_000, 4).0).0;
        assert_eq!(read_node(&none).unwrap().data, b"");
        assert_eq!(read_node(&body[..body.len() - 1]), None);
        assert_eq!(read_stat(&stat(-1, 0, 0).0), None, "no transaction has such a number");
    }

    #[test]
    fn of_several_requests_the_first_that_failed_is_told() {
        let head = |code: i32| ByteWriter::default().number(code).flag(false).number(0);
        let end = ByteWriter::default().number(-1).flag(true).number(-1).0;
        let failed = [0, -103, -2].map(|error| head(ERROR).number(error).0).concat();
        let refused = FailedRequest { index: 1, code: -103 };
        assert_eq!(read_transaction(&[failed.as_slice(), &end].concat()), Some(Err(refused)));
        let is_end = [head(1).text("/a").0, head(5).raw(&stat(5, 6, 0).0).0, head(2).0, end].concat();
        assert_eq!(read_transaction(&is_end).unwrap().unwrap().unwrap().written_at, Timestamp(6));
        assert_eq!(read_transaction(&is_end[..is_end.len() - 1]), None);
    }

    #[test]
    fn a_server_that_may_only_be_read_says_so_in_its_greeting() {
        let greeting =
            |timeout: i32, session: i64| ByteWriter::default().number(0).number(timeout).long(session).text("pw");
        assert_eq!(read_greeting(&greeting(4_000, 1).0), Some(Greeting::Session));
        assert_eq!(read_greeting(&greeting(4_000, 1).flag(false).0), Some(Greeting::Session));
        assert_eq!(read_greeting(&greeting(4_000, 1).flag(true).0), Some(Greeting::ReadOnly));
        assert_eq!(read_greeting(&greeting(0, 0).0), Some(Greeting::Expired));
        assert_eq!(read_greeting(b"HTTP/1.1 400 Bad Request"), None);
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(2000) })]

        #[test]
        fn any_bytes_are_an_answer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read_greeting(&bytes), read_reply(bytes.clone()), read_node(&bytes), read_stat(&bytes));
            let _ = (read_children(&bytes), read_rights(&bytes), read_transaction(&bytes));
        }
    }
}
