//! Who logs in where with which password, and that nobody sees it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{SECRET, Site, fails, fails_at_once, row, works};
use crate::support::{finish, is_alive};
use servers::{Postgres, PostgresDatabase};

/// Returns a database of `clerk`, who needs a password.
fn guarded() -> (&'static Postgres, PostgresDatabase) {
    let server = servers::postgres_tls();
    (server, server.database_of("clerk"))
}

/// Writes a password file, and returns its path.
fn password_file(site: &Site, name: &str, mode: u32, text: &str) -> String {
    let path = site.place.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

#[test]
fn the_password_comes_from_any_of_its_places() {
    let (_, database) = guarded();
    let bare = Site::new(database.login("clerk").url());
    Site::new(database.login("clerk:s3cret").url()).works();
    Site::new(format!("{}?password={SECRET}", bare.url)).works();
    works(bare.run("job", ["true"]).env("SHEDLOCK_BACKEND_PASSWORD", SECRET));
    works(bare.run("job", ["true"]).env("PGPASSWORD", SECRET));
    let file = password_file(&bare, "url", 0o600, &format!("{}\n", database.login("clerk:s3cret").url()));
    works(bare.run("job", ["--backend-file", &file, "true"]).env_remove("SHEDLOCK_BACKEND"));
    works(bare.run("job", ["true"]).env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_BACKEND_FILE", &file));
    works(bare.run("job", ["--backend", &bare.url, "true"]).env("SHEDLOCK_BACKEND_PASSWORD", SECRET));
    let line = format!("127.0.0.1:*:{}:clerk:{SECRET}\n", database.name);
    let file = password_file(&bare, "elsewhere", 0o600, &line);
    works(bare.run("job", ["true"]).env("PGPASSFILE", &file));
    password_file(&bare, ".pgpass", 0o600, &line);
    bare.works();
}

#[test]
fn the_nearest_password_is_used() {
    let (_, database) = guarded();
    let bare = Site::new(database.login("clerk").url());
    let wrong = Site::new(database.login("clerk:wr0ng").url());
    let refusal = "password authentication failed for user \"clerk\"";
    let good = password_file(&bare, "good", 0o600, &format!("*:*:*:*:{SECRET}\n"));
    let bad = password_file(&bare, "bad", 0o600, "*:*:*:*:wr0ng\n");
    // The URL, SHEDLOCK_BACKEND_PASSWORD, PGPASSWORD, the file.
    works(Site::new(database.login("clerk:s3cret").url()).run("job", ["true"]).envs([
        ("SHEDLOCK_BACKEND_PASSWORD", "wr0ng"),
        ("PGPASSWORD", "wr0ng"),
        ("PGPASSFILE", &bad),
    ]));
    fails(wrong.run("job", ["true"]).envs([("SHEDLOCK_BACKEND_PASSWORD", SECRET), ("PGPASSWORD", SECRET)]), refusal);
    works(bare.run("job", ["true"]).envs([
        ("SHEDLOCK_BACKEND_PASSWORD", SECRET),
        ("PGPASSWORD", "wr0ng"),
        ("PGPASSFILE", &bad),
    ]));
    works(bare.run("job", ["true"]).envs([("PGPASSWORD", SECRET), ("PGPASSFILE", &bad)]));
    fails(bare.run("job", ["true"]).envs([("PGPASSWORD", "wr0ng"), ("PGPASSFILE", &good)]), refusal);
    fails(bare.run("job", ["true"]).env("PGPASSFILE", &bad), refusal);
}

#[test]
fn a_password_file_that_others_can_read_is_not_used_and_the_hint_says_so() {
    let (_, database) = guarded();
    let bare = Site::new(database.login("clerk").url());
    for mode in [0o644, 0o640, 0o604] {
        let file = password_file(&bare, ".pgpass", mode, &format!("*:*:*:*:{SECRET}\n"));
        let finished = bare.fails_at_once("password");
        assert!(finished.stderr.contains(&format!("hint: {file} is ignored")), "{finished:?}");
        assert!(finished.stderr.contains(&format!("chmod 0600 {file}")), "{finished:?}");
    }
    // Where it is not needed nobody minds it.
    works(bare.run("job", ["true"]).env("PGPASSWORD", SECRET));
}

#[test]
fn without_a_password_the_hint_says_where_it_could_be() {
    let (_, database) = guarded();
    let finished = Site::new(database.login("clerk").url()).fails_at_once("asks clerk for a password");
    assert!(finished.stderr.contains("hint: set SHEDLOCK_BACKEND_PASSWORD or PGPASSWORD"), "{finished:?}");
}

#[test]
fn what_the_server_refuses_is_an_error_at_once() {
    let (server, database) = guarded();
    let clerk = database.login("clerk:s3cret");
    let wrong = Site::new(database.login("clerk:wr0ngs3cret").url());
    wrong.fails_at_once("password authentication failed for user \"clerk\"");
    Site::new(database.login("nobody:s3cret").url())
        .fails_at_once("password authentication failed for user \"nobody\"");
    Site::new(clerk.url().replace(&database.name, "no_such")).fails_at_once("database \"no_such\" does not exist");
    // Of the rules in pg_hba.conf none fits postgres without TLS.
    let plain = format!("{}?sslmode=disable", database.login("postgres:s3cret").url());
    Site::new(plain).fails_at_once("no pg_hba.conf entry");
    Site::new(servers::postgres().database().login("nobody").url()).fails_at_once("role \"nobody\" does not exist");
    assert!(!server.log().contains(SECRET), "{}", server.log());
}

#[test]
fn a_missing_right_is_an_error_at_once_that_says_what_is_missing() {
    let database = servers::postgres().database();
    Site::new(database.url()).works();
    let role = servers::unique("reader");
    database.psql(&format!("create role {role} login; grant select on shedlock to {role}"));
    let reader = Site::new(database.login(&role).socket_url());
    let finished = reader.fails_at_once("permission denied for table shedlock");
    assert!(finished.stderr.contains(&format!("{role} needs SELECT, INSERT and UPDATE")), "{finished:?}");
    for right in ["insert", "update"] {
        database.psql(&format!("revoke all on shedlock from {role}; grant select, {right} on shedlock to {role}"));
        reader.fails_at_once("permission denied for table shedlock");
    }
    database.psql(&format!("grant select, insert, update on shedlock to {role}"));
    reader.works();

    let newcomer = Site::new(format!("{}?table=theirs", database.login(&role).socket_url()));
    let finished = newcomer.fails_at_once("there is no table theirs, and it cannot be created: permission denied");
    let statement = finished.stderr.rsplit_once("owner to run: ").unwrap().1;
    database.psql(statement);
    database.psql(&format!("grant select, insert, update on theirs to {role}"));
    newcomer.works();
    let denied = servers::unique("denied");
    database.psql(&format!("create role {denied} login; revoke connect on database {} from public", database.name));
    Site::new(database.login(&denied).socket_url()).fails_at_once("permission denied for database");
    database.psql("create schema hidden; create table hidden.locks (like shedlock including all)");
    database.psql(&format!("grant connect on database {} to {denied}", database.name));
    Site::new(format!("{}?table=hidden.locks", database.login(&denied).socket_url()))
        .fails_at_once("permission denied for schema hidden");
}

#[test]
fn a_role_that_may_only_read_is_an_error_at_once_that_names_its_setting() {
    let role = servers::unique("reader");
    let server = servers::postgres();
    server.psql(&format!("create role {role} login"));
    let database = server.database_of(&role);
    let name = &database.name;
    let site = Site::new(database.login(&role).url());
    let refused = |site: &Site, hint: &str| {
        let finished = site.fails_at_once(&format!("sessions of {role} are read-only: "));
        assert!(finished.stderr.contains(&format!("\nhint: {hint}\n")), "{finished:?}");
    };
    let setting = "default_transaction_read_only";
    for whose in [format!("alter role {role}"), format!("alter role {role} in database {name}")] {
        let hint = format!("run: {} RESET {setting}", whose.replace("alter role", "ALTER ROLE"))
            .replace("in database", "IN DATABASE");
        // Where the table is missing, and where it is there.
        for _ in 0..2 {
            server.psql(&format!("{whose} set {setting} = on"));
            refused(&site, &hint);
            server.psql(&format!("{whose} reset {setting}"));
            site.works();
        }
    }
    let url = format!("{}?options=-c{setting}%3Don", site.url);
    refused(&Site::new(url), &format!("take {setting} out of `options` in the URL, or out of PGOPTIONS"));

    // A server that was told so as a whole is passed over, and has no say in this.
    let barred = Postgres::only_read(name);
    barred.psql(&format!("begin read write; create role {role} login; commit"));
    for ports in [[barred.port(), server.port()], [server.port(), barred.port()]] {
        let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
        let both = Site::new(format!("postgres://{role}@{hosts}/{name}"));
        server.psql(&format!("alter role {role} set {setting} = on"));
        refused(&both, &format!("run: ALTER ROLE {role} RESET {setting}"));
        let checked = finish(both.place.shedlock(["check"]).env("SHEDLOCK_BACKEND", &both.url));
        assert!(checked.stdout.contains(&format!("ALTER ROLE {role} RESET {setting}")), "{checked:?}");
        server.psql(&format!("alter role {role} reset {setting}"));
        both.works();
    }
}

#[test]
fn the_variables_of_libpq_fill_in_what_the_url_leaves_out() {
    let server = servers::postgres();
    let database = server.database();
    let (port, directory) = (server.port().to_string(), server.path().display().to_string());
    let bare = Site::new("postgres://");
    let whole = [("PGPORT", port.as_str()), ("PGUSER", "postgres"), ("PGDATABASE", &database.name)];
    works(bare.run("tcp", ["true"]).envs(whole).env("PGHOST", "127.0.0.1"));
    works(bare.run("socket", ["true"]).envs(whole).env("PGHOST", &directory));
    assert_eq!(database.psql("select count(*) from shedlock"), "2");
    // The URL's own words are nearer.
    let elsewhere = [("PGHOST", "192.0.2.1"), ("PGPORT", "1"), ("PGUSER", "nobody"), ("PGDATABASE", "nowhere")];
    works(Site::new(database.url()).run("url", ["true"]).envs(elsewhere));
    // Without a database it is the user's.
    let role = servers::unique("own");
    database.psql(&format!("create role {role} login"));
    database.psql(&format!("create database {role} owner {role}"));
    works(
        Site::new(format!("postgres://{role}@")).run("own", ["true"]).envs([("PGHOST", &directory), ("PGPORT", &port)]),
    );
    assert_eq!(
        Command::new("psql")
            .args(["-XqAt", "-h", &directory, "-p", &port, "-U", "postgres", "-d", &role])
            .args(["-c", "select name from shedlock"])
            .output()
            .unwrap()
            .stdout,
        b"own\n"
    );
}

#[test]
fn a_unix_socket_is_named_as_host_or_as_parameter() {
    let server = servers::postgres();
    let database = server.database();
    let directory = server.path().display().to_string();
    Site::new(database.socket_url()).works();
    let query = format!("user=postgres&port={}", server.port());
    Site::new(format!("postgres:///{}?host={directory}&{query}", database.name)).works();
    Site::new(format!("postgresql:///{}?host={}&{query}", database.name, directory.replace('/', "%2F"))).works();
    // TLS is nothing that a socket could have; libpq leaves it out as well.
    Site::new(format!("{}?sslmode=require", database.socket_url())).works();
    let empty = tempfile::tempdir().unwrap();
    let url = format!("postgres:///{}?host={}&{query}", database.name, empty.path().display());
    Site::new(url).fails(["--backend-timeout", "300ms"], "no server is listening on its socket");
}

#[test]
fn no_command_line_and_no_output_shows_the_password() {
    let (server, database) = guarded();
    let site = Site::new(database.login("clerk:s3cret").url());
    let mut run = site.run("job", ["-vv", "sh", "-c", "echo > ready; while [ -e ready ]; do sleep 0.02; done"]);
    let child = crate::support::start(&mut run);
    site.place.wait_for_lines("ready", 1);
    let pid = i32::try_from(child.id()).unwrap();
    assert!(is_alive(pid));
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        family.extend(crate::support::process::children(family[at]).iter().map(|child| child.pid));
        at += 1;
    }
    assert!(family.len() >= 2, "{family:?}");
    for pid in family {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(SECRET));
    }
    fs::remove_file(site.place.path("ready")).unwrap();
    let finished = crate::support::finish_child(child);
    assert_eq!(finished.code(), Some(0));
    assert!(finished.stderr.contains("the lock is taken until") && !finished.stderr.contains(SECRET), "{finished:?}");
    assert!(row(&database, "job").owner.ends_with(":ended"));
    assert!(!server.log().contains(SECRET));
}

