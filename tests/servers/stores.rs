//! A store of locks as another party sees it: what is in it, and the statements that the Java library documents, played
//! through the server's own client. Each value is a store of its own in which nothing is yet, not even a table.

mod built;
mod etcd;
mod example;
mod kubernetes;
mod mongodb;
mod past;
mod wire;
mod zookeeper;

use std::time::Duration;

pub use built::install_mongodb;
pub use example::{ExampleStore, install, program};
pub use kubernetes::KubernetesStore;
pub use mongodb::MongoDbStore;
pub use past::Past;
use serde_json::Value;
pub use wire::{WireStore, install_wire};
pub use zookeeper::{ZooKeeperLocks, ZooKeeperStore};

use super::{MariaDbDatabase, PostgresDatabase, RedisDatabase, mariadb, postgres, redis, unique};

pub use self::etcd::EtcdStore;

/// How far, and to where, times are moved.
#[derive(Debug, Clone, Copy)]
pub enum Shift {
    Earlier(Duration),
    Later(Duration),
}

impl Shift {
    /// Milliseconds, negative if earlier.
    pub fn millis(self) -> i64 {
        match self {
            Self::Earlier(by) => -i64::try_from(by.as_millis()).unwrap(),
            Self::Later(by) => i64::try_from(by.as_millis()).unwrap(),
        }
    }
}

/// What a held lock's time is measured by, and so what becomes of it when the store's clock is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The store's clock. Nothing else is known of the time.
    Clock,
    /// The clock of the host's boot, which nobody sets, while a job runs; the host's clock for what is kept, paused or
    /// changed. All users of the store are on this host.
    Boot,
    /// A lease that the store counts down by itself, whatever the time is.
    Lease,
}

/// What every backend's store can show and do.
pub trait Store: Send + Sync {
    /// The URL by which shedlock reaches it.
    fn url(&self) -> String;

    /// Whether a lock and its history are one record, so that removing the lock removes its history.
    fn in_one_record(&self) -> bool {
        false
    }

    /// How coarse its clock is: a lock ends as much later as the time may be later than its clock says.
    fn grain(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether each connection starts a program, for which a lease of two seconds is too short on a busy machine.
    fn starts_programs(&self) -> bool {
        false
    }

    /// The owner that is shown for a lock which this application of the Java library holds: not each layout has one.
    fn java_owner(&self, owner: &str) -> String {
        owner.to_owned()
    }

    /// Whether an application of the Java library that releases too late leaves the next holder's lock alone.
    fn java_frees_only_its_own(&self) -> bool {
        true
    }

    /// Whether the key of a free lock is deleted, so that nothing but its runs shows that it exists.
    fn deletes_free_locks(&self) -> bool {
        false
    }

    /// The milliseconds by which the end of this lock is uncertain.
    fn uncertainty(&self, _: &Stored) -> i64 {
        0
    }

    /// The lock as it is stored; `None` where there is nothing of that name.
    fn stored(&self, name: &str) -> Option<Stored>;

    /// Removes it, as nobody should.
    fn delete(&self, name: &str);

    /// Gives it to another owner, and leaves its times.
    fn steal(&self, name: &str, owner: &str);

    /// Moves its times, beginning and end: as if the store's clock had been set the other way, or as an application writes
    /// them that lives in another time zone. The clock of a host's boot stays as it is.
    fn shift(&self, name: &str, by: Shift);

    /// What a held lock's time is measured by.
    fn measure(&self) -> Measure {
        Measure::Clock
    }

    /// What is left of a lock, where the store counts it down by itself and the program tells it only by its clock.
    fn left(&self, _: &str) -> Option<Duration> {
        None
    }

    /// How many connections the program has to it, as its server says.
    fn connections(&self) -> usize;

    /// Makes the table as the Java library's documentation does.
    fn make_table(&self);

    /// Has the table hold names of up to 200 characters, where it has a width at all.
    fn widen(&self) {}

    /// Takes the lock as the Java library does; says whether it got it. A row is inserted first, as its applications do
    /// for a name that they have not seen.
    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool;

    /// Releases it as the Java library does; it stays held for `rest` from now on.
    fn java_release(&self, name: &str, owner: &str, rest: Duration);

    /// The runs of the lock that the history holds, newest first; none where there is no history.
    fn history(&self, name: &str) -> Vec<Run>;

    /// What is in it: tables or keys.
    fn things(&self) -> Vec<String>;

    /// Has the statements of a schema carried out, as a person would.
    fn carry_out(&self, schema: &str);
}

/// A run as the history has it, with times in milliseconds of the store's clock since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub token: u64,
    pub owner: String,
    pub host: String,
    pub started: i64,
    pub ended: Option<i64>,
    pub exit_code: Option<i64>,
    pub outcome: Option<String>,
}

