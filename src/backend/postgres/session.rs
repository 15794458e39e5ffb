//! A connection on which every wait has a time limit.
//!
//! The driver's blocking client has no limit once the server has accepted the connection. A frozen server would keep
//! shedlock from the next host, and a statement that waits for another session's lock would be executed after the
//! caller gave up. This module replaces that client as far as shedlock needs it, with a limit on every wait.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_core::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, Row, SimpleQueryMessage, SimpleQueryRow, Socket,
};

use super::super::BackendError;
use super::pid;

/// Time limit for cancelling a statement, and for closing a connection.
const SHORTLY: Duration = Duration::from_millis(500);

/// Time by which shedlock's limit for a login exceeds the driver's limit for the connection.
const LATER: Duration = Duration::from_millis(10);

/// Reason why a login or a statement failed.
#[derive(Debug)]
pub(in crate::backend) enum Failure {
    /// Error from the server or the system.
    Said(Error),
    /// No answer in time.
    Silence,
    /// Statement that took too long, which the server was told to cancel, and has cancelled.
    Cancelled,
    /// Answer of a read-only server, which may be outdated.
    ReadOnly,
    /// Silence or hang-up of a pooler, which may not have forwarded the request to a server.
    Pooled,
    /// Lock of another session on a row or a table. `place` is the server's description of where, or the words of the
    /// statement there.
    Locked {
        row: bool,
        place: String,
    },
    /// The history has ids as large as those that its sequence draws, and the sequence could not be advanced.
    Behind,
    Ours(BackendError),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Ours(error)
    }
}

/// A connection, which is served only while an operation waits.
pub(in crate::backend) struct Session {
    runtime: Runtime,
    client: Client,
    connection: JoinHandle<Result<(), Error>>,
    /// Request that the server cancel the current statement; `None` once it was sent.
    cancel: Cancel,
    /// Id of the process that serves this session, as the server reported it.
    pid: Option<i32>,
    origin: Origin,
    /// Set if the server warned that a failover may lose the last change.
    unreplicated: Arc<AtomicBool>,
}

/// Origin of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Unknown,
    /// Session that no other client has used.
    Own,
    /// Session that a pooler lends to shedlock, and to other clients as well.
    Lent,
}

/// Largest process id on Linux. PgBouncer makes up numbers of 32 bits.
const LARGEST_PID: i32 = 1 << 22;

type Cancel = Option<Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

