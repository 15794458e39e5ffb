//! Builds the message of an operation: all its statements, with those of the history or without them.
//!
//! The history is read without locks and changed by its key: a change that scanned it would lock the gaps between its
//! records, and block other names. The lock's row is written before and stays locked until the end, so no other session
//! changes the records of that name meanwhile, and tokens grow in the order of the takings.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::sql::{History, Table};
use super::connect::Servers;
use crate::lock::{Change, Claim, Closing, Holder, LockName, Removal, Wanted};

const NOW: &str = "UTC_TIMESTAMP(3)";

/// Commits no matter what `completion_type` says: with RELEASE the server would hang up before the look.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
pub(super) const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

/// The latest time that a `TIMESTAMP` holds, as the session's time zone writes it. Only MariaDB since 11.5 executes the
/// comment: there a `TIMESTAMP` holds times up to 2106.
const LIMIT: &str = "(FROM_UNIXTIME(2147483647)/*M!110500 + INTERVAL 2147483648 SECOND*/)";

/// Begins every operation. A statement that gives up waiting for a row reports that while shedlock still listens; a
/// statement that waited longer would take the lock for no one. `{wait}` is in seconds.
const PATIENCE: &str = "SET innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}{strict}; START TRANSACTION";
/// Precedes the pause of a lock with an odd name. If its row has just been removed, it would be inserted, and a longer name than
/// the column holds must not be cut: that would be another lock.
const ONLY_WHOLE: &str = ", sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')";

/// Condition that the server's clock was ahead when the lock was taken: [`ahead_of`](super::super::ahead_of). An application of
/// the Java library may write the times of a zone that is up to 14 hours ahead, and would find a lock free that is moved.
const AHEAD: &str = "locked_at > {now} + INTERVAL IF(locked_by LIKE '%:%:%', 60, 50400) SECOND";
/// Condition that the times of a held lock are by a clock that was ahead, and count no more: it was ahead by more than the time
/// that the lock was taken for. The nodes of a cluster each have a clock, and those that differ by less would otherwise shorten
/// the locks of each other.
const WRONG: &str =
    "({ahead} AND TIMESTAMPDIFF(MICROSECOND, {now}, locked_at) > TIMESTAMPDIFF(MICROSECOND, locked_at, lock_until))";
/// Condition that the lock is held. If the clock was ahead when it was taken, it is held only while its job runs: what was
/// to be kept after that is in a time that never came.
const HELD: &str = "(lock_until > {now} AND ({ahead} AND locked_by LIKE '%:ended') IS NOT TRUE)";
/// The beginning of a lock that goes on: now, if the clock was ahead when it was taken.
const BEGINNING: &str = "IF({ahead}, {now}, locked_at)";

/// Takes the lock. One statement writes one row, and none reads it first: sessions that shared a row before they write
/// it would block each other. The assignments see each other's values, from left to right; with MariaDB's
/// SIMULTANEOUS_ASSIGNMENT they see only the old values. Their order makes the result the same: if the lock was free, its
/// new owner says so to the next two, and a beginning that lies in the future is replaced last.
///
/// Never shortens the lock: after a lost answer the older of two requests may be executed last, and its time is from
/// when it began. Only an end by a clock that was ahead does not count. A lock that another owner has taken by such a
/// clock stays with that owner, and begins anew: it ends when the time that it was taken for has passed once more. An end
/// before the beginning has been set since, and stays.
const ACQUIRE: &str = "INSERT INTO {table} (name, lock_until, locked_at, locked_by) \
    VALUES ({name}, {end}, {now}, {owner}) ON DUPLICATE KEY UPDATE \
    locked_by = IF(locked_by = {owner} OR NOT {held}, VALUES(locked_by), locked_by), \
    lock_until = CASE WHEN locked_by = {owner} OR NOT {held} \
                      THEN IF({ahead}, VALUES(lock_until), GREATEST(lock_until, VALUES(lock_until))) \
                      WHEN {wrong} AND lock_until > locked_at \
                      THEN lock_until - INTERVAL TIMESTAMPDIFF(MICROSECOND, {now}, locked_at) MICROSECOND \
                      ELSE lock_until END, \
    locked_at = IF(locked_by = {owner} OR lock_until <= {now} OR {wrong}, VALUES(locked_at), locked_at)";

