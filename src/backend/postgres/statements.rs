//! The statements, each of which is an operation: with the history, and without one where it may not be kept.
//!
//! The columns may be `timestamp` or `timestamptz`: what is compared and returned goes by the epoch, which is the same for
//! both, and for what is written the statement sets the time zone to UTC for its own transaction. Its common table expression
//! is there for that alone; it is evaluated before the first row is written.
//!
//! A role that may create in a schema of the `search_path` may define an operator or a function that fits the types of the
//! arguments better than the server's own, and it would be carried out with our rights. So both sides of an operator have one
//! type, for which the server has an operator (`name::text = $1`, which the key still serves), and so have the arguments of
//! functions.
//!
//! The statements know few functions: a new server process looks up each one that it meets, and most of the time that a
//! taking takes is spent there.

use super::super::sql::{History, Table};

/// Beside the zone it limits the wait for a row that another is writing to what a run that is told to stop waits for its
/// last answer: a statement that nobody waits for would take the lock for nobody. And it has warnings sent, of which one counts.
///
/// It is empty, and so nothing happens, where `{own}` says that the session is not for this statement.
const UTC: &str = "zone AS MATERIALIZED (SELECT set_config('TimeZone', 'UTC', true), \
    set_config('lock_timeout', '900ms', true), set_config('client_min_messages', 'warning', true) WHERE {own})";

/// The server's time is that when the statement began.
const HELD: &str = "date_part('epoch', lock.lock_until) > date_part('epoch', CURRENT_TIMESTAMP)";

/// The row bears just this name. A column that takes `Job` and `job` for one finds the row of the other spelling as well.
const SPELT: &str = "lock.name::text COLLATE \"C\" = $1";

/// An operation.
pub(super) struct Statement {
    lock: &'static str,
    /// What it says in addition where there is a history, and what its answer then has of it.
    history: Option<(&'static str, &'static str)>,
}

/// Looks first: a skip then neither writes nor waits for a row that another is writing. `$1` name, `$2` owner, `$3` lease,
/// `$4` host. No row at all means that another was quicker between the look and the taking, or that the row in the way bears
/// another spelling of the name.
///
/// The id is the token. It is drawn from the sequence for a row that was taken, while that row is locked, so the order of
/// the tokens is that of the takings. Taking again replaces the record. Where that has ended, the taking was given up and a
/// network delivers it late: the division by zero takes all of the statement back. The key of the history decides that also
/// between a taking and a giving back that are under way at once. It shortens nothing: of two requests of ours whose
/// first answer was lost, that one may be carried out last, and its time is from when it began.
pub(super) const ACQUIRE: Statement = Statement {
    lock: "WITH {utc}, \
        seen AS MATERIALIZED (SELECT locked_by, locked_at, lock_until FROM {table} AS lock \
                              WHERE {own} AND name::text = $1 AND {spelt} AND locked_by::text <> $2 AND {held}), \
        taken AS (INSERT INTO {table} AS lock (name, lock_until, locked_at, locked_by) \
                  SELECT $1, CURRENT_TIMESTAMP + $3, CURRENT_TIMESTAMP, $2 FROM zone WHERE NOT EXISTS (SELECT FROM seen) \
                  ON CONFLICT (name) DO UPDATE SET lock_until = greatest(lock.lock_until, excluded.lock_until), \
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
                     RETURNING id)",
        "(SELECT id FROM noted)::int8",
    )),
};

/// `$1` name, `$2` owner, `$3` lease. The answer begins as that of a release does.
pub(super) const RENEW: Statement = Statement {
    lock: "WITH {utc}, \
        renewed AS (UPDATE {table} AS lock SET lock_until = greatest(lock.lock_until, CURRENT_TIMESTAMP + $3) \
                    FROM zone WHERE name::text = $1 AND locked_by::text = $2 AND {held} \
                    RETURNING true, date_part('epoch', lock.lock_until) AS ends, date_part('epoch', CURRENT_TIMESTAMP) AS now) \
        SELECT * FROM renewed UNION ALL SELECT false, NULL, NULL FROM zone, {table} AS lock \
        WHERE NOT EXISTS (SELECT FROM renewed) AND name::text = $1 AND locked_by::text = $2 AND {held}",
    history: None,
};

/// How many digits of a second `lock_until` keeps, negative if all, and whether it keeps no time of the day.
pub(super) const DIGITS: Statement = Statement {
    lock: "SELECT atttypmod, atttypid = 'date'::regtype::oid FROM {row}, pg_catalog.pg_attribute \
        WHERE attrelid = '{table}'::regclass::oid AND attname = 'lock_until'",
    history: None,
};

