//! The process that the server said serves a connection.
//!
//! A pooler says a number of its own. The driver keeps the number to itself, but writes it into a request to cancel, so
//! one is written here, to nobody.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// A request to cancel ends with the process and a secret, of four bytes each.
const ENDING: usize = 8;

/// Reads the number of the process out of a request to cancel.
pub(super) async fn read(token: &CancelToken) -> Option<i32> {
    let tape = Tape::default();
    token.cancel_query_raw(tape.clone(), Plain).await.ok()?;
    let written = tape.0.lock().unwrap_or_else(PoisonError::into_inner);
    let ending = written.len().checked_sub(ENDING)?;
    Some(i32::from_be_bytes(*written.get(ending..)?.first_chunk()?))
}

/// A connection to nobody, which keeps what is written to it.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

/// Offers TLS, and leaves it at that.
struct Plain;

impl AsyncRead for Tape {
    /// Says yes to TLS, which is all that is asked for.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        into.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Tape {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl TlsConnect<Tape> for Plain {
    type Stream = Tape;
    type Error = io::Error;
    type Future = Ready<Result<Tape, io::Error>>;

    fn connect(self, stream: Tape) -> Self::Future {
        ready(Ok(stream))
    }
}
