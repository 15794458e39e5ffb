//! Limits how many bytes the server may send. The limit is between the network or TLS and the driver, which has none of its
//! own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::socket::Socket;
use crate::backend::net::bounds::{self, ANSWER_BYTES, GREETING_BYTES, TooLong};
use crate::lock::BackendError;

/// Bytes before the length of a message, and with it.
const TAG_LENGTH: usize = 1;
const HEAD_LENGTH: usize = 5;
/// The message that ends an answer, and the one that asks for a password.
const READY_TAG: u8 = b'Z';
const LOGIN_TAG: u8 = b'R';
/// The messages that come before a login is over.
const LOGIN_TAGS: &[u8] = b"RSKZENvA";
/// Answers to the driver's own questions that belong to one statement: it asks for each type that it does not know, and for the
/// types of that.
const MAX_TYPE_QUESTIONS: usize = 50;
/// Bytes of a message of the login that are looked at.
const MAX_LOGIN_LENGTH: usize = 1024;
/// How often a password may have to be hashed. Servers want 4096 by default; a million take about a second.
const MAX_HASH_ROUNDS: u64 = 1_000_000;

/// Says what a server may still send; shared with the [`LimitedStream`] of a connection.
#[derive(Clone)]
pub(crate) struct Allowance(Arc<Mutex<State>>);

struct State {
    /// Bytes that may still come.
    left: usize,
    /// Bytes that might come when the limit was set, for the error.
    most: usize,
    /// Answers that may still come.
    answers: usize,
    /// The error of a server that exceeded it.
    refusal: Option<BackendError>,
}

/// Counts the messages of a stream before the driver sees them.
pub(crate) struct LimitedStream<S> {
    inner: S,
    frames: Frames,
    allowance: Allowance,
}

/// Follows the messages that pass.
struct Frames {
    /// Bytes that belong to no message: the answer to the question for TLS.
    bare: usize,
    head: Vec<u8>,
    /// Bytes of the present message that are still to come.
    body: usize,
    /// The present message, if it is one of the login.
    login: Vec<u8>,
    /// Set after a length that cannot be. The driver reports it.
    is_strange: bool,
}

type Rustls = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
type Encrypted = <Rustls as TlsConnect<Socket>>::Stream;

/// Speaks TLS below the limited stream instead of through it.
pub(crate) struct Secure {
    /// `None` for a connection on which TLS is never asked for.
    tls: Option<Rustls>,
}

impl Allowance {
    /// Allows what comes before the login.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            left: GREETING_BYTES,
            most: GREETING_BYTES,
            answers: MAX_TYPE_QUESTIONS,
            refusal: None,
        })))
    }

    /// Sets how many bytes the server may send from here on.
    pub(crate) fn limit_answer(&self, most: usize) {
        let mut state = self.state();
        (state.left, state.most, state.answers) = (most, most, MAX_TYPE_QUESTIONS);
    }

    /// Returns the error of a server that sent more than it may.
    pub(crate) fn refusal(&self) -> Option<BackendError> {
        self.state().refusal.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn spend(&mut self, bytes: usize) -> Result<(), BackendError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| too_long(self.most))?;
        Ok(())
    }

    /// Judges a message by its head; so many bytes of it are still to come.
    fn judge(&mut self, tag: u8, to_come: usize) -> Result<(), BackendError> {
        if self.most == GREETING_BYTES && !LOGIN_TAGS.contains(&tag) {
            return Err(not_postgres());
        }
        // The driver keeps a message until it is complete.
        if to_come > self.left.min(ANSWER_BYTES) {
            return Err(too_long(self.most.min(ANSWER_BYTES)));
        }
        if tag == READY_TAG {
            self.answers = self.answers.checked_sub(1).ok_or_else(|| {
                BackendError::permanent("the server describes types without end")
                    .hint("check that host and port are those of the right server")
            })?;
        }
        Ok(())
    }
}

