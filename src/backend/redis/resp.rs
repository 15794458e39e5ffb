//! Parses answers in RESP2, the version of the protocol that a server speaks unless it is asked for another.
//!
//! Memory grows with what has come, never with a length or a count that was announced.

use std::{fmt, io};

use ::redis::Value;

use crate::backend::net::bounds::TooLong;

/// Bytes of the longest line: a number, a status, or the text of an error.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Most arrays within each other. The answer to CLUSTER SLOTS has four.
const MAX_DEPTH: usize = 8;
/// Bytes of an answer for each of the elements that it may have: an element takes more memory than bytes.
const BYTES_PER_ELEMENT: usize = 64;

/// Parses answers from the pieces in which they come.
pub(crate) struct AnswerReader {
    /// The arrays that have begun, the outermost first.
    open: Vec<Open>,
    /// Bytes that a text may have.
    max_bytes: usize,
    /// Elements that arrays may still have.
    elements: usize,
}

struct Open {
    lacks: usize,
    found: Vec<Value>,
}

/// Says why bytes are no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// No Redis server sends this.
    NotRedis,
    /// More was announced than the bytes of an answer.
    TooLong(TooLong),
}

enum Token {
    Leaf(Value),
    Array(usize),
}

impl AnswerReader {
    /// Reads answers of this many bytes at most.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { open: Vec::new(), max_bytes, elements: max_bytes / BYTES_PER_ELEMENT }
    }

    /// Reads on, up to the end of an answer or of the bytes that are complete. Returns the number of bytes that were read, and
    /// the answer if it is complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Value>), ParseError> {
        let mut used = 0;
        while let Some((token, length)) = token(&bytes[used..], self.max_bytes)? {
            used += length;
            let leaf = match token {
                Token::Leaf(leaf) => leaf,
                Token::Array(0) => Value::Array(Vec::new()),
                Token::Array(count) => {
                    self.elements = self.elements.checked_sub(count).ok_or(too_long(self.max_bytes))?;
                    if self.open.len() == MAX_DEPTH {
                        return Err(ParseError::NotRedis);
                    }
                    self.open.push(Open { lacks: count, found: Vec::new() });
                    continue;
                }
            };
            if let Some(answer) = self.add(leaf) {
                return Ok((used, Some(answer)));
            }
        }
        Ok((used, None))
    }

    /// Adds a value to the innermost array; returns the answer that it completes.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        while let Some(mut array) = self.open.pop() {
            array.found.push(value);
            array.lacks -= 1;
            if array.lacks > 0 {
                self.open.push(array);
                return None;
            }
            value = Value::Array(array.found);
        }
        Some(value)
    }
}

/// Reads one value, or the head of an array. Returns nothing if it is not complete.
fn token(bytes: &[u8], max_bytes: usize) -> Result<Option<(Token, usize)>, ParseError> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    if !b"+-:$*".contains(kind) {
        return Err(ParseError::NotRedis);
    }
    let Some(end) = rest.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\r') else {
        return if rest.len() < MAX_LINE_BYTES { Ok(None) } else { Err(too_long(MAX_LINE_BYTES)) };
    };
    let (line, used) = (&rest[..end], 1 + end + 2);
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(ParseError::NotRedis),
    }
    let text = || String::from_utf8_lossy(line);
    let number = || text().parse::<i64>().map_err(|_| ParseError::NotRedis);
    let count = |max_bytes| match number()? {
        -1 => Ok(None),
        count => match usize::try_from(count) {
            Ok(count) if count <= max_bytes => Ok(Some(count)),
            Ok(_) => Err(too_long(max_bytes)),
            Err(_) => Err(ParseError::NotRedis),
        },
    };
    let leaf = match kind {
        b'+' if line == b"OK" => Value::Okay,
        b'+' => Value::SimpleString(text().into_owned()),
        b':' => Value::Int(number()?),
        b'-' => ::redis::parse_redis_value(format!("-{}\r\n", text()).as_bytes()).map_err(|_| ParseError::NotRedis)?,
        b'$' => {
            let Some(length) = count(max_bytes)? else { return Ok(Some((Token::Leaf(Value::Nil), used))) };
            let end = used + length;
            return match bytes.get(used..end + 2) {
                None => Ok(None),
                Some([text @ .., b'\r', b'\n']) => Ok(Some((Token::Leaf(Value::BulkString(text.to_vec())), end + 2))),
                Some(_) => Err(ParseError::NotRedis),
            };
        }
        _ => return Ok(Some((count(max_bytes)?.map_or(Token::Leaf(Value::Nil), Token::Array), used))),
    };
    Ok(Some((Token::Leaf(leaf), used)))
}

