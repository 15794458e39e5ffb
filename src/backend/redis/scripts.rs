//! The Lua scripts, each put together from its parts. The server runs a script as one step, by its own clock.
//!
//! The keys and arguments of each script, numbered from 1. A part gives each of its own a name (`local mark_key = KEYS[3]`);
//! its first lines say where it stands and what it uses of the parts before.
//!
//! | script | KEYS | ARGV | answers |
//! | --- | --- | --- | --- |
//! | [`ACQUIRE`] | lock; history, token, mark | owner, lease, record and name | `{1, now, token, failure}`, `{0, now, left, value}` or `{2}` |
//! | [`RENEW`] | lock | owner, lease | 1 or 0 |
//! | [`RELEASE`] | lock; history, perhaps mark | owner, owner as ended, hold, records to keep, end of the run, mark to leave | 1 or 0 |
//! | [`CLOSE`] | history twice | as [`RELEASE`] | 0 |
//! | [`LIST`] | locks; their tokens | number of locks | `{now, {value, left, 1 or 0}, ...}` |
//! | [`CHANGE`] | lock | owner, new owner, time left | 1 or 0 |
//! | [`FORGET`] | lock, history, token | empty | `{0}`, `{1, 1 or 0, records}` or `{2}` |
//!
//! The keys after a semicolon are left out if the server refuses them, and for a pause. The third key is the token in one
//! script and the mark in another. Times are in milliseconds.

/// Joins the parts of a script.
macro_rules! script {
    ($($part:literal),*) => { concat!(include_str!("common.lua"), $(include_str!($part)),*) };
}

/// Acquires the lock, and records the run.
pub(crate) const ACQUIRE: &str = script!("lock.lua", "history.lua", "acquire.lua");
/// Extends the lock's life, if the owner holds it.
pub(crate) const RENEW: &str = script!("lock.lua", "renew.lua");
/// Releases the lock, and closes the run's record.
pub(crate) const RELEASE: &str = script!("lock.lua", "history.lua", "release.lua", "close.lua");
/// Closes a run's record alone.
pub(crate) const CLOSE: &str = script!("history.lua", "close.lua");
/// Reads the server's clock and the locks of these keys.
pub(crate) const LIST: &str = script!("list.lua");
/// Changes the owner or the end of a held lock.
pub(crate) const CHANGE: &str = script!("lock.lua", "change.lua");
/// Deletes the keys of a lock that nobody holds.
pub(crate) const FORGET: &str = script!("lock.lua", "forget.lua");
