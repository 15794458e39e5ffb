//! Locks in a MySQL or MariaDB table, in the layout of the Java library ShedLock.
//!
//! Every operation is several statements in one message, and so one round trip. They write the lock's row and its
//! history in one transaction, and then read the row: the number of changed rows does not tell a lock that was acquired
//! from one that was left alone. All times are UTC and pass through the session's own time zone, as the Java library's
//! do; a session that changed its zone would see other times.
//!
//! A listing locks no row, and needs only the right to read. If the URL names several servers, a read-only one, such as
//! a replica, is skipped, since it may be behind. A server that is named alone answers even if it is read-only.

mod answer;
mod auth;
mod check;
mod connect;
mod end;
mod engines;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod link;
mod statements;
mod tables;
mod templates;
mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::backend::net::tls::Tls;
use crate::backend::sql::engine::{
    self, CreateMissing, Database, Dialect, Explanation, Facts, Fault, History, LastRequest, RowSink, SqlLocks, Table,
};
use crate::backend::{Access, Credentials, FindingSink, LockTest, Opened, Url};
use crate::lock::{Acquired, BackendError, Forgotten, Remark, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Grant, Removal, RunQuery};
use crate::system::Timestamp;
use connect::Servers;
use end::{MILLISECOND, StoredEnd};
use errors::{Failure, Stage};
use link::{Extent, Link};
use tables::Tables;
use templates::ROLLBACK;

/// Number of times that an acquisition may find the lock neither its own nor another owner's before it fails.
const ACQUIRE_TRIES: usize = 10;

/// Keeps locks in a table of MySQL or MariaDB servers.
pub(crate) struct MySql {
    servers: Servers,
    tables: Tables,
}

impl MySql {
    /// Checks `mysql://USER@HOST/DATABASE` without connecting.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let table = url.take_table()?;
        let servers = Servers::from_url(url, access, table.contains('.'))?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let tables = Tables::new(&table, servers.lock_wait());
        Ok(Opened::server(SqlLocks::new(Self { servers, tables }), url, access))
    }

    /// Lists rows from a writable server, if there is one among several. A missing table has no rows.
    fn list(
        &self,
        session: &mut Link,
        statements: &str,
        stage: Stage,
        extent: Extent,
        sink: RowSink<'_>,
    ) -> Result<Timestamp, Failure> {
        // The first row is about the server.
        let mut server = None;
        let each = |row: engine::Row| match &server {
            Some(_) => sink(&row),
            None => server = Some(row),
        };
        if let Err(error) = answer::read(session, statements, extent, each) {
            let failure = Failure::new(error, stage);
            if !failure.is(&[errors::NO_TABLE]) {
                return Err(failure);
            }
            answer::execute(session, ROLLBACK).map_err(|error| Failure::new(error, stage))?;
        }
        let is_read_only =
            server.as_ref().and_then(|row| row.text(1)).is_some_and(|value| !matches!(value.as_str(), "0" | "OFF"));
        if is_read_only && self.servers.hosts.count() > 1 {
            return Err(Failure::read_only());
        }
        Ok(server.and_then(|row| row.time(0)).unwrap_or(Timestamp(0)))
    }
}

impl Database for MySql {
    type Session = Link;
    type Failure = Failure;

    const DIALECT: Dialect = tables::DIALECT;

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

