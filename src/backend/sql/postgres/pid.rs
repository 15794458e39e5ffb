//! Reads the id of the process that the server assigned to a connection.
//!
//! A pooler reports a number of its own. The driver hides the number, but writes it into a request to cancel; so a
//! request is written here to a connection that leads nowhere.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Length of the process id and the secret that end a request to cancel, four bytes each.
const ENDING_LENGTH: usize = 8;

/// Extracts the process id from a request to cancel.
pub(crate) async fn read(token: &CancelToken) -> Option<i32> {
    let tape = Tape::default();
    token.cancel_query_raw(tape.clone(), Plain).await.ok()?;
    let written = tape.0.lock().unwrap_or_else(PoisonError::into_inner);
    let ending = written.len().checked_sub(ENDING_LENGTH)?;
    Some(i32::from_be_bytes(*written.get(ending..)?.first_chunk()?))
}

/// Records the bytes that are written to it, in place of a connection.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

/// Stands for TLS, and leaves the connection unencrypted.
struct Plain;

impl AsyncRead for Tape {
    /// Accepts TLS, the only question that the driver asks.
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
