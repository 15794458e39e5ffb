//! The life of one run, from outside: the job and its end, signals, terminals, cron, lost locks, exit codes, many processes at
//! once. Each test starts `shedlock run`, or takes a lock with a handle, mostly on SQLite, and looks at what the job wrote, at
//! the process table and at the exit code. What a setting means belongs to `config`, what a server does wrong to `faults`.

mod contention;
mod cron;
mod dry_run;
mod exit_codes;
mod handles;
#[cfg(feature = "default")]
mod herd;
mod job;
mod leases;
mod nested;
mod pid_1;
mod signals;
mod slow_execution;
mod terminal;
