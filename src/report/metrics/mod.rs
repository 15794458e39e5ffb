//! Metrics for Prometheus: the file that a run leaves for node_exporter, and the locks of a backend as `status --prometheus`
//! prints them. A metric that cannot be written never delays a job.

mod counters;
mod prometheus;
mod textfile;
mod writer;

pub(crate) use prometheus::{LockMetrics, prometheus_text};
pub(crate) use writer::{Metrics, THREAD as METRICS_THREAD};
