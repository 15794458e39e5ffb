//! Output for people and tools, made of values: what a run says on stderr ([`run_log`]), locks and runs as tables and JSON
//! ([`tables`]), as pictures ([`timeline`]) and as one page ([`page`]), and metrics for Prometheus ([`metrics`]).
//!
//! It asks no backend and decides nothing about a run or a lock.

mod dry_run;
mod holding;
mod messages;
mod metrics;
mod page;
mod run_log;
mod screen;
mod secrets;
mod skew;
mod tables;
mod timeline;
mod times;

pub(crate) use dry_run::{Setting, dry_run, shell_words};
pub(crate) use holding::{describe_holder, held_until};
pub(crate) use messages::{escaped_json, print_error, printable, stdout_error};
pub(crate) use metrics::{LockMetrics, METRICS_THREAD, Metrics, prometheus_text};
pub(crate) use page::Page;
#[cfg(test)]
pub(crate) use run_log::{COMMON, EVENTS, EventKind, FIELDS, Field, schema};
pub(crate) use run_log::{Format, Reporter, Verbosity};
pub(crate) use screen::Screen;
pub(crate) use skew::{SKEW_HINT, skew};
pub(crate) use tables::{
    Findings, LockView, ProofReport, RecentSuccess, ShownRun, last_success, lock_views, locks_json, locks_table,
    runs_json, runs_table, shown_runs,
};
pub(crate) use timeline::{GroupBy, Timeline, timeline_svg, timeline_text};
pub(crate) use times::Zone;
