//! The protocol of the lock, as a model that is explored to its last state: how `shedlock run --lease` takes,
//! renews and releases a lock, and what becomes of it when something stops, dies, is late, or counts slowly.
//!
//! It is the specification in a form that can be run. It shares nothing with the program but the rules: [`rules`]
//! has the numbers, [`store`] what a backend does, [`host`] what a host is, [`run`] what its shedlock does,
//! [`world`] what can happen to them, [`resource`] what the token is for, [`properties`] what must never be,
//! [`explore`] looks at every state, [`kept`] asks whether the protocol keeps the promise, and [`broken`] whether
//! each of its rules is needed. [`clocks`] is a second world, with simpler hosts and more of the store: several servers
//! whose clocks differ and are set, at-least and every, and what makes a lock end.
//!
//! ```text
//!            host 0                                             host 1
//!   ┌───────────────────────────┐   take, renew, release    ┌───────────┐
//!   │ guardian ⋯ watches ⋯ ┐    │  ──────────────────────▶  │   like    │
//!   │                   shedlock │        ┌───────┐          │  host 0   │
//!   │   command ◀─ kills ──┘    │ ─────▶ │ store │ ◀─────── │           │
//!   │     └ daemon              │        └───────┘          │           │
//!   │   clock (may lose time)   │   late, lost, or carried  │           │
//!   └───────────────────────────┘   out when nobody waits   └───────────┘
//!
//!   a lease of 6 ticks, by the host's clock:
//!
//!   0 ─────── 1 ─────── 2 ─────── 3 ─────── 4 ─────── 5 ─────── 6
//!   sent                renewed   stop      SIGKILL             ends
//!                                 │ └ kill- ┘└───── margin ─────┘
//!                                 │   after    reaction + drift
//!                                 └ half: an answer that comes later goes back
//! ```
//!
//! # Time
//!
//! Time is counted in ticks, and is the store's: its clock is the one that decides. Within a tick anything can
//! happen in any order. A host's clock may lose [`rules::DRIFT`] ticks within every lease; one that gains only
//! stops its job too early. A host that is awake does what is due before the tick is over, but SIGKILL may need
//! [`rules::REACTION`] ticks until all of the job is dead. Times are kept as what is left of them, so a state does
//! not say when it is, and with a bounded number of runs there are finitely many: the exploration is complete, not
//! cut off at a depth.
//!
//! The proportions are those of `src/run/timing.rs`: `margin` there is a reaction of a twentieth of the lease (100
//! ms to 2 s) and a drift of 500 ppm; here each is one tick, which is the least that shows what happens without it.
//! The renewal at a third, `kill_after` of at most a fifth, and the half after which a grant is undone are
//! rounded to ticks.
//!
//! # The rules, and where the program keeps them
//!
//! | rule | here | in the program |
//! | --- | --- | --- |
//! | Acquiring is one step; acquiring again with the same owner succeeds | [`store::Store`] | `Backend::acquire`, `src/backend/testing/conformance.rs` |
//! | Renewing and releasing only by the owner, and only before the end; never shorter | [`store::Store`] | `Backend::renew`, `Backend::release` |
//! | Deadlines count from before the request was sent | [`rules::CountedFrom`] | `sent` in `src/supervise/worker.rs`, `Lease::requested` in `src/run/running.rs` |
//! | A grant older than half of the lease is undone | [`rules::HALF`] | `Run::on_granted` in `src/run/acquiring.rs` |
//! | An acquisition that may have been granted is undone | [`host::Host::give_up`] | `Run::end_without_lock`, `Run::undo_in_flight` in `src/run/acquiring.rs` |
//! | That another owner holds the lock says nothing of a request before, which may yet come | [`run`] | `Run::on_acquired` in `src/run/acquiring.rs` |
//! | An acquisition that was undone is refused when it comes later | [`store::Store`] | `Backend::release`, `src/backend/testing/conformance.rs` |
//! | A person forgets a lock only while it is free | [`rules::Removal`] | `Admin::forget`, `src/backend/testing/conformance/forget.rs` |
//! | A lease is renewed at a third, and not past at-most | [`host::Host::react`] | `Running::on_time` in `src/run/running.rs` |
//! | The job is dead before the lease ends; lost means that it is stopped | [`host::Host::react`] | `src/run/timing.rs`, `src/run/killing.rs` |
//! | Dead is all of it; only then the lock is released | [`host::Job`] | `src/job/tree.rs`, `Running::on_leftovers_gone` in `src/run/processes.rs` |
//! | A shedlock that dies takes the command with it, and the guardian the rest; one that is stopped has until the margin | [`host::Host::guard`] | the parent-death signal in `src/job/spawn.rs`, and `src/job/guardian/child.rs` |
//! | After a stall the job is held until the lease was checked | [`host::Host::thaw`] | `has_stalled` in `src/supervise/timer.rs`, `src/run/stall.rs`, `src/job/freeze.rs` |
//! | Shortly before at-most is used up shedlock queries the lock's end; an end later than any of its own requests can set means extended | [`rules::Believed`] | `Running::query_lock`, `Running::on_lock_end` in `src/run/extending.rs` |
//! | Tokens grow with every acquisition | [`rules::Token`] | the history of each backend |
//!
//! # The rules of the store's clocks, in [`clocks`]
//!
//! | rule | here | in the program |
//! | --- | --- | --- |
//! | In etcd the store's lease alone makes a lock end: it counts, is one for all members, and may begin anew with another leader. No time that a member shows decides anything | [`clocks::leased`] | `src/backend/etcd/snapshot.rs` |
//! | A renewal there is left out only by what this process was granted when, on its own boot clock, and never shortens that | [`clocks::rules::Renewal`] | `src/backend/etcd/renew.rs`, `src/backend/etcd/leases.rs` |
//! | A hold there is carried by a lease over what is left of it, counted from the answer to the acquisition | [`clocks::rules::Hold`] | `src/backend/etcd/release.rs` |
//! | Elsewhere a lock ends by the clock of the server that is asked. A release keeps it for the hold after the present at most | [`clocks::dated`] | the statements of SQL, `src/backend/redis/release.lua`, `src/backend/record/engine/record.rs` |
//! | A kept lock whose acquisition, or whose end, lies further ahead than it can is free; a held one is moved to the present by the next acquisition that meets it | [`clocks::rules::Future`] | the same |
//!
//! Never two at once, no hold shorter than promised, nobody refused after a lock's time and the store's rounding: for any
//! clocks where a lease decides, for a clock that is set back elsewhere. [`clocks::search`] looks at every state, and goes at
//! random where there are too many. Where several servers each go by a clock of their own, two run for no longer than
//! these differ.
//!
//! # What is not in it
//!
//! * Runs without `--lease`, and `--on-lost ignore`, `--on-expiry ignore` and `extend`: what they give up is said
//!   in the manual. Descendants count as with `--wait-for tree`; with `child` and `group` less counts, and the rest
//!   is the same.
//! * What SIGKILL does not end. Its lock is renewed for as long as it lives.
//! * A job that is stopped alone, or stops itself: to the lock it is a job that takes long.
//! * Time between the end of a suspension and the moment when a process can act: the job is held from the first
//!   moment on, which a kernel does not promise.
//! * A person who frees the lock under a running job, and a store that loses its memory: two jobs run, as was asked
//!   for or cannot be helped, until the next renewal says *lost*; see [`kept`]. A pause that no clock of the host
//!   shows is of the same kind. For these there is the token.
//! * A request that its sender has given up, and that the store carries out later, is there, but one at a time. If
//!   it is an acquisition that was not undone either, the lock is held for one lease by nobody. If it is a renewal,
//!   the lock may end later than at-most by as long as it was under way; never later than a lease from then.
//! * An acquisition that its sender has given up and repeated, and that is carried out while the job runs, makes the
//!   lock end later, and counts as an extension: at-most is counted from the last acquisition that was carried out.
//! * `verify` and nested runs, for which a released lock bears its owner as ended.
//! * In [`clocks`]: hosts' clocks that lose time, jobs that need time to end, stops and pauses, which are in the other
//!   world; requests that are carried out when nobody waits for them; extensions, and releases by a process that did not
//!   take the lock itself. A lease of etcd's is granted and the key bound to it in one step, and a coarse clock is one
//!   that shows the right time.
//! * A clock that is set ahead, where locks go by it: they end early, by as much.
//! * The order in which waiters get in. None is promised; somebody does.
//!
//! # Why an explorer of its own
//!
//! The crate `stateright` counts a promise of *eventually* as kept where a way leads back to where it was, which is
//! what being stuck for ever looks like. Here such a way is found, and the longest wait is known to the tick. It
//! would also bring a web server and a dozen other crates, for what is a queue and a table.

#![expect(clippy::panic, reason = "a test says what is wrong by panicking")]

mod action;
mod broken;
mod clocks;
mod explore;
mod host;
mod kept;
mod properties;
mod resource;
mod rules;
mod run;
mod store;
mod world;
