//! What a run tells others: events as JSON, metrics, notifications, and warnings that nobody reads. Each test reads it as its
//! reader would: by the documented schema, by Prometheus, by the command of `--notify`. What `status` and `history` show is
//! tested in `operator`.

mod blocked_stderr;
mod events;
mod metrics;
mod monitoring;
mod notify;
mod secrets;