#[test]
fn what_is_wrong_in_the_url_is_said_without_its_password() {
    for (url, text) in [
        ("postgres://clerk:s3cret@127.0.0.1:port/x", "port"),
        ("postgres://clerk:s3cret@127.0.0.1/x?wrong=1", "unknown parameter `wrong`"),
        ("postgres://clerk:s3cret@127.0.0.1/x?sslmode=on", "sslmode=on"),
        ("postgres://clerk:s3cret@127.0.0.1/x?target_session_attrs=standby", "standby"),
        ("postgres://clerk:s3cret@127.0.0.1/x?channel_binding=on", "channel_binding=on"),
        ("postgres://clerk:s3cret@127.0.0.1/x?table=a;b", "table=a;b"),
        ("postgres://clerk:a/s3cret@127.0.0.1/x", "%2F"),
        ("postgres://clerk:s3cret@127.0.0.1,127.0.0.2/x?port=1,2,3", "3 ports for 2 hosts"),
        ("postgres://clerk:s3cret@127.0.0.1,127.0.0.2/x?host=a,b,c", "names 2 hosts, and 3 in its parameter `host`"),
        ("postgres:x", "//"),
    ] {
        fails_at_once(Site::new(url).run("job", ["true"]).env("PGPASSWORD", SECRET), text);
    }
}

#[test]
fn a_password_with_any_character_is_understood() {
    let (server, _) = guarded();
    for (password, written) in [
        ("p@ss/w:rd", "p%40ss%2Fw%3Ard"),
        ("p?#&=%", "p%3F%23%26%3D%25"),
        ("Größe \u{1F512}", "Gr%C3%B6%C3%9Fe%20%F0%9F%94%92"),
        ("a:b", "a:b"),
    ] {
        let role = servers::unique("role");
        server.psql(&format!("create role {role} login password '{password}'"));
        let database = server.database_of(&role);
        Site::new(database.login(&format!("{role}:{written}")).url()).works();
        let bare = Site::new(database.login(&role).url());
        works(bare.run("job", ["true"]).env("SHEDLOCK_BACKEND_PASSWORD", password));
        let line = format!("*:*:*:{role}:{}\n", password.replace('\\', "\\\\").replace(':', "\\:"));
        password_file(&bare, ".pgpass", 0o600, &line);
        bare.works();
    }
}
