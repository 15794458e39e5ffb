//! The SQL of every operation, with words in braces that [`statements`](super::statements) replaces.
//!
//! The history is read without locks and changed by its key: a change that scanned it would lock the gaps between its
//! records, and block other names. The lock's row is written before and stays locked until the end, so no other session
//! changes the records of that name meanwhile, and tokens grow in the order of the acquisitions.

/// The server's time.
pub(crate) const NOW: &str = "UTC_TIMESTAMP(3)";

/// Commits no matter what `completion_type` says: with RELEASE the server would hang up before the row is read.
pub(crate) const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
pub(crate) const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

/// The latest time that a `TIMESTAMP` holds, as the session's time zone writes it. Only MariaDB since 11.5 executes the
/// comment: there a `TIMESTAMP` holds times up to 2106.
pub(crate) const LATEST_TIMESTAMP: &str = "(FROM_UNIXTIME(2147483647)/*M!110500 + INTERVAL 2147483648 SECOND*/)";

/// Begins every operation. A statement that gives up waiting for a row reports that while shedlock still listens; a
/// statement that waited longer would acquire the lock for no one. `{wait}` is in seconds.
pub(crate) const LOCK_WAIT_SQL: &str =
    "SET innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}{strict}; START TRANSACTION";
/// Begins an acquisition in place of that SET, on a server that can say into what kinds of tables a transaction writes.
pub(crate) const TELL_WRITTEN: &str = "SET session_track_transaction_info = 'STATE', ";
/// Precedes the pause of a lock with an odd name. If its row has just been removed, it would be inserted, and a longer name
/// than the column holds must not be cut: that would be another lock.
pub(crate) const STRICT_MODE: &str = ", sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')";

/// Condition that the server's clock was ahead when the lock was acquired:
/// [`min_clock_lead`](crate::backend::clock::min_clock_lead). An application of the Java library may write the times of a zone
/// that is up to 14 hours ahead, and would find a lock free that is moved.
pub(crate) const CLOCK_WAS_AHEAD: &str = "locked_at > {now} + INTERVAL IF(locked_by LIKE '%:%:%', 60, 50400) SECOND";
/// Condition that the times of a held lock are by a clock that was ahead, and count no more: it was ahead by more than the time
/// that the lock was acquired for. The nodes of a cluster each have a clock, and those that differ by less would otherwise
/// shorten the locks of each other.
pub(crate) const TIMES_ARE_WRONG: &str =
    "({ahead} AND TIMESTAMPDIFF(MICROSECOND, {now}, locked_at) > TIMESTAMPDIFF(MICROSECOND, locked_at, lock_until))";
/// Condition that the lock is held. If the clock was ahead when it was acquired, it is held only while its job runs: what was
/// to be kept after that is in a time that never came.
pub(crate) const HELD: &str = "(lock_until > {now} AND ({ahead} AND locked_by LIKE '%:ended') IS NOT TRUE)";
/// The beginning of a lock that goes on: now, if the clock was ahead when it was acquired.
pub(crate) const BEGINNING: &str = "IF({ahead}, {now}, locked_at)";

/// Acquires the lock. One statement writes one row, and none reads it first: sessions that shared a row before they write
/// it would block each other. The assignments see each other's values, from left to right; with MariaDB's
/// SIMULTANEOUS_ASSIGNMENT they see only the old values. Their order makes the result the same: if the lock was free, its
/// new owner says so to the next two, and a beginning that lies in the future is replaced last.
///
/// Never shortens the lock: after a lost answer the older of two requests may be executed last, and its time is from when it
/// began. Only an end by a clock that was ahead does not count. A lock that another owner has acquired by such a clock stays with
/// that owner, and begins anew: it ends when the time that it was acquired for has passed once more. An end before the beginning
/// has been set since, and stays.
pub(crate) const ACQUIRE: &str = "INSERT INTO {table} (name, lock_until, locked_at, locked_by) \
    VALUES ({name}, {end}, {now}, {owner}) ON DUPLICATE KEY UPDATE \
    locked_by = IF(locked_by = {owner} OR NOT {held}, VALUES(locked_by), locked_by), \
    lock_until = CASE WHEN locked_by = {owner} OR NOT {held} \
                      THEN IF({ahead}, VALUES(lock_until), GREATEST(lock_until, VALUES(lock_until))) \
                      WHEN {wrong} AND lock_until > locked_at \
                      THEN lock_until - INTERVAL TIMESTAMPDIFF(MICROSECOND, {now}, locked_at) MICROSECOND \
                      ELSE lock_until END, \
    locked_at = IF(locked_by = {owner} OR lock_until <= {now} OR {wrong}, VALUES(locked_at), locked_at)";

/// Writes the record of an acquisition, and deletes that of the same owner's earlier acquisition, whose answer was lost. If the
/// lock is another owner's, the first statement finds no row to search from, and the others do nothing; no id is
/// wasted.
///
/// A record that has ended means that the acquisition was given up, and that the network delivered it late: the lock is
/// freed again. The operation has had the lock's row locked since its first statement, so the session that undid the
/// acquisition has committed, or will see the lock.
pub(crate) const RECORD: &str = "SELECT MAX(id), MAX(ended_at IS NOT NULL) INTO @shedlock, @shedlock_void \
    FROM {table} AS locks JOIN {history} AS runs FORCE INDEX (name) \
    WHERE locks.name = {name} AND locks.locked_by = {owner} AND runs.name = {name} AND runs.owner = {owner}; \
    UPDATE {table} SET lock_until = {now}, locked_at = locked_at, locked_by = {ended} \
    WHERE name = {name} AND locked_by = {owner} AND @shedlock_void; \
    DELETE FROM {history} WHERE id = @shedlock AND ended_at IS NULL; \
    INSERT INTO {history} (name, owner, host, started_at) \
    SELECT {name}, {owner}, {host}, locked_at FROM {table} \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}";