/// Asked when a taking has found neither the lock taken nor a row that it may have. `$1` name. Answers with a row that the
/// column takes for one of this name and that is spelt otherwise, or else with that of the name if nobody holds it.
pub(super) const IN_THE_WAY: Statement = Statement {
    lock: "SELECT lock.name::text, {spelt} FROM {row}, {table} AS lock WHERE {spelt} AND NOT {held} \
        OR NOT {spelt} AND (lower(lock.name::text) = lower($1) OR lock.name::text = $1) AND EXISTS \
           (SELECT FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type ON pg_type.oid = atttypid \
            LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = attcollation \
            WHERE attrelid = '{table}'::regclass::oid AND attname = 'name' \
                  AND (NOT collisdeterministic OR typname = 'citext')) LIMIT 1",
    history: None,
};

/// A release that is repeated finds its own mark, and changes nothing. A lock stays held no longer than hold from now on,
/// since the server's clock may have been set back after the taking. `$1` name, `$2` owner, `$3` hold, `$4` the owner as
/// ended, `$5` exit code, `$6` outcome, `$7` how many runs to keep.
///
/// The answer is whether the row was changed; where it is ours and was not, something on the server keeps it.
///
/// What happens to a record is one thing only, since one statement cannot change a row twice: the oldest go, also if they
/// were to be closed.
pub(super) const RELEASE: Statement = Statement {
    lock: "WITH {utc}, \
        freed AS (UPDATE {table} AS lock \
                  SET locked_by = $4, \
                      lock_until = CASE WHEN locked_by::text = $4 THEN lock.lock_until \
                                   ELSE greatest(CURRENT_TIMESTAMP, least(lock.locked_at, CURRENT_TIMESTAMP) + $3) END \
                  FROM zone WHERE name::text = $1 AND (locked_by::text = $4 OR locked_by::text = $2 AND {held}) \
                  RETURNING true){and} \
        SELECT true FROM freed UNION ALL SELECT false FROM zone, {table} AS lock \
        WHERE NOT EXISTS (SELECT FROM freed) AND name::text = $1 AND locked_by::text = $2 AND {held}",
    history: Some((
        ", oldest AS MATERIALIZED (SELECT id FROM {history} WHERE name::text = $1 AND {run} \
                                   ORDER BY id DESC LIMIT 1 OFFSET $7), \
         closed AS (UPDATE {history} SET ended_at = CURRENT_TIMESTAMP, exit_code = $5, outcome = $6 FROM zone \
                    WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL \
                          AND (id <= (SELECT id FROM oldest)) IS NOT TRUE), \
         pruned AS (DELETE FROM {history} USING zone WHERE name::text = $1 AND \
                    (id <= (SELECT id FROM oldest) AND {run} OR NOT {run} AND \
                     date_part('epoch', ended_at) < date_part('epoch', CURRENT_TIMESTAMP) - 3600::float8))",
        "",
    )),
};

/// Gives back a taking that was answered, and under which no job has run. The parameters are those of [`RELEASE`].
pub(super) const DISCARD: Statement = Statement {
    lock: RELEASE.lock,
    history: Some((
        ", discarded AS (DELETE FROM {history} USING zone \
                         WHERE name::text = $1 AND owner::text = $2 AND ended_at IS NULL)",
        "",
    )),
};

/// Gives back a taking that was given up, which may still be on its way: the record that it has, or would have, is marked as
/// void, and then [`ACQUIRE`] fails. The mark stays for as long as a network could keep the taking; the next release after that
/// removes it. The parameters are those of [`RELEASE`].
///
/// A taking that is under way at the same time, and is not seen here, has written its record: this statement waits for it, and
/// has to be repeated to see its lock. It may be the first statement of all.
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

/// Tells the record of a run from the mark that a taking is void.
const RUN: &str = "outcome::text IS DISTINCT FROM 'void'::text";

/// What people look at begins with `{server}`: the time, and whether the server is read-only, which is a standby or one that
/// was told so, and not one that tells this user only.
const SERVER: &str = "date_part('epoch', CURRENT_TIMESTAMP), pg_is_in_recovery() OR \
    current_setting('transaction_read_only') = 'on' AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings \
        WHERE name = 'default_transaction_read_only' AND source IN ('user', 'database user', 'client'))";

/// `{row}`: one, whatever else there is; none where the session is not for this statement.
const ROW: &str = "(SELECT 1 WHERE {own}) AS server (row)";

/// Why the server lets this session only read, if it lets others write: where the setting is from, and the login's and the
/// database's names.
pub(super) const READ_ONLY: &str = "SELECT source, pg_catalog.quote_ident(session_user::text), \
        pg_catalog.quote_ident(pg_catalog.current_database()::text) \
    FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' \
        AND source IN ('user', 'database user', 'client') AND NOT pg_catalog.pg_is_in_recovery()";