impl Run {
    /// Reads `TOKEN|OWNER|HOST|STARTED|ENDED|EXIT CODE|OUTCOME`, where nothing stands for what is not there.
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split('|').collect();
        let [token, owner, host, started, ended, exit_code, outcome] = fields[..] else { panic!("no run: {line}") };
        let number = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        Self {
            token: token.parse().unwrap(),
            owner: owner.to_owned(),
            host: host.to_owned(),
            started: number(started).unwrap(),
            ended: number(ended),
            exit_code: number(exit_code),
            outcome: (!outcome.is_empty()).then(|| outcome.to_owned()),
        }
    }
}

/// A stored lock, in milliseconds of the store's clock since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub owner: String,
    pub since: i64,
    pub until: i64,
    /// When this was read.
    pub now: i64,
}

impl Stored {
    /// What Java would say of it.
    pub fn is_held(&self) -> bool {
        self.until > self.now
    }

    /// From the acquisition to the end, in milliseconds.
    pub fn span(&self) -> i64 {
        self.until - self.since
    }

    /// Reads `OWNER|SINCE|UNTIL|NOW`, which an owner may not have in it.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.lines().next()?.rsplitn(4, '|');
        let mut number = || fields.next()?.parse::<f64>().ok().map(|number| number.floor() as i64);
        let (now, until, since) = (number()?, number()?, number()?);
        Some(Self { owner: fields.next()?.to_owned(), since, until, now })
    }
}

/// A database of the shared PostgreSQL.
pub struct PostgresStore(pub PostgresDatabase);

impl PostgresStore {
    pub fn new() -> Self {
        Self(postgres().database())
    }
}

impl Store for PostgresStore {
    fn url(&self) -> String {
        self.0.url()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let millis = |value: &str| format!("floor(extract(epoch from {value}) * 1000)");
        let (since, until, now) = (millis("locked_at"), millis("lock_until"), millis("now()"));
        let sql = format!(
            "select concat_ws('|', locked_by, {since}, {until}, {now}) from shedlock where name = {}",
            quoted(name)
        );
        match self.0.try_psql(&sql) {
            Err(complaint) if complaint.contains("does not exist") => None,
            answer => Stored::parse(&answer.unwrap()),
        }
    }

    fn delete(&self, name: &str) {
        self.0.psql(&format!("delete from shedlock where name = {}", quoted(name)));
    }

    fn shift(&self, name: &str, by: Shift) {
        let ahead = |column: &str| format!("{column} = {column} + interval '{} milliseconds'", by.millis());
        self.0.psql(&format!(
            "update shedlock set {}, {} where name = {}",
            ahead("locked_at"),
            ahead("lock_until"),
            quoted(name)
        ));
    }

    fn steal(&self, name: &str, owner: &str) {
        self.0.psql(&format!("update shedlock set locked_by = {} where name = {}", quoted(owner), quoted(name)));
    }

