//! The SQL of every operation, with the history, or without it where the history cannot be written.
//!
//! The columns may be `timestamp` or `timestamptz`. Comparisons and answers use the epoch, which is the same for both;
//! to write, the statement sets the time zone to UTC for its own transaction. A common table expression exists only for
//! that; the server evaluates it before it writes the first row.
//!
//! A role that may create objects in a schema of the `search_path` may define an operator or a function that fits the
//! types of the arguments better than the server's own, and it would run with the rights of shedlock's user. So both
//! sides of an operator have one type, for which the server has an operator (`name::text = $1`, which the key still
//! serves), and so have the arguments of functions.
//!
//! The statements use few functions: a new server process looks up each one that it meets, and a taking spends most of
//! its time there.

use super::super::sql::{History, Table};

/// Sets the time zone, and limits the wait for a row that another session is writing to the time that a stopped run
/// waits for its last answer: a statement that no client waits for would take the lock for no one. Also enables
/// warnings, one of which counts.
///
/// Yields no row, so that nothing happens, where `{own}` says that the session is not for this statement.
const UTC: &str = "zone AS MATERIALIZED (SELECT set_config('TimeZone', 'UTC', true), \
    set_config('lock_timeout', '900ms', true), set_config('client_min_messages', 'warning', true) WHERE {own})";

/// Condition that the lock is held at the server's time when the statement began.
const HELD: &str = "date_part('epoch', lock.lock_until) > date_part('epoch', CURRENT_TIMESTAMP)";

/// Condition that the server's clock was ahead when the lock was taken: [`CLOCK_WAS_AHEAD`](super::super::CLOCK_WAS_AHEAD).
const AHEAD: &str = "date_part('epoch', lock.locked_at) > date_part('epoch', CURRENT_TIMESTAMP + '60 s'::interval)";

/// Condition that the times of a held lock are by a clock that was ahead, and count no more: it was ahead by more than the time
/// that the lock was taken for. Servers that stand for one, and whose clocks differ by less, would otherwise shorten the locks
/// of each other.
const WRONG: &str = "({ahead} AND date_part('epoch', lock.locked_at) - date_part('epoch', CURRENT_TIMESTAMP) > \
    date_part('epoch', lock.lock_until) - date_part('epoch', lock.locked_at))";

/// Condition that the lock was to be kept after its job, by a clock that was ahead: it is free, although its end is to come.
const STRAY: &str = "({ahead} AND lock.locked_by::text LIKE '%:ended') IS TRUE";

/// Condition that the row has exactly this name. A column that treats `Job` and `job` as one finds the row of the other
/// spelling as well.
const SPELT: &str = "lock.name::text COLLATE \"C\" = $1";

/// The beginning of a lock that goes on: now, if the clock was ahead when it was taken.
const SINCE: &str = "CASE WHEN {ahead} THEN CURRENT_TIMESTAMP ELSE lock.locked_at END";

/// The SQL of an operation.
pub(super) struct Statement {
    lock: &'static str,
    /// Clauses that the statement gets where there is a history, and the column that the answer then contains.
    history: Option<(&'static str, &'static str)>,
}

