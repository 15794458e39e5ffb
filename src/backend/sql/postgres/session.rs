//! A connection on which every wait has a time limit.
//!
//! The driver's blocking client has no limit once the server has accepted the connection. A frozen server would keep
//! shedlock from the next host, and a statement that waits for another session's lock would be executed after the
//! caller gave up. This module replaces that client as far as shedlock needs it, with a limit on every wait.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_core::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Row, SimpleQueryMessage, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::Failure;
use super::pid;
use super::read_limit::{Allowance, LimitedStream, Secure};
use super::socket::{Address, Socket};
use crate::backend::Detour;
use crate::backend::net::bounds::ANSWER_BYTES;

/// Time limit for cancelling a statement, and for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time by which shedlock's limit for a login exceeds the driver's limit for the connection.
const LOGIN_MARGIN: Duration = Duration::from_millis(10);

/// Holds a connection, which is served only while an operation waits.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
    connection: JoinHandle<Result<(), Error>>,
    allowance: Allowance,
    /// Request that the server cancel the current statement; `None` once it was sent.
    cancel: Cancel,
    /// Id of the process that serves this session, as the server reported it.
    pid: Option<i32>,
    origin: Origin,
    /// Set if the server warned that a failover may lose the last change.
    unreplicated: Arc<AtomicBool>,
}

/// Says how to connect to a server, beside the login.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: Address,
    /// Name that a certificate has to have.
    pub(crate) name: String,
    /// Settings of TLS; `None` where none is asked for.
    pub(crate) tls: Option<MakeRustlsConnect>,
    /// Time for which a connection may show no sign of life.
    pub(crate) timeout: Duration,
    pub(crate) detour: Detour,
}

impl Server {
    async fn connect(
        &self,
        config: &Config,
        allowance: &Allowance,
        limit: Duration,
    ) -> io::Result<(LimitedStream<Socket>, Secure)> {
        let secure = Secure::new(self.tls.as_ref(), &self.name)?;
        // One byte answers the question for TLS.
        let bare = usize::from(config.get_ssl_mode() != SslMode::Disable);
        let address = self.address.by(&self.detour, limit)?;
        Ok((LimitedStream::new(address.connect(self.timeout).await?, bare, allowance.clone()), secure))
    }
}

/// Says which clients use a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Unknown,
    /// Session that no other client has used.
    Own,
    /// Session that a pooler lends to shedlock, and to other clients as well.
    Pooled,
}

/// Largest process id on Linux. PgBouncer makes up numbers of 32 bits.
const MAX_PID: i32 = 1 << 22;

