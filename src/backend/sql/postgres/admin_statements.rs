//! The SQL of the operators' commands, which list, change and remove locks, and of the questions about the server.
//! [`tables`](super::tables) has what all statements share.

use super::tables::Statement;

/// Finds why the server makes this session read-only while others may write: the source of the setting, and the names
/// of the login and the database.
pub(crate) const WHY_READ_ONLY: &str = "SELECT source, pg_catalog.quote_ident(session_user::text), \
        pg_catalog.quote_ident(pg_catalog.current_database()::text) \
    FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' \
        AND source IN ('user', 'database user', 'client') AND NOT pg_catalog.pg_is_in_recovery()";

/// Finds a table among `$1` that another session has locked against writing, or waits to lock.
pub(crate) const LOCKED_TABLE: &str = "SELECT relname::text FROM pg_catalog.pg_locks \
    JOIN pg_catalog.pg_class ON pg_class.oid OPERATOR(pg_catalog.=) relation \
    JOIN pg_catalog.pg_database ON pg_database.oid OPERATOR(pg_catalog.=) database \
    WHERE relname::text = ANY ($1) AND datname::text = pg_catalog.current_database()::text \
        AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() \
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') LIMIT 1";

/// Reads only the columns about the server.
pub(crate) const SERVER_ONLY: Statement = Statement { lock: "SELECT {server} FROM {row}", history: None };

/// Lists locks. `$1` names or null.
pub(crate) const LOCKS: Statement = Statement {
    lock: "SELECT {server}, name::text, locked_by::text, date_part('epoch', locked_at), date_part('epoch', lock_until), \
               {held} AND NOT {stray}, date_part('epoch', lock_until) - date_part('epoch', CURRENT_TIMESTAMP) \
        FROM {row} LEFT JOIN {table} AS lock ON $1 IS NULL OR name::text = ANY ($1)",
    history: None,
};

/// Lists runs. `$1` names or null, `$2` milliseconds since 1970 or null, `$3` nothing, `$4` maximum or null.
pub(crate) const RUNS: Statement = Statement {
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
pub(crate) const RUNS_OF_EACH: Statement = Statement {
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
pub(crate) const CHANGE: Statement = Statement {
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
/// If another session is acquiring the lock, this statement waits for it, and then finds the lock held. The records go only
/// if no row stays. A mark of an acquisition that was given up stays for as long as a network could delay that
/// acquisition. The
/// columns that are returned tell shedlock's table from another one.
pub(crate) const FORGET: Statement = Statement {
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
                    ({run} OR date_part('epoch', ended_at) < date_part('epoch', CURRENT_TIMESTAMP) - $3) \
                    RETURNING {run} AS is_run, id, owner, host, started_at)",
        "(SELECT count(*) FROM runs WHERE is_run)",
    )),
};

/// Reads whether the table `$1` exists.
pub(crate) const TABLE_EXISTS: Statement =
    Statement { lock: "SELECT {server}, to_regclass($1) IS NOT NULL FROM {row}", history: None };

/// Finds the process that answers, the role's own `search_path`, and the schemas of the tables named `$1`, except
/// temporary ones. A session that is not shedlock's own may have any `search_path`, so the statement looks up nothing
/// in it.
pub(crate) const SCHEMAS: &str = "WITH own AS MATERIALIZED \
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
