//! Locks in a MySQL or MariaDB table, in the layout of the Java library ShedLock.
//!
//! Every operation is several statements in one message, and so one round trip. They write the lock's row and its
//! history in one transaction, and then read the row: the number of changed rows does not tell a lock that was taken
//! from one that was left alone. All times are UTC and pass through the session's own time zone, as the Java library's
//! do; a session that changed its zone would see other times.
//!
//! A listing locks no row, and needs only the right to read. If the URL names several servers, a read-only one, such as
//! a replica, is skipped, since it may be behind. A server that is named alone answers even if it is read-only.

mod answer;
mod check;
mod connect;
mod end;
mod errors;
mod statements;

use std::collections::BTreeSet;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::sql::{self, Database, Explained, Fault, History, Making, SqlLocks, Table, Take};
use super::tls::Tls;
use super::{Access, Acquired, BackendError, Credentials, Forgotten, Kept, Opened, Remark, Reply, Url};
use crate::lock::{Change, Claim, Closing, Grant, Removal, Wanted};
use crate::system::Timestamp;
use connect::Servers;
use end::{End, MILLISECOND};
use errors::Failure;
use statements::{ROLLBACK, Step, Tables};

/// Number of times that a taking may find the lock neither its own nor another owner's before it fails.
const RACES: usize = 10;

/// Backend that keeps locks in a table of MySQL or MariaDB servers.
pub(crate) struct MySql {
    servers: Servers,
    tables: Tables,
}

impl MySql {
    /// Checks `mysql://USER@HOST/DATABASE` without connecting.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let table = url.take_table()?;
        let servers = Servers::of_url(url, access, table.contains('.'))?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let tables = Tables::new(&table, &servers);
        Ok(Opened::server(SqlLocks::new(Self { servers, tables }), url))
    }

    /// Lists rows from a writable server, if there is one among several. A missing table has no rows.
    fn list(&self, session: &mut Conn, statements: &str, step: Step, take: Take<'_>) -> Result<Timestamp, Failure> {
        // The first row is about the server.
        let mut server = None;
        let each = |row: sql::Row| match &server {
            Some(_) => take(&row),
            None => server = Some(row),
        };
        if let Err(error) = answer::read(session, statements, each) {
            let failure = Failure::new(error, step);
            if !failure.is(&[errors::NO_TABLE]) {
                return Err(failure);
            }
            session.query_drop(ROLLBACK).map_err(|error| Failure::new(error, step))?;
        }
        let is_read_only =
            server.as_ref().and_then(|row| row.text(1)).is_some_and(|value| !matches!(value.as_str(), "0" | "OFF"));
        if is_read_only && self.servers.hosts.count() > 1 {
            return Err(Failure::of_read_only());
        }
        Ok(server.and_then(|row| row.time(0)).unwrap_or(Timestamp(0)))
    }
}

impl Database for MySql {
    type Session = Conn;
    type Failure = Failure;

    const CLOSES_WHEN_DONE: bool = true;

    fn label(&self) -> String {
        self.servers.label.clone()
    }

    fn user(&self) -> String {
        self.servers.login.user.clone()
    }

    fn grantee(&self) -> String {
        format!("{}@HOST", self.servers.login.user)
    }

    fn name(&self, table: Table) -> String {
        self.tables.name(table)
    }

    fn creation(&self, table: Table) -> String {
        self.tables.creation(table)
    }

    fn schema(&self) -> String {
        self.tables.schema(&self.servers.login.user)
    }

    fn servers(&self) -> usize {
        self.servers.hosts.count()
    }

    fn pass_over(&mut self) {
        self.servers.hosts.pass_over();
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.servers.login.replace(login);
        true
    }

    fn connect(&mut self, _: Making) -> Result<Option<Conn>, BackendError> {
        self.servers.connect().map(Some)
    }

    /// Returns false: a failed connection is closed, and the server rolls back what it has begun.
    fn outlives(&self, _: &Conn, _: &Failure) -> bool {
        false
    }

    /// Rolls back, since creating a table would commit what has been begun.
    fn roll_back(&mut self, session: &mut Conn) -> Result<(), Failure> {
        session.query_drop(ROLLBACK).map_err(|error| Failure::new(error, Step::Lock))
    }

    fn explain(&self, failure: &Failure) -> Explained {
        let (said, is_denied) = (failure.cause(), failure.is(&errors::DENIED));
        let mut error = errors::of_asking(&self.servers.login.user, failure);
        if failure.is(&[errors::LOCKED]) {
            let what = match failure.table() {
                Table::Locks => format!("a row of the table {}, or all of it", self.tables.name(Table::Locks)),
                Table::Runs => format!("the table {}", self.tables.name(Table::Runs)),
            };
            error.message = format!("another session has locked {what}: {said}");
            error = error.hint("end its transaction; SHOW FULL PROCESSLIST on the server may show it");
        }
        let fault = match failure {
            failure if failure.is(&errors::READ_ONLY) || failure.is(&errors::UNREADY) => Fault::Unfit,
            failure if failure.is(&[errors::NO_TABLE]) => Fault::Missing(failure.table()),
            failure if failure.spares_the_lock() => Fault::History,
            _ => Fault::Other,
        };
        Explained { fault, error, said, is_denied, remedy: None }
    }

