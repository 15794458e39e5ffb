//! Folding the write-ahead log into the file, which waits for the disk: on a thread of its own, so that the one that renews a
//! lease and gives the lock back does not.
//!
//! A busy disk may take seconds for an fsync. Others would lose their leases if nobody could write meanwhile, so none is
//! made under the write lock: not to fold the log, and not for the header of the next one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::backend::FOLDER;

/// In bytes; some 15 commits. Whoever opens the file first has to read the whole log, so it is kept short.
const LONG_LOG: u64 = 32 * 1024;
/// A log that cannot be emptied without an fsync under the write lock, since others write to it all the time, is emptied
/// with one when it is as long as this: it must not grow for ever.
const HUGE_LOG: u64 = 16 * 1024 * 1024;

/// How long a release waits until the log is folded. The fold ends with the process, and the next release tries again.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same for a log that is huge, since on this disk it never would be folded.
const LONG_PATIENCE: Duration = Duration::from_secs(5);
/// How often a log is folded to which others have written meanwhile.
const FOLDS: usize = 3;

const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const LOOK: &str = "PRAGMA wal_checkpoint(NOOP)";
/// A mere checkpoint would not do: whoever opens the file first does not learn how far it got, and the log would grow. It
/// takes the write lock, and makes two fsyncs if there is anything left to fold.
const EMPTY: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// The log beside a file of locks.
pub(super) struct Log(pub(super) PathBuf);

impl Log {
    /// Whether a release should have it folded.
    pub(super) fn is_long(&self) -> bool {
        self.size() > LONG_LOG
    }

    /// Whether it should be folded while a job runs. Nobody waits for that, so it is done sooner.
    pub(super) fn is_worth_a_fold(&self) -> bool {
        self.size() > LONG_LOG / 2
    }

    /// Begins to fold and empty it, and closes the connection.
    pub(super) fn fold(self, connection: Connection) -> Folding {
        let patience = if self.size() > HUGE_LOG { LONG_PATIENCE } else { PATIENCE };
        let (ends, ended) = channel::<()>();
        // Without a thread, or if others are at work, it fails and is theirs to do.
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

    /// Begins the next log with a commit that changes nothing. The first commit in a log makes an fsync for its header, so that
    /// after a power cut no frame of the last log is taken for one of this log; under the write lock, by which a taking or a
    /// renewal would be late. This one does without: the last log was cut off, and a file system does not write
    /// into blocks that it has freed before it has noted that they are free. The fsync comes afterwards.
    fn begin(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("PRAGMA synchronous = OFF; BEGIN IMMEDIATE")?;
        if self.size() > 0 {
            // Another was quicker.
            return connection.execute_batch("ROLLBACK");
        }
        let version: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
        // It is written although it stays the same; an UPDATE would not be.
        connection.execute_batch(&format!("PRAGMA user_version = {version}; COMMIT"))?;
        let _ = File::open(&self.0).and_then(|log| log.sync_data());
        Ok(())
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |data| data.len())
    }
}

/// A log that is being folded.
pub(super) struct Folding {
    ended: Receiver<()>,
    patience: Duration,
}

impl Folding {
    /// Waits until it has ended, but not for long.
    pub(super) fn wait(&self) {
        let _ = self.ended.recv_timeout(self.patience);
    }
}

/// Runs a checkpoint, and returns how many frames of the log are not in the file; `None` if others keep it from that.
fn pragma(connection: &Connection, checkpoint: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row(checkpoint, (), |row| {
        let (busy, log, folded): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((!busy).then_some(log - folded))
    })
}