    fn connections(&self) -> usize {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = '{}' and application_name = 'shedlock'",
            self.0.name
        );
        self.0.psql(&sql).parse().unwrap()
    }

    fn make_table(&self) {
        self.0.psql(
            "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
             locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
        );
    }

    fn widen(&self) {
        self.0.psql("alter table shedlock alter name type varchar(200)");
    }

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let now = "timezone('utc', CURRENT_TIMESTAMP)";
        let (name, owner, millis) = (quoted(name), quoted(owner), at_most.as_millis());
        let until = format!("{now} + cast('{millis} milliseconds' as interval)");
        let sql = format!(
            "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES({name}, {until}, {now}, {owner}) \
             ON CONFLICT (name) DO UPDATE SET lock_until = {until}, locked_at = {now}, locked_by = {owner} \
             WHERE shedlock.name = {name} AND shedlock.lock_until <= {now} RETURNING name"
        );
        !self.0.psql(&sql).is_empty()
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        self.0.psql(&format!(
            "UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + cast('{} milliseconds' as interval) \
             WHERE name = {} AND locked_by = {}",
            rest.as_millis(),
            quoted(name),
            quoted(owner)
        ));
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let millis = |value: &str| format!("floor(extract(epoch from {value}) * 1000)::int8");
        let (started, ended) = (millis("started_at"), millis("ended_at"));
        let sql = format!(
            "select id, owner, host, {started}, {ended}, exit_code, outcome from shedlock_history \
             where name = {} and outcome is distinct from 'void' order by id desc",
            quoted(name)
        );
        match self.0.try_psql(&sql) {
            Err(complaint) if complaint.contains("does not exist") => Vec::new(),
            answer => answer.unwrap().lines().map(Run::parse).collect(),
        }
    }

    fn things(&self) -> Vec<String> {
        let schemas = "('pg_catalog', 'information_schema')";
        let sql = format!("select tablename from pg_tables where schemaname not in {schemas} order by 1");
        self.0.psql(&sql).lines().map(str::to_owned).collect()
    }

    fn carry_out(&self, schema: &str) {
        self.0.psql(schema);
    }
}

/// A database of the shared MariaDB.
pub struct MariaDbStore(pub MariaDbDatabase);

impl MariaDbStore {
    pub fn new() -> Self {
        Self(mariadb().database())
    }

    fn ask(&self, sql: &str) -> Result<String, String> {
        self.0.try_mariadb(&format!("SET NAMES utf8mb4; {sql}"))
    }
}

