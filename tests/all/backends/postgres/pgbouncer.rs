//! PgBouncer in transaction mode, with another client in the pool that leaves its session as it likes.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Site, row, row_in};
use crate::support::relay::{Act, Relay};
use crate::support::{finish, wait_until};
use servers::{PgBouncer, Postgres, PostgresDatabase};

/// One connection to the server, which all clients of the pooler get in turn.
const ONE: [&str; 1] = ["default_pool_size=1"];

/// A client that works through the pooler, and does not clean up.
struct Neighbour {
    url: String,
}

impl Neighbour {
    fn says(&self, sql: &str) -> String {
        let output = Command::new("psql").args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", &self.url, "-c", sql]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn pooled(database: &PostgresDatabase) -> (PgBouncer, Site, Neighbour) {
    let pooler = PgBouncer::fresh(servers::postgres().port(), &ONE);
    let url = pooler.url(database);
    (pooler, Site::new(url.clone()), Neighbour { url })
}

/// What a neighbour may leave, and how it is left.
const REMAINS: [[&str; 2]; 4] = [
    ["a search_path", "create schema if not exists other; set search_path to other"],
    ["a search_path with a table", "create table if not exists other.shedlock (like public.shedlock including all)"],
    ["a temporary table", "reset search_path; create temp table shedlock (like public.shedlock including all)"],
    ["a temporary history", "create temp table shedlock_history (like public.shedlock_history including all)"],
];

#[test]
fn what_another_client_left_in_the_session_makes_no_second_job() {
    let database = servers::postgres().database();
    Site::new(database.url()).works();
    let (_pooler, site, neighbour) = pooled(&database);
    let direct = Site::new(database.url());
    let job = site.job("job", ["--lease", "3s"]);
    for [what, sql] in REMAINS {
        neighbour.says(sql);
        assert!(!site.is_free("job"), "two jobs with {what}");
        assert!(!direct.is_free("job"), "{what}");
        // It can be taken, be renewed and be given back in the same place, and its record is closed.
        let name = what.replace(' ', "-");
        let other = site.job(&name, [""; 0]);
        assert!(row_in(&database, "public.shedlock", &name).held, "{what}");
        assert!(!direct.is_free(&name), "{what}");
        other.end(0).is_silent_with(0);
        assert!(!row_in(&database, "public.shedlock", &name).held, "{what}");
        let closed =
            format!("select count(*) from public.shedlock_history where outcome = 'success' and name = '{name}'");
        assert_eq!(database.psql(&closed), "1", "{what}");
        let status = finish(site.place.shedlock(["status", &name, "--exit-code"]).env("SHEDLOCK_BACKEND", &site.url));
        assert_eq!((status.code(), status.stderr.as_str()), (Some(0), ""), "{what}: {status:?}");
    }
    // It was renewed all the time, in whatever session.
    let renewed = |was: &str| {
        let until = || database.psql("select lock_until from public.shedlock where name = 'job'");
        let was = if was.is_empty() { until() } else { was.to_owned() };
        wait_until("a renewal", || (until() != was).then_some(()));
    };
    renewed("");
    job.end(0).is_silent_with(0);
    assert!(!row_in(&database, "public.shedlock", "job").held);
    let planted = "select (select count(*) from other.shedlock) + (select count(*) from pg_class where \
                   relname = 'shedlock_history' and relnamespace = 'other'::regnamespace)";
    assert_eq!(database.psql(planted), "0");
    assert_eq!(neighbour.says("select (select count(*) from shedlock) + (select count(*) from shedlock_history)"), "0");
}

#[test]
fn a_table_is_made_where_the_role_has_it_by_itself() {
    let database = servers::postgres().database();
    database.psql("create schema other");
    let (_pooler, site, neighbour) = pooled(&database);
    neighbour.says("set search_path to other");
    site.works();
    assert!(!row_in(&database, "public.shedlock", "job").held);
    assert_eq!(database.psql("select count(*) from pg_class where relnamespace = 'other'::regnamespace"), "0");
    // As is the role's own search_path.
    let database = servers::postgres().database();
    database.psql("create schema \"My Schema\"");
    database.psql(&format!("alter database {} set search_path = \"My Schema\", public", database.name));
    let (_pooler, site, neighbour) = pooled(&database);
    neighbour.says("set search_path to public");
    site.works();
    Site::new(database.url()).works();
    assert!(!row_in(&database, "\"My Schema\".shedlock", "job").held);
    assert_eq!(database.psql("select to_regclass('public.shedlock') is null"), "t");
}

#[test]
fn a_table_is_not_made_beside_one_of_its_name() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    site.works();
    let role = servers::unique("tenant");
    database.psql(&format!("create role {role} login; create schema {role} authorization {role}"));
    database.psql("revoke all on schema public from public");
    let tenant = Site::new(database.login(&role).socket_url());
    let complaint = "there is no table shedlock, and it is not created, because there is public.shedlock";
    let finished = tenant.fails_at_once(complaint);
    assert!(
        finished.stderr.contains("?table=public.shedlock, or ask the database's owner to run: CREATE"),
        "{finished:?}"
    );
    let named = Site::new(format!("{}?table={role}.shedlock", tenant.url));
    named.fails_at_once("it is not created, because there is public.shedlock");
    let checked = finish(tenant.place.shedlock(["check"]).env("SHEDLOCK_BACKEND", &tenant.url));
    assert_eq!(checked.code(), Some(1), "{checked:?}");
    assert!(checked.stdout.contains("because there is public.shedlock"), "{checked:?}");
    // A person who wants both has both.
    let made = finish(tenant.place.shedlock(["init"]).env("SHEDLOCK_BACKEND", &named.url));
    assert_eq!(made.code(), Some(0), "{made:?}");
    for site in [&tenant, &named] {
        site.works();
    }
    assert!(row_in(&database, &format!("{role}.shedlock"), "job").owner.ends_with(":ended"));
}