    fn acquire(&mut self, session: &mut Conn, claim: &Claim, history: History) -> Result<Reply<Acquired>, Failure> {
        let mut missed = false;
        for _ in 0..RACES {
            let answer = answer::ask(session, &self.tables.acquire(claim, history))?;
            let ours = answer.rows.iter().find(|row| row.ours);
            let end = ours.map(|row| self.judge_end(&answer, row, claim.lease)).transpose()?;
            if end == Some(End::Unneeded) {
                continue;
            }
            match answer.rows.as_slice() {
                [row] if row.held => match row.grant() {
                    Some(grant) => {
                        let answer = Acquired::Granted(Grant { token: answer.token, ..grant });
                        return Ok(Reply { answer, remark: End::remark(end) });
                    }
                    None if !row.ours => return Ok(Acquired::Held(row.state.clone()).into()),
                    None => {}
                },
                // The taking had been given up, and freed the lock itself.
                [row] if row.ended => return Err(BackendError::given_up().into()),
                // The lock ended between the taking and the look.
                [_] => {}
                [] if missed => {
                    let message = format!("the table does not keep the name `{}` as it is", claim.name);
                    let hint = "change its column `name` to VARCHAR(64) CHARACTER SET utf8mb4";
                    return Err(BackendError::permanent(message).hint(hint).into());
                }
                // Another session may have deleted the row in between.
                [] => missed = true,
                _ => {
                    let error = BackendError::permanent("the table has two rows with the lock's name");
                    return Err(error.hint("make `name` its primary key").ambiguous().into());
                }
            }
        }
        Err(BackendError::transient("other hosts changed the lock at every attempt").into())
    }

    fn renew(&mut self, session: &mut Conn, claim: &Claim) -> Result<Reply<Kept>, Failure> {
        loop {
            let answer = answer::ask(session, &self.tables.renew(claim))?;
            // The server does not count a row as changed that has the end already.
            let ours = answer.rows.iter().find(|row| row.ours && (answer.changed > 0 || row.held));
            let end = ours.map(|row| self.judge_end(&answer, row, claim.lease)).transpose()?;
            if end != Some(End::Unneeded) {
                return Ok(Reply {
                    answer: Kept::if_so(end.is_some() || answer.changed > 0),
                    remark: End::remark(end),
                });
            }
        }
    }

    fn release(
        &mut self,
        session: &mut Conn,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<Kept>, Failure> {
        let answer = answer::ask(session, &self.tables.release(claim, hold, closing, history))?;
        // A taking that was given up may free itself between the time of the look and its rows.
        let longest = hold + answer.took + MILLISECOND;
        if answer.rows.iter().any(|row| row.held && (row.ours || row.ended && row.state.left > longest)) {
            return Err(self.altered("keeps the lock held although it was released").into());
        }
        let last = answer.rows.iter().find(|row| row.ended && row.held && row.last && row.lasts() < Some(hold));
        let mut remark = Remark::default();
        match last {
            Some(row) if answer.ends => remark.cut = row.state.until,
            // The column holds a later end.
            Some(row) => {
                self.tables.endless = true;
                let left = hold.saturating_sub(row.lasts().unwrap_or_default()) + row.state.left;
                let (name, owner) = (claim.name.clone(), claim.owner.ended());
                let change = Change { name, from: owner.clone(), to: owner, left };
                return Ok(self.change(session, &change)?.into());
            }
            None => {}
        }
        // Another owner may have taken the lock before the look.
        Ok(Reply { answer: Kept::if_so(answer.changed > 0 || answer.rows.iter().any(|row| row.ended)), remark })
    }

    fn change(&mut self, session: &mut Conn, change: &Change) -> Result<Kept, Failure> {
        let answer = answer::ask(session, &self.tables.change(change))?;
        // After a lost answer the request is repeated, and finds the change already made.
        let ours = answer.rows.iter().find(|row| row.ours && row.held);
        if ours.is_some_and(|row| self.end(&answer, row, change.left) == End::Unneeded) {
            return self.change(session, &Change { from: change.to.clone(), ..change.clone() });
        }
        Ok(Kept::if_so(answer.changed > 0 || ours.is_some()))
    }

    fn forget(&mut self, session: &mut Conn, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        let answer = answer::ask(session, &self.tables.forget(removal, history))?;
        // Another run may have taken the lock anew before the look.
        Ok(match answer.changed == 0 && !answer.rows.is_empty() {
            true => Forgotten::InUse,
            false => Forgotten::Gone { lock: answer.changed > 0, runs: answer.records },
        })
    }

    /// Lists locks. A table that compares names in its own way finds a lock that is spelt differently, as a taking
    /// does; the listed lock then has the requested name.
    fn locks(&mut self, session: &mut Conn, names: &[&str], take: Take<'_>) -> Result<Timestamp, Failure> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        self.list(session, &self.tables.locks(&names), Step::Lock, take)
    }

    fn runs(&mut self, session: &mut Conn, wanted: &Wanted, take: Take<'_>) -> Result<Timestamp, Failure> {
        self.list(session, &self.tables.runs(wanted), Step::History, take)
    }

    fn create(&mut self, session: &mut Conn, table: Table) -> Result<bool, Failure> {
        let step = if table == Table::Locks { Step::Lock } else { Step::History };
        session.query_drop(self.tables.creation(table)).map(|()| true).map_err(|error| Failure::new(error, step))
    }

    fn no_place(&self, _: Table, failure: &Failure) -> Option<BackendError> {
        failure.is(&[errors::NO_DATABASE]).then(|| BackendError { ambiguous: false, ..self.explain(failure).error })
    }

    /// Returns whether the table can be read. If not, it is missing, or creating it fails for the same reason, and
    /// reports that.
    fn is_there(&mut self, session: &mut Conn, table: Table) -> Result<bool, Failure> {
        Ok(session.query_drop(self.tables.probe(table)).is_ok())
    }
}

#[cfg(test)]
mod operating;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Opened, String> {
        MySql::open(&Url::parse(text).unwrap(), &Access::default())
    }