type Cancel = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl Session {
    /// Connects and logs in, with as much TLS as the mode of `config` wants.
    pub(crate) fn open(config: &Config, server: &Server, limit: Duration) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|_| Failure::Silence)?;
        let allowance = Allowance::new();
        let login = async {
            // This limit ends first: that tells a server that cannot be reached from a silent one.
            let (stream, secure) = timeout(limit, server.connect(config, &allowance, limit))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(Failure::Unreached)?;
            let (client, connection) = config.connect_raw(stream, secure).await?;
            let unreplicated = Arc::new(AtomicBool::new(false));
            let connection = tokio::spawn(serve(connection, Arc::clone(&unreplicated)));
            let token = client.cancel_token();
            let pid = pid::read(&token).await;
            Ok((client, connection, token, pid, unreplicated))
        };
        let opened = runtime.block_on(async { timeout(limit + LOGIN_MARGIN, login).await });
        let opened = opened.unwrap_or(Err(Failure::Silence));
        let (client, connection, token, pid, unreplicated) =
            opened.map_err(|failure| allowance.refusal().map_or(failure, Failure::Backend))?;
        let origin = match pid {
            Some(1..=MAX_PID) => Origin::Unknown,
            _ => Origin::Pooled,
        };
        let (server, config) = (server.clone(), config.clone());
        let cancel: Cancel = Some(Box::pin(async move {
            // A request that gets nowhere is like none.
            if let Ok((stream, secure)) = server.connect(&config, &Allowance::new(), CLOSE_TIMEOUT).await {
                let _ = token.cancel_query_raw(stream, secure).await;
            }
        }));
        Ok(Self { runtime, client, connection, allowance, cancel, pid, origin, unreplicated })
    }

    /// Returns the process to which a statement must be tied, because the session may be a pooler's; `None` where the
    /// origin is known.
    pub(crate) fn required_pid(&self) -> Option<i32> {
        self.pid.filter(|_| self.origin == Origin::Unknown)
    }

    /// Records which process executed a statement.
    pub(crate) fn note_process(&mut self, pid: i32) {
        self.origin = if self.pid == Some(pid) { Origin::Own } else { Origin::Pooled };
    }

    /// Records that a statement was executed which was tied to this session's process.
    pub(crate) fn confirm_own(&mut self) {
        if self.origin == Origin::Unknown {
            self.origin = Origin::Own;
        }
    }

    /// Returns whether no other client has used this session.
    pub(crate) fn is_own(&self) -> bool {
        self.origin == Origin::Own
    }

    /// Returns whether a pooler lends this session.
    pub(crate) fn is_pooled(&self) -> bool {
        self.origin == Origin::Pooled
    }

    /// Sends a statement in one message, without preparing it first.
    pub(crate) fn query(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        self.each(statement, values, limit, ANSWER_BYTES, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// Sends a statement in one message, and passes the rows on as they come, of this many bytes at most. A failure may come
    /// after rows.
    pub(crate) fn each(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        limit: Duration,
        most: usize,
        sink: &mut dyn FnMut(Row),
    ) -> Result<(), Failure> {
        let Self { runtime, client, allowance, cancel, unreplicated, .. } = self;
        allowance.limit_answer(most);
        unreplicated.store(false, Ordering::Relaxed);
        let rows = async {
            let values = values.iter().map(|(value, kind)| (*value, kind.clone()));
            let mut rows = pin!(client.query_typed_raw(statement, values).await?);
            while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
                sink(row?);
            }
            Ok(())
        };
        let answer = runtime.block_on(within_limit(rows, limit, cancel));
        self.refuse_excess(answer).map_err(|failure| find_foreign_lock(failure, statement))
    }

    /// Returns whether the server executed the last statement, but stopped waiting for its standby before that had it
    /// too.
    pub(crate) fn is_unreplicated(&self) -> bool {
        self.unreplicated.load(Ordering::Relaxed)
    }

    /// Sends a statement in the simple protocol, the only one that a pooler's console knows, and returns the rows.
    pub(crate) fn simple_query(&mut self, statement: &str, limit: Duration) -> Result<Vec<SimpleQueryRow>, Failure> {
        let Self { runtime, client, allowance, cancel, .. } = self;
        allowance.limit_answer(ANSWER_BYTES);
        let answer = runtime.block_on(within_limit(client.simple_query(statement), limit, cancel));
        let messages = self.refuse_excess(answer)?;
        let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Executes a statement that returns no rows.
    pub(crate) fn execute(&mut self, statement: &str, limit: Duration) -> Result<(), Failure> {
        let Self { runtime, client, allowance, cancel, .. } = self;
        allowance.limit_answer(ANSWER_BYTES);
        let answer = runtime.block_on(within_limit(client.batch_execute(statement), limit, cancel));
        self.refuse_excess(answer)
    }

    /// Finds out whether an answer failed because the server sent more than it may. Then the connection is over.
    fn refuse_excess<T>(&mut self, answer: Result<T, Failure>) -> Result<T, Failure> {
        match self.allowance.refusal() {
            Some(refusal) if answer.is_err() => {
                self.abandon();
                Err(Failure::Backend(refusal.ambiguous()))
            }
            _ => answer,
        }
    }

    /// Returns whether this connection can no longer be used: it is closed, or its only request to cancel was sent.
    pub(crate) fn is_unusable(&self) -> bool {
        self.client.is_closed() || self.cancel.is_none()
    }

    /// Prevents any further use of this connection.
    pub(crate) fn abandon(&mut self) {
        self.cancel = None;
    }

    /// Closes the connection properly, so that no server or pooler logs a lost client.
    pub(crate) fn close(self) {
        let Self { runtime, client, connection, .. } = self;
        drop(client);
        // A server that does not read the goodbye sees the connection close.
        let _ = runtime.block_on(async { timeout(CLOSE_TIMEOUT, connection).await });
    }
}

/// Recognizes a lock of another session among failures. For a row the server describes where it is; for a table it gives
/// the position of the name in the statement.
fn find_foreign_lock(failure: Failure, statement: &str) -> Failure {
    let Failure::Driver(error) = &failure else { return failure };
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
const REPLICATION_WARNING: &str = "SyncRepWaitForLSN";

/// Serves a connection, and records a warning that a change may not have been replicated.
async fn serve<S, T>(mut connection: Connection<S, T>, unreplicated: Arc<AtomicBool>) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message?
            && notice.routine() == Some(REPLICATION_WARNING)
        {
            unreplicated.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Waits for an answer, and cancels a statement that takes too long. If the server then reports success, perhaps only
/// this server has the change: on a cancel PostgreSQL stops waiting for its standbys, and reports success. After an
/// earlier cancel no second one is sent, and a late answer counts: the whole machine may have been suspended.
async fn within_limit<T>(
    answer: impl Future<Output = Result<T, Error>>,
    limit: Duration,
    cancel: &mut Cancel,
) -> Result<T, Failure> {
    let mut answer = pin!(answer);
    if let Ok(answer) = timeout(limit, answer.as_mut()).await {
        return answer.map_err(Failure::Driver);
    }
    let cancel = cancel.take();
    let cancels = cancel.is_some();
    if let Some(cancel) = cancel {
        let _ = timeout(CLOSE_TIMEOUT, cancel).await;
    }
    match timeout(CLOSE_TIMEOUT, answer).await {
        Ok(Ok(answer)) if !cancels => Ok(answer),
        Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Err(Failure::Cancelled),
        Ok(Err(error)) => Err(Failure::Driver(error)),
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
                within_limit(answer, limit, &mut cancel).await
            })
        };
        assert!(late(None).is_ok());
        assert!(matches!(late(Some(Box::pin(async {}))), Err(Failure::Silence)));
    }
}