#[test]
fn a_renewal_or_a_release_makes_no_table() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    let job = site.job("job", ["--lease", "3s"]);
    database.psql("alter table shedlock rename to moved");
    let finished = job.started.finish();
    assert_eq!(finished.code(), Some(123), "{finished:?}");
    assert!(finished.stderr.contains("there is no table shedlock any more"), "{finished:?}");
    assert_eq!(database.psql("select to_regclass('shedlock') is null"), "t");

    database.psql("alter table moved rename to shedlock");
    let job = site.job("other", [""; 0]);
    database.psql("alter table shedlock rename to moved; alter table shedlock_history rename to past");
    job.end(0).complains(0, "there is no table shedlock any more");
    assert_eq!(database.psql("select count(*) from pg_class where relkind = 'r' and relname like 'shedlock%'"), "0");

    database.psql("alter table moved rename to shedlock; alter table past rename to shedlock_history");
    let job = site.job("third", [""; 0]);
    database.psql("alter table shedlock_history rename to past");
    job.end(0).is_silent_with(0);
    assert!(!row(&database, "third").held);
    assert_eq!(database.psql("select to_regclass('shedlock_history') is null"), "t");
}

#[test]
fn a_lock_is_given_back_when_the_server_was_started_again_behind_a_pooler() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let pooler = PgBouncer::fresh(server.port(), &["server_login_retry=7"]);
    let site = Site::new(pooler.url(&database));
    site.works();
    let job = site.job("job", ["--backend-timeout", "2s"]);
    server.stop();
    let finished = site.fails(["--backend-timeout", "2s"], "");
    assert!(
        finished.stderr.contains("\nhint: after its server was away, PgBouncer refuses connections for"),
        "{finished:?}"
    );
    server.start();
    job.end(3).is_silent_with(3);
    assert!(!row(&database, "job").held);
}

/// It lets clients in and says no more: it may be frozen, and nothing says that it would answer soon.
#[test]
fn a_pooler_that_says_nothing_does_not_prolong_a_release() {
    let database = servers::postgres().database();
    let pooler = PgBouncer::fresh(servers::postgres().port(), &[]);
    let silent =
        |chunk: &crate::support::relay::Chunk<'_>| if chunk.has(b":ended") { Act::Freeze(0) } else { Act::Pass };
    let (url, relay) = Relay::before(&pooler.url(&database), silent);
    let site = Site::new(url);
    let job = site.job("job", ["--backend-timeout", "2s"]);
    let begun = Instant::now();
    job.end(3).complains(3, "the lock frees when its time is up");
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?}", begun.elapsed());
    assert!(relay.frozen() > 0);
}

#[test]
fn what_is_not_pooled_costs_no_round_trip_more() {
    let server = Postgres::fresh(&["log_statement=all"]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    let before = server.log().len();
    site.works();
    let statements = server.log()[before..].matches(" execute <unnamed>: ").count();
    assert_eq!(statements, 2, "{}", &server.log()[before..]);
}