impl Store for MariaDbStore {
    fn url(&self) -> String {
        self.0.url()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let millis = |value: &str| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value}) DIV 1000");
        let (since, until, now) = (millis("locked_at"), millis("lock_until"), millis("UTC_TIMESTAMP(3)"));
        let sql = format!(
            "select concat_ws('|', locked_by, {since}, {until}, {now}) from shedlock where name = {}",
            escaped(name)
        );
        match self.ask(&sql) {
            Err(complaint) if complaint.contains("doesn't exist") => None,
            answer => Stored::parse(&answer.unwrap()),
        }
    }

    fn delete(&self, name: &str) {
        self.ask(&format!("delete from shedlock where name = {}", escaped(name))).unwrap();
    }

    fn shift(&self, name: &str, by: Shift) {
        let ahead = |column: &str| format!("{column} = {column} + interval {} microsecond", by.millis() * 1000);
        let (since, until) = (ahead("locked_at"), ahead("lock_until"));
        self.ask(&format!("update shedlock set {since}, {until} where name = {}", escaped(name))).unwrap();
    }

    fn steal(&self, name: &str, owner: &str) {
        let (owner, name) = (escaped(owner), escaped(name));
        self.ask(&format!("update shedlock set locked_by = {owner}, lock_until = lock_until where name = {name}"))
            .unwrap();
    }

    fn connections(&self) -> usize {
        let sql = format!(
            "select count(*) from information_schema.processlist where db = '{}' and id <> connection_id()",
            self.0.name
        );
        self.0.mariadb(&sql).parse().unwrap()
    }

    fn make_table(&self) {
        self.0.mariadb(
            "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, \
             locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
        );
    }

    fn widen(&self) {
        self.0.mariadb("alter table shedlock modify name varchar(200) not null");
    }

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let (name, owner) = (escaped(name), escaped(owner));
        let until = format!("TIMESTAMPADD(MICROSECOND, {}, UTC_TIMESTAMP(3))", at_most.as_micros());
        let answer = self
            .ask(&format!(
                "INSERT IGNORE INTO shedlock(name, lock_until, locked_at, locked_by) \
             VALUES({name}, {until}, UTC_TIMESTAMP(3), {owner}); SELECT ROW_COUNT(); \
             UPDATE shedlock SET lock_until = {until}, locked_at = UTC_TIMESTAMP(3), locked_by = {owner} \
             WHERE name = {name} AND lock_until <= UTC_TIMESTAMP(3); SELECT ROW_COUNT()"
            ))
            .unwrap();
        answer.lines().any(|count| count == "1")
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        self.ask(&format!(
            "UPDATE shedlock SET lock_until = TIMESTAMPADD(MICROSECOND, {}, UTC_TIMESTAMP(3)) \
             WHERE name = {} AND locked_by = {}",
            rest.as_micros(),
            escaped(name),
            escaped(owner)
        ))
        .unwrap();
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let text = |value: &str| format!("ifnull({value}, '')");
        let millis = |value: &str| text(&format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value}) DIV 1000"));
        let (started, ended) = (millis("started_at"), millis("ended_at"));
        let (code, outcome) = (text("exit_code"), text("outcome"));
        let sql = format!(
            "select concat_ws('|', id, owner, host, {started}, {ended}, {code}, {outcome}) from shedlock_history \
             where name = {} and coalesce(outcome, '') <> 'void' order by id desc",
            escaped(name)
        );
        match self.ask(&sql) {
            Err(complaint) if complaint.contains("doesn't exist") => Vec::new(),
            answer => answer.unwrap().lines().map(Run::parse).collect(),
        }
    }

    fn things(&self) -> Vec<String> {
        self.0.mariadb("show tables").lines().map(str::to_owned).collect()
    }

    fn carry_out(&self, schema: &str) {
        self.0.mariadb(schema);
    }
}

/// A database of the shared Redis, with a prefix of its own.
pub struct RedisStore {
    database: RedisDatabase,
    prefix: String,
}

impl RedisStore {
    pub fn new() -> Self {
        Self::of(redis().database())
    }

    pub fn of(database: RedisDatabase) -> Self {
        Self { database, prefix: unique("locks") }
    }

    /// One with the prefix that an application has which names none.
    pub fn with_usual_prefix() -> Self {
        Self { database: redis().database(), prefix: "job-lock".to_owned() }
    }

    fn key(&self, name: &str) -> String {
        format!("{}:default:{name}", self.prefix)
    }
}

impl Store for RedisStore {
    fn url(&self) -> String {
        format!("{}?prefix={}", self.database.url(), self.prefix)
    }

    fn deletes_free_locks(&self) -> bool {
        true
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        // At one instant, or what is between them would count as the lock's.
        let script = "local now = redis.call('TIME'); \
                      return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), now[1], now[2]}";
        let answer = self.database.cli(&["eval", script, "1", &self.key(name)]);
        let [value, rest, seconds, micros] = answer.lines().collect::<Vec<_>>().try_into().unwrap();
        let (since, owner) = value.strip_prefix("ADDED:")?.split_once('@')?;
        let number = |text: &str| text.parse::<i64>().unwrap();
        let now = number(seconds) * 1000 + number(micros) / 1000;
        Some(Stored { owner: owner.to_owned(), since: epoch(since), until: now + number(rest), now })
    }

    fn delete(&self, name: &str) {
        self.database.cli(&["del", &self.key(name)]);
    }