/// Writes the record of a taking, and deletes that of the same owner's earlier taking, whose answer was lost. If the
/// lock is another owner's, the first statement finds no row to search from, and the others do nothing; no id is
/// wasted.
///
/// A record that has ended means that the taking was given up, and that the network delivered it late: the lock is
/// freed again. The operation has had the lock's row locked since its first statement, so the session that gave the
/// taking back has committed, or will see the lock.
const RECORD: &str = "SELECT MAX(id), MAX(ended_at IS NOT NULL) INTO @shedlock, @shedlock_void \
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
const RENEW: &str = "UPDATE {table} SET lock_until = IF({wrong}, {end}, GREATEST(lock_until, {end})), \
    locked_at = IF({wrong}, {now}, locked_at) \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}";

/// Releases the lock, which stays held no longer than hold from now on, since the server's clock may have been set back
/// after the taking; from then on it counts as taken now, or it would not stay held at all. A repeated release changes
/// nothing, and finds its own mark.
const RELEASE: &str = "UPDATE {table} \
    SET lock_until = LEAST(GREATEST({now}, LEAST(locked_at, {now}) + INTERVAL {micros} MICROSECOND), {limit}), \
    locked_at = {beginning}, locked_by = {ended} \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}";

/// The end of a lock that is held for `{micros}` from now on.
const END: &str = "LEAST({now} + INTERVAL {micros} MICROSECOND, {limit})";

/// Changes the owner and the end of a lock. The owner is compared exactly, also where the table would treat another as
/// equal.
const CHANGE: &str = "UPDATE {table} SET lock_until = {end}, \
    locked_at = {since}, locked_by = {to} WHERE name = {name} AND {stored} = {from} AND {held}";
const STORED: &str = "CONVERT(locked_by USING utf8mb4) COLLATE utf8mb4_bin";

/// Deletes a free lock and its records. The records go only if no row stays: the row, or the gap in its place, is locked until
/// the end. The columns that are named tell shedlock's table from another one. A mark of a taking that was given up stays for
/// as long as a network could delay that taking.
const FORGET: &str = "DELETE FROM {table} \
    WHERE name = {name} AND COALESCE({stored}, '') = {from} AND {held} IS NOT TRUE";
const FORGET_RUNS: &str = "DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND {run} \
    AND NOT EXISTS (SELECT * FROM {table} AS locks WHERE locks.name = {name}) AND COALESCE(owner, host, '') IS NOT NULL; \
    DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND NOT {run} \
    AND ended_at < {now} - INTERVAL 1 HOUR";

const OWN: &str =
    "SELECT MAX(id) INTO @shedlock FROM {history} FORCE INDEX (name) WHERE name = {name} AND owner = {owner}";
const CLOSE: &str = "UPDATE {history} SET ended_at = {now}, exit_code = {code}, outcome = {outcome} \
    WHERE id = @shedlock AND ended_at IS NULL";
const DISCARD: &str = "DELETE FROM {history} WHERE id = @shedlock AND ended_at IS NULL";
/// Marks a taking that was given up as void, since it may still be on its way.
const VOID: &str = "INSERT INTO {history} (name, owner, host, started_at, ended_at, outcome) VALUES ({name}, {owner}, '', {now}, {now}, 'void')";
/// Condition that tells the record of a run from the mark of a void taking.
const RUN: &str = "COALESCE(outcome, '') <> 'void'";
/// Deletes the oldest records of a name. Without FORCE INDEX the server would rather walk along the primary key,
/// through the records of all names.
const PRUNE: &str = "SELECT MAX(id) INTO @shedlock FROM \
    (SELECT id FROM {history} WHERE name = {name} AND {run} ORDER BY id DESC LIMIT 1 OFFSET {keep}) AS oldest; \
    DELETE runs FROM {history} AS runs FORCE INDEX (name) WHERE name = {name} AND \
    (id <= @shedlock AND {run} OR NOT {run} AND ended_at < {now} - INTERVAL 1 HOUR)";