/// Takes the lock. Looks first: a skip then neither writes nor waits for a row that another session is writing. `$1`
/// name, `$2` owner, `$3` lease, `$4` host. No row at all means that another session was quicker between the look and
/// the taking, or that the row in the way spells the name differently.
///
/// The id is the token. It is drawn from the sequence for a row that was taken, while that row is locked, so the tokens
/// are in the order of the takings. Taking again replaces the record. If that record has ended, the taking was given up
/// and the network delivered it late: the division by zero rolls back the whole statement. The key of the history also
/// decides between a taking and a giving back that are under way at once.
///
/// The sequence may be behind the table: logical replication does not carry it, and a restored table has ids that it never
/// drew. So an id that is not larger than every recorded one is refused, by a negative limit; the sequence is then advanced, and the taking repeated. The largest of all ids is one look into
/// the primary key, whereas the largest of a name would be a look at all its records.
///
/// Never shortens the lock: after a lost answer the older of two requests may be executed last, and its time is from
/// when it began. Only an end by a clock that was ahead does not count. [`MOVE`] is for another owner's lock of such a
/// clock.
pub(super) const ACQUIRE: Statement = Statement {
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
               date_part('epoch', CURRENT_TIMESTAMP), {answer} \
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

/// Moves a lock that was taken while the clock was ahead to the present: it begins anew, and ends when the time that it was
/// taken for has passed once more. If its owner has ended, it is free. An end before the beginning has been set since, and
/// stays. An application of the Java library may write the times of a zone that is up to 14 hours ahead, and would find a lock
/// free that is moved. `$1` name.
pub(super) const MOVE: Statement = Statement {
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
pub(super) const RENEW: Statement = Statement {
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
pub(super) const DIGITS: Statement = Statement {
    lock: "SELECT atttypmod, atttypid = 'date'::regtype::oid FROM {row}, pg_catalog.pg_attribute \
        WHERE attrelid = '{table}'::regclass::oid AND attname = 'lock_until'",
    history: None,
};

/// Finds the row in the way of a taking that found the lock free and still got no row. `$1` name. Returns a row that
/// the column treats as one of this name but that is spelt differently, or else the row of the name if no owner holds
/// it.
pub(super) const IN_THE_WAY: Statement = Statement {
    lock: "SELECT lock.name::text, {spelt} FROM {row}, {table} AS lock WHERE {spelt} AND NOT {held} \
        OR NOT {spelt} AND (lower(lock.name::text) = lower($1) OR lock.name::text = $1) AND EXISTS \
           (SELECT FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type ON pg_type.oid = atttypid \
            LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = attcollation \
            WHERE attrelid = '{table}'::regclass::oid AND attname = 'name' \
                  AND (NOT collisdeterministic OR typname = 'citext')) LIMIT 1",
    history: None,
};

/// Releases the lock. A repeated release finds its own mark, and changes nothing. The lock stays held no longer than
/// hold from now on, since the server's clock may have been set back after the taking; from then on it counts as taken
/// now, or it would not stay held at all. `$1` name, `$2` owner, `$3` hold, `$4` the owner as ended, `$5` exit code, `$6`
/// outcome.
///
/// The answer is whether the row was changed. If the row has this owner and was not changed, something on the server
/// prevents it.
pub(super) const RELEASE: Statement = Statement {
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

/// Releases the lock, and deletes the oldest records and the old marks of void takings. The parameters are those of
/// [`RELEASE`], and `$7`, the number of runs to keep.
///
/// A record is either closed or deleted, since one statement cannot change a row twice: the oldest are deleted even if
/// they were to be closed. The record of a run that still had its lock is the newest one, whatever its id is, and stays.
pub(super) const RELEASE_AND_PRUNE: Statement = Statement {
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

/// Gives back a granted taking under which no job has run. The parameters are those of [`RELEASE`].
pub(super) const DISCARD: Statement = Statement {
    lock: RELEASE.lock,
    history: Some((
        ", discarded AS (DELETE FROM {history} USING zone \
                         WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL)",
        "",
    )),
};

/// Gives back a taking that was given up, which may still be on its way. The statement marks the record that the taking
/// has, or would have, as void, and then [`ACQUIRE`] fails. The mark stays for as long as a network could delay the
/// taking; the next release after that which prunes removes it. The parameters are those of [`RELEASE`].
///
/// A taking that is under way at the same time, and is not visible here, has written its record: this statement waits
/// for it, and must be repeated to see its lock. This may be the first statement of all.
pub(super) const GIVE_BACK: Statement = Statement {
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
pub(super) const ADVANCE: Statement = Statement {
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

/// Condition that tells the record of a run from the mark of a void taking.
const RUN: &str = "outcome::text IS DISTINCT FROM 'void'::text";

/// The largest id in the history, `{newest}`.
const NEWEST: &str = "(SELECT newest.id::int8 FROM {history} AS newest ORDER BY newest.id DESC LIMIT 1)";

/// Columns that begin every listing, `{server}`: the time, and whether the server is read-only. That is a standby or a
/// server with such a setting, not one that makes only this user's sessions read-only.
const SERVER: &str = "date_part('epoch', CURRENT_TIMESTAMP), pg_is_in_recovery() OR \
    current_setting('transaction_read_only') = 'on' AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings \
        WHERE name = 'default_transaction_read_only' AND source IN ('user', 'database user', 'client'))";

/// Yields one row, `{row}`, even where the tables have none; no row where the session is not for this statement.
const ROW: &str = "(SELECT 1 WHERE {own}) AS server (row)";

/// Finds why the server makes this session read-only while others may write: the source of the setting, and the names
/// of the login and the database.
pub(super) const READ_ONLY: &str = "SELECT source, pg_catalog.quote_ident(session_user::text), \
        pg_catalog.quote_ident(pg_catalog.current_database()::text) \
    FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' \
        AND source IN ('user', 'database user', 'client') AND NOT pg_catalog.pg_is_in_recovery()";

/// Finds a table among `$1` that another session has locked against writing, or waits to lock.
pub(super) const LOCKED: &str = "SELECT relname::text FROM pg_catalog.pg_locks \
    JOIN pg_catalog.pg_class ON pg_class.oid OPERATOR(pg_catalog.=) relation \
    JOIN pg_catalog.pg_database ON pg_database.oid OPERATOR(pg_catalog.=) database \
    WHERE relname::text = ANY ($1) AND datname::text = pg_catalog.current_database()::text \
        AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() \
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') LIMIT 1";

/// Reads only the columns about the server.
pub(super) const NOW: Statement = Statement { lock: "SELECT {server} FROM {row}", history: None };

/// Lists locks. `$1` names or null.
pub(super) const LIST: Statement = Statement {
    lock: "SELECT {server}, name::text, locked_by::text, date_part('epoch', locked_at), date_part('epoch', lock_until), \
               {held} AND NOT {stray}, date_part('epoch', lock_until) - date_part('epoch', CURRENT_TIMESTAMP) \
        FROM {row} LEFT JOIN {table} AS lock ON $1 IS NULL OR name::text = ANY ($1)",
    history: None,
};

/// Lists runs. `$1` names or null, `$2` milliseconds since 1970 or null, `$3` nothing, `$4` maximum or null.
pub(super) const RUNS: Statement = Statement {
    lock: "SELECT {server}, run.* FROM {row} LEFT JOIN \
        (SELECT id::int8, name::text, owner::text, host::text, date_part('epoch', started_at) AS started, \
                date_part('epoch', ended_at), exit_code::int8, outcome::text FROM {history} \
         WHERE {run} AND ($1 IS NULL OR name::text = ANY ($1)) \
               AND ($2 IS NULL OR ended_at IS NULL OR date_part('epoch', ended_at) >= $2::float8 / 1000::float8) \
         ORDER BY started DESC, id DESC LIMIT $4) AS run ON true \
        ORDER BY started DESC, id DESC",
    history: None,
};

/// Lists the newest runs of each name: `$3` is the maximum of these. Numbering them takes longer than all the rest.
pub(super) const RUNS_OF_EACH: Statement = Statement {
    lock: "SELECT {server}, run.* FROM {row} LEFT JOIN \
        (SELECT id::int8, name::text, owner::text, host::text, date_part('epoch', started_at) AS started, \
                date_part('epoch', ended_at), exit_code::int8, outcome::text \
         FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS place FROM {history} \
               WHERE {run} AND ($1 IS NULL OR name::text = ANY ($1)) \
                     AND ($2 IS NULL OR ended_at IS NULL OR date_part('epoch', ended_at) >= $2::float8 / 1000::float8)) AS placed \
         WHERE place <= $3 ORDER BY started DESC, id DESC LIMIT $4) AS run ON true \
        ORDER BY started DESC, id DESC",
    history: None,
};

/// Changes the owner and the end of a lock. A repeated change finds its own owner, and does the same again. `$1` name,
/// `$2` stored owner, `$3` new owner, `$4` time to the end from now on.
pub(super) const CHANGE: Statement = Statement {
    lock: "WITH {utc}, changed AS (UPDATE {table} AS lock SET locked_by = $3, lock_until = CURRENT_TIMESTAMP + $4, \
                            locked_at = CASE WHEN locked_by::text = $3 THEN {since} ELSE CURRENT_TIMESTAMP END \
                            FROM zone WHERE name::text = $1 AND (locked_by::text = $2 OR locked_by::text = $3) \
                                 AND {held} AND NOT {stray} RETURNING true) \
        SELECT {server}, EXISTS (SELECT FROM changed) FROM {row}",
    history: None,
};

/// Deletes a free lock and its records. `$1` name, `$2` the owner that was seen. The answer is whether the row was deleted,
/// whether it is still there, and the number of runs.
///
/// If another session is taking the lock, this statement waits for it, and then finds the lock held. The records go only
/// if no row stays. A mark of a taking that was given up stays for as long as a network could delay that taking. The
/// columns that are returned tell shedlock's table from another one.
pub(super) const FORGET: Statement = Statement {
    lock: "WITH {utc}, \
        gone AS (DELETE FROM {table} AS lock USING zone \
                 WHERE name::text = $1 AND {spelt} AND coalesce(lock.locked_by::text, '') = $2 \
                       AND ({held} AND NOT {stray}) IS NOT TRUE \
                 RETURNING true), \
        staying AS MATERIALIZED (SELECT FROM {table} AS lock \
                                 WHERE {own} AND name::text = $1 AND {spelt} AND NOT EXISTS (SELECT FROM gone)){and} \
        SELECT EXISTS (SELECT FROM gone), EXISTS (SELECT FROM staying), {answer} FROM zone",
    history: Some((
        ", runs AS (DELETE FROM {history} USING zone WHERE name::text = $1 AND NOT EXISTS (SELECT FROM staying) AND \
                    ({run} OR date_part('epoch', ended_at) < date_part('epoch', CURRENT_TIMESTAMP) - 3600::float8) \
                    RETURNING {run} AS is_run, id, owner, host, started_at)",
        "(SELECT count(*) FROM runs WHERE is_run)",
    )),
};

/// Reads whether the table `$1` exists.
pub(super) const TABLE_IS_THERE: Statement =
    Statement { lock: "SELECT {server}, to_regclass($1) IS NOT NULL FROM {row}", history: None };

/// Finds the process that answers, the role's own `search_path`, and the schemas of the tables named `$1`, except
/// temporary ones. A session that is not shedlock's own may have any `search_path`, so the statement looks up nothing
/// in it.
pub(super) const PLACES: &str = "WITH own AS MATERIALIZED \
        (SELECT pg_catalog.current_schemas(pg_catalog.set_config('search_path', reset_val, true) IS NULL) AS path \
         FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'search_path') \
    SELECT pg_catalog.pg_backend_pid(), \
           ARRAY(SELECT pg_catalog.quote_ident(schema::pg_catalog.text) FROM pg_catalog.unnest(path) AS schema), \
           pg_catalog.quote_ident(nspname::pg_catalog.text), relname::pg_catalog.text \
    FROM own LEFT JOIN (pg_catalog.pg_class JOIN pg_catalog.pg_namespace \
                        ON pg_namespace.oid OPERATOR(pg_catalog.=) relnamespace) \
         ON relname::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($1) AND relkind OPERATOR(pg_catalog.<>) 'i' \
            AND relpersistence OPERATOR(pg_catalog.<>) 't' \
    ORDER BY nspname";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, \
    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)";

/// Creates the history. The second key finds a record, and all records of a name, which are read as a whole.
const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS {history} \
    (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name VARCHAR(64) NOT NULL, owner VARCHAR(255) NOT NULL, \
    host VARCHAR(255) NOT NULL, started_at TIMESTAMP NOT NULL, ended_at TIMESTAMP, exit_code INTEGER, \
    outcome VARCHAR(16), UNIQUE (name, owner))";

const SCHEMA: &str = "\
-- The tables that shedlock needs in a PostgreSQL database. Run this with psql, as the role that will own them.
{place}
-- The locks, in the layout of the Java library ShedLock:
{create};

-- The runs of each lock, and the tokens. Without this table there are neither, but locks work:
{create_history};

-- The rights of a role that takes locks without owning the tables; to list locks and runs, SELECT is enough:
{usage}-- GRANT SELECT, INSERT, UPDATE ON {table} TO {user};
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {history} TO {user};
-- `shedlock forget`, which removes locks that are no longer used, also needs DELETE on {table}.
";

/// Maximum length of a name on the server, which cuts longer ones.
const LONGEST_NAME: usize = 63;

/// Names of the two tables.
pub(super) struct Tables {
    locks: String,
    history: String,
    /// Set once the names have their schemas: the session then has no say in which tables are meant.
    placed: bool,
}

impl Tables {
    pub(super) fn new(locks: String) -> Self {
        let history = format!("{locks}_history");
        Self { placed: locks.contains('.'), locks, history }
    }

    /// Returns whether the names have their schemas.
    pub(super) fn are_placed(&self) -> bool {
        self.placed
    }

    /// Adds the schemas to the names.
    pub(super) fn place(&mut self, locks: &str, history: &str) {
        self.locks = format!("{locks}.{}", self.locks);
        self.history = format!("{history}.{}", self.history);
        self.placed = true;
    }

    /// Returns the name without a schema, in the server's spelling.
    pub(super) fn bare(&self, table: Table) -> String {
        let name = self.name(table).rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        name.chars().take(LONGEST_NAME).collect()
    }

    pub(super) fn name(&self, table: Table) -> &str {
        match table {
            Table::Locks => &self.locks,
            Table::Runs => &self.history,
        }
    }

    /// Returns the SQL of an operation, with its part for the history if it has one. `only_for` is the process that
    /// must execute it, if another process could mean other tables.
    pub(super) fn operation(&self, statement: &Statement, history: History, only_for: Option<i32>) -> String {
        let (and, answer) = statement.history.filter(|_| history == History::With).unwrap_or(("", "NULL::int8"));
        self.fill(&statement.lock.replace("{and}", and).replace("{answer}", answer), only_for)
    }

    pub(super) fn create(&self, table: Table) -> String {
        let statement = match table {
            Table::Locks => CREATE,
            Table::Runs => CREATE_HISTORY,
        };
        self.fill(statement, None)
    }

    /// Returns the table that a message of the server names, such as a missing one.
    pub(super) fn missing(&self, said: &str) -> Table {
        if said.contains(&self.bare(Table::Runs)) { Table::Runs } else { Table::Locks }
    }

    /// Returns the statements that create the tables, for a person to run; `user` is a user who takes locks.
    pub(super) fn schema(&self, user: &str) -> String {
        let (place, usage) = match self.locks.split_once('.') {
            Some((name, _)) => (
                format!("-- The schema must exist: CREATE SCHEMA {name};\n"),
                format!("-- GRANT USAGE ON SCHEMA {name} TO {user};\n"),
            ),
            None => Default::default(),
        };
        let text = SCHEMA.replace("{place}", &place).replace("{usage}", &usage).replace("{user}", user);
        self.fill(&text.replace("{create}", CREATE).replace("{create_history}", CREATE_HISTORY), None)
    }

    fn fill(&self, statement: &str, only_for: Option<i32>) -> String {
        let own = match only_for.filter(|_| !self.placed) {
            Some(pid) => &format!("pg_backend_pid() = {pid}"),
            None => "true",
        };
        let filled = statement.replace("{newest}", NEWEST).replace("{utc}", UTC).replace("{held}", HELD);
        let filled = filled.replace("{spelt}", SPELT);
        let filled = filled.replace("{stray}", STRAY).replace("{wrong}", WRONG).replace("{since}", SINCE);
        let filled = filled.replace("{ahead}", AHEAD);
        let filled =
            filled.replace("{run}", RUN).replace("{server}", SERVER).replace("{row}", ROW).replace("{own}", own);
        filled.replace("{table}", &self.locks).replace("{history}", &self.history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_ahead_is_the_same_everywhere() {
        let [ours, others] = ["a:1:2", "java"].map(|owner| crate::backend::ahead_of(owner).as_secs());
        assert!(AHEAD.contains(&format!("+ '{ours} s'::interval")), "{AHEAD}");
        let both = format!("'%:%:%' THEN '{ours} s'::interval ELSE '{} h'::interval", others / 3600);
        assert!(MOVE.lock.contains(&both), "{}", MOVE.lock);
    }

    #[test]
    fn the_table_that_is_missing_is_known_by_its_name() {
        let tables = Tables::new("Ops.Locks".to_owned());
        assert_eq!(tables.missing("relation \"ops.locks\" does not exist"), Table::Locks);
        assert_eq!(tables.missing("Relation »ops.locks_history« existiert nicht"), Table::Runs);
        // The server cuts what is too long.
        let tables = Tables::new("x".repeat(60));
        assert_eq!(tables.missing(&format!("relation \"{}_hi\" does not exist", "x".repeat(60))), Table::Runs);
        assert_eq!(tables.missing(&format!("relation \"{}\" does not exist", "x".repeat(60))), Table::Locks);
    }
}