/// Returns the error for bytes that are no message of PostgreSQL.
pub(crate) fn not_postgres() -> BackendError {
    BackendError::transient("not a PostgreSQL server").hint("check that host and port are right")
}

fn too_long(most: usize) -> BackendError {
    bounds::too_long(&TooLong(most).into())
}

impl<S> LimitedStream<S> {
    /// Lets messages pass, after so many bytes that belong to none.
    pub(crate) fn new(inner: S, bare: usize, allowance: Allowance) -> Self {
        let frames =
            Frames { bare, head: Vec::with_capacity(HEAD_LENGTH), body: 0, login: Vec::new(), is_strange: false };
        Self { inner, frames, allowance }
    }
}

impl Frames {
    /// Looks at bytes that have come.
    fn pass(&mut self, mut bytes: &[u8], state: &mut State) -> Result<(), BackendError> {
        state.spend(bytes.len())?;
        bytes = &bytes[self.bare.min(bytes.len())..];
        self.bare = 0;
        while !bytes.is_empty() && !self.is_strange {
            if self.body > 0 {
                let (part, rest) = bytes.split_at(self.body.min(bytes.len()));
                self.body -= part.len();
                bytes = rest;
                self.keep(part)?;
                continue;
            }
            let (part, rest) = bytes.split_at((HEAD_LENGTH - self.head.len()).min(bytes.len()));
            self.head.extend_from_slice(part);
            bytes = rest;
            let Some((&[tag], length)) = self.head.split_first_chunk::<TAG_LENGTH>() else { continue };
            let Ok(length) = <[u8; HEAD_LENGTH - TAG_LENGTH]>::try_from(length) else { continue };
            let length = usize::try_from(i32::from_be_bytes(length)).ok();
            self.head.clear();
            let Some(body) = length.and_then(|length| length.checked_sub(HEAD_LENGTH - TAG_LENGTH)) else {
                self.is_strange = true;
                break;
            };
            state.judge(tag, body.saturating_sub(bytes.len()))?;
            self.body = body;
            self.login =
                if tag == LOGIN_TAG && body <= MAX_LOGIN_LENGTH { Vec::with_capacity(body) } else { Vec::new() };
        }
        Ok(())
    }

    /// Keeps a part of a message of the login, and judges the whole: the driver does the work that a server asks for in one
    /// piece, without regard to the time limit.
    fn keep(&mut self, part: &[u8]) -> Result<(), BackendError> {
        if self.login.capacity() == 0 {
            return Ok(());
        }
        self.login.extend_from_slice(part);
        if self.body > 0 {
            return Ok(());
        }
        let login = std::mem::take(&mut self.login);
        match rounds(&login) {
            Some(rounds) if rounds > MAX_HASH_ROUNDS => Err(BackendError::permanent(format!(
                "the server wants the password hashed {rounds} times"
            ))
            .hint(format!("shedlock does it {MAX_HASH_ROUNDS} times at most; see the server's scram_iterations"))),
            _ => Ok(()),
        }
    }
}