const LOOK: &str = "SELECT locked_by = {owner}, locked_by = {ended}, {held}, locked_by, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, {now}, lock_until), lock_until >= {limit}, locked_at, lock_until \
    FROM {table} WHERE name = {name}";

/// Begins every listing: reads the server's time, and whether the server is read-only.
const SERVER: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) DIV 1000, @@global.read_only";

const LOCKS: &str = "SELECT {name}, locked_by, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, \
    {held}, TIMESTAMPDIFF(MICROSECOND, {now}, lock_until) FROM {table}";

const RUNS: &str = "SELECT id, name, owner, host, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000, exit_code, outcome FROM {runs} \
    ORDER BY started_at DESC, id DESC LIMIT {limit}";

const ALL: &str = "{history} WHERE {run} AND {names} AND {since}";

/// Numbers the runs of each name, which takes longer than all the rest.
const OF_EACH: &str = "(SELECT runs.*, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) AS place \
    FROM {history} AS runs WHERE {run} AND {names} AND {since}) AS placed WHERE place <= {of_each}";

/// Condition for the runs of a period. A run whose end is missing, or is no time, may still be running.
const SINCE: &str = "IFNULL(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000 >= {millis}, TRUE)";

/// Creates the table of locks. Older servers give a `TIMESTAMP` without a default one of their own, which other
/// settings of theirs then refuse.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table}
    (name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    lock_until TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_by VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL) ENGINE = InnoDB";

/// Creates the history. The index finds a record, and all records of a name, which are read as a whole. It has as much of the
/// owner as servers take into an index, which is all of it but the at-least of `acquire`.
const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS {history}
    (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    host VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, started_at DATETIME(3) NOT NULL,
    ended_at DATETIME(3), exit_code INT, outcome VARCHAR(16) CHARACTER SET utf8mb4, INDEX name (name, owner(160))) ENGINE = InnoDB";

const SCHEMA: &str = "\
-- The tables that shedlock needs in MySQL or MariaDB. Run this in the database that the URL names. shedlock creates the tables
-- itself when it first takes a lock, if it may; tables that exist are left unchanged.

-- The locks, in the layout of the Java library ShedLock:
{create};

-- The runs of each lock, and the tokens. Without this table there are neither, but locks work:
{create_history};

-- The rights of a user who takes locks, from the hosts of the jobs; to list locks and runs, SELECT is enough:
-- GRANT SELECT, INSERT, UPDATE ON {table} TO {user}@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {history} TO {user}@'%';
-- `shedlock forget`, which removes locks that are no longer used, also needs DELETE on {table}.
";

/// The statements of one operation.
pub(super) struct Message {
    pub(super) text: String,
    /// Index of the statement that writes the lock's row.
    pub(super) write: usize,
    /// Index of the statement that inserts into the history, or deletes from it.
    pub(super) record: Option<usize>,
    /// Index of the statement that commits; those between `write` and this one are the history's.
    pub(super) commit: usize,
}

/// Part of an operation to which a statement belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Step {
    /// Statement on the lock's row, or before it.
    Lock,
    History,
    /// The end of the transaction, and the look.
    Commit,
}

impl Message {
    pub(super) fn step(&self, number: usize) -> Step {
        match number {
            _ if number <= self.write => Step::Lock,
            _ if number < self.commit => Step::History,
            _ => Step::Commit,
        }
    }
}

/// The two tables, and the time to wait for their rows.
pub(super) struct Tables {
    /// Names in backticks.
    names: [String; 2],
    patience: Duration,
    /// Set once the column of the end is known to hold any time, as a DATETIME does.
    pub(super) endless: bool,
}

