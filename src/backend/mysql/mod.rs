//! Locks in a MySQL or MariaDB table, the Java library's.
//!
//! Every operation is several statements in one message, and so one round trip. They commit, for servers without
//! autocommit, and then look: the rows that were changed do not tell a lock that is taken from one that is left alone.
//! All times are UTC and pass through the session's own time zone, as the Java library's do; whoever changed the zone
//! would see other times.

mod connect;
mod trouble;

use std::time::Duration;

use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Column, Conn, Value};

use super::tls::Tls;
use super::{Access, Acquired, Backend, Kept, Pace, Trouble, TroubleKind, Url};
use crate::clock::Timestamp;
use crate::lock::{Claim, Closing, Grant, Record};
use connect::Servers;
use trouble::Failure;

const NOW: &str = "UTC_TIMESTAMP(3)";

/// Before each of the others: a statement that gives up waiting for a row says so while we still listen. One that waited
/// longer would take the lock for nobody. `{wait}` is in seconds.
const PATIENCE: &str = "SET innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}";

/// One row is written by one statement, and none is read first: whoever shared a row before writing it would be in the way of
/// others who do the same. The end is assigned last because the assignments see each other's values, from left to
/// right: the owner is ours by then only if the lock is.
const ACQUIRE: &str = "{patience}; \
    INSERT INTO {table} (name, lock_until, locked_at, locked_by) \
    VALUES ({name}, {now} + INTERVAL {micros} MICROSECOND, {now}, {owner}) ON DUPLICATE KEY UPDATE \
    locked_at = IF(locked_by = {owner} OR lock_until <= {now}, VALUES(locked_at), locked_at), \
    locked_by = IF(locked_by = {owner} OR lock_until <= {now}, VALUES(locked_by), locked_by), \
    lock_until = IF(locked_by = {owner}, VALUES(lock_until), lock_until); \
    COMMIT; {look}";

/// A column that is named keeps its value; one that is not may be one that the server sets to now with every change.
const RENEW: &str = "{patience}; \
    UPDATE {table} SET lock_until = GREATEST(lock_until, {now} + INTERVAL {micros} MICROSECOND), locked_at = locked_at \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}; \
    COMMIT; {look}";

/// A lock stays held no longer than hold from now on, since the server's clock may have been set back after the taking.
/// A release that is repeated changes nothing, and finds its own mark.
const RELEASE: &str = "{patience}; \
    UPDATE {table} SET lock_until = GREATEST({now}, LEAST(locked_at, {now}) + INTERVAL {micros} MICROSECOND), \
    locked_at = locked_at, locked_by = {ended} \
    WHERE name = {name} AND locked_by = {owner} AND lock_until > {now}; \
    COMMIT; {look}";

const LOOK: &str = "SELECT locked_by = {owner}, locked_by = {ended}, lock_until > {now}, locked_by, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, {now}, lock_until), lock_until FROM {table} WHERE name = {name}";

/// Older servers give a `TIMESTAMP` without a default one of their own, which other settings of theirs then refuse.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} \
    (name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, \
    lock_until TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    locked_by VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL) ENGINE = InnoDB";

/// Which of the statements writes.
const WRITE: usize = 1;

/// How often a taking may find the lock neither ours nor another's before that counts as trouble.
const RACES: usize = 10;

/// Locks in a MySQL or MariaDB table.
pub(crate) struct MySql {
    servers: Servers,
    address: String,
    /// In backticks.
    table: String,
    connection: Option<Conn>,
}

/// What the server answered to one operation.
struct Answer {
    /// How many rows were changed.
    changed: u64,
    /// The rows of that name: one.
    rows: Vec<Row>,
    /// The column of the end keeps no milliseconds, so what is stored may be earlier than what was asked for.
    coarse: bool,
}

/// The lock's row.
struct Row {
    ours: bool,
    /// It bears our mark of a run that has ended.
    ended: bool,
    held: bool,
    record: Record,
}

