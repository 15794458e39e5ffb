//! Locks in a MySQL or MariaDB table, the Java library's.
//!
//! Every operation is several statements in one message, and so one round trip. They write the lock's row and its history in
//! one transaction, and then look: the rows that were changed do not tell a lock that is taken from one that is left alone.
//! All times are UTC and pass through the session's own time zone, as the Java library's do; whoever changed the zone
//! would see other times.

mod answer;
mod check;
mod connect;
mod operate;
mod questions;
mod statements;
mod trouble;

use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::tls::Tls;
use super::{Access, Acquired, Backend, Kept, Operate, Pace, Remark, Reply, Trouble, TroubleKind, Url};
use crate::clock::Timestamp;
use crate::duration::brief;
use crate::lock::{Change, Claim, Closing, Grant, Locks, Purpose};
use answer::{Answer, Row};
use connect::Servers;
use statements::{History, Message, ROLLBACK, Step, Tables};
use trouble::Failure;

/// How often a taking may find the lock neither ours nor another's before that counts as trouble.
const RACES: usize = 10;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The end of a lock that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    AsAsked,
    /// The last time that its column holds.
    Last(Option<Timestamp>),
    /// The last time of a `TIMESTAMP`, in a column that holds later ones: it is to be written again.
    Unneeded,
    /// Something else has changed it.
    Sooner,
}

impl End {
    fn cut(self) -> Option<Timestamp> {
        if let Self::Last(until) = self { until } else { None }
    }
}

/// Locks in a MySQL or MariaDB table.
pub(crate) struct MySql {
    servers: Servers,
    address: String,
    tables: Tables,
    history: History,
    /// Why there are no tokens.
    unrecorded: Option<Trouble>,
    connection: Option<Conn>,
}