impl Tables {
    pub(super) fn new(table: &str, servers: &Servers) -> Self {
        let names = [table.to_owned(), format!("{table}_history")].map(|name| quoted(&name));
        Self { names, patience: servers.patience(), endless: false }
    }

    fn quoted(&self, table: Table) -> &str {
        &self.names[table as usize]
    }

    /// Returns the table's name as people write it.
    pub(super) fn name(&self, table: Table) -> String {
        self.quoted(table).replace('`', "")
    }

    /// Returns the statement that creates a table, in one line.
    pub(super) fn creation(&self, table: Table) -> String {
        let statement = if table == Table::Locks { CREATE } else { CREATE_HISTORY };
        self.fill(statement).lines().map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Returns the statements that create both tables, for a client of the server, and the rights that `user` needs.
    pub(super) fn schema(&self, user: &str) -> String {
        let text = SCHEMA.replace("{create}", CREATE).replace("{create_history}", CREATE_HISTORY);
        self.fill(&text).replace("{user}", &format!("`{}`", user.replace('`', "``")))
    }

    /// Returns a statement that succeeds if the table can be read.
    pub(super) fn probe(&self, table: Table) -> String {
        format!("SELECT 1 FROM {} LIMIT 0", self.quoted(table))
    }

    /// Returns statements that read the locks of these names, or all locks: one for each name, whose rows have the
    /// requested name.
    pub(super) fn locks(&self, names: &BTreeSet<&str>) -> String {
        let look = |name: &&str| LOCKS.replace("{name}", &literal(name)) + " WHERE " + &is(name);
        let mut looks: Vec<String> = names.iter().map(look).collect();
        if looks.is_empty() {
            looks.push(LOCKS.replace("{name}", "name"));
        }
        self.reading(&looks.join("; "))
    }

    pub(super) fn runs(&self, wanted: &Wanted) -> String {
        let (odd, names): (Vec<&String>, Vec<&String>) = wanted.names.iter().partition(|name| is_odd(name));
        let mut any: Vec<String> = odd.into_iter().map(|name| is(name)).collect();
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().map(|name| literal(name)).collect();
            any.push(format!("name IN ({})", names.join(", ")));
        }
        let names = if any.is_empty() { "TRUE".to_owned() } else { format!("({})", any.join(" OR ")) };
        let since = wanted.since.map(|since| SINCE.replace("{millis}", &since.0.to_string()));
        let runs = if wanted.of_each.is_some() { OF_EACH } else { ALL };
        let text = RUNS
            .replace("{runs}", runs)
            .replace("{names}", &names)
            .replace("{since}", since.as_deref().unwrap_or("TRUE"))
            .replace("{of_each}", &wanted.of_each.unwrap_or(u32::MAX).to_string())
            .replace("{limit}", &wanted.limit.unwrap_or(u32::MAX).to_string());
        self.reading(&text)
    }

    /// Ends a listing with a commit. On a server without autocommit the next listing would otherwise show the same
    /// rows.
    fn reading(&self, looks: &str) -> String {
        self.fill(&format!("{SERVER}; {looks}; {COMMIT}")).replace("{now}", NOW)
    }

    pub(super) fn acquire(&self, claim: &Claim, history: History) -> Message {
        let statements = match history {
            History::With => [ACQUIRE, RECORD].as_slice(),
            History::Without => &[ACQUIRE],
        };
        let message = self.message(statements, claim, claim.lease);
        let record = (history == History::With).then_some(message.commit - 1);
        Message { record, ..message }
    }

    pub(super) fn renew(&self, claim: &Claim) -> Message {
        self.message(&[RENEW], claim, claim.lease)
    }

