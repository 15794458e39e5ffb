//! Checks of PostgreSQL.

use std::io::Write;
use std::process::Command;

use super::{SECRET, a_run_fails, a_run_works, check, checked, on};
use crate::support::{Place, finish, finish_child, start, wait_until};
use servers::{PgBouncer, Postgres, PostgresDatabase, certificates};

/// Returns a role that may log in and nothing else, and the URL for it.
fn clerk(database: &PostgresDatabase) -> (String, String) {
    let user = servers::unique("clerk");
    database.psql(&format!("create role {user} login; revoke create on schema public from public"));
    let url = database.socket_url().replacen("postgres@", &format!("{user}@"), 1);
    (user, url)
}

const LAYOUT: &str = "create table shedlock (name varchar(64) not null primary key, lock_until timestamp not null, \
                      locked_at timestamp not null, locked_by varchar(255) not null)";

#[test]
fn a_healthy_server_is_good_also_before_its_tables_are_made() {
    let database = servers::postgres().database();
    for made in ["was missing and has been created", "is there"] {
        let checked = check(&database.url());
        checked.can_lock_but(&[]);
        checked.says("good", "table", made);
        checked.says("good", "history", made);
        assert_eq!(
            checked.subjects(),
            [
                "backend",
                "address",
                "TLS",
                "login",
                "version",
                "round trip",
                "clock",
                "writable",
                "table",
                "columns",
                "rights",
                "history",
                "take",
                "renew",
                "refuse",
                "verify",
                "again",
                "release"
            ]
        );
    }
    assert_eq!(database.psql("select count(*) from shedlock_history"), "0");
    check(&database.socket_url()).says("good", "address", "the socket");
}

#[test]
fn columns_with_a_time_zone_are_good() {
    let database = servers::postgres().database();
    database.psql(&LAYOUT.replace("timestamp", "timestamptz"));
    check(&database.url()).can_lock_but(&[]);
}

#[test]
fn a_half_migrated_table_is_in_the_way_or_unwise() {
    let text = |from: &str, to: &str| LAYOUT.replace(from, to);
    for (create, grade, subject, said) in [
        (text(", locked_by varchar(255) not null", ""), "bad", "columns", "no column locked_by"),
        (text(" primary key", ""), "bad", "key", "ADD PRIMARY KEY (name)"),
        (text("lock_until timestamp", "lock_until timestamp(0)"), "bad", "columns", "without milliseconds"),
        (text("locked_at timestamp", "locked_at date"), "bad", "columns", "locked_at is date"),
        (text("locked_by", "note text not null, locked_by"), "bad", "columns", "note requires a value"),
        (text("varchar(64)", "varchar(20)"), "unwise", "columns", "too short: 20 characters instead of 64"),
        (text("varchar(255)", "varchar(100)"), "unwise", "columns", "ALTER COLUMN locked_by TYPE VARCHAR(255)"),
        (text("timestamp not null, locked_at", "timestamp, locked_at"), "unwise", "columns", "lock_until may be NULL"),
        (text("create table", "create unlogged table"), "unwise", "table", "a crash of the server empties it"),
        ("create view shedlock as select 1 as name".to_owned(), "bad", "table", "a view"),
    ] {
        let database = servers::postgres().database();
        database.psql(&create);
        let checked = check(&database.url());
        checked.says(grade, subject, said);
        match (grade, said) {
            // It works by chance, as times are rounded, and frees locks early.
            ("bad", "without milliseconds" | "locked_at is date") => {}
            ("bad", _) => a_run_fails(&database.url()),
            _ => {
                checked.can_lock_but(&[subject]);
                a_run_works(&database.url());
            }
        }
    }
}

#[test]
fn what_is_advised_mends_the_table() {
    let database = servers::postgres().database();
    database.psql(&LAYOUT.replace(" primary key", "").replace("lock_until timestamp", "lock_until timestamp(0)"));
    let broken = check(&database.url());
    for [_, _, _, advice] in
        broken.found.iter().filter(|[_, subject, ..]| ["columns", "key"].contains(&subject.as_str()))
    {
        database.psql(advice);
    }
    check(&database.url()).can_lock_but(&[]);
}

