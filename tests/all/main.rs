//! The tests that run the program: one binary, one module per topic. Every test starts real processes and looks at
//! what they did from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod authorities;
mod checker;
mod checking;
mod configuration;
mod contention;
mod cron;
mod documents;
mod dry_run;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_clocks;
#[cfg(feature = "etcd")]
mod etcd_proxies;
mod events;
mod every_backend;
mod examples;
mod exit_codes;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod faults;
mod fencing;
mod forget;
#[cfg(feature = "mysql")]
mod galera;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod garbage;
mod generated;
mod handles;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod herd;
mod holding;
mod init;
#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
mod java;
mod job;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod late_takings;
mod leases;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod lost_answers;
mod metrics;
mod mistakes;
#[cfg(feature = "mongodb")]
mod mongodb;
mod monitoring;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
mod nested;
mod notify;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod refused_calls;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod refused_releases;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod relay;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod relay_sweep;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod rotation;
mod security;
mod servers_start;
mod showing;
mod signals;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod silence;
mod site;
mod slow_execution;
mod sqlite;
mod stage;
mod support;
#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "kubernetes"
))]
mod surroundings;
mod sweeps;
mod terminal;
mod troubleshooting;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod unchanged;
mod unread;
mod upgrade;
mod variables;
#[cfg(feature = "zookeeper")]
mod zookeeper;