    fn shift(&self, name: &str, by: Shift) {
        let value = self.database.cli(&["get", &self.key(name)]);
        let (added, owner) = value.strip_prefix("ADDED:").unwrap().split_once('@').unwrap();
        let added = iso(epoch(added) + by.millis());
        // Redis keeps the time at which a key expires, and not how long that takes.
        let script = "redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL') \
                      return redis.call('PEXPIRE', KEYS[1], string.format('%.0f', redis.call('PTTL', KEYS[1]) + ARGV[2]))";
        let value = format!("ADDED:{added}@{owner}");
        self.database.cli(&["eval", script, "1", &self.key(name), &value, &by.millis().to_string()]);
    }

    fn steal(&self, name: &str, owner: &str) {
        let value = self.database.cli(&["get", &self.key(name)]);
        let added = value.split_once('@').unwrap().0;
        self.database.cli(&["set", &self.key(name), &format!("{added}@{owner}"), "xx", "keepttl"]);
    }

    fn connections(&self) -> usize {
        let database = format!(" db={} ", self.database.number);
        // The one that asks has chosen its database as well.
        self.database.cli(&["client", "list"]).lines().filter(|line| line.contains(&database)).count() - 1
    }

    fn make_table(&self) {}

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let value = format!("ADDED:{}@{owner}", humantime::format_rfc3339_millis(std::time::SystemTime::now()));
        self.database.cli(&["set", &self.key(name), &value, "nx", "px", &at_most.as_millis().to_string()]) == "OK"
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        // Without its safe mode it asks nobody whose lock it is; this plays the mode that does.
        if !self.database.cli(&["get", &self.key(name)]).ends_with(&format!("@{owner}")) {
            return;
        }
        if rest.is_zero() {
            self.delete(name);
        } else {
            let value = format!("ADDED:2026-01-31T18:00:00.000Z@{owner}");
            self.database.cli(&["set", &self.key(name), &value, "xx", "px", &rest.as_millis().to_string()]);
        }
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let key = format!("{{{}}}:history", self.key(name));
        let answer = self.database.cli(&["zrevrange", &key, "0", "-1", "withscores"]);
        let lines: Vec<&str> = answer.lines().collect();
        let read = |pair: &[&str]| {
            let [member, score] = pair else { panic!("a member without a score: {pair:?}") };
            let run: Value = serde_json::from_str(member).unwrap_or_else(|why| panic!("{member}: {why}"));
            let text = |key: &str| run[key].as_str().map(str::to_owned);
            assert_eq!(
                (text("name").as_deref(), run["token"].to_string()),
                (Some(name), (*score).to_owned()),
                "{member}"
            );
            Run {
                token: run["token"].as_u64().unwrap(),
                owner: text("owner").unwrap(),
                host: text("host").unwrap(),
                started: epoch(&text("started_at").unwrap()),
                ended: text("ended_at").map(|time| epoch(&time)),
                exit_code: run["exit_code"].as_i64(),
                outcome: text("outcome"),
            }
        };
        lines.chunks(2).map(read).collect()
    }

    fn things(&self) -> Vec<String> {
        self.database.cli(&["keys", "*"]).lines().filter(|key| !key.is_empty()).map(str::to_owned).collect()
    }

    fn carry_out(&self, _: &str) {}
}

/// A SQLite file.
pub struct SqliteStore(tempfile::TempDir);

impl SqliteStore {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("locks.db")
    }

    fn open(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }
}