    fn create_statement(&self, table: Table) -> String {
        self.tables.create_statement(table)
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

    fn connect(&mut self, _: CreateMissing) -> Result<Option<Link>, BackendError> {
        self.servers.connect().map(Some)
    }

    /// Closes the session: a server logs an error when a process ends without that.
    fn keep_open(&mut self, _: Link, _: LastRequest) -> Option<Link> {
        None
    }

    /// Returns false: a failed connection is closed, and the server rolls back what it has begun.
    fn can_go_on(&self, _: &Link, _: &Failure) -> bool {
        false
    }

    /// Rolls back, since creating a table would commit what has been begun.
    fn roll_back(&mut self, session: &mut Link) -> Result<(), Failure> {
        answer::execute(session, ROLLBACK).map_err(|error| Failure::new(error, Stage::Lock))
    }

    fn explain(&self, failure: &Failure) -> Explanation {
        let (server_words, lacks_right) = (failure.server_words(), failure.is(&errors::DENIED));
        let mut error = errors::explain_request(&self.servers.login.user, failure);
        if failure.is(&[errors::LOCKED]) {
            let what = match failure.table() {
                Table::Locks => format!("a row of the table {}, or all of it", self.tables.name(Table::Locks)),
                Table::Runs => format!("the table {}", self.tables.name(Table::Runs)),
            };
            error.message = format!("another session has locked {what}: {server_words}");
            error = error.hint("end its transaction; SHOW FULL PROCESSLIST on the server may show it");
        }
        let fault = match failure {
            failure if failure.is(&errors::READ_ONLY) || failure.is(&errors::NOT_READY) => Fault::GrantsNoLocks,
            failure if failure.is(&[errors::NO_TABLE]) => Fault::TableMissing(failure.table()),
            failure if failure.concerns_history_alone() => Fault::HistoryRefused,
            _ => Fault::Other,
        };
        Explanation { fault, error, server_words, lacks_right, remedy: None }
    }

    fn acquire(&mut self, session: &mut Link, claim: &Claim, history: History) -> Result<Reply<Acquired>, Failure> {
        let mut missed = false;
        for _ in 0..ACQUIRE_TRIES {
            let answer = self.ask_for_lock(session, claim, history)?;
            let ours = answer.rows.iter().find(|row| row.is_ours);
            let end = ours.map(|row| self.tables.judge_end(&answer, row, claim.lease)).transpose()?;
            if end == Some(StoredEnd::CutForNothing) {
                continue;
            }
            match answer.rows.as_slice() {
                [row] if row.is_held => match row.grant() {
                    Some(grant) => {
                        let answer = Acquired::Granted(Grant { token: answer.token, ..grant });
                        return Ok(Reply { answer, remark: StoredEnd::remark(end) });
                    }
                    None if !row.is_ours => return Ok(Acquired::Held(row.state.clone()).into()),
                    None => {}
                },
                // The acquisition had been given up, and freed the lock itself.
                [row] if row.has_ended => return Err(BackendError::undone().into()),
                // The lock ended between its acquisition and the reading of the row.
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

    fn renew(&mut self, session: &mut Link, claim: &Claim) -> Result<Reply<StillHeld>, Failure> {
        loop {
            let answer = answer::ask(session, &self.tables.renew(claim))?;
            // The server does not count a row as changed that has the end already.
            let ours = answer.rows.iter().find(|row| row.is_ours && (answer.changed > 0 || row.is_held));
            let end = ours.map(|row| self.tables.judge_end(&answer, row, claim.lease)).transpose()?;
            if end != Some(StoredEnd::CutForNothing) {
                return Ok(Reply {
                    answer: StillHeld::from_owned(end.is_some() || answer.changed > 0),
                    remark: StoredEnd::remark(end),
                });
            }
        }
    }

    fn release(
        &mut self,
        session: &mut Link,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<StillHeld>, Failure> {
        let answer = answer::ask(session, &self.tables.release(claim, hold, closing, history))?;
        // An acquisition that was given up may free itself while the row is read.
        let longest = hold + answer.took + MILLISECOND;
        if answer.rows.iter().any(|row| row.is_held && (row.is_ours || row.has_ended && row.state.left > longest)) {
            return Err(self.tables.explain_altered_row("keeps the lock held although it was released").into());
        }
        let last =
            answer.rows.iter().find(|row| row.has_ended && row.is_held && row.is_latest && row.duration() < Some(hold));
        let mut remark = Remark::default();
        match last {
            Some(row) if answer.end_is_timestamp => remark.cut = row.state.until,
            // The column holds a later end.
            Some(row) => {
                self.tables.holds_any_time = true;
                let left = hold.saturating_sub(row.duration().unwrap_or_default()) + row.state.left;
                let (name, owner) = (claim.name.clone(), claim.owner.ended());
                let change = Change { name, from: owner.clone(), to: owner, left };
                return Ok(self.change(session, &change)?.into());
            }
            None => {}
        }
        // Another owner may have acquired the lock before the row was read.
        Ok(Reply {
            answer: StillHeld::from_owned(answer.changed > 0 || answer.rows.iter().any(|row| row.has_ended)),
            remark,
        })
    }

    fn change(&mut self, session: &mut Link, change: &Change) -> Result<StillHeld, Failure> {
        let answer = answer::ask(session, &self.tables.change(change))?;
        // After a lost answer the request is repeated, and finds the change already made.
        let ours = answer.rows.iter().find(|row| row.is_ours && row.is_held);
        if ours.is_some_and(|row| self.tables.classify_end(&answer, row, change.left) == StoredEnd::CutForNothing) {
            return self.change(session, &Change { from: change.to.clone(), ..change.clone() });
        }
        Ok(StillHeld::from_owned(answer.changed > 0 || ours.is_some()))
    }

    fn forget(&mut self, session: &mut Link, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        let answer = answer::ask(session, &self.tables.forget(removal, history))?;
        // Another run may have acquired the lock anew before the row was read.
        Ok(match answer.changed == 0 && !answer.rows.is_empty() {
            true => Forgotten::InUse,
            false => Forgotten::Gone { lock: answer.changed > 0, runs: answer.records },
        })
    }

    /// Lists locks. A table that compares names in its own way finds a lock that is spelt differently, as an
    /// acquisition does; the listed lock then has the requested name.
    fn locks(&mut self, session: &mut Link, names: &[&str], sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let extent = if names.len() == 1 { Extent::Answer } else { Extent::Listing };
        self.list(session, &self.tables.locks(&names), Stage::Lock, extent, sink)
    }

    fn runs(&mut self, session: &mut Link, wanted: &RunQuery, sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        self.list(session, &self.tables.runs(wanted), Stage::History, Extent::Listing, sink)
    }

    fn create_table(&mut self, session: &mut Link, table: Table) -> Result<bool, Failure> {
        let stage = if table == Table::Locks { Stage::Lock } else { Stage::History };
        answer::execute(session, &self.tables.create_statement(table))
            .map(|()| true)
            .map_err(|error| Failure::new(error, stage))
    }

    fn explain_creation(&self, _: Table, failure: &Failure) -> Option<BackendError> {
        failure.is(&[errors::NO_DATABASE]).then(|| BackendError { ambiguous: false, ..self.explain(failure).error })
    }

    /// Returns whether the table can be read. If not, it is missing, or creating it fails for the same reason, and
    /// reports that.
    fn table_exists(&mut self, session: &mut Link, table: Table) -> Result<bool, Failure> {
        Ok(answer::execute(session, &self.tables.read_nothing(table)).is_ok())
    }

    /// Changes nothing, and fails if the table's engine has no transactions.
    fn upgrade_table(&mut self, session: &mut Link, table: Table) -> Result<Option<String>, Failure> {
        self.engine_error(session, table)?.map_or(Ok(None), |error| Err(error.into()))
    }

    fn check_server(&mut self, session: &mut Option<Link>, tell: FindingSink<'_>) -> Result<LockTest, BackendError> {
        self.check_hosts(session, tell)
    }

    fn describe_table(&mut self, session: &mut Link, table: Table) -> Result<Option<Facts>, Failure> {
        self.table_facts(session, table)
    }
}

#[cfg(test)]
mod admin_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Opened, String> {
        MySql::open(&Url::parse(text).unwrap(), &Access::default())
    }

    crate::backend::testing::conformance::conformance!(
        #[ignore = "needs a server: --include-ignored"]
        servers::stores::MariaDbStore::new
    );

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::MariaDb::with_moving_clock();
        let store = servers::stores::MariaDbStore(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::testing::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    /// Checks MariaDB's mode in which the assignments of a statement do not see each other's values.
    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn simultaneous_assignment_changes_nothing() {
        let server = servers::MariaDb::fresh(&["--sql-mode=SIMULTANEOUS_ASSIGNMENT"]);
        let store = || servers::stores::MariaDbStore(server.database());
        crate::backend::testing::conformance::a_lock_ends_as_promised_whatever_the_server_s_clock_is_set_to(&store());
        crate::backend::testing::conformance::the_same_owner_takes_again(&store());
        crate::backend::testing::conformance::taking_again_shortens_nothing(&store());
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::testing::conformance::a_time_zone_is_no_clock_that_was_ahead(
            &servers::stores::MariaDbStore::new(),
        );
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::testing::conformance::every_run_of_a_long_history_is_listed(
            &servers::stores::MariaDbStore::new(),
        );
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn an_acquisition_that_was_given_up_takes_nothing() {
        let store = || servers::stores::MariaDbStore::new();
        crate::backend::testing::conformance::an_acquisition_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::testing::conformance::an_acquisition_beside_its_giving_back_takes_nothing(&store());
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
    #[ignore = "needs a server: --include-ignored"]
    fn taking_again_shortens_nothing() {
        crate::backend::testing::conformance::taking_again_shortens_nothing(&servers::stores::MariaDbStore::new());
    }

    /// Changes of the history do not scan it: that would lock gaps between its records, in which other runs insert
    /// theirs.
    #[test]
    #[ignore = "needs a server: --include-ignored"]
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
                    let access = Access { timeout: Duration::from_secs(20), ..Access::default() };
                    let mut backend = MySql::open(&Url::parse(&url).unwrap(), &access).unwrap().backend;
                    for number in 0..100 {
                        let claim = claim(name, number, lease);
                        assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(_)));
                        let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
                        assert_eq!(backend.release(&claim, Duration::ZERO, closing).unwrap().answer, StillHeld::Held);
                    }
                });
            }
        });
    }
}