/// Extends the lock. Never shortens it, unless its end is by a clock that was ahead. `locked_at` is assigned to itself to
/// keep its value: the server may set a column that is not assigned to the current time with every change.
pub(crate) const RENEW: &str = "UPDATE {table} SET lock_until = IF({wrong}, {end}, GREATEST(lock_until, {end})), \
    locked_at = IF({wrong}, {now}, locked_at) \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}";

/// Releases the lock, which stays held no longer than hold from now on, since the server's clock may have been set back
/// after the acquisition; from then on it counts as acquired now, or it would not stay held at all. A repeated release changes
/// nothing, and finds its own mark.
pub(crate) const RELEASE: &str = "UPDATE {table} \
    SET lock_until = LEAST(GREATEST({now}, LEAST(locked_at, {now}) + INTERVAL {micros} MICROSECOND), {limit}), \
    locked_at = {beginning}, locked_by = {ended} \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}";

/// The end of a lock that is held for `{micros}` from now on.
pub(crate) const END: &str = "LEAST({now} + INTERVAL {micros} MICROSECOND, {limit})";

/// Changes the owner and the end of a lock. The owner is compared exactly, also where the table would treat another as
/// equal.
pub(crate) const CHANGE: &str = "UPDATE {table} SET lock_until = {end}, \
    locked_at = {since}, locked_by = {to} WHERE name = {name} AND {stored} = {from} AND {held}";
/// The owner, as a text whose comparison is exact.
pub(crate) const EXACT_OWNER: &str = "CONVERT(locked_by USING utf8mb4) COLLATE utf8mb4_bin";

/// Deletes a free lock and its records. The records go only if no row stays: the row, or the gap in its place, is locked until
/// the end. The columns that are named tell shedlock's table from another one. A mark of an acquisition that was given up
/// stays for as long as a network could delay that acquisition.
pub(crate) const FORGET: &str = "DELETE FROM {table} \
    WHERE name = {name} AND COALESCE({stored}, '') = {from} AND {held} IS NOT TRUE";
pub(crate) const FORGET_RUNS: &str = "DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND {run} \
    AND NOT EXISTS (SELECT * FROM {table} AS locks WHERE locks.name = {name}) AND COALESCE(owner, host, '') IS NOT NULL; \
    DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND NOT {run} \
    AND ended_at < {now} - INTERVAL {age} SECOND";

/// Finds the newest record of this owner.
pub(crate) const OWN_RECORD: &str =
    "SELECT MAX(id) INTO @shedlock FROM {history} FORCE INDEX (name) WHERE name = {name} AND owner = {owner}";
/// Records how the run ended.
pub(crate) const CLOSE_RECORD: &str = "UPDATE {history} SET ended_at = {now}, exit_code = {code}, outcome = {outcome} \
    WHERE id = @shedlock AND ended_at IS NULL";
/// Deletes the record of an acquisition under which no job has run.
pub(crate) const DELETE_RECORD: &str = "DELETE FROM {history} WHERE id = @shedlock AND ended_at IS NULL";
/// Marks an acquisition that was given up as void, since it may still be on its way.
pub(crate) const MARK_AS_VOID: &str = "INSERT INTO {history} (name, owner, host, started_at, ended_at, outcome) VALUES ({name}, {owner}, '', {now}, {now}, 'void')";
/// Condition that tells the record of a run from the mark of a void acquisition.
pub(crate) const IS_RUN: &str = "COALESCE(outcome, '') <> 'void'";
/// Deletes the oldest records of a name. Without FORCE INDEX the server would rather walk along the primary key,
/// through the records of all names.
pub(crate) const PRUNE: &str = "SELECT MAX(id) INTO @shedlock FROM \
    (SELECT id FROM {history} WHERE name = {name} AND {run} ORDER BY id DESC LIMIT 1 OFFSET {keep}) AS oldest; \
    DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND \
    (id <= @shedlock AND {run} OR NOT {run} AND ended_at < {now} - INTERVAL 1 HOUR)";

/// Reads the lock's row at the end of every operation.
pub(crate) const READ_ROW: &str = "SELECT locked_by = {owner}, locked_by = {ended}, {held}, locked_by, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, {now}, lock_until), lock_until >= {limit}, locked_at, lock_until \
    FROM {table} WHERE name = {name}";

/// Begins every listing: reads the server's time, and whether the server is read-only.
pub(crate) const READ_SERVER: &str =
    "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) DIV 1000, @@global.read_only";

/// Lists locks, of one name or of all.
pub(crate) const LOCKS: &str = "SELECT {name}, locked_by, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, \
    {held}, TIMESTAMPDIFF(MICROSECOND, {now}, lock_until) FROM {table}";

/// Lists the runs of `{runs}`.
pub(crate) const RUNS: &str = "SELECT id, name, owner, host, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000, exit_code, outcome FROM {runs} \
    ORDER BY started_at DESC, id DESC LIMIT {limit}";

/// The runs of some names or of all, since a time or ever.
pub(crate) const ALL_RUNS: &str = "{history} WHERE {run} AND {names} AND {since}";

/// Numbers the runs of each name, which takes longer than all the rest.
pub(crate) const RUNS_OF_EACH: &str = "(SELECT runs.*, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) AS place \
    FROM {history} AS runs WHERE {run} AND {names} AND {since}) AS placed WHERE place <= {newest_per_lock}";

/// Condition for the runs of a period. A run whose end is missing, or is no time, may still be running.
pub(crate) const SINCE: &str = "IFNULL(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000 >= {millis}, TRUE)";
