//! The SQL of the operations of a run: acquiring, renewing and releasing a lock, with the history, or without it where the
//! history cannot be written. [`tables`](super::tables) has what all statements share.

use super::tables::Statement;

/// Acquires the lock. Looks first: if the lock is held, it then neither writes nor waits for a row that another session is
/// writing. `$1` name, `$2` owner, `$3` lease, `$4` host. No row at all means that another session was quicker between the look
/// and the acquisition, or that the row in the way spells the name differently.
///
/// The id is the token. It is drawn from the sequence for a row that was acquired, while that row is locked, so the tokens are
/// in the order of the acquisitions. Acquiring again replaces the record. If that record has ended, the acquisition was given
/// up and the network delivered it late: the division by zero rolls back the whole statement. The key of the history also
/// decides between an acquisition and its undoing that are under way at once.
///
/// The sequence may be behind the table: logical replication does not carry it, and a restored table has ids that it never
/// drew. So an id that is not larger than every recorded one is refused, by a negative limit; the sequence is then advanced,
/// and the acquisition repeated. The largest of all ids is one look into the primary key, whereas the largest of a name would
/// be a look at all its records.
///
/// The last column says whether the table has triggers. What one does after the row was written, no part of this statement
/// sees.
///
/// Never shortens the lock: after a lost answer the older of two requests may be executed last, and its time is from
/// when it began. Only an end by a clock that was ahead does not count. [`MOVE_TO_NOW`] is for another owner's lock of such a
/// clock.
pub(crate) const ACQUIRE: Statement = Statement {
    lock: "WITH {utc}, \
        seen AS MATERIALIZED (SELECT locked_by, locked_at, lock_until FROM {table} AS lock \
                              WHERE {own} AND name::text = $1 AND {spelt} AND locked_by::text <> $2 AND {held}), \
        taken AS (INSERT INTO {table} AS lock (name, lock_until, locked_at, locked_by) \
                  SELECT $1, CURRENT_TIMESTAMP + $3, CURRENT_TIMESTAMP, $2 FROM zone WHERE NOT EXISTS (SELECT FROM seen) \
                  ON CONFLICT (name) DO UPDATE SET lock_until = CASE WHEN {ahead} THEN excluded.lock_until \
                                                                ELSE greatest(lock.lock_until, excluded.lock_until) END, \
                                                   locked_at = excluded.locked_at, locked_by = excluded.locked_by \
                  WHERE {spelt} AND (lock.locked_by::text = $2 OR NOT {held}) \
                  RETURNING locked_by, locked_at, lock_until){and} \
        SELECT granted, locked_by, date_part('epoch', locked_at), date_part('epoch', lock_until), \
               date_part('epoch', CURRENT_TIMESTAMP), {answer}, \
               (SELECT relhastriggers FROM pg_catalog.pg_class WHERE pg_class.oid = '{table}'::regclass::oid) \
        FROM (SELECT true AS granted, * FROM taken UNION ALL SELECT false, * FROM seen) AS answer",
    history: Some((
        ", noted AS (INSERT INTO {history} AS run (name, owner, host, started_at) \
                     SELECT $1, $2, $4, CURRENT_TIMESTAMP FROM taken \
                     ON CONFLICT (name, owner) DO UPDATE SET id = excluded.id::int8 / (run.ended_at IS NULL)::int4::int8, \
                                                             started_at = excluded.started_at \
                     RETURNING (SELECT run.id LIMIT CASE WHEN run.id::int8 <= {newest} THEN -1 ELSE 1 END) AS id)",
        "(SELECT id FROM noted)::int8",
    )),
};

/// Reads the end of a lock that was granted, on a table with triggers. `$1` name, `$2` owner.
pub(crate) const STORED_END: Statement = Statement {
    lock: "SELECT date_part('epoch', lock.lock_until), date_part('epoch', CURRENT_TIMESTAMP) FROM {row}, {table} AS lock \
        WHERE {spelt} AND locked_by::text = $2 AND {held}",
    history: None,
};

/// Moves a lock that was acquired while the clock was ahead to the present: it begins anew, and ends when the time that it was
/// acquired for has passed once more. If its owner has ended, it is free. An end before the beginning has been set since, and
/// stays. An application of the Java library may write the times of a zone that is up to 14 hours ahead, and would find a lock
/// free that is moved. `$1` name.
pub(crate) const MOVE_TO_NOW: Statement = Statement {
    lock: "WITH {utc} UPDATE {table} AS lock SET locked_at = CURRENT_TIMESTAMP, \
            lock_until = CASE WHEN {stray} THEN CURRENT_TIMESTAMP \
                         WHEN date_part('epoch', lock.lock_until) > date_part('epoch', lock.locked_at) \
                         THEN lock.lock_until::timestamptz - (lock.locked_at::timestamptz - CURRENT_TIMESTAMP) \
                         ELSE lock.lock_until END \
        FROM zone WHERE name::text = $1 AND {spelt} AND {held} AND ({wrong} OR {stray}) AND date_part('epoch', lock.locked_at) > \
            date_part('epoch', CURRENT_TIMESTAMP + CASE WHEN lock.locked_by::text LIKE '%:%:%' THEN '60 s'::interval \
                                                   ELSE '14 h'::interval END)",
    history: None,
};

