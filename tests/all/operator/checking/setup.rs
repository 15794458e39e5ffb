//! `shedlock init` and `shedlock schema`.

use super::{SECRET, on};
use crate::support::{Place, finish};

#[test]
fn init_makes_what_is_needed_and_again_does_no_harm() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.database().display());
    for _ in 0..2 {
        let finished = finish(&mut on(&place, &url, &["init"]));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
        assert!(finished.stdout.contains("shedlock"), "{finished:?}");
    }
    let database = rusqlite::Connection::open(place.database()).unwrap();
    database.execute_batch("SELECT name FROM shedlock; SELECT id FROM shedlock_history").unwrap();
}

#[cfg(feature = "postgres")]
#[test]
fn init_without_the_right_shows_the_statement() {
    let server = servers::postgres();
    let database = server.database();
    let user = servers::unique("clerk");
    server.psql(&format!("create role {user} login"));
    database.psql(&format!(
        "revoke create on schema public from public; grant all on database {} to postgres",
        database.name
    ));
    let url = database.socket_url().replacen("postgres@", &format!("{user}@"), 1);
    let finished = finish(&mut on(&Place::new(), &url, &["init"]));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(125), ""), "{finished:?}");
    assert!(finished.stderr.contains("ask the database's owner to run: CREATE TABLE"), "{finished:?}");
}

#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd", feature = "zookeeper"))]
#[test]
fn a_schema_is_printed_without_reaching_anything() {
    let place = Place::new();
    let schema = |arguments: &[&str]| {
        let finished = finish(&mut on(&place, "", &[&["schema"], arguments].concat()));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{arguments:?}: {finished:?}");
        finished.stdout
    };
    for word in ["sqlite", "postgres", "postgresql", "mysql", "mariadb"] {
        let text = schema(&[word]);
        assert!(text.contains("CREATE TABLE IF NOT EXISTS") && text.contains("shedlock_history"), "{word}: {text}");
        assert!(text.ends_with('\n'), "{text}");
    }
    assert!(!schema(&["redis"]).contains("CREATE TABLE"));
    #[cfg(feature = "kubernetes")]
    assert_eq!(schema(&["kubernetes"]), include_str!("../../../../packaging/kubernetes/rbac.yaml"));
    assert!(schema(&["zookeeper"]).contains("\ncreate /shedlock \"\"\n"));
    let of_url = schema(&[&format!("postgres://u:{SECRET}@no.such.host/x?table=ops.locks")]);
    assert!(of_url.contains("ops.locks") && !of_url.contains(SECRET), "{of_url}");
    let configured = schema(&["--backend", "mysql://u@no.such.host/x?table=jobs"]);
    assert!(configured.contains("jobs_history"), "{configured}");
    assert!(!place.database().exists());
}

/// A build without a backend names it all the same.
#[cfg(not(feature = "mysql"))]
#[test]
fn a_kind_that_was_left_out_says_so() {
    let finished = finish(&mut on(&Place::new(), "", &["schema", "mariadb"]));
    finished.complains(125, "BACKEND has the scheme `mysql:`, which was left out of this build");
}

#[test]
fn a_kind_that_nobody_knows_gets_a_suggestion() {
    let place = Place::new();
    let finished = finish(&mut on(&place, "", &["schema", "postgre"]));
    finished.complains(
        125,
        "BACKEND `postgre` is not known; known are sqlite, postgres, postgresql, mysql, mariadb, redis, etcd, kubernetes, zookeeper",
    );
    assert!(finished.stderr.contains("hint: did you mean `postgres`?"), "{finished:?}");
    let finished = finish(&mut on(&place, "", &["schema", "oracle"]));
    assert!(!finished.stderr.contains("did you mean"), "{finished:?}");
    let finished = finish(&mut on(&place, "", &["schema", &format!("oracle://u:{SECRET}@db")]));
    finished.complains(125, "BACKEND has the unknown scheme `oracle:`");
    assert!(!finished.stderr.contains(SECRET), "{finished:?}");
}
