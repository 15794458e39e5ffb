//! A connection whose every wait has an end.
//!
//! The driver's own blocking client knows no limit once the server has accepted the connection: one that is frozen would
//! keep us from the next host, and a statement that waits for another session's lock would be carried out when nobody
//! wants it any more. So this is that client again, as far as it is needed here, with a limit on everything.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// How long taking back a statement may take, and how long saying goodbye.
const SHORTLY: Duration = Duration::from_millis(500);

/// So much later than for a connection we stop waiting for what is said over it.
const LATER: Duration = Duration::from_millis(10);

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::backend) enum Failure {
    /// The server or the system says no.
    Said(Error),
    /// Nobody says anything.
    Silence,
    /// The server was busy with the statement for too long. It was told to leave it, and has left it.
    Cancelled,
    /// The server answers, and can only be read, so what it says need not be so any more.
    ReadOnly,
    /// A pooler does not say anything either, or has hung up: it may not have asked a server at all.
    Pooled,
    /// Another session keeps a row or a table. `place` is what the server says of where, or the words of the statement there.
    Locked {
        row: bool,
        place: String,
    },
    Ours(BackendError),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Ours(error)
    }
}

/// A connection. It is served only while an operation waits.
pub(in crate::backend) struct Session {
    runtime: Runtime,
    client: Client,
    connection: JoinHandle<Result<(), Error>>,
    /// Tells the server to leave what it is doing for us; gone once it was told.
    cancel: Cancel,
    /// The process that the server said serves us.
    pid: Option<i32>,
    origin: Origin,
    /// The server has warned that what it did may be lost in a failover.
    unreplicated: Arc<AtomicBool>,
}

/// Whose a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Unknown,
    /// Nobody had it before us.
    Own,
    /// A pooler lends it, and to others as well.
    Lent,
}

/// Processes have no larger numbers on Linux. PgBouncer makes up a number of 32 bits.
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
        // A server that nobody reaches is told from one that says nothing: the driver's own limit ends before ours.
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

    /// The process that has to carry out a statement that is only for a session of our own; `None` where that is certain.
    pub(super) fn only_for(&self) -> Option<i32> {
        self.pid.filter(|_| self.origin == Origin::Unknown)
    }

    /// Notes which process carried out a statement.
    pub(super) fn served_by(&mut self, pid: i32) {
        self.origin = if self.pid == Some(pid) { Origin::Own } else { Origin::Lent };
    }

    /// Notes that a statement was carried out which is only for a session of our own.
    pub(super) fn served_by_own(&mut self) {
        if self.origin == Origin::Unknown {
            self.origin = Origin::Own;
        }
    }

    /// Nobody had this session before us.
    pub(super) fn is_own(&self) -> bool {
        self.origin == Origin::Own
    }

    /// A pooler lends it.
    pub(super) fn is_lent(&self) -> bool {
        self.origin == Origin::Lent
    }

    /// Asks in one message, without preparing the statement first.
    pub(super) fn query(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let Self { runtime, client, cancel, unreplicated, .. } = self;
        unreplicated.store(false, Ordering::Relaxed);
        let answer = runtime.block_on(limited(client.query_typed(statement, values), limit, cancel));
        answer.map_err(|failure| locked(failure, statement))
    }

    /// The last statement was carried out, and the server stopped waiting for its standby before that had it too.
    pub(super) fn is_unreplicated(&self) -> bool {
        self.unreplicated.load(Ordering::Relaxed)
    }

    /// Asks in the simple protocol, which is all that a pooler's console knows, and returns the rows.
    pub(super) fn ask(&mut self, statement: &str, limit: Duration) -> Result<Vec<SimpleQueryRow>, Failure> {
        let Self { runtime, client, cancel, .. } = self;
        let messages = runtime.block_on(limited(client.simple_query(statement), limit, cancel))?;
        let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Has a statement carried out that answers nothing.
    pub(super) fn execute(&mut self, statement: &str, limit: Duration) -> Result<(), Failure> {
        let Self { runtime, client, cancel, .. } = self;
        runtime.block_on(limited(client.batch_execute(statement), limit, cancel))
    }

    /// Whether this connection is of no more use: what was to be taken back once cannot be again.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_closed() || self.cancel.is_none()
    }

    /// Lets nobody go on with this connection.
    pub(super) fn leave(&mut self) {
        self.cancel = None;
    }

    /// Says goodbye, so that no server or pooler wonders in its log where we went.
    pub(super) fn close(self) {
        let Self { runtime, client, connection, .. } = self;
        drop(client);
        // Who does not want to hear it sees the connection close.
        let _ = runtime.block_on(async { timeout(SHORTLY, connection).await });
    }
}

/// Tells a lock of another session from other failures. Of a row the server says where it is; of a table, where in the
/// statement it is named.
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

/// The function of the server that warns when it stops waiting for a standby; the text of the warning may be in any language.
const REPLICATION: &str = "SyncRepWaitForLSN";

/// Serves a connection, and notes a warning that what was done may not have been replicated.
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

/// Waits for an answer, and cancels a statement that takes too long. If the server then says that the statement succeeded, it may
/// have done so on this server only: PostgreSQL stops waiting for its standbys on a cancel, and reports success. Where a cancel
/// was sent before, none is sent again, and a late answer counts: the whole machine may have stood still.
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