    pub(super) fn release(&self, claim: &Claim, hold: Duration, closing: Closing, history: History) -> Message {
        if history == History::Without {
            return self.message(&[RELEASE], claim, hold);
        }
        let close = match closing {
            Closing::Ended { verdict, exit_code } => {
                let code = exit_code.map_or_else(|| "NULL".to_owned(), |code| code.to_string());
                CLOSE.replace("{code}", &code).replace("{outcome}", &literal(verdict.as_str()))
            }
            Closing::Unused => DISCARD.to_owned(),
            Closing::GivenUp => format!("{DISCARD}; {VOID}"),
        };
        let prune = if claim.prunes() { [PRUNE].as_slice() } else { &[] };
        self.message(&[&[RELEASE, OWN, &close], prune].concat(), claim, hold)
    }

    /// Builds the message of a change. In the look, a lock with the new owner counts as this owner's.
    pub(super) fn change(&self, change: &Change) -> Message {
        let another = change.to != change.from;
        let statement = CHANGE.replace("{since}", if another { "{now}" } else { BEGINNING });
        let text = self
            .transaction(&[&statement], change.left)
            .replace("name = {name}", &is(change.name.as_str()))
            .replace("{name}", &literal(change.name.as_str()))
            .replace("locked_by = {owner}", "{stored} = {to}")
            .replace("locked_by = {ended}", "FALSE")
            .replace("{stored}", STORED)
            .replace("{from}", &literal(&change.from))
            .replace("{to}", &literal(&change.to));
        Self::cut(&text)
    }

    /// Builds the message of a removal. Its look finds the row that stays.
    pub(super) fn forget(&self, removal: &Removal, history: History) -> Message {
        let statements = match history {
            History::With => [FORGET, FORGET_RUNS].as_slice(),
            History::Without => &[FORGET],
        };
        let text = self
            .transaction(statements, Duration::ZERO)
            .replace("name = {name}", &is(removal.name.as_str()))
            .replace("{name}", &literal(removal.name.as_str()))
            .replace("{stored}", STORED)
            .replace("{from}", &literal(&removal.seen))
            .replace("locked_by = {owner}", "FALSE")
            .replace("locked_by = {ended}", "FALSE");
        let message = Self::cut(&text);
        let record = (history == History::With).then_some(message.commit - 2);
        Message { record, ..message }
    }

    fn message(&self, statements: &[&str], claim: &Claim, duration: Duration) -> Message {
        let text = self
            .transaction(statements, duration)
            .replace("{keep}", &claim.keep.max(1).to_string())
            .replace("{strict}", if is_odd(claim.name.as_str()) { ONLY_WHOLE } else { "" })
            .replace("{name}", &literal(claim.name.as_str()))
            .replace("{owner}", &literal(claim.owner.as_str()))
            .replace("{host}", &literal(Holder::of(claim.owner.as_str()).host()))
            .replace("{ended}", &literal(&claim.owner.ended()));
        Self::cut(&text)
    }

    /// Builds a whole transaction, and the look after it. The explicit commit is for servers without autocommit.
    fn transaction(&self, statements: &[&str], duration: Duration) -> String {
        self.fill(&[&[PATIENCE], statements, &[COMMIT, LOOK]].concat().join("; "))
            .replace("{end}", END)
            .replace("{limit}", if self.endless { "TIMESTAMP'9999-12-31 00:00:00'" } else { LIMIT })
            .replace("{wait}", &self.patience.as_secs().to_string())
            .replace("{now}", NOW)
            .replace("{micros}", &micros(duration).to_string())
    }

    fn cut(text: &str) -> Message {
        let text = text.replace("{strict}", "");
        let commit = text.matches(';').count() - 1;
        Message { text, write: PATIENCE.matches(';').count() + 1, record: None, commit }
    }

    fn fill(&self, text: &str) -> String {
        let [table, history] = &self.names;
        let text = text.replace("{held}", HELD).replace("{beginning}", BEGINNING).replace("{wrong}", WRONG);
        let text = text.replace("{ahead}", AHEAD);
        text.replace("{run}", RUN).replace("{table}", table).replace("{history}", history)
    }
}

