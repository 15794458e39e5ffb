//! Each backend on its real server: `every_backend` is what all of them promise, the other modules what is special to one. A test
//! runs the program, and reads the store through another client (`psql`, `redis-cli`, the Java library). What needs no process is
//! tested in `src/backend`, by the contract in `conformance.rs` first of all.

#[cfg(feature = "default")]
mod authorities;
#[cfg(feature = "etcd")]
mod etcd;
mod every_backend;
#[cfg(feature = "mysql")]
mod galera;
#[cfg(feature = "mysql")]
mod group_replication;
#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
mod java;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "provider")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_engines;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod servers_start;
mod sqlite;
#[cfg(feature = "default")]
mod tls;
#[cfg(feature = "zookeeper")]
mod zookeeper;
