//! Moves the write-ahead log into the file, which is a checkpoint. That waits for the disk, so a thread of its own does it,
//! and the thread that renews a lease and releases the lock never waits.
//!
//! On a busy disk an fsync may take seconds. Other processes that could not write meanwhile would lose their leases,
//! so no fsync is made under the write lock: neither for the checkpoint nor for the header of the next log.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

/// The name of the thread that moves the log into the file. A run can do without it.
pub(crate) const CHECKPOINT_THREAD: &str = "checkpoint";

/// Bytes of the log above which a release makes a checkpoint; some 15 commits. The first process to open the file has to read
/// the whole log, so the log is kept short.
const LONG_LOG: u64 = 32 * 1024;
/// Bytes above which the log is truncated even with an fsync under the write lock. While others write all the time it
/// cannot be truncated without one, and it must not grow without limit.
const HUGE_LOG: u64 = 16 * 1024 * 1024;

/// Time that a release waits for a checkpoint. The checkpoint ends with the process, and the next release tries again.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that a release waits for the checkpoint of a huge log; a shorter wait would never suffice on such a disk.
const HUGE_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of checkpoints that are tried while other processes go on writing.
const CHECKPOINT_TRIES: usize = 3;

const CHECKPOINT_SQL: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const PROGRESS_SQL: &str = "PRAGMA wal_checkpoint(NOOP)";
/// Truncates the log. A mere checkpoint is not enough: the next process to open the file does not learn how far it
/// got, and the log would grow. Takes the write lock, and makes two fsyncs if any frame is not in the file yet.
const TRUNCATE_SQL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Names the write-ahead log of a file of locks.
pub(crate) struct Log(pub(crate) PathBuf);

impl Log {
    /// Returns true if a release should make a checkpoint.
    pub(crate) fn is_long(&self) -> bool {
        self.size() > LONG_LOG
    }

    /// Returns true if a checkpoint should be made while a job runs. No process waits for that, so the limit is lower.
    pub(crate) fn is_half_long(&self) -> bool {
        self.size() > LONG_LOG / 2
    }

    /// Starts a checkpoint on a thread, which truncates the log and then closes the connection.
    pub(crate) fn start_checkpoint(self, connection: Connection) -> Checkpoint {
        let timeout = if self.size() > HUGE_LOG { HUGE_CHECKPOINT_TIMEOUT } else { CHECKPOINT_TIMEOUT };
        let (ends, ended) = channel::<()>();
        // Without a thread, or while others use the log, the checkpoint fails; a later one makes up for it.
        let _ = thread::Builder::new().name(CHECKPOINT_THREAD.to_owned()).spawn(move || {
            let _ = self.checkpoint(&connection);
            drop((connection, ends));
        });
        Checkpoint { ended, timeout }
    }

    fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        for _ in 0..CHECKPOINT_TRIES {
            let is_complete = frames_left(connection, CHECKPOINT_SQL)?.is_some()
                && frames_left(connection, PROGRESS_SQL)?.is_some_and(|left| left == 0);
            if is_complete || self.size() > HUGE_LOG {
                return match frames_left(connection, TRUNCATE_SQL)? {
                    Some(_) => self.start_next_log(connection),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }

    /// Starts the next log with a commit that changes nothing.
    ///
    /// The first commit in a log makes an fsync for its header, so that after a power cut no frame of the last log is
    /// taken for one of this log. It makes that fsync under the write lock, and an acquisition or a renewal would be late.
    /// This commit makes none: the last log was truncated, and a file system does not reuse freed blocks before it
    /// has recorded that they are free. The fsync follows after the commit.
    fn start_next_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("PRAGMA synchronous = OFF; BEGIN IMMEDIATE")?;
        if self.size() > 0 {
            // Another process has started the next log already.
            return connection.execute_batch("ROLLBACK");
        }
        let version: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
        // The pragma writes the page although the version stays the same; an UPDATE would not.
        connection.execute_batch(&format!("PRAGMA user_version = {version}; COMMIT"))?;
        let _ = File::open(&self.0).and_then(|log| log.sync_data());
        Ok(())
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |data| data.len())
    }
}

/// Waits for a checkpoint in progress.
pub(crate) struct Checkpoint {
    ended: Receiver<()>,
    timeout: Duration,
}

impl Checkpoint {
    /// Waits for the checkpoint to end, but not for long.
    pub(crate) fn wait(&self) {
        let _ = self.ended.recv_timeout(self.timeout);
    }
}

/// Runs a checkpoint and returns the number of frames that are not in the file yet; `None` if other processes
/// prevented it.
fn frames_left(connection: &Connection, checkpoint: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row(checkpoint, (), |row| {
        let (busy, log, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((!busy).then_some(log - moved))
    })
}