#[test]
fn a_table_that_another_session_makes_meanwhile_is_there() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let mut other = Command::new("psql");
    let mut other =
        other.args(["-X", "-q", "-d", &database.socket_url()]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut says = other.stdin.take().unwrap();
    let is_one = |which: &str| {
        let sessions = "select count(*) from pg_stat_activity where datname = current_database() and";
        (database.psql(&format!("{sessions} {which}")) == "1").then_some(())
    };
    writeln!(says, "begin; {LAYOUT};").unwrap();
    wait_until("the other to make the table", || {
        is_one("state = 'idle in transaction' and query like 'create table%'")
    });
    let check = start(&mut on(&place, &database.url(), &["check", "--json"]));
    wait_until("the check to wait for it", || is_one("wait_event_type = 'Lock' and query like 'CREATE TABLE%'"));
    writeln!(says, "commit;").unwrap();
    let found = checked(&finish_child(check));
    found.says("good", "table", "is there");
    found.can_lock_but(&[]);
    drop(says);
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_missing_table_that_cannot_be_made_is_in_the_way() {
    let database = servers::postgres().database();
    let (_, url) = clerk(&database);
    let checked = check(&url);
    checked.says("bad", "table", "ask the database's owner to run: CREATE TABLE IF NOT EXISTS shedlock ");
    checked.says("unwise", "history", "ask the database's owner to run: CREATE TABLE IF NOT EXISTS shedlock_history");
    checked.says("bad", "take", "cannot be created");
    a_run_fails(&url);
}

#[test]
fn rights_that_are_missing_are_named() {
    let database = servers::postgres().database();
    a_run_works(&database.url());
    let (user, url) = clerk(&database);
    database.psql(&format!("grant select, update on shedlock to {user}"));
    let found = check(&url);
    found.says("bad", "rights", &format!("GRANT INSERT ON shedlock TO {user}"));
    found.says("unwise", "history", "no right to SELECT, INSERT, UPDATE, DELETE on shedlock_history");
    a_run_fails(&url);
    // Without the history locks work.
    database.psql(&format!("grant insert on shedlock to {user}"));
    check(&url).can_lock_but(&["history", "take"]);
    // The name is never changed, so that no right to do so is wanted.
    let columns = "update (lock_until, locked_at, locked_by)";
    database.psql(&format!("revoke update on shedlock from {user}; grant {columns} on shedlock to {user}"));
    check(&url).says("good", "rights", "");
    database.psql(&format!("grant select, insert, update on shedlock_history to {user}"));
    let found = check(&url);
    found.says("unwise", "history", "no right to DELETE on shedlock_history; locks have tokens, but");
    found.can_lock_but(&["history"]);
    database.psql(&format!("grant select, insert, update, delete on shedlock_history to {user}"));
    check(&url).can_lock_but(&[]);
}

#[test]
fn a_history_of_anothers_costs_the_token_only() {
    let database = servers::postgres().database();
    database.psql("create table shedlock_history (id int, what text)");
    let checked = check(&database.url());
    checked.says("unwise", "history", "is not a table of runs");
    checked.can_lock_but(&["history", "take"]);
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_in_the_way() {
    let server = Postgres::fresh_with_tls(&[]);
    let database = server.database_of("clerk");
    let wrong = check(&database.login("clerk:wrong-s3cret-1").url().replace(SECRET, "secret"));
    wrong.says("bad", "login", "password authentication failed");
    assert_eq!(wrong.subjects(), ["backend", "address", "login"]);
    let absent = database.login("clerk:s3cret").url().replace(&database.name, "absent");
    check(&absent).says("bad", "login", "create the database");
    let url = database.login("clerk:s3cret").url();
    check(&url).can_lock_but(&[]);
    server.stop();
    let gone = check(&url);
    gone.says("bad", "address", "connection refused");
    assert_eq!(gone.subjects(), ["backend", "address"]);
    a_run_fails(&url);
    check("postgres://u@no.such.host.invalid/x").says("bad", "address", "has no address");
    check("postgres://u@%2Fno%2Fsuch/x").says("bad", "address", "the socket /no/such/.s.PGSQL.5432 does not answer");
}

#[test]
fn a_frozen_server_answers_at_its_address_and_nowhere_else() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    server.freeze();
    let place = Place::new();
    let found = checked(&finish(&mut on(&place, &database.url(), &["check", "--json", "--backend-timeout", "1s"])));
    found.says("good", "address", "answers");
    found.says("bad", "login", "no answer in time");
    server.thaw();
}

#[test]
fn tls_that_verifies_nothing_is_unwise() {
    let server = servers::postgres_tls();
    let database = server.database_of("clerk").login("clerk:s3cret");
    let with = |query: &str| check(&format!("{}?{query}", database.url_at("localhost")));
    let authority = certificates().authority();
    with(&format!("sslmode=verify-full&sslrootcert={authority}")).can_lock_but(&[]);
    with(&format!("sslmode=verify-full&sslrootcert={authority}")).says(
        "good",
        "TLS",
        "TLSv1.3; the server's certificate and name",
    );
    with("sslmode=require").can_lock_but(&["TLS"]);
    with("sslmode=disable").says("good", "TLS", "stays on this host");
    with(&format!("sslmode=verify-full&sslrootcert={}", certificates().stranger())).says("bad", "TLS", "not trusted");
    let plain = servers::postgres().database();
    check(&format!("{}?sslmode=require", plain.url())).says("bad", "TLS", "the server offers no TLS");
}

#[test]
fn a_clock_that_is_an_hour_off_is_unwise() {
    for (offset, said) in [("-1h", "behind this host's"), ("+1h", "ahead of this host's")] {
        let server = Postgres::with_clock(offset);
        let checked = check(&server.database().url());
        checked.says("unwise", "clock", said);
        checked.says("unwise", "clock", "--at-least");
        checked.can_lock_but(&["clock"]);
    }
}

#[test]
fn a_server_that_can_only_be_read_is_in_the_way_unless_another_one_is_named() {
    let primary = servers::postgres();
    let database = primary.database();
    let standby = Postgres::only_read(&database.name);
    let url = |hosts: &str| format!("postgres://postgres@{hosts}/{}", database.name);
    let [one, other] = [standby.port(), primary.port()].map(|port| format!("127.0.0.1:{port}"));
    let alone = check(&url(&one));
    alone.says("bad", "writable", "transactions are read-only here");
    assert_eq!(alone.subjects().last(), Some(&"writable"), "a lock is not waited for there");
    a_run_fails(&url(&one));
    let both = check(&url(&format!("{one},{other}")));
    both.can_lock_but(&[]);
    both.says("good", "writable", &format!("{one} is read-only, and is skipped"));
    // One that is down as well.
    standby.stop();
    let half = check(&url(&format!("{one},{other}")));
    half.can_lock_but(&["address"]);
    primary.psql("select 1");
}

#[test]
fn a_server_that_forgets_what_it_has_committed_is_unwise() {
    let database = servers::postgres().database();
    let url = format!("{}?options=-csynchronous_commit%3Doff", database.url());
    check(&url).can_lock_but(&["writable"]);
}

#[test]
fn a_pooler_is_recognised() {
    let database = servers::postgres().database();
    let through = servers::pgbouncer();
    let checked = check(&through.url(&database));
    checked.can_lock_but(&["pooler"]);
    checked.says("unwise", "pooler", "PgBouncer is in between, in transaction mode");
    checked.says("unwise", "pooler", "after its server was away, it refuses connections for 15 s (server_login_retry)");
    let session = PgBouncer::fresh(servers::postgres().port(), &["pool_mode=session", "server_login_retry=1"]);
    check(&session.url(&database)).says("good", "pooler", "in session mode");
    // One that does not let us ask.
    let directory = servers::postgres().directory();
    directory.run("sh", &["-c", "printf '\"postgres\" \"\"\\n' > users.txt"]);
    let users = format!("auth_file={}", directory.file("users.txt"));
    let silent = PgBouncer::fresh(servers::postgres().port(), &["auth_type=trust", "admin_users=nobody", &users]);
    let checked = check(&silent.url(&database));
    checked.says("good", "pooler", "PgBouncer is in between, and every operation is one statement");
    checked.can_lock_but(&[]);
    assert!(!check(&database.url()).subjects().contains(&"pooler"));
}

#[test]
fn what_keeps_a_lock_from_being_freed_is_in_the_way() {
    let folding = "create collation folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    for (prepare, kind) in [("create extension citext", "citext"), (folding, "varchar(64) collate folding")] {
        let database = servers::postgres().database();
        database.psql(&format!("{prepare}; {}", LAYOUT.replace("varchar(64)", kind)));
        check(&database.url()).says("bad", "columns", "treats `Job` and `job` as one lock");
    }
    let database = servers::postgres().database();
    a_run_works(&database.url());
    let (user, url) = clerk(&database);
    database.psql(&format!(
        "grant all on shedlock, shedlock_history, shedlock_history_id_seq to {user}; \
         alter table shedlock enable row level security; create policy seen on shedlock using (true)"
    ));
    check(&url).says("bad", "table", "has row security");
    // It is not for the owner.
    check(&database.url()).can_lock_but(&[]);
    database.psql(
        "alter table shedlock disable row level security; \
         create function ignore() returns trigger language plpgsql as 'begin return null; end'; \
         create trigger ignore before update on shedlock for each row execute function ignore()",
    );
    check(&url).says("bad", "take", "refuses changes to the lock's row");
}