impl MySql {
    /// Checks `mysql://USER@HOST/DATABASE`, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Operate>, String> {
        let table = url.take_table()?;
        let servers = Servers::of_url(url, access, table.contains('.'))?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let tables = Tables::new(&table, &servers);
        let (history, address) = (History::With, url.public());
        Ok(Box::new(Self { servers, address, tables, history, unrecorded: None, connection: None }))
    }

    /// Asks, on a connection that is open or is opened; a server that cannot be written is passed over.
    fn ask(&mut self, message: impl Fn(&Tables, History) -> Message) -> Result<Answer, Trouble> {
        self.any_server(|backend| backend.ask_one(&message))?.map_err(|failure| self.explain(&failure))
    }

    /// Asks one server after the other, as long as they cannot be written.
    fn any_server<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self) -> Result<Result<T, Failure>, Trouble>,
    ) -> Result<Result<T, Failure>, Trouble> {
        let mut left = self.servers.count();
        loop {
            left -= 1;
            let failure = match ask(self)? {
                Ok(answer) => return Ok(Ok(answer)),
                Err(failure) => failure,
            };
            if failure.is_read_only() {
                self.servers.pass_over();
            }
            if left == 0 || !failure.is_read_only() {
                return Ok(Err(failure));
            }
        }
    }

    /// The connection that is open, or one that is opened. Who does not put it back closes it.
    fn connected(&mut self) -> Result<Conn, Trouble> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.servers.connect(),
        }
    }

    /// Asks the server that we are connected to, makes the tables where they are missing, and goes without the history where
    /// that cannot be had. The outer error says that there is no such server.
    fn ask_one(&mut self, message: impl Fn(&Tables, History) -> Message) -> Result<Result<Answer, Failure>, Trouble> {
        let mut connection = self.connected()?;
        let (mut made, mut made_history) = (false, false);
        loop {
            let failure = match answer::ask(&mut connection, &message(&self.tables, self.history)) {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(Ok(answer));
                }
                Err(failure) => failure,
            };
            if failure.spares_the_lock() {
                // Making a table would commit what has been begun.
                connection.query_drop(ROLLBACK).map_err(|error| self.explain(&Failure::new(error, Step::Lock)))?;
                if failure.is_missing_table() && !made_history {
                    made_history = true;
                    self.create_history(&mut connection)?;
                } else {
                    self.forgo(&failure);
                }
            } else if failure.is_missing_table() && !made {
                made = true;
                self.create(&mut connection)?;
                self.create_history(&mut connection)?;
            } else {
                // The connection goes, and with it whatever it has begun.
                return Ok(Err(failure));
            }
        }
    }

    fn create(&self, connection: &mut Conn) -> Result<(), Trouble> {
        let Err(error) = connection.query_drop(self.tables.create()) else { return Ok(()) };
        Err(self.no_table(&Failure::new(error, Step::Lock)))
    }

    /// The table of locks could not be made.
    fn no_table(&self, failure: &Failure) -> Trouble {
        let trouble = self.explain(failure);
        match trouble.kind {
            TroubleKind::Lasting if failure.is_missing_database() => Trouble { unclear: false, ..trouble },
            TroubleKind::Lasting => Trouble::lasting(format!(
                "{}: there is no table {}, and it cannot be made: {}",
                self.servers.label(),
                self.tables.table(),
                failure.cause()
            ))
            .hint(format!("have somebody who may run: {}", self.tables.create())),
            // Nothing was asked for yet.
            _ => Trouble { unclear: false, ..trouble },
        }
    }

    /// An error may pass; what does not is no error.
    fn create_history(&mut self, connection: &mut Conn) -> Result<(), Trouble> {
        if self.history == History::Without {
            return Ok(());
        }
        let Err(error) = connection.query_drop(self.tables.create_history()) else { return Ok(()) };
        let failure = Failure::new(error, Step::History);
        if failure.spares_the_lock() {
            self.forgo(&failure);
            return Ok(());
        }
        Err(Trouble { unclear: false, ..self.explain(&failure) })
    }

    /// Does without the history from now on.
    fn forgo(&mut self, failure: &Failure) {
        self.history = History::Without;
        self.unrecorded = Some(self.no_history(&failure.cause(), failure.is_denied()));
    }

    /// Why this claim has no record; a pause would have none anyway.
    fn unrecorded_of(&self, claim: &Claim) -> Option<Trouble> {
        self.unrecorded.clone().filter(|_| claim.purpose == Purpose::Run)
    }

    fn no_history(&self, why: &str, denied: bool) -> Trouble {
        let (history, create) = (self.tables.history(), self.tables.create_history());
        let trouble = Trouble::lasting(format!("{}: no history in the table {history}: {why}", self.servers.label()));
        trouble.hint(if denied {
            let user = self.servers.user();
            format!(
                "have somebody who may run: {create}; GRANT SELECT, INSERT, UPDATE, DELETE ON {history} TO {user}@HOST"
            )
        } else {
            format!("if that table is another's, name the locks' one otherwise, with ?table=; if not, it is made by: {create}")
        })
    }

    /// The lock would be free before the job is dead. It was taken, and is to be given back.
    fn too_coarse(&self) -> Trouble {
        let message = "the table keeps no milliseconds, and a lock would end before its time";
        Trouble::lasting(format!("{}: {message}", self.servers.label()))
            .hint("make its columns `lock_until` and `locked_at` TIMESTAMP(3)")
            .unclear()
    }

    /// What came back is not what was written.
    fn altered(&self, what: &str) -> Trouble {
        let (label, table) = (self.servers.label(), self.tables.table());
        Trouble::lasting(format!("{label}: the table {table} {what}"))
            .hint(format!(
                "perhaps a trigger does it: SHOW TRIGGERS LIKE '{}'",
                table.rsplit('.').next().unwrap_or(&table)
            ))
            .unclear()
    }

    /// Sees to it that a lock that was written for so long is held for so long, or until the last time that its column holds.
    fn judge_end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> Result<End, Trouble> {
        if answer.coarse {
            return Err(self.too_coarse());
        }
        let end = self.end(answer, row, lease);
        match end {
            End::Sooner => {
                let left = if row.held { brief(row.record.left) } else { "no time".to_owned() };
                Err(self.altered(&format!("holds the lock for {left} instead of {}", crate::duration::format(lease))))
            }
            End::Last(_) if !row.held => Err(self.past_the_end()),
            end => Ok(end),
        }
    }

    /// Which end a lock has that was written for so long.
    fn end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> End {
        if row.record.left + answer.took + MILLISECOND >= lease {
            return End::AsAsked;
        }
        match (row.last, answer.ends) {
            (false, _) => End::Sooner,
            (true, true) => End::Last(row.record.until),
            (true, false) => {
                self.tables.endless = true;
                End::Unneeded
            }
        }
    }

    /// No lock can be held any more.
    fn past_the_end(&self) -> Trouble {
        let message = "the table holds no times as late as this one";
        Trouble::lasting(format!("{}: {message}", self.servers.label())).hint(trouble::DATETIME).unclear()
    }

    fn explain(&self, failure: &Failure) -> Trouble {
        if failure.is_locked() {
            let what = match failure.step() {
                Step::Lock => format!("a row of the table {}, or all of it,", self.tables.table()),
                _ => format!("the table {}", self.tables.history()),
            };
            let (label, why) = (self.servers.label(), failure.cause());
            let trouble = trouble::of_asking(label, self.servers.user(), failure);
            let message = format!("{label}: another session keeps {what} locked: {why}");
            return Trouble { message, ..trouble }
                .hint("end the transaction that keeps it, which SHOW FULL PROCESSLIST on the server may show");
        }
        trouble::of_asking(self.servers.label(), self.servers.user(), failure)
    }
}

