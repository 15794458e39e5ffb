//! What becomes of a run when something around it breaks: processes, networks, servers, clocks, system calls. Each test breaks
//! one thing at a known moment, and judges by the jobs' own logs, the exit code, the message and the time until the lock is free
//! again. `matrix` has every fault in every phase on every backend; what is wrong on one backend alone is tested in `backends`.

#[cfg(feature = "default")]
mod altered_answers;
#[cfg(feature = "default")]
mod bad_providers;
mod checker;
#[cfg(feature = "etcd")]
mod etcd_front;
#[cfg(feature = "default")]
mod late_acquisitions;
#[cfg(feature = "default")]
mod lost_answers;
#[cfg(feature = "default")]
mod matrix;
#[cfg(feature = "default")]
mod not_a_server;
#[cfg(feature = "default")]
mod odd_hosts;
#[cfg(feature = "default")]
mod password_rotation;
#[cfg(feature = "default")]
mod providers_die_with_us;
mod refused_calls;
#[cfg(feature = "default")]
mod refused_releases;
#[cfg(feature = "default")]
mod relay_sweep;
#[cfg(feature = "default")]
mod rogue;
#[cfg(feature = "default")]
mod silent_servers;
mod sweeps;