impl Session {
    /// Connects and logs in.
    pub(super) fn open<T>(config: &mut Config, tls: T, limit: Duration) -> Result<Self, Failure>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|_| Failure::Silence)?;
        // The driver's own limit ends before shedlock's: that tells a server that cannot be reached from a silent one.
        config.connect_timeout(limit);
        let opened = runtime.block_on(async { timeout(limit + LATER, config.connect(tls.clone())).await });
        let (client, connection) = opened.map_err(|_| Failure::Silence)?.map_err(Failure::Said)?;
        let unreplicated = Arc::new(AtomicBool::new(false));
        let connection = runtime.spawn(serve(connection, Arc::clone(&unreplicated)));
        let token = client.cancel_token();
        let pid = runtime.block_on(pid::read(&token));
        let origin = match pid {
            Some(1..=LARGEST_PID) => Origin::Unknown,
            _ => Origin::Lent,
        };
        let cancel: Cancel = Some(Box::pin(async move { token.cancel_query(tls).await }));
        Ok(Self { runtime, client, connection, cancel, pid, origin, unreplicated })
    }

    /// Returns the process to which a statement must be tied, because the session may be a pooler's; `None` where the
    /// origin is known.
    pub(super) fn only_for(&self) -> Option<i32> {
        self.pid.filter(|_| self.origin == Origin::Unknown)
    }

    /// Records which process executed a statement.
    pub(super) fn served_by(&mut self, pid: i32) {
        self.origin = if self.pid == Some(pid) { Origin::Own } else { Origin::Lent };
    }

    /// Records that a statement was executed which was tied to this session's process.
    pub(super) fn served_by_own(&mut self) {
        if self.origin == Origin::Unknown {
            self.origin = Origin::Own;
        }
    }

    /// Returns whether no other client has used this session.
    pub(super) fn is_own(&self) -> bool {
        self.origin == Origin::Own
    }

    /// Returns whether a pooler lends this session.
    pub(super) fn is_lent(&self) -> bool {
        self.origin == Origin::Lent
    }

    /// Sends a statement in one message, without preparing it first.
    pub(super) fn query(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        self.each(statement, values, limit, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// Does the same, and passes the rows on as they come. A failure may come after rows.
    pub(super) fn each(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        limit: Duration,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Failure> {
        let Self { runtime, client, cancel, unreplicated, .. } = self;
        unreplicated.store(false, Ordering::Relaxed);
        let rows = async {
            let values = values.iter().map(|(value, kind)| (*value, kind.clone()));
            let mut rows = pin!(client.query_typed_raw(statement, values).await?);
            while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
                take(row?);
            }
            Ok(())
        };
        runtime.block_on(limited(rows, limit, cancel)).map_err(|failure| locked(failure, statement))
    }

    /// Returns whether the server executed the last statement, but stopped waiting for its standby before that had it
    /// too.
    pub(super) fn is_unreplicated(&self) -> bool {
        self.unreplicated.load(Ordering::Relaxed)
    }

    /// Sends a statement in the simple protocol, the only one that a pooler's console knows, and returns the rows.
    pub(super) fn ask(&mut self, statement: &str, limit: Duration) -> Result<Vec<SimpleQueryRow>, Failure> {
        let Self { runtime, client, cancel, .. } = self;
        let messages = runtime.block_on(limited(client.simple_query(statement), limit, cancel))?;
        let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Executes a statement that returns no rows.
    pub(super) fn execute(&mut self, statement: &str, limit: Duration) -> Result<(), Failure> {
        let Self { runtime, client, cancel, .. } = self;
        runtime.block_on(limited(client.batch_execute(statement), limit, cancel))
    }

    /// Returns whether this connection can no longer be used: it is closed, or its only request to cancel was sent.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_closed() || self.cancel.is_none()
    }

    /// Prevents any further use of this connection.
    pub(super) fn leave(&mut self) {
        self.cancel = None;
    }

    /// Closes the connection properly, so that no server or pooler logs a lost client.
    pub(super) fn close(self) {
        let Self { runtime, client, connection, .. } = self;
        drop(client);
        // A server that does not read the goodbye sees the connection close.
        let _ = runtime.block_on(async { timeout(SHORTLY, connection).await });
    }
}

/// Recognizes another session's lock among failures. For a row the server describes where it is; for a table it gives
/// the position of the name in the statement.
fn locked(failure: Failure, statement: &str) -> Failure {
    let Failure::Said(error) = &failure else { return failure };
    let Some(answer) = error.as_db_error().filter(|answer| *answer.code() == SqlState::LOCK_NOT_AVAILABLE) else {
        return failure;
    };
    if let Some(place) = answer.where_() {
        return Failure::Locked { row: true, place: place.to_owned() };
    }
    let Some(ErrorPosition::Original(at)) = answer.position() else { return failure };
    let rest = statement.chars().skip((*at as usize).saturating_sub(1));
    Failure::Locked { row: false, place: rest.take_while(|character| !character.is_whitespace()).collect() }
}

/// Function of the server that warns when it stops waiting for a standby; the text of the warning may be in any
/// language.
const REPLICATION: &str = "SyncRepWaitForLSN";

/// Serves a connection, and records a warning that a change may not have been replicated.
async fn serve<S, T>(mut connection: Connection<S, T>, unreplicated: Arc<AtomicBool>) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message?
            && notice.routine() == Some(REPLICATION)
        {
            unreplicated.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Waits for an answer, and cancels a statement that takes too long. If the server then reports success, perhaps only
/// this server has the change: on a cancel PostgreSQL stops waiting for its standbys, and reports success. After an
/// earlier cancel no second one is sent, and a late answer counts: the whole machine may have been suspended.
async fn limited<T>(
    answer: impl Future<Output = Result<T, Error>>,
    limit: Duration,
    cancel: &mut Cancel,
) -> Result<T, Failure> {
    let mut answer = pin!(answer);
    if let Ok(answer) = timeout(limit, answer.as_mut()).await {
        return answer.map_err(Failure::Said);
    }
    let cancel = cancel.take();
    let cancels = cancel.is_some();
    if let Some(cancel) = cancel {
        let _ = timeout(SHORTLY, cancel).await;
    }
    match timeout(SHORTLY, answer).await {
        Ok(Ok(answer)) if !cancels => Ok(answer),
        Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Err(Failure::Cancelled),
        Ok(Err(error)) => Err(Failure::Said(error)),
        Ok(Ok(_)) | Err(_) => Err(Failure::Silence),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn a_late_success_counts_only_where_nothing_was_cancelled() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let late = |mut cancel: Cancel| {
            let limit = Duration::from_millis(20);
            runtime.block_on(async {
                let answer = async {
                    sleep(limit * 3).await;
                    Ok(())
                };
                limited(answer, limit, &mut cancel).await
            })
        };
        assert!(late(None).is_ok());
        assert!(matches!(late(Some(Box::pin(async { Ok(()) }))), Err(Failure::Silence)));
    }
}