/// Which of the tables `$1` another session keeps, or waits for, so that nobody may write there.
pub(super) const LOCKED: &str = "SELECT relname::text FROM pg_catalog.pg_locks \
    JOIN pg_catalog.pg_class ON pg_class.oid OPERATOR(pg_catalog.=) relation \
    JOIN pg_catalog.pg_database ON pg_database.oid OPERATOR(pg_catalog.=) database \
    WHERE relname::text = ANY ($1) AND datname::text = pg_catalog.current_database()::text \
        AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() \
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') LIMIT 1";

/// Of the server alone.
pub(super) const NOW: Statement = Statement { lock: "SELECT {server} FROM {row}", history: None };

/// `$1` names or null.
pub(super) const LIST: Statement = Statement {
    lock: "SELECT {server}, name::text, locked_by::text, date_part('epoch', locked_at), date_part('epoch', lock_until), {held}, \
               date_part('epoch', lock_until) - date_part('epoch', CURRENT_TIMESTAMP) \
        FROM {row} LEFT JOIN {table} AS lock ON $1 IS NULL OR name::text = ANY ($1)",
    history: None,
};

/// `$1` names or null, `$2` milliseconds since 1970 or null, `$3` how many of each name or null, `$4` how many or null.
pub(super) const RUNS: Statement = Statement {
    lock: "SELECT {server}, run.* FROM {row} LEFT JOIN \
        (SELECT id::int8, name::text, owner::text, host::text, date_part('epoch', started_at) AS started, \
                date_part('epoch', ended_at), exit_code::int8, outcome::text \
         FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY started_at DESC, id DESC) AS place FROM {history} \
               WHERE {run} AND ($1 IS NULL OR name::text = ANY ($1)) \
                     AND ($2 IS NULL OR ended_at IS NULL OR date_part('epoch', ended_at) >= $2::float8 / 1000::float8)) AS placed \
         WHERE $3 IS NULL OR place <= $3 ORDER BY started DESC, id DESC LIMIT $4) AS run ON true \
        ORDER BY started DESC, id DESC",
    history: None,
};

/// One that is repeated finds its own owner, and does the same again. `$1` name, `$2` the owner that is stored, `$3` the one to be
/// stored, `$4` for how long from now on.
pub(super) const CHANGE: Statement = Statement {
    lock: "WITH {utc}, changed AS (UPDATE {table} AS lock SET locked_by = $3, lock_until = CURRENT_TIMESTAMP + $4, \
                            locked_at = CASE WHEN locked_by::text = $3 THEN lock.locked_at ELSE CURRENT_TIMESTAMP END \
                            FROM zone WHERE name::text = $1 AND (locked_by::text = $2 OR locked_by::text = $3) \
                                 AND {held} RETURNING true) \
        SELECT {server}, EXISTS (SELECT FROM changed) FROM {row}",
    history: None,
};

/// `$1` the table: whether it is there.
pub(super) const TABLE_IS_THERE: Statement =
    Statement { lock: "SELECT {server}, to_regclass($1) IS NOT NULL FROM {row}", history: None };

/// Which process answers, what the role's own `search_path` is, and where the tables of the names `$1` are that are not
/// temporary. A session that is not our own may have any `search_path`, so nothing is looked up in it.
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

/// The second key finds a record, and all that is kept of a name, which is read whole.
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
";

/// As long as a name may be for the server; it cuts what is longer.
const LONGEST_NAME: usize = 63;

/// What the tables are called.
pub(super) struct Tables {
    locks: String,
    history: String,
    /// The session has no say in which tables are meant.
    placed: bool,
}

impl Tables {
    pub(super) fn new(locks: String) -> Self {
        let history = format!("{locks}_history");
        Self { placed: locks.contains('.'), locks, history }
    }

    /// The names have their schemas.
    pub(super) fn are_placed(&self) -> bool {
        self.placed
    }

    /// Gives the names their schemas.
    pub(super) fn place(&mut self, locks: &str, history: &str) {
        self.locks = format!("{locks}.{}", self.locks);
        self.history = format!("{history}.{}", self.history);
        self.placed = true;
    }

    /// The name without a schema, as the server has it.
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

    /// Returns the operation, with its part for the history if it has one. `only_for` is the process that has to carry it out,
    /// if others could mean other tables.
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

    /// Of which table the server speaks, such as one that is missing.
    pub(super) fn missing(&self, said: &str) -> Table {
        if said.contains(&self.bare(Table::Runs)) { Table::Runs } else { Table::Locks }
    }

    /// Returns the statements that make the tables, for a person to run; `user` is a user of the locks.
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
        let filled = statement.replace("{utc}", UTC).replace("{held}", HELD).replace("{spelt}", SPELT);
        let filled =
            filled.replace("{run}", RUN).replace("{server}", SERVER).replace("{row}", ROW).replace("{own}", own);
        filled.replace("{table}", &self.locks).replace("{history}", &self.history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