impl Backend for MySql {
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, Trouble> {
        let (mut missed, is_pause) = (false, claim.purpose == Purpose::Pause);
        for _ in 0..RACES {
            let mut answer = self.ask(|tables, history| tables.acquire(claim, history.of_a(is_pause)))?;
            let rows = std::mem::take(&mut answer.rows);
            let ours = rows.iter().find(|row| row.ours);
            let end = ours.map(|row| self.judge_end(&answer, row, claim.lease)).transpose()?;
            if end == Some(End::Unneeded) {
                continue;
            }
            let token = answer.token;
            match rows.into_iter().try_fold(None, |first, row| if first.is_none() { Ok(Some(row)) } else { Err(()) }) {
                Ok(Some(row)) if row.held => match row.grant() {
                    Some(grant) => {
                        let unrecorded = match (token, self.history.of_a(is_pause)) {
                            (None, History::With) => Some(self.no_history("its column `id` draws no number", false)),
                            _ => self.unrecorded_of(claim),
                        };
                        let answer = Acquired::Granted(Grant { token, ..grant });
                        return Ok(Reply { answer, remark: Remark { unrecorded, cut: end.and_then(End::cut) } });
                    }
                    None if !row.ours => {
                        self.disconnect();
                        return Ok(Acquired::Held(row.record).into());
                    }
                    None => {}
                },
                // The taking itself has freed it again.
                Ok(Some(row)) if row.ended => return Err(Trouble::given_up(self.servers.label())),
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

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, Trouble> {
        loop {
            let answer = self.ask(|tables, _| tables.renew(claim))?;
            // A row that has the end already is not counted as changed.
            let ours = answer.rows.iter().find(|row| row.ours && (answer.changed > 0 || row.held));
            match ours.map(|row| self.judge_end(&answer, row, claim.lease)).transpose()? {
                Some(End::Unneeded) => {}
                end => {
                    let remark = Remark { unrecorded: None, cut: end.and_then(End::cut) };
                    return Ok(Reply { answer: kept(end.is_some() || answer.changed > 0), remark });
                }
            }
        }
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, Trouble> {
        let is_pause = claim.purpose == Purpose::Pause;
        let answer = self.ask(|tables, history| tables.release(claim, hold, closing, history.of_a(is_pause)))?;
        self.disconnect();
        if answer.rows.iter().any(|row| row.ours && row.held || row.ended && row.record.left > hold + MILLISECOND) {
            return Err(self.altered("holds the lock on although it was given back"));
        }
        let last = answer.rows.iter().find(|row| row.ended && row.held && row.last && row.lasts() < Some(hold));
        let mut remark = Remark { unrecorded: self.unrecorded_of(claim), cut: None };
        match last {
            Some(row) if answer.ends => remark.cut = row.record.until,
            // Its column holds a later end.
            Some(row) => {
                self.tables.endless = true;
                let left = hold.saturating_sub(row.lasts().unwrap_or_default()) + row.record.left;
                let (name, owner) = (claim.name.clone(), claim.owner.ended());
                let answer = self.change(&Change { name, from: owner.clone(), to: owner, left })?;
                return Ok(Reply { answer, remark });
            }
            None => {}
        }
        // Another may have taken it before we looked.
        Ok(Reply { answer: kept(answer.changed > 0 || answer.rows.iter().any(|row| row.ended)), remark })
    }

    /// Also after what is the last for a while: the server writes a warning of every connection that ends without a word, as
    /// one does whose process ends.
    fn disconnect(&mut self) {
        self.connection = None;
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, Trouble> {
        self.list(names)
    }

    fn pace(&self) -> Pace {
        Pace { first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

fn kept(ours: bool) -> Kept {
    if ours { Kept::Kept } else { Kept::Lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Box<dyn Operate>, String> {
        MySql::open(&Url::parse(text).unwrap(), &Access::default())
    }

    crate::backend::conformance::conformance!(crate::servers::stores::MariaDbStore::new);

    #[test]
    fn a_taking_that_was_given_up_takes_nothing() {
        let store = || crate::servers::stores::MariaDbStore::new();
        crate::backend::conformance::a_taking_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::conformance::a_taking_beside_its_giving_back_takes_nothing(&store());
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
    fn taking_again_shortens_nothing() {
        crate::backend::conformance::taking_again_shortens_nothing(&crate::servers::stores::MariaDbStore::new());
    }

    /// Whoever scanned the history for a change would lock gaps between its records, in which others insert theirs.
    #[test]
    fn runs_under_different_names_are_not_in_each_others_way() {
        use crate::lock::{LockName, Owner, Purpose, Verdict};
        use crate::servers::stores::Store;

        let store = crate::servers::stores::MariaDbStore::new();
        let lease = Duration::from_secs(60);
        open(&store.url()).unwrap().acquire(&claim("warm", 0, lease)).unwrap();
        fn claim(name: &str, number: u64, lease: Duration) -> Claim {
            Claim {
                name: LockName::new(name).unwrap(),
                owner: Owner::new("host", 1, number),
                lease,
                keep: 1,
                purpose: Purpose::Run,
            }
        }
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d", "e", "f"] {
                let url = store.url();
                scope.spawn(move || {
                    let access = Access { patience: Duration::from_secs(20), ..Access::default() };
                    let mut backend = MySql::open(&Url::parse(&url).unwrap(), &access).unwrap();
                    for number in 0..100 {
                        let claim = claim(name, number, lease);
                        assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(_)));
                        let closing = Closing::Ended { verdict: Verdict::Success, exit_code: Some(0) };
                        assert_eq!(backend.release(&claim, Duration::ZERO, closing).unwrap().answer, Kept::Kept);
                    }
                });
            }
        });
    }
}
