//! Time zones, the type of the columns, and the transaction's isolation: whatever a server or a role has set.

use super::{Site, row};
use crate::support::{finish, finish_child, start};
use servers::{Postgres, PostgresDatabase};

const KINDS: [&str; 2] = ["timestamp", "timestamptz"];
/// Far east, far west, and one with a half hour.
const ZONES: [&str; 3] = ["Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kolkata"];

fn table(database: &PostgresDatabase, kind: &str) {
    database.psql(&format!(
        "drop table if exists shedlock; create table shedlock (name varchar(64) primary key, \
         lock_until {kind}(3) not null, locked_at {kind}(3) not null, locked_by varchar(255) not null); \
         grant all on shedlock to public"
    ));
}

/// Returns the seconds from now until the lock's end, as a person sees it whose psql works in UTC.
fn left(database: &PostgresDatabase, column: &str) -> i64 {
    let sql =
        format!("set timezone = 'UTC'; select round(extract(epoch from {column} - localtimestamp)) from shedlock");
    database.psql(&sql).parse().unwrap()
}

/// Takes through one site and looks through all others.
fn all_agree(database: &PostgresDatabase, sites: &[(String, Site)]) {
    for (zone, site) in sites {
        let job = site.job("job", [""; 0]);
        let (at, until) = (left(database, "locked_at"), left(database, "lock_until"));
        assert!((-30..=0).contains(&at) && (30..=60).contains(&until), "{zone}: {at} {until}");
        for (other, site) in sites {
            assert!(!site.is_free("job"), "taken under {zone}, and {other} does not see it");
        }
        job.end(0).is_silent_with(0);
        assert!((-30..=0).contains(&left(database, "lock_until")), "{zone}");
        finish(&mut site.run("job", ["--at-least", "20s", "true"])).is_silent_with(0);
        let until = left(database, "lock_until");
        assert!((1..=20).contains(&until), "{zone}: at-least ends in {until}");
        for (other, site) in sites {
            assert!(!site.is_free("job"), "kept under {zone}, and {other} does not see it");
        }
        database.psql("update shedlock set lock_until = locked_at");
    }
}

fn options(url: &str, zone: &str) -> Site {
    Site::new(format!("{url}?options=-c%20timezone%3D{}", zone.replace('/', "%2F")))
}

#[test]
fn a_zone_of_role_or_session_changes_nothing() {
    let database = servers::postgres().database();
    for kind in KINDS {
        table(&database, kind);
        let mut sites = vec![("none".to_owned(), Site::new(database.url()))];
        for zone in ZONES {
            sites.push((format!("session {zone}"), options(&database.url(), zone)));
        }
        let role = servers::unique("traveller");
        database.psql(&format!("create role {role} login; alter role {role} set timezone = 'America/St_Johns'"));
        sites.push((format!("role {role}"), Site::new(database.login(&role).socket_url())));
        all_agree(&database, &sites);
    }
}

#[test]
fn a_zone_of_server_or_database_changes_nothing() {
    let server = Postgres::fresh(&["timezone=Asia/Kathmandu"]);
    let [first, second] = [server.database(), server.database()];
    second.psql(&format!("alter database {} set timezone = 'Pacific/Marquesas'", second.name));
    for (database, zone) in [(&first, "Asia/Kathmandu"), (&second, "Pacific/Marquesas")] {
        assert_eq!(database.psql("show timezone"), zone);
        for kind in KINDS {
            table(database, kind);
            let sites = [
                ("its own".to_owned(), Site::new(database.url())),
                ("UTC".to_owned(), options(&database.url(), "UTC")),
            ];
            all_agree(database, &sites);
        }
    }
}

#[test]
fn the_variables_pgoptions_and_pgtz_do_no_harm() {
    let database = servers::postgres().database();
    for kind in KINDS {
        table(&database, kind);
        let site = Site::new(database.url());
        for (key, value) in [("PGOPTIONS", "-c timezone=Asia/Tokyo"), ("PGTZ", "Asia/Tokyo"), ("TZ", "Asia/Tokyo")] {
            let mut run = site.run("job", ["--at-least", "30s", "true"]);
            finish(run.env(key, value)).is_silent_with(0);
            let until = left(&database, "lock_until");
            assert!((1..=30).contains(&until), "{key}: {until}");
            assert!(!site.is_free("job"), "{key}");
            database.psql("update shedlock set lock_until = locked_at");
        }
    }
}

#[test]
fn a_role_that_isolates_its_transactions_contends_like_any_other() {
    let server = Postgres::fresh(&[]);
    let places = ["serializable", "repeatable read"].map(|isolation| {
        let database = server.database();
        let role = servers::unique("careful");
        database.psql(&format!(
            "create role {role} login; grant create on schema public to {role}; \
             alter role {role} set default_transaction_isolation = '{isolation}'"
        ));
        let site = Site::new(database.login(&role).socket_url());
        std::fs::write(site.place.path("counter"), "0\n").unwrap();
        (isolation, database, site)
    });
    let increment = "read n < counter; echo $((n + 1)) > counter";
    // They collide by chance.
    for round in 1..=20 {
        for (isolation, database, site) in &places {
            let herd: Vec<_> =
                (0..30).map(|_| start(&mut site.run("counter", ["--wait", "60s", "sh", "-c", increment]))).collect();
            for child in herd {
                finish_child(child).is_silent_with(0);
            }
            assert_eq!(site.place.read("counter"), format!("{}\n", 30 * round), "{isolation}");
            assert!(!row(database, "counter").held);
        }
        if server.log().contains("could not serialize access") {
            return;
        }
    }
    panic!("they did not collide, so this shows nothing");
}

#[test]
fn a_database_that_is_read_only_by_default_is_tried_until_the_time_is_up() {
    let database = servers::postgres().database();
    database.psql(&format!("alter database {} set default_transaction_read_only = on", database.name));
    let begun = std::time::Instant::now();
    let finished = Site::new(database.url()).fails(["--backend-timeout", "1s"], "read-only transaction");
    assert!(begun.elapsed().as_millis() >= 400, "{:?}", begun.elapsed());
    assert!(finished.stderr.contains("\nhint: a lock needs a writable server"), "{finished:?}");
}