/// Extends the lock. Never shortens it, unless its end is by a clock that was ahead: it then begins anew. `$1` name, `$2`
/// owner, `$3` lease. The answer begins as that of a release does.
pub(crate) const RENEW: Statement = Statement {
    lock: "WITH {utc}, \
        renewed AS (UPDATE {table} AS lock \
                    SET lock_until = CASE WHEN {wrong} THEN CURRENT_TIMESTAMP + $3 \
                                     ELSE greatest(lock.lock_until, CURRENT_TIMESTAMP + $3) END, \
                        locked_at = CASE WHEN {wrong} THEN CURRENT_TIMESTAMP ELSE lock.locked_at END \
                    FROM zone WHERE name::text = $1 AND locked_by::text = $2 AND {held} \
                    RETURNING true, date_part('epoch', lock.lock_until) AS ends, date_part('epoch', CURRENT_TIMESTAMP) AS now) \
        SELECT * FROM renewed UNION ALL SELECT false, NULL, NULL FROM zone, {table} AS lock \
        WHERE NOT EXISTS (SELECT FROM renewed) AND name::text = $1 AND locked_by::text = $2 AND {held}",
    history: None,
};

/// Reads how many digits of a second `lock_until` keeps, negative if all, and whether it is a date without a time of
/// day.
pub(crate) const SECOND_DIGITS: Statement = Statement {
    lock: "SELECT atttypmod, atttypid = 'date'::regtype::oid FROM {row}, pg_catalog.pg_attribute \
        WHERE attrelid = '{table}'::regclass::oid AND attname = 'lock_until'",
    history: None,
};

/// Finds the row in the way of an acquisition that found the lock free and still got no row. `$1` name. Returns a row that
/// the column treats as one of this name but that is spelt differently, or else the row of the name if no owner holds
/// it.
pub(crate) const ROW_IN_THE_WAY: Statement = Statement {
    lock: "SELECT lock.name::text, {spelt} FROM {row}, {table} AS lock WHERE {spelt} AND NOT {held} \
        OR NOT {spelt} AND (lower(lock.name::text) = lower($1) OR lock.name::text = $1) AND EXISTS \
           (SELECT FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type ON pg_type.oid = atttypid \
            LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = attcollation \
            WHERE attrelid = '{table}'::regclass::oid AND attname = 'name' \
                  AND (NOT collisdeterministic OR typname = 'citext')) LIMIT 1",
    history: None,
};

/// Releases the lock. A repeated release finds its own mark, and changes nothing. The lock stays held no longer than hold from
/// now on, since the server's clock may have been set back after the acquisition; from then on it counts as acquired now, or it
/// would not stay held at all. `$1` name, `$2` owner, `$3` hold, `$4` the owner as ended, `$5` exit code, `$6` outcome.
///
/// The answer is whether the row was changed. If the row has this owner and was not changed, something on the server
/// prevents it.
pub(crate) const RELEASE: Statement = Statement {
    lock: "WITH {utc}, \
        freed AS (UPDATE {table} AS lock \
                  SET locked_by = $4, \
                      locked_at = CASE WHEN locked_by::text = $4 THEN lock.locked_at ELSE {since} END, \
                      lock_until = CASE WHEN locked_by::text = $4 THEN lock.lock_until \
                                   ELSE greatest(CURRENT_TIMESTAMP, least(lock.locked_at, CURRENT_TIMESTAMP) + $3) END \
                  FROM zone WHERE name::text = $1 AND (locked_by::text = $4 OR locked_by::text = $2 AND {held}) \
                  RETURNING true){and} \
        SELECT true FROM freed UNION ALL SELECT false FROM zone, {table} AS lock \
        WHERE NOT EXISTS (SELECT FROM freed) AND name::text = $1 AND locked_by::text = $2 AND {held}",
    history: Some((
        ", closed AS (UPDATE {history} SET ended_at = CURRENT_TIMESTAMP, exit_code = $5, outcome = $6 FROM zone \
                    WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL)",
        "",
    )),
};

