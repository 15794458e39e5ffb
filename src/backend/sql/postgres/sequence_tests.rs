//! Tests the ids of the history where their sequence is behind the table, on real servers.

#![cfg(test)]

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::testing::conformance::requests::persist;
use crate::backend::{Access, Admin, Finding, Grade, from_url};
use crate::lock::{Acquired, StillHeld};
use crate::lock::{Claim, Closing, LockName, Owner, Purpose, RunOutcome, RunQuery};
use servers::{Postgres, PostgresDatabase, postgres};

const MINUTE: Duration = Duration::from_secs(60);

/// Opens the backend with a time for each try in which a million ids are drawn also by a server that is overloaded.
fn open(url: &str) -> Box<dyn Admin> {
    from_url(url, &Access { timeout: MINUTE, ..Access::default() }).unwrap().backend
}

fn claim(name: &str, number: u64) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        owner: Owner::new("host", 1, number),
        lease: MINUTE,
        keep: 1000,
        purpose: Purpose::Run,
    }
}

#[track_caller]
fn take(backend: &mut dyn Admin, claim: &Claim) -> u64 {
    let reply = persist(|| backend.acquire(claim));
    let Acquired::Granted(grant) = reply.answer else { panic!("{reply:?}") };
    grant.token.unwrap_or_else(|| panic!("no token: {:?}", reply.remark))
}

fn release(backend: &mut dyn Admin, claim: &Claim, outcome: RunOutcome) {
    let closing = Closing::Ended { outcome, exit_code: Some(u8::from(outcome != RunOutcome::Success)) };
    assert_eq!(persist(|| backend.release(claim, Duration::ZERO, closing)), StillHeld::Held.into());
}

/// Records 1,100 runs of `job` and then 100 of `other`, with ids of their own as COPY and replication write them.
fn record(database: &PostgresDatabase) {
    for (name, from, to) in [("job", 1, 1100), ("other", 1101, 1200)] {
        database.psql(&format!(
            "insert into shedlock_history select id, '{name}', 'old:' || id, 'old', now() - interval '1h', \
             now() - interval '1h', 0, 'success' from generate_series({from}, {to}) as id"
        ));
    }
}

/// Returns the tables, with records that their sequence never drew.
fn behind() -> (PostgresDatabase, Box<dyn Admin>) {
    let database = postgres().database();
    let mut backend = open(&database.url());
    backend.create_missing().unwrap();
    record(&database);
    (database, backend)
}

/// Creates a role with rights to the tables and none to the sequence.
fn humble(database: &PostgresDatabase) -> (String, Box<dyn Admin>) {
    let role = format!("{}_humble", database.name);
    database.psql(&format!(
        "create role {role} login; grant select, insert, update on shedlock to {role}; \
         grant select, insert, update, delete on shedlock_history to {role}"
    ));
    let backend = open(&database.login(&role).url());
    (role, backend)
}