impl Store for SqliteStore {
    fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
        let sql = format!("SELECT locked_by, locked_at, lock_until, {now} FROM shedlock WHERE name = ?1");
        let time = |row: &rusqlite::Row<'_>, index| Ok::<_, rusqlite::Error>(epoch(&row.get::<_, String>(index)?));
        self.open()
            .query_row(&sql, [name], |row| {
                Ok(Stored { owner: row.get(0)?, since: time(row, 1)?, until: time(row, 2)?, now: time(row, 3)? })
            })
            .ok()
    }

    fn delete(&self, name: &str) {
        self.open().execute("DELETE FROM shedlock WHERE name = ?1", [name]).unwrap();
    }

    fn shift(&self, name: &str, by: Shift) {
        let connection = self.open();
        let moved = |column: &str| format!("strftime('%Y-%m-%dT%H:%M:%fZ', {column}, ?2)");
        let (since, until) = (moved("locked_at"), moved("lock_until"));
        // A table that was made for Java has no such column.
        let has_boot = connection.prepare("SELECT boot_for FROM shedlock").is_ok();
        let of_boot = "boot_for = CASE WHEN boot_for = locked_by || ' ' || lock_until THEN locked_by || ' ' ||";
        let boot = if has_boot { format!(", {of_boot} {until} ELSE boot_for END") } else { String::new() };
        let sql = format!("UPDATE shedlock SET locked_at = {since}, lock_until = {until}{boot} WHERE name = ?1");
        let seconds = Duration::from_millis(by.millis().unsigned_abs()).as_secs_f64();
        let sign = if by.millis() < 0 { '-' } else { '+' };
        connection.execute(&sql, [name, &format!("{sign}{seconds:.3} seconds")]).unwrap();
    }

    fn measure(&self) -> Measure {
        Measure::Boot
    }

    fn steal(&self, name: &str, owner: &str) {
        self.open().execute("UPDATE shedlock SET locked_by = ?2 WHERE name = ?1", [name, owner]).unwrap();
    }

    fn connections(&self) -> usize {
        0
    }

    fn make_table(&self) {
        let sql = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TEXT NOT NULL, \
                   locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";
        self.open().execute_batch(sql).unwrap();
    }

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
        let until = format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+{} seconds')", at_most.as_secs_f64());
        let sql = format!(
            "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES(?1, {until}, {now}, ?2) \
             ON CONFLICT (name) DO UPDATE SET lock_until = {until}, locked_at = {now}, locked_by = ?2 \
             WHERE lock_until <= {now}"
        );
        self.open().execute(&sql, [name, owner]).unwrap() == 1
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        let until = format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+{} seconds')", rest.as_secs_f64());
        let sql = format!("UPDATE shedlock SET lock_until = {until} WHERE name = ?1 AND locked_by = ?2");
        self.open().execute(&sql, [name, owner]).unwrap();
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let sql = "SELECT id, owner, host, started_at, ended_at, exit_code, outcome FROM shedlock_history \
                   WHERE name = ?1 ORDER BY id DESC";
        let connection = self.open();
        let mut statement = match connection.prepare(sql) {
            Err(error) if error.to_string().contains("no such table") => return Vec::new(),
            statement => statement.unwrap(),
        };
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Run {
                token: row.get::<_, i64>(0)?.try_into().unwrap(),
                owner: row.get(1)?,
                host: row.get(2)?,
                started: epoch(&row.get::<_, String>(3)?),
                ended: row.get::<_, Option<String>>(4)?.map(|time| epoch(&time)),
                exit_code: row.get(5)?,
                outcome: row.get(6)?,
            })
        };
        statement.query_map([name], read).unwrap().map(Result::unwrap).collect()
    }

    fn things(&self) -> Vec<String> {
        if !self.path().exists() {
            return Vec::new();
        }
        let connection = self.open();
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").unwrap();
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn carry_out(&self, schema: &str) {
        self.open().execute_batch(schema).unwrap();
    }
}

/// A text literal of standard SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text literal of MySQL, where a backslash means something too.
fn escaped(text: &str) -> String {
    quoted(&text.replace('\\', "\\\\"))
}

/// `2026-01-31T18:00:00.000Z`, of milliseconds since the epoch.
fn iso(millis: i64) -> String {
    let since = Duration::from_millis(millis.try_into().unwrap());
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

/// Milliseconds since the epoch of `2026-01-31T18:00:00.000Z`.
fn epoch(time: &str) -> i64 {
    let since = humantime::parse_rfc3339_weak(time).unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