const fn too_long(max_bytes: usize) -> ParseError {
    ParseError::TooLong(TooLong(max_bytes))
}

impl ParseError {
    /// Returns whether a read failed because its bytes are no answer.
    pub(crate) fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for io::Error {
    fn from(refused: ParseError) -> Self {
        match refused {
            ParseError::NotRedis => Self::new(io::ErrorKind::InvalidData, refused),
            ParseError::TooLong(error) => error.into(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an answer of Redis")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1 << 20;

    /// Returns all answers in these bytes, which come in pieces of this size.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Value>, ParseError> {
        let (mut reader, mut unparsed, mut answers) = (AnswerReader::new(MOST), Vec::new(), Vec::new());
        for part in bytes.chunks(piece) {
            unparsed.extend_from_slice(part);
            loop {
                let (used, answer) = reader.read(&unparsed)?;
                unparsed.drain(..used);
                let Some(answer) = answer else { break };
                answers.push(answer);
            }
        }
        Ok(answers)
    }

    fn refused(text: &str) -> Option<ParseError> {
        read(text.as_bytes(), text.len()).err()
    }

    #[test]
    fn each_kind_of_answer_is_read() {
        let text = "+OK\r\n+PONG\r\n:-7\r\n$-1\r\n$0\r\n\r\n$4\r\na\r\nb\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n";
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let wanted = vec![
            Value::Okay,
            Value::SimpleString("PONG".to_owned()),
            Value::Int(-7),
            Value::Nil,
            bulk(""),
            bulk("a\r\nb"),
            Value::Nil,
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Array(vec![Value::Int(1)]), bulk("x")]),
        ];
        for piece in [1, 2, 3, 7, text.len()] {
            assert_eq!(read(text.as_bytes(), piece).unwrap(), wanted, "{piece}");
        }
        let answers = read(b"-MOVED 1 host:2\r\n-\r\n", 5).unwrap();
        let [Value::ServerError(moved), Value::ServerError(_)] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!((moved.code(), moved.details()), ("MOVED", Some("1 host:2")));
    }

    #[test]
    fn what_redis_never_sends_is_refused_with_its_first_byte() {
        for text in [
            "HTTP/1.1 400",
            "\0",
            "_\r\n",
            "%1\r\n",
            "=5\r\n",
            ">1\r\n",
            ":x\r\n",
            "$-2\r\n",
            "*-7\r\n",
            "+a\rb",
            "$1\r\nabc",
        ] {
            assert_eq!(refused(text), Some(ParseError::NotRedis), "{text:?}");
        }
        assert_eq!(refused(&"*1\r\n".repeat(100)), Some(ParseError::NotRedis));
    }

    #[test]
    fn what_is_announced_longer_than_it_may_be_is_not_waited_for() {
        for text in ["$500000000\r\n", "*2147483647\r\n", "*4\r\n*16381\r\n", "$9223372036854775807\r\n"] {
            assert_eq!(refused(text), Some(too_long(MOST)), "{text:?}");
        }
        assert_eq!(refused(&format!("+{}", "x".repeat(MAX_LINE_BYTES))), Some(too_long(MAX_LINE_BYTES)));
    }

    fn written(value: &Value) -> Vec<u8> {
        match value {
            Value::Nil => b"$-1\r\n".to_vec(),
            Value::Int(number) => format!(":{number}\r\n").into_bytes(),
            Value::BulkString(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
            Value::Array(values) => {
                let head = format!("*{}\r\n", values.len()).into_bytes();
                values.iter().fold(head, |all, value| [all, written(value)].concat())
            }
            other => panic!("{other:?} is not written here"),
        }
    }

    fn answers() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::BulkString),
        ];
        leaf.prop_recursive(4, 30, 6, |inner| proptest::collection::vec(inner, 0..6).prop_map(Value::Array))
    }

    proptest! {
        #[test]
        fn an_answer_is_the_same_in_whatever_pieces_it_comes(
            wanted in proptest::collection::vec(answers(), 1..4), piece in 1..40_usize,
        ) {
            let bytes: Vec<u8> = wanted.iter().flat_map(written).collect();
            prop_assert_eq!(read(&bytes, piece).unwrap(), wanted);
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b"+-:$*\r\n019".to_vec())], 0..200),
            piece in 1..40_usize,
        ) {
            let whole = read(&bytes, bytes.len().max(1));
            if let (Ok(whole), Ok(parts)) = (whole, read(&bytes, piece)) {
                prop_assert_eq!(whole, parts);
            }
        }
    }
}
