//! The driver, with the runtime that runs it: in this thread, and only while a request is being answered.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mongodb::Database;
use mongodb::event::EventHandler;
use mongodb::options::ServerAddress;
use shedlock_provider::StoreError;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::address::Address;
use crate::errors::{self, RequestKind};
use crate::lookup;
use crate::tls::Tls;

/// The part of the time for a request that the provider uses, so that its answer comes in time.
const TIME_SHARE: f64 = 0.9;
/// The shortest time for a request, since the server takes no time for no limit.
const MIN_TIME: Duration = Duration::from_millis(10);

/// The part of its time that a write has: what is left is for asking whether it was carried out.
const WRITE_SHARE: f64 = 0.5;
/// The time of the first attempt.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);
/// The factor by which the time grows after an attempt that met silence.
const ATTEMPT_GROWTH: f64 = 1.5;

/// Says until when a request has to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

/// The attempts of a request that may be repeated. A server that accepts but stays silent is left and tried again: if its
/// accept queue overflowed, the connection exists for the client only. The time grows, so that a slow server is reached too,
/// and the last attempt gets all that is left. Up to a half is added at random: clients that were refused together would come
/// back together.
pub(crate) struct Attempts {
    end: Deadline,
    limit: Duration,
    begun: Instant,
    current: Deadline,
}

/// Holds the connection to the servers.
pub(crate) struct Session {
    /// Always there until it is dropped.
    driver: Option<(Database, Runtime)>,
    /// Receives the reason why no server can be reached, once each of them has been tried.
    unreachable: UnboundedReceiver<StoreError>,
    /// The servers, of a cluster as the DNS lists them.
    pub(crate) hosts: Vec<ServerAddress>,
    /// Set once the server has been found to be no FerretDB although it looked like one.
    pub(crate) is_known_server: bool,
}

/// Says how an operation failed, and whether the session can go on.
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) is_over: bool,
}

impl Deadline {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self(Instant::now() + share(timeout))
    }

    /// Returns the time until which a write has to be answered.
    pub(crate) fn of_write(timeout: Duration) -> Self {
        Self(Instant::now() + write_limit(timeout))
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

impl Attempts {
    pub(crate) fn new(timeout: Duration) -> Self {
        let end = Deadline::new(timeout);
        Self { end, limit: FIRST_ATTEMPT, begun: Instant::now(), current: end }
    }

    /// Returns the time until which the next attempt has to be answered.
    pub(crate) fn begin(&mut self) -> Deadline {
        self.begun = Instant::now();
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let limit = self.limit.mul_f64(1.0 + f64::from(nanos % 1000) / 2000.0);
        self.limit = self.limit.mul_f64(ATTEMPT_GROWTH);
        // Less than half as much would be left for another one.
        let is_last = self.end.left() < limit.mul_f64(1.5);
        self.current = if is_last { self.end } else { Deadline(self.begun + limit) };
        self.current
    }

    /// Returns whether the attempt that has failed met silence, and there is time for another one.
    pub(crate) fn met_silence(&self) -> bool {
        self.current.left() < self.begun.elapsed() && self.current.0 < self.end.0
    }
}

/// Returns the time that a write has within a request of this length.
pub(crate) fn write_limit(timeout: Duration) -> Duration {
    share(timeout).mul_f64(WRITE_SHARE)
}

/// Returns the time that a request of this length has.
fn share(timeout: Duration) -> Duration {
    timeout.mul_f64(TIME_SHARE).max(MIN_TIME)
}

impl Session {
    /// Prepares the driver. It connects with the first operation, for as long as is left now.
    pub(crate) fn new(address: &Address, timeout: Duration, deadline: Deadline) -> Result<Self, StoreError> {
        if address.has_names() {
            lookup::without_modules();
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| errors::no_runtime(&error.to_string()))?;
        let (report, unreachable) = unbounded_channel();
        let has_certificate = address.tls.as_ref().is_some_and(Tls::has_certificate);
        let prepared = runtime.block_on(async {
            let (mut options, _files) =
                tokio::time::timeout(deadline.left(), address.options(deadline.left(), write_limit(timeout)))
                    .await
                    .map_err(|_| errors::no_members("no answer in time"))??;
            let hosts = options.hosts.clone();
            options.sdam_event_handler = Some(EventHandler::callback(move |event| {
                // The other end is gone with the session.
                let _ = errors::unreachable(&event, has_certificate).map(|why| report.send(why));
            }));
            let client = mongodb::Client::with_options(options);
            let client = client.map_err(|error| errors::explain(&error, RequestKind::Read))?;
            Ok((client.database(&address.database), hosts))
        });
        match prepared {
            Ok((database, hosts)) => {
                Ok(Self { driver: Some((database, runtime)), unreachable, hosts, is_known_server: false })
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Performs an operation.
    pub(crate) fn ask<T>(
        &mut self,
        kind: RequestKind,
        deadline: Deadline,
        operation: impl AsyncFnOnce(&Database) -> mongodb::error::Result<T>,
    ) -> Result<T, Failure> {
        let over = |error| Failure { error, is_over: true };
        let Some((database, runtime)) = &self.driver else { return Err(over(errors::no_runtime("it has ended"))) };
        let unreachable = &mut self.unreachable;
        let answer = runtime.block_on(async {
            let mut operation = pin!(tokio::time::timeout(deadline.left(), operation(database)));
            poll_fn(|context| match operation.as_mut().poll(context) {
                Poll::Pending if kind == RequestKind::Read => match unreachable.poll_recv(context) {
                    Poll::Ready(Some(why)) => Poll::Ready(Err(why)),
                    _ => Poll::Pending,
                },
                operation => operation.map(Ok),
            })
            .await
        });
        match answer {
            Err(why) => Err(over(why)),
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => {
                Err(Failure { is_over: !errors::is_answer(&error), error: errors::explain(&error, kind) })
            }
            Ok(Err(_)) if kind == RequestKind::Write => Err(over(errors::said_nothing().sent())),
            Ok(Err(_)) => Err(over(errors::said_nothing())),
        }
    }

    /// Performs something that is no matter of the driver's.
    pub(crate) fn perform<T>(&self, action: impl Future<Output = T>) -> Option<T> {
        self.driver.as_ref().map(|(_, runtime)| runtime.block_on(action))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((database, runtime)) = self.driver.take() else { return };
        {
            // The driver starts tasks when it is dropped.
            let _inside = runtime.enter();
            drop(database);
        }
        // A lookup of a name that is not answered would keep it.
        runtime.shutdown_background();
    }
}