/// Releases the lock, and deletes the oldest records and the old marks of void acquisitions. The parameters are those of
/// [`RELEASE`], and `$7`, the number of runs to keep.
///
/// A record is either closed or deleted, since one statement cannot change a row twice: the oldest are deleted even if
/// they were to be closed. The record of a run that still had its lock is the newest one, whatever its id is, and stays.
pub(crate) const RELEASE_AND_PRUNE: Statement = Statement {
    lock: RELEASE.lock,
    history: Some((
        ", oldest AS MATERIALIZED (SELECT id FROM {history} WHERE name::text = $1 AND {run} \
                                   ORDER BY id DESC LIMIT 1 OFFSET $7), \
         closed AS (UPDATE {history} SET ended_at = CURRENT_TIMESTAMP, exit_code = $5, outcome = $6 FROM zone \
                    WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL \
                          AND ((id <= (SELECT id FROM oldest)) IS NOT TRUE OR EXISTS (SELECT FROM freed))), \
         pruned AS (DELETE FROM {history} USING zone \
                    WHERE name::text = $1 AND (owner::text <> $2 OR NOT EXISTS (SELECT FROM freed)) AND \
                    (id <= (SELECT id FROM oldest) AND {run} OR NOT {run} AND \
                     date_part('epoch', ended_at) < date_part('epoch', CURRENT_TIMESTAMP) - 3600::float8))",
        "",
    )),
};

/// Undoes a granted acquisition under which no job has run. The parameters are those of [`RELEASE`].
pub(crate) const DISCARD: Statement = Statement {
    lock: RELEASE.lock,
    history: Some((
        ", discarded AS (DELETE FROM {history} USING zone \
                         WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL)",
        "",
    )),
};

/// Undoes an acquisition that was given up, which may still be on its way. The statement marks the record that the acquisition
/// has, or would have, as void, and then [`ACQUIRE`] fails. The mark stays for as long as a network could delay the
/// acquisition; the next release after that which prunes removes it. The parameters are those of [`RELEASE`].
///
/// An acquisition that is under way at the same time, and is not visible here, has written its record: this statement waits
/// for it, and must be repeated to see its lock. This may be the first statement of all.
pub(crate) const UNDO: Statement = Statement {
    lock: RELEASE.lock,
    history: Some((
        ", void AS (INSERT INTO {history} AS run (name, owner, host, started_at, ended_at, outcome) \
                    SELECT $1, $2, '', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, 'void' FROM zone \
                    ON CONFLICT (name, owner) DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome \
                    WHERE run.ended_at IS NULL)",
        "",
    )),
};

/// Advances the sequence of the ids to the largest one in the history, if the role may do that. If not, draws `$1` ids
/// by inserting records whose key exists already, which needs no right to the sequence and leaves nothing behind. Returns the
/// id to which the sequence was set, or null.
///
/// Another session may draw an id between the look at the sequence and the change. The next id is then refused, and this
/// statement repeated.
pub(crate) const ADVANCE: Statement = Statement {
    lock: "WITH {utc}, \
        newest AS MATERIALIZED (SELECT run.id::int8 AS id, run.name, run.owner FROM {history} AS run \
                                WHERE {own} ORDER BY run.id DESC LIMIT 1), \
        draws AS MATERIALIZED (SELECT sequence, CASE WHEN has_sequence_privilege(sequence::oid, 'UPDATE'::text) \
                                    AND has_sequence_privilege(sequence::oid, 'SELECT'::text) \
                                    THEN coalesce(pg_sequence_last_value(sequence), 0::int8) END AS last \
                               FROM (SELECT pg_get_serial_sequence('{history}'::text, 'id'::text)::regclass) AS own (sequence)), \
        advanced AS MATERIALIZED (SELECT setval(sequence, newest.id) AS id FROM newest, draws WHERE last < newest.id), \
        drawn AS (INSERT INTO {history} (name, owner, host, started_at, ended_at, outcome) \
                  SELECT newest.name, newest.owner, '', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, 'void' \
                  FROM newest, draws, generate_series(1::int8, $1) WHERE last IS NULL ON CONFLICT DO NOTHING) \
        SELECT (SELECT id FROM advanced) FROM zone",
    history: None,
};

#[cfg(test)]
mod tests {
    use super::super::tables::CLOCK_WAS_AHEAD;
    use super::*;

    #[test]
    fn a_clock_that_was_ahead_is_the_same_everywhere() {
        let [ours, others] = ["a:1:2", "java"].map(|owner| crate::backend::clock::min_clock_lead(owner).as_secs());
        assert!(CLOCK_WAS_AHEAD.contains(&format!("+ '{ours} s'::interval")), "{CLOCK_WAS_AHEAD}");
        let both = format!("'%:%:%' THEN '{ours} s'::interval ELSE '{} h'::interval", others / 3600);
        assert!(MOVE_TO_NOW.lock.contains(&both), "{}", MOVE_TO_NOW.lock);
    }
}