impl MySql {
    /// Checks `mysql://USER@HOST/DATABASE`, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Backend>, String> {
        let table = url.take_table()?;
        let servers = Servers::of_url(url, access, table.contains('.'))?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let table = table.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".");
        Ok(Box::new(Self { servers, address: url.public(), table, connection: None }))
    }

    /// Asks, on a connection that is open or is opened; a server that cannot be written is passed over.
    fn ask(&mut self, statements: &str) -> Result<Answer, Trouble> {
        let mut left = self.servers.count();
        loop {
            left -= 1;
            match self.ask_one(statements)? {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    if failure.is_read_only() {
                        self.servers.pass_over();
                    }
                    if left == 0 || !failure.is_read_only() {
                        return Err(self.explain(&failure));
                    }
                }
            }
        }
    }

    /// Asks the server that we are connected to, and makes the table where it is missing. The outer error says that there is
    /// no such server.
    fn ask_one(&mut self, statements: &str) -> Result<Result<Answer, Failure>, Trouble> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.servers.connect()?,
        };
        let mut answer = run(&mut connection, statements);
        if answer.as_ref().is_err_and(Failure::is_missing_table) {
            self.create(&mut connection)?;
            answer = run(&mut connection, statements);
        }
        // After an error the connection goes, and with it whatever it has begun.
        if answer.is_ok() {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    fn create(&self, connection: &mut Conn) -> Result<(), Trouble> {
        let statement = CREATE.replace("{table}", &self.table);
        let Err(error) = connection.query_drop(&statement) else { return Ok(()) };
        let failure = Failure::new(error, false);
        let trouble = self.explain(&failure);
        Err(match trouble.kind {
            TroubleKind::Lasting => Trouble::lasting(format!(
                "{}: there is no table {}, and it cannot be made: {}",
                self.servers.label(),
                self.table.replace('`', ""),
                failure.cause()
            ))
            .hint(format!("have somebody who may run: {statement}")),
            // Nothing was asked for yet.
            _ => Trouble { unclear: false, ..trouble },
        })
    }

    fn fill(&self, statements: &str, claim: &Claim, duration: Duration) -> String {
        statements
            .replace("{patience}", PATIENCE)
            .replace("{look}", LOOK)
            .replace("{wait}", &self.servers.patience().as_secs().to_string())
            .replace("{now}", NOW)
            .replace("{micros}", &micros(duration).to_string())
            .replace("{name}", &literal(claim.name.as_str()))
            .replace("{owner}", &literal(claim.owner.as_str()))
            .replace("{ended}", &literal(&claim.owner.ended()))
            .replace("{table}", &self.table)
    }

    /// The lock would be free before the job is dead. It was taken, and is to be given back.
    fn too_coarse(&self) -> Trouble {
        let message = "the table keeps no milliseconds, and a lock would end before its time";
        Trouble::lasting(format!("{}: {message}", self.servers.label()))
            .hint("make its columns `lock_until` and `locked_at` TIMESTAMP(3)")
            .unclear()
    }

    fn explain(&self, failure: &Failure) -> Trouble {
        trouble::of_asking(self.servers.label(), self.servers.user(), failure)
    }
}