fn tokens(database: &PostgresDatabase, name: &str) -> Vec<u64> {
    let ids = database.psql(&format!("select id from shedlock_history where name = '{name}' order by id desc"));
    ids.lines().map(|id| id.parse().unwrap()).collect()
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_token_is_larger_than_those_that_the_sequence_never_drew() {
    for may_set in [true, false] {
        let (database, owner) = behind();
        let mut backend = if may_set { owner } else { humble(&database).1 };
        let mut last = 1200;
        for (number, name) in ["job", "other", "third", "job"].into_iter().enumerate() {
            let claim = claim(name, number as u64);
            let token = take(&mut *backend, &claim);
            assert!(token > last, "{may_set}: {token} {last}");
            release(&mut *backend, &claim, RunOutcome::Success);
            assert_eq!(tokens(&database, name)[0], token);
            last = token;
        }
        // Drawing left nothing behind.
        assert_eq!(
            database.psql("select count(*) from shedlock_history where outcome is distinct from 'success'"),
            "0"
        );
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn an_id_that_another_name_has_is_drawn_anew() {
    let (database, mut backend) = behind();
    // The runs of the other name that are left have the ids that the sequence draws.
    database.psql(
        "delete from shedlock_history where name = 'job' or id > 1110; select setval('shedlock_history_id_seq', 1105)",
    );
    let first = claim("job", 1);
    assert_eq!(take(&mut *backend, &first), 1111);
    // The mark of an acquisition that was given up needs an id, too.
    database.psql("select setval('shedlock_history_id_seq', 1105)");
    let given_up = claim("new", 2);
    let answer = persist(|| backend.release(&given_up, Duration::ZERO, Closing::Undone));
    assert_eq!((answer.answer, answer.remark.unrecorded), (StillHeld::Lost, None));
    assert!(backend.acquire(&given_up).is_err(), "the mark makes it void");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_serial_column_whose_sequence_may_only_be_used_catches_up() {
    let database = postgres().database();
    database.psql(
        "create table shedlock_history (id serial primary key, name varchar(64) not null, owner varchar(255) not null, \
         host varchar(255) not null, started_at timestamptz not null, ended_at timestamptz, exit_code integer, \
         outcome varchar(16), unique (name, owner))",
    );
    let mut backend = open(&database.url());
    backend.create_missing().unwrap();
    record(&database);
    let (role, mut backend_of_role) = humble(&database);
    let reply = persist(|| backend_of_role.acquire(&claim("third", 1)));
    let hint = reply.remark.unrecorded.unwrap().hint.unwrap();
    assert_eq!(
        hint,
        format!("ask the database's owner to run: GRANT USAGE ON SEQUENCE shedlock_history_id_seq TO {role}")
    );
    database.psql(&format!("grant usage on sequence shedlock_history_id_seq to {role}"));
    assert!(take(&mut *open(&database.login(&role).url()), &claim("job", 2)) > 1200);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_sequence_that_has_drawn_its_last_number_is_told_with_what_mends_it() {
    let (database, mut backend) = behind();
    database.psql("alter sequence shedlock_history_id_seq maxvalue 2000 restart 2000");
    assert_eq!(take(&mut *backend, &claim("a", 1)), 2000);
    let error = persist(|| backend.acquire(&claim("b", 2))).remark.unrecorded.unwrap();
    assert!(error.message.contains("no history in the table shedlock_history: nextval"), "{error:?}");
    let hint = error.hint.unwrap();
    let statements = hint.strip_prefix("ask the database's owner to run: ").unwrap_or_else(|| panic!("{hint}"));
    database.psql(statements);
    assert_eq!(take(&mut *open(&database.url()), &claim("c", 3)), 2001);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_sequence_that_cannot_catch_up_is_told_with_the_statement_that_sets_it() {
    let (database, _) = behind();
    database.psql("update shedlock_history set id = 4000000000000 where id = 1200");
    let (_, mut backend) = humble(&database);
    let error = persist(|| backend.acquire(&claim("job", 1))).remark.unrecorded.unwrap();
    assert!(error.message.contains("its sequence is behind its ids, and cannot be advanced"), "{error:?}");
    let hint = error.hint.unwrap();
    let statement = "SELECT setval(pg_get_serial_sequence('shedlock_history', 'id'), max(id)) FROM shedlock_history";
    assert_eq!(hint, format!("ask the database's owner to run: {statement}"));
    database.psql(statement);
    assert!(take(&mut *open(&database.url()), &claim("other", 2)) > 4_000_000_000_000);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn acquisitions_of_many_names_at_once_all_get_larger_tokens() {
    for may_set in [true, false] {
        let (database, _) = behind();
        let (role, _) = humble(&database);
        let url = if may_set { database.url() } else { database.login(&role).url() };
        const NAMES: u64 = 12;
        let barrier = Barrier::new(NAMES as usize);
        let mut drawn: Vec<u64> = thread::scope(|scope| {
            let takers: Vec<_> = (0..NAMES)
                .map(|number| {
                    let (url, barrier) = (&url, &barrier);
                    scope.spawn(move || {
                        let mut backend = open(url);
                        persist(|| backend.locks(&[]));
                        barrier.wait();
                        (0..5)
                            .map(|again| {
                                let claim = claim(&format!("name{number}"), number * 100 + again);
                                let token = take(&mut *backend, &claim);
                                release(&mut *backend, &claim, RunOutcome::Success);
                                token
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            takers
                .into_iter()
                .flat_map(|taker| {
                    let drawn = taker.join().unwrap();
                    assert!(drawn.is_sorted(), "{drawn:?}");
                    drawn
                })
                .collect()
        });
        assert!(drawn.iter().all(|token| *token > 1200), "{drawn:?}");
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len() as u64, NAMES * 5);
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_run_that_is_closed_is_not_the_oldest() {
    let (database, mut backend) = behind();
    let claim = Claim { keep: 3, ..claim("job", 1) };
    take(&mut *backend, &claim);
    // The history of a restored dump comes back while the job runs.
    database.psql("update shedlock_history set id = id + 5000 where owner like 'old%'");
    release(&mut *backend, &claim, RunOutcome::Failure);
    let runs = persist(|| backend.runs(&RunQuery { names: vec!["job".to_owned()], ..RunQuery::default() })).runs;
    let outcomes: Vec<_> = runs.iter().map(|run| run.outcome.clone().unwrap_or_default()).collect();
    assert_eq!(outcomes, ["failure", "success", "success", "success"]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn check_says_how_the_sequence_is_advanced_and_making_advances_it() {
    let (database, mut backend) = behind();
    let found = |backend: &mut dyn Admin| -> Finding {
        let mut found = Vec::new();
        backend.check(&mut |finding| found.push(finding));
        found.into_iter().rfind(|finding| finding.subject == "history").unwrap()
    };
    let finding = found(&mut *backend);
    assert_eq!(finding.grade, Grade::Unwise);
    assert_eq!(finding.seen, "the sequence of shedlock_history is at 0, behind the id 1200 in the table");
    let statement = finding.advice.unwrap();
    let made = backend.create_missing().unwrap();
    let line = "the sequence of shedlock_history was behind its ids, and has been advanced to 1200";
    assert_eq!(made.last().map(String::as_str), Some(line));
    assert_eq!(found(&mut *backend).grade, Grade::Good);
    assert_eq!(backend.create_missing().unwrap().len(), 2);
    // A person who runs the statement gets the same.
    database.psql("select setval('shedlock_history_id_seq', 7)");
    assert_eq!(found(&mut *backend).grade, Grade::Unwise);
    assert_eq!(database.psql(&statement), "1200");
    assert_eq!(found(&mut *backend).grade, Grade::Good);
    // shedlock reports nothing wrong to a role that may do less.
    database.psql("select setval('shedlock_history_id_seq', 7)");
    let (_, mut backend) = humble(&database);
    assert_eq!(found(&mut *backend).grade, Grade::Good);
    assert_eq!(backend.create_missing().unwrap().len(), 2);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_promoted_subscriber_goes_on_with_larger_tokens() {
    let settings = ["wal_level=logical", "max_wal_senders=4", "max_replication_slots=4"];
    let (publisher, subscriber) = (Postgres::fresh(&settings), Postgres::fresh(&settings));
    let old = publisher.database();
    let mut backend = open(&old.url());
    for number in 1..=5 {
        let claim = claim("job", number);
        take(&mut *backend, &claim);
        release(&mut *backend, &claim, RunOutcome::Success);
    }
    old.psql("create publication locks for table shedlock, shedlock_history");
    subscriber.psql(&format!("create database {}", old.name));
    let new = subscriber.database_named(&old.name);
    open(&new.url()).create_missing().unwrap();
    let from = old.login("postgres").url();
    new.psql(&format!("create subscription locks connection '{from}' publication locks"));
    // A run ends while the new server follows, too.
    let last = claim("job", 6);
    let newest = take(&mut *backend, &last);
    release(&mut *backend, &last, RunOutcome::Success);
    let begun = Instant::now();
    while new.psql("select count(*) from shedlock_history where ended_at is not null") != "6" {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not follow");
        thread::sleep(Duration::from_millis(50));
    }
    new.psql("alter subscription locks disable");
    new.psql("alter subscription locks set (slot_name = none)");
    new.psql("drop subscription locks");
    let mut backend = open(&new.url());
    for number in 7..=9 {
        let claim = Claim { keep: 3, ..claim("job", number) };
        assert!(take(&mut *backend, &claim) > newest);
        release(&mut *backend, &claim, RunOutcome::Failure);
    }
    let runs = persist(|| backend.runs(&RunQuery { names: vec!["job".to_owned()], ..RunQuery::default() })).runs;
    assert!(runs.iter().take(3).all(|run| run.outcome.as_deref() == Some("failure")), "{runs:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_run_is_two_statements_and_two_more_only_where_the_sequence_is_behind() {
    let server = Postgres::fresh(&["log_statement=all"]);
    let database = server.database();
    let statements = || server.log().lines().filter(|line| line.contains("execute <unnamed>")).count();
    let run = |number| {
        let mut backend = open(&database.url());
        let claim = claim("job", number);
        take(&mut *backend, &claim);
        release(&mut *backend, &claim, RunOutcome::Success);
    };
    run(1);
    let before = statements();
    run(2);
    assert_eq!(statements() - before, 2);
    database.psql("insert into shedlock_history values (1100, 'other', 'o', 'h', now())");
    let before = statements();
    run(3);
    // The acquisition is refused, the sequence advanced, and the lock acquired.
    assert_eq!(statements() - before, 4);
    let before = statements();
    run(4);
    assert_eq!(statements() - before, 2);
}