    crate::backend::conformance::conformance!(servers::stores::MariaDbStore::new);

    #[test]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::MariaDb::with_moving_clock();
        let store = servers::stores::MariaDbStore(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    /// There the assignments of a statement do not see each other's values.
    #[test]
    fn simultaneous_assignment_changes_nothing() {
        let server = servers::MariaDb::fresh(&["--sql-mode=SIMULTANEOUS_ASSIGNMENT"]);
        let store = || servers::stores::MariaDbStore(server.database());
        crate::backend::conformance::a_lock_ends_as_promised_whatever_the_server_s_clock_is_set_to(&store());
        crate::backend::conformance::the_same_owner_takes_again(&store());
        crate::backend::conformance::taking_again_shortens_nothing(&store());
    }

    #[test]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::conformance::a_time_zone_is_no_clock_that_was_ahead(&servers::stores::MariaDbStore::new());
    }

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::conformance::every_run_of_a_long_history_is_listed(&servers::stores::MariaDbStore::new());
    }

    #[test]
    fn a_taking_that_was_given_up_takes_nothing() {
        let store = || servers::stores::MariaDbStore::new();
        crate::backend::conformance::a_taking_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::conformance::a_taking_beside_its_giving_back_takes_nothing(&store());
    }

    #[test]
    fn an_address_shows_no_password_and_what_is_unknown_is_refused() {
        let backend = open("mariadb://u:secret@db:3307/ops?table=a.b&sslmode=require").unwrap();
        assert_eq!(backend.address, "mariadb://u@db:3307/ops?table=a.b&sslmode=require");
        assert!(open("mysql://db/ops?ssl-mode=on").err().unwrap().contains("unknown parameter `ssl-mode`; known are"));
        assert!(open("mysql://db").err().unwrap().contains("write mysql://HOST/DATABASE"));
        assert!(open("mysql://db?table=ops.shedlock").is_ok());
    }

    #[test]
    fn taking_again_shortens_nothing() {
        crate::backend::conformance::taking_again_shortens_nothing(&servers::stores::MariaDbStore::new());
    }

    /// Changes of the history do not scan it: that would lock gaps between its records, in which other runs insert
    /// theirs.
    #[test]
    fn runs_under_different_names_are_not_in_each_others_way() {
        use crate::lock::{LockName, Owner, Purpose, RunOutcome};
        use servers::stores::Store;

        let store = servers::stores::MariaDbStore::new();
        let lease = Duration::from_secs(60);
        open(&store.url()).unwrap().backend.acquire(&claim("warm", 0, lease)).unwrap();
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
                    let mut backend = MySql::open(&Url::parse(&url).unwrap(), &access).unwrap().backend;
                    for number in 0..100 {
                        let claim = claim(name, number, lease);
                        assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(_)));
                        let closing = Closing::Ended { verdict: RunOutcome::Success, exit_code: Some(0) };
                        assert_eq!(backend.release(&claim, Duration::ZERO, closing).unwrap().answer, Kept::Kept);
                    }
                });
            }
        });
    }
}