impl Backend for MySql {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        let statements = self.fill(ACQUIRE, claim, claim.lease);
        let mut missed = false;
        for _ in 0..RACES {
            let Answer { rows, coarse, .. } = self.ask(&statements)?;
            if coarse && rows.iter().any(|row| row.ours) {
                return Err(self.too_coarse());
            }
            match rows.into_iter().try_fold(None, |first, row| if first.is_none() { Ok(Some(row)) } else { Err(()) }) {
                Ok(Some(row)) if row.held => match row.grant() {
                    Some(grant) => return Ok(Acquired::Granted(grant)),
                    None if !row.ours => {
                        self.disconnect();
                        return Ok(Acquired::Held(row.record));
                    }
                    None => {}
                },
                // It came to an end between the taking and the look.
                Ok(Some(_)) => {}
                Ok(None) if missed => {
                    return Err(Trouble::lasting(format!(
                        "{}: the table does not keep the name `{}` as it is",
                        self.servers.label(),
                        claim.name
                    ))
                    .hint("make its column `name` a VARCHAR(64) CHARACTER SET utf8mb4"));
                }
                // Somebody may have deleted the row in between.
                Ok(None) => missed = true,
                Err(()) => {
                    let message = format!("{}: the table has the lock's name twice", self.servers.label());
                    return Err(Trouble::lasting(message).hint("it needs `name` as its primary key").unclear());
                }
            }
        }
        Err(Trouble::passing(format!("{}: others were quicker each time", self.servers.label())))
    }

    fn renew(&mut self, claim: &Claim) -> Result<Kept, Trouble> {
        let answer = self.ask(&self.fill(RENEW, claim, claim.lease))?;
        // A row that has the end already is not counted as changed.
        Ok(kept(answer.changed > 0 || answer.rows.iter().any(|row| row.ours && row.held)))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, _: Closing) -> Result<Kept, Trouble> {
        let answer = self.ask(&self.fill(RELEASE, claim, hold))?;
        self.disconnect();
        // Another may have taken it before we looked.
        Ok(kept(answer.changed > 0 || answer.rows.iter().any(|row| row.ended)))
    }

    /// Also after what is the last for a while: the server writes a warning of every connection that ends without a word, as
    /// one does whose process ends.
    fn disconnect(&mut self) {
        self.connection = None;
    }

    fn pace(&self) -> Pace {
        Pace { first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Row {
    /// The lock as ours, if it is.
    fn grant(&self) -> Option<Grant> {
        let (locked_at, until) = self.record.since.zip(self.record.until)?;
        self.ours.then_some(Grant { locked_at, until, token: None })
    }
}

/// Sends the statements, and reads all that comes back.
fn run(connection: &mut Conn, statements: &str) -> Result<Answer, Failure> {
    let mut answer = Answer { changed: 0, rows: Vec::new(), coarse: false };
    let mut results = connection.query_iter(statements).map_err(|error| Failure::new(error, false))?;
    let mut step = 0;
    while let Some(result) = results.iter() {
        if step == WRITE {
            answer.changed = result.affected_rows();
        }
        answer.coarse |= result.columns().as_ref().last().is_some_and(is_coarse);
        for row in result {
            let read = row.and_then(|row| Ok(mysql::from_row_opt::<Columns>(row)?));
            answer.rows.push(read.map_err(|error| Failure::new(error, step > WRITE))?.into());
        }
        step += 1;
    }
    Ok(answer)
}

/// The columns of [`LOOK`]. What is compared or computed may be no value.
type Columns = (Option<i64>, Option<i64>, Option<i64>, Vec<u8>, Option<i64>, Option<i64>, Option<i64>, Value);

/// Whether this is a time without milliseconds.
fn is_coarse(column: &Column) -> bool {
    use ColumnType::{MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP};
    let times = [MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP];
    times.contains(&column.column_type()) && column.decimals() < 3
}

impl From<Columns> for Row {
    fn from((ours, ended, held, owner, since, until, left, _): Columns) -> Self {
        let is = |answer| answer == Some(1);
        let time = |millis: Option<i64>| millis?.try_into().ok().map(Timestamp);
        let left = Duration::from_micros(left.unwrap_or_default().try_into().unwrap_or_default());
        let owner = String::from_utf8_lossy(&owner).into_owned();
        let record = Record { owner, since: time(since), until: time(until), left };
        Self { ours: is(ours), ended: is(ended), held: is(held), record }
    }
}

/// A text as a literal that means the same to every server, whatever characters its settings give a meaning to.
fn literal(text: &str) -> String {
    text.bytes().fold("_utf8mb4 x'".to_owned(), |literal, byte| literal + &format!("{byte:02x}")) + "'"
}

/// In microseconds, but whole milliseconds, rounded up: the columns keep no more.
fn micros(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000) * 1000
}

fn kept(ours: bool) -> Kept {
    if ours { Kept::Kept } else { Kept::Lost }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockName, Owner};

    fn open(text: &str) -> Result<Box<dyn Backend>, String> {
        MySql::open(&Url::parse(text).unwrap(), &Access::default())
    }

    crate::backend::conformance::conformance!(crate::servers::stores::MariaDbStore::new);

    #[test]
    fn no_name_ends_a_statement() {
        let name = LockName::new("a'; DROP TABLE `shedlock`; -- \\ {owner} ä").unwrap();
        let claim = Claim { name, owner: Owner::new("o'h", 1, 2), lease: Duration::from_micros(1500), keep: 100 };
        let url = Url::parse("mysql://db/x?table=ops.locks").unwrap();
        let servers = Servers::of_url(&url, &Access::default(), true).unwrap();
        let backend = MySql { servers, address: String::new(), table: "`ops`.`locks`".to_owned(), connection: None };
        for statements in [ACQUIRE, RENEW, RELEASE] {
            let text = backend.fill(statements, &claim, claim.lease);
            assert!(!text.contains('{') && !text.contains("DROP") && !text.contains("o'h"), "{text}");
            assert!(text.contains("x'61273b2044524f50") && text.contains("INTERVAL 2000 MICROSECOND"), "{text}");
            assert_eq!(text.matches(';').count(), 3, "{text}");
        }
    }

    #[test]
    fn an_address_shows_no_password_and_what_is_unknown_is_refused() {
        let backend = open("mariadb://u:secret@db:3307/ops?table=a.b&sslmode=require").unwrap();
        assert_eq!(backend.address(), "mariadb://u@db:3307/ops?table=a.b&sslmode=require");
        assert!(open("mysql://db/ops?ssl-mode=on").err().unwrap().contains("unknown parameter `ssl-mode`; known are"));
        assert!(open("mysql://db").err().unwrap().contains("write mysql://HOST/DATABASE"));
        assert!(open("mysql://db?table=ops.shedlock").is_ok());
    }

    #[test]
    fn times_that_are_none_make_a_lock_that_is_free() {
        let row = Row::from((Some(0), None, None, b"h\xff".to_vec(), None, Some(-1), Some(-5), Value::NULL));
        assert!(!row.ours && !row.held && row.grant().is_none());
        let record = Record { owner: "h\u{fffd}".to_owned(), since: None, until: None, left: Duration::ZERO };
        assert_eq!(row.record, record);
    }
}
