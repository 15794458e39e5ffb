//! Folding: moving the write-ahead log into the file. Folding waits for the disk, so a thread of its own does it, and
//! the thread that renews a lease and releases the lock never waits.
//!
//! On a busy disk an fsync may take seconds. Other processes that could not write meanwhile would lose their leases,
//! so no fsync is made under the write lock: neither to fold the log nor for the header of the next one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::backend::FOLDER;

/// Bytes above which a release folds the log; some 15 commits. The first process to open the file has to read the
/// whole log, so the log is kept short.
const LONG_LOG: u64 = 32 * 1024;
/// Bytes above which the log is emptied even with an fsync under the write lock. While others write all the time it
/// cannot be emptied without one, and it must not grow for ever.
const HUGE_LOG: u64 = 16 * 1024 * 1024;

/// Time that a release waits for the fold. The fold ends with the process, and the next release tries again.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time that a release waits for the fold of a huge log; a shorter wait would never suffice on such a disk.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// Number of folds attempted while other processes go on writing.
const FOLDS: usize = 3;

const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const LOOK: &str = "PRAGMA wal_checkpoint(NOOP)";
/// Truncates the log. A mere checkpoint is not enough: the next process to open the file does not learn how far it
/// got, and the log would grow. Takes the write lock, and makes two fsyncs if any frame is left to fold.
const EMPTY: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// The write-ahead log of a file of locks.
pub(super) struct Log(pub(super) PathBuf);

impl Log {
    /// Returns true if a release should fold the log.
    pub(super) fn is_long(&self) -> bool {
        self.size() > LONG_LOG
    }

    /// Returns true if the log should be folded while a job runs. No process waits for that, so the limit is lower.
    pub(super) fn is_worth_a_fold(&self) -> bool {
        self.size() > LONG_LOG / 2
    }

    /// Starts to fold and empty the log on a thread, which then closes the connection.
    pub(super) fn fold(self, connection: Connection) -> Folding {
        let patience = if self.size() > HUGE_LOG { LONG_PATIENCE } else { PATIENCE };
        let (ends, ended) = channel::<()>();
        // Without a thread, or while others use the log, the fold fails; a later one makes up for it.
        let _ = thread::Builder::new().name(FOLDER.to_owned()).spawn(move || {
            let _ = self.empty(&connection);
            drop((connection, ends));
        });
        Folding { ended, patience }
    }

    fn empty(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        for _ in 0..FOLDS {
            let folded = pragma(connection, FOLD)?.is_some() && pragma(connection, LOOK)?.is_some_and(|left| left == 0);
            if folded || self.size() > HUGE_LOG {
                return match pragma(connection, EMPTY)? {
                    Some(_) => self.begin(connection),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }

    /// Starts the next log with a commit that changes nothing.
    ///
    /// The first commit in a log makes an fsync for its header, so that after a power cut no frame of the last log is
    /// taken for one of this log. It makes that fsync under the write lock, and a taking or a renewal would be late.
    /// This commit makes none: the last log was truncated, and a file system does not reuse freed blocks before it
    /// has recorded that they are free. The fsync follows after the commit.
    fn begin(&self, connection: &Connection) -> rusqlite::Result<()> {
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

/// A fold in progress.
pub(super) struct Folding {
    ended: Receiver<()>,
    patience: Duration,
}

impl Folding {
    /// Waits for the fold to end, but not for long.
    pub(super) fn wait(&self) {
        let _ = self.ended.recv_timeout(self.patience);
    }
}

/// Runs a checkpoint and returns the number of frames that are not in the file yet; `None` if other processes
/// prevented it.
fn pragma(connection: &Connection, checkpoint: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row(checkpoint, (), |row| {
        let (busy, log, folded): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((!busy).then_some(log - folded))
    })
}