/// Returns the number of rounds in a message of SCRAM: `r=NONCE,s=SALT,i=ROUNDS`, after the kind of the message.
fn rounds(login: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(login.get(4..)?).ok()?;
    let rounds = text.split(',').find_map(|part| part.strip_prefix("i="))?;
    // The driver reports a text that is no number.
    rounds.bytes().all(|byte| byte.is_ascii_digit()).then(|| rounds.parse().unwrap_or(u64::MAX))
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { inner, frames, allowance } = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(inner).poll_read(context, into))?;
        let mut state = allowance.state();
        let passed = frames.pass(&into.filled()[before..], &mut state);
        Poll::Ready(passed.map_err(|refusal| {
            let message = refusal.message.clone();
            state.refusal = Some(refusal);
            io::Error::other(message)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for LimitedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner.channel_binding()
    }
}

impl Secure {
    /// Prepares TLS with the server of this name, or none.
    pub(crate) fn new(tls: Option<&MakeRustlsConnect>, host: &str) -> io::Result<Self> {
        let tls = tls.map(|tls| MakeTlsConnect::<Socket>::make_tls_connect(&mut tls.clone(), host)).transpose();
        Ok(Self { tls: tls.map_err(io::Error::other)? })
    }
}

impl TlsConnect<LimitedStream<Socket>> for Secure {
    type Stream = LimitedStream<Encrypted>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<LimitedStream<Encrypted>>> + Send>>;

    fn connect(self, stream: LimitedStream<Socket>) -> Self::Future {
        Box::pin(async move {
            let tls = self.tls.ok_or(io::ErrorKind::Unsupported)?;
            Ok(LimitedStream::new(tls.connect(stream.inner).await?, 0, stream.allowance))
        })
    }
}

/// Returns whether messages pass that come before the login, in pieces of this size.
#[cfg(any(test, fuzzing))]
pub(crate) fn passes(bytes: &[u8], piece: usize) -> bool {
    let allowance = Allowance::new();
    let mut frames = LimitedStream::new((), 0, allowance.clone()).frames;
    let mut state = allowance.state();
    bytes.chunks(piece).all(|part| frames.pass(part, &mut state).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets bytes pass in pieces of this size. Returns the message of a refusal.
    fn pass(bytes: &[u8], piece: usize, most: usize) -> Option<String> {
        let allowance = Allowance::new();
        allowance.limit_answer(most);
        let mut frames = LimitedStream::new((), 0, allowance.clone()).frames;
        let mut state = allowance.state();
        bytes.chunks(piece).find_map(|part| frames.pass(part, &mut state).err()).map(|error| error.message)
    }

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag][..], &length, body].concat()
    }

    #[test]
    fn messages_pass_in_whatever_pieces_they_come() {
        let row = message(b'D', &[0; 300]);
        let all = [message(LOGIN_TAG, &[0; 4]), row.repeat(20), message(READY_TAG, b"I")].concat();
        for piece in [1, 2, 4, 5, 6, 299, 300, 8192] {
            assert_eq!(pass(&all, piece, all.len()), None, "{piece}");
            let longer = pass(&all, piece, all.len() - 1).unwrap();
            assert!(longer.starts_with("the server sent more than"), "{longer}");
        }
    }

    #[test]
    fn a_message_is_refused_by_the_length_that_it_claims() {
        for length in [i32::MAX, 1 << 20, 2000] {
            let head = [&[b'D'][..], &length.to_be_bytes()].concat();
            assert!(pass(&head, 5, 1500).is_some(), "{length}");
        }
        // Where a list may be long, no message of it may be.
        let head = [&[b'D'][..], &(2_i32 << 20).to_be_bytes()].concat();
        assert!(pass(&head, 5, bounds::LISTING_BYTES).is_some());
        // The driver reports a length that cannot be.
        assert_eq!(pass(&[b'D', 0, 0, 0, 3, 0, 0], 2, ANSWER_BYTES), None);
    }

    #[test]
    fn the_driver_asks_no_questions_without_end() {
        let answers = message(READY_TAG, b"I").repeat(MAX_TYPE_QUESTIONS);
        assert_eq!(pass(&answers, 7, ANSWER_BYTES), None);
        let more = pass(&[answers, message(READY_TAG, b"I")].concat(), 7, ANSWER_BYTES).unwrap();
        assert!(more.contains("types without end"), "{more}");
    }

    #[test]
    fn a_password_is_not_hashed_for_hours() {
        let scram = |rounds: &str| message(LOGIN_TAG, format!("\0\0\0\x0br=abc,s=c2FsdA==,i={rounds}").as_bytes());
        for (rounds, is_refused) in
            [("4096", false), ("1000000", false), ("1000001", true), (&"9".repeat(40), true), ("x", false)]
        {
            for piece in [1, 100] {
                assert_eq!(pass(&scram(rounds), piece, ANSWER_BYTES).is_some(), is_refused, "{rounds}");
            }
        }
    }
}