/// Puts a table's name in backticks. The name has only letters, digits, underscores, and perhaps a dot.
pub(super) fn quoted(name: &str) -> String {
    name.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".")
}

/// Writes a text as a literal in hexadecimal, in which no setting of a server gives any character a meaning.
fn literal(text: &str) -> String {
    text.bytes().fold("_utf8mb4 x'".to_owned(), |literal, byte| literal + &format!("{byte:02x}")) + "'"
}

/// Condition for the row of a lock. Two names that run accepts are one lock if the table's collation says so. Collations also
/// ignore spaces at the end, and some of them control characters: a name with such is compared byte by byte, because an operator
/// who asks for `job ` must not free `job`.
fn is(name: &str) -> String {
    let literal = literal(name);
    match is_odd(name) {
        true => format!("name = {literal} AND HEX(CONVERT(name USING utf8mb4)) = HEX({literal})"),
        false => format!("name = {literal}"),
    }
}

fn is_odd(name: &str) -> bool {
    LockName::new(name).is_err()
}

/// Returns microseconds, rounded up to whole milliseconds: the columns keep no more.
fn micros(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000) * 1000
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, Url};
    use super::*;
    use crate::lock::{Owner, Purpose, RunOutcome};

    #[test]
    fn a_clock_that_was_ahead_is_the_same_everywhere() {
        let [ours, others] = ["a:1:2", "java"].map(|owner| crate::backend::ahead_of(owner).as_secs());
        assert!(AHEAD.ends_with(&format!("+ INTERVAL IF(locked_by LIKE '%:%:%', {ours}, {others}) SECOND")), "{AHEAD}");
    }

    #[test]
    fn no_name_ends_a_statement() {
        let name = LockName::new("a'; DROP TABLE `shedlock`; -- \\ {owner} ä").unwrap();
        let claim = Claim {
            name,
            owner: Owner::new("o'h", 1, 2),
            lease: Duration::from_micros(1500),
            keep: 100,
            purpose: Purpose::Run,
        };
        let url = Url::parse("mysql://db/x?table=ops.locks").unwrap();
        let tables = Tables::new("ops.locks", &Servers::of_url(&url, &Access::default(), true).unwrap());
        let closing = Closing::Ended { verdict: RunOutcome::Success, exit_code: Some(0) };
        let change = |claim: &Claim, to: &str| Change {
            name: claim.name.clone(),
            from: claim.owner.as_str().to_owned(),
            to: to.to_owned(),
            left: claim.lease,
        };
        for (message, statements) in [
            (tables.acquire(&claim, History::With), 9),
            (tables.acquire(&claim, History::Without), 5),
            (tables.renew(&claim), 5),
            (tables.release(&claim, claim.lease, closing, History::With), 7),
            (tables.release(&claim, claim.lease, Closing::GivenUp, History::With), 8),
            (tables.release(&Claim { keep: 1, ..claim.clone() }, claim.lease, closing, History::With), 9),
            (tables.release(&claim, claim.lease, closing, History::Without), 5),
            (tables.change(&change(&claim, claim.owner.as_str())), 5),
            (tables.change(&change(&claim, "another's")), 5),
        ] {
            let text = message.text;
            assert!(!text.contains('{') && !text.contains("DROP") && !text.contains("o'h"), "{text}");
            assert!(text.contains("x'61273b2044524f50") && text.contains("INTERVAL 2000 MICROSECOND"), "{text}");
            assert!(text.contains("`ops`.`locks` ") && !text.contains("`ops`.`locks`_"), "{text}");
            let parts: Vec<&str> = text.split("; ").collect();
            assert_eq!(parts.len(), statements, "{text}");
            assert_eq!(parts[message.commit], COMMIT);
            assert!(
                parts[message.write].starts_with("INSERT INTO `ops`.`locks` ")
                    || parts[message.write].starts_with("UPDATE")
            );
            assert!(
                message.record.is_none_or(|record| parts[record].starts_with("INSERT INTO `ops`.`locks_history` "))
            );
        }
    }
}
