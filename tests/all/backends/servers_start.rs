//! The servers that other tests rely on: each starts, answers, and is gone afterwards.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{PATIENCE, is_alive, kill, wait_until};
use servers::{MariaDb, PgBouncer, Postgres, Redis, RedisSentinel, Server};

#[test]
fn plain_servers_answer() {
    assert_eq!(servers::postgres().database().psql("select 1; select 2, 3"), "1\n2|3");
    assert_eq!(servers::mariadb().database().mariadb("select 1; select 2, 3"), "1\n2\t3");
    let database = servers::redis().database();
    assert_eq!(database.cli(&["set", "job", "1"]), "OK");
    assert_eq!(database.cli(&["get", "job"]), "1");
    assert_eq!(servers::redis().database().cli(&["get", "job"]), "");
    let bouncer = servers::pgbouncer();
    let database = servers::postgres().database();
    assert_eq!(by_url(&bouncer.url(&database), &[], "select current_database()"), Ok(database.name));
}

#[test]
fn complaint_is_an_error() {
    let complaint = servers::postgres().database().try_psql("select wrong").unwrap_err();
    assert!(complaint.contains("column \"wrong\" does not exist"), "{complaint}");
    let complaint = servers::mariadb().database().try_mariadb("select wrong").unwrap_err();
    assert!(complaint.contains("Unknown column 'wrong'"), "{complaint}");
    let complaint = servers::redis().database().try_cli(&["wrong"]).unwrap_err();
    assert!(complaint.contains("unknown command"), "{complaint}");
}

/// Returns the answer of a psql that comes by network, as another client would.
fn by_url(url: &str, variables: &[(&str, &str)], sql: &str) -> Result<String, String> {
    let output = Command::new("psql")
        .args(["-X", "-w", "-A", "-t", "-d", url, "-c", sql])
        .env("HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn postgres_with_tls_lets_in_whom_it_says() {
    let server = servers::postgres_tls();
    let database = server.database_of("clerk");
    let certificates = servers::certificates();
    let (authority, stranger) = (certificates.authority(), certificates.stranger());
    let tls = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

    let url = database.login("clerk:s3cret").url_at("localhost");
    let verified = [("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", authority.as_str())];
    assert_eq!(by_url(&url, &verified, tls).as_deref(), Ok("t"));
    assert_eq!(by_url(&url, &[("PGSSLMODE", "disable")], tls).as_deref(), Ok("f"));
    assert_eq!(by_url(&url, &[], "create table jobs ()").as_deref(), Ok("CREATE TABLE"));

    let refusal = by_url(&url, &[("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", &stranger)], tls).unwrap_err();
    assert!(refusal.contains("certificate verify failed"), "{refusal}");
    let refusal = by_url(&database.login("clerk:wrong").url(), &[], tls).unwrap_err();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    let url = database.login("postgres:s3cret").url();
    let refusal = by_url(&url, &[("PGSSLMODE", "disable")], tls).unwrap_err();
    assert!(refusal.contains("no encryption"), "{refusal}");

    let url = database.login("jobs").url();
    assert!(by_url(&url, &verified, tls).is_err());
    // libpq refuses a key that others may read, or one of somebody else that only root may.
    let place = tempfile::tempdir().unwrap();
    let [certificate, key] = ["client.crt", "client.key"].map(|name| place.path().join(name).display().to_string());
    fs::copy(certificates.client(), &certificate).unwrap();
    fs::copy(certificates.client_key(), &key).unwrap();
    let with_certificate = [verified.as_slice(), &[("PGSSLCERT", &certificate), ("PGSSLKEY", &key)]].concat();
    assert_eq!(by_url(&url, &with_certificate, tls).as_deref(), Ok("t"));
}

#[test]
fn mariadb_with_tls_lets_in_whom_it_says() {
    let server = servers::mariadb_tls();
    let certificates = servers::certificates();
    let (port, authority, stranger) = (server.port().to_string(), certificates.authority(), certificates.stranger());
    let ask = |arguments: &[&str]| {
        let question = "show session status like 'ssl_version'; select timediff(now(), utc_timestamp())";
        let client = ["--no-defaults", "-N", "-B", "-h", "127.0.0.1", "-P", &port, "-e", question];
        let output = Command::new("mariadb").args(client).args(arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let verified = ["--ssl-verify-server-cert", "--ssl-ca", &authority];
    let clerk = ["-u", "clerk", "-ps3cret"];
    assert_eq!(ask(&[&verified[..], &clerk].concat()).unwrap(), "Ssl_version\tTLSv1.3\n02:00:00\n");
    assert_eq!(ask(&[&["--ssl-verify-server-cert", "--ssl-ca", &stranger][..], &clerk].concat()), None);
    assert_eq!(ask(&[&["--skip-ssl"][..], &clerk].concat()), None);
    assert_eq!(ask(&["--skip-ssl", "-u", "root"]).unwrap(), "Ssl_version\t\n02:00:00\n");
    assert_eq!(ask(&[&verified[..], &["-u", "jobs"]].concat()), None);
    let own = ["--ssl-cert", &certificates.client(), "--ssl-key", &certificates.client_key()];
    assert!(ask(&[&verified[..], &own, &["-u", "jobs"]].concat()).is_some());
}

#[test]
fn redis_lets_in_whom_it_says() {
    let certificates = servers::certificates();
    let ask = |server: &Redis, arguments: &[&str]| {
        let client = ["-e", "-h", "127.0.0.1", "-p", &server.port().to_string()].map(str::to_owned);
        let output = Command::new("redis-cli").args(client).args(arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let (plain, mutual, users) = (servers::redis_tls(), servers::redis_mutual_tls(), servers::redis_users());
    let (authority, stranger) = (certificates.authority(), certificates.stranger());
    let own = ["--cert", &certificates.client(), "--key", &certificates.client_key()];

    let pong = Some("PONG\n".to_owned());
    assert_eq!(ask(plain, &["--tls", "--cacert", &authority, "ping"]), pong);
    assert_eq!(ask(plain, &["--tls", "--cacert", &stranger, "ping"]), None);
    assert_eq!(ask(plain, &["ping"]), None);
    assert!(plain.database().url().starts_with("rediss://127.0.0.1:"));
    assert_eq!(ask(mutual, &[&["--tls", "--cacert", &authority][..], &own, &["ping"]].concat()), pong);
    assert_eq!(ask(mutual, &["--tls", "--cacert", &authority, "ping"]), None);

    assert_eq!(ask(users, &["ping"]), None);
    assert_eq!(ask(users, &["--user", "clerk", "--pass", "s3cret", "set", "a", "1"]).as_deref(), Some("OK\n"));
    assert_eq!(ask(users, &["--user", "reader", "--pass", "s3cret", "get", "a"]).as_deref(), Some("1\n"));
    assert_eq!(ask(users, &["--user", "reader", "--pass", "s3cret", "set", "a", "1"]), None);
    assert_eq!(users.cli(&["get", "a"]), "1");
}

#[test]
fn cluster_shares_the_keys() {
    let cluster = servers::redis_cluster();
    for key in ["a", "b", "c"] {
        assert_eq!(cluster.cli(&["set", key, "1"]), "OK");
    }
    // The cluster is shared, and other tests have left their histories in it.
    let counts = cluster.nodes.iter().map(|node| node.cli(&["keys", "[abc]"]).lines().count());
    assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
}

#[test]
fn sentinel_makes_the_replica_the_master() {
    let group = RedisSentinel::fresh();
    assert_eq!(group.master_port(), group.master.port());
    assert_eq!(
        group.url(&group.master.database_number(3)),
        format!("redis-sentinel://127.0.0.1:{}/main?db=3", group.sentinel.port())
    );
    group.master.kill();
    wait_until("another master", || (group.master_port() == group.replica.port()).then_some(()));
    wait_until("a replica that is one", || group.replica.database().try_cli(&["set", "a", "1"]).ok());
    assert_eq!(servers::redis_sentinel().sentinel.cli(&["ping"]), "PONG");
}

#[test]
fn server_comes_back_with_its_port_and_its_data() {
    let postgres = Postgres::fresh(&["max_connections=20"]);
    assert_eq!(postgres.psql("show max_connections"), "20");
    let database = postgres.database();
    database.psql("create table jobs (name text)");
    comes_back(&postgres);
    assert_eq!(database.psql("select count(*) from jobs"), "0");

    let mariadb = MariaDb::fresh(&["--max-connections=20"]);
    assert_eq!(mariadb.mariadb("select @@max_connections"), "20");
    let database = mariadb.database();
    database.mariadb("create table jobs (name text)");
    comes_back(&mariadb);
    assert_eq!(database.mariadb("select count(*) from jobs"), "0");

    let redis = Redis::fresh(&["--appendonly", "yes", "--appendfsync", "always"]);
    let database = redis.database();
    database.cli(&["set", "job", "1"]);
    comes_back(&redis);
    assert_eq!(database.cli(&["get", "job"]), "1");

    comes_back(&PgBouncer::fresh(postgres.port(), &[]));
}

fn comes_back(server: &Server) {
    for end in [Server::stop, Server::kill] {
        let pid = server.pid();
        end(server);
        assert!(server.processes().is_empty());
        assert!(!is_alive(pid));
        TcpStream::connect(("127.0.0.1", server.port())).unwrap_err();
        server.start();
        assert_ne!(server.pid(), pid);
    }
    assert_ne!(server.log(), "");
    TcpStream::connect(("127.0.0.1", server.port())).unwrap();
}

#[test]
fn frozen_server_answers_when_it_thaws() {
    let (postgres, mariadb, redis) = (Postgres::fresh(&[]), MariaDb::fresh(&[]), Redis::fresh(&[]));
    // PostgreSQL is asked whether it has TLS; MariaDB speaks first.
    let questions: [(&Server, &[u8]); 3] =
        [(&postgres, b"\0\0\0\x08\x04\xd2\x16\x2f"), (&mariadb, b""), (&redis, b"PING\r\n")];
    for (server, question) in questions {
        server.freeze();
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        connection.write_all(question).unwrap();
        let mut answer = [0];
        connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert_eq!(connection.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
        server.thaw();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(connection.read(&mut answer).unwrap(), 1);
    }
}

/// Not a test by itself: starts servers of all kinds, says which, and waits for its end.
#[test]
#[ignore = "nothing_is_left_of_two_processes_that_end_early runs it"]
fn start_servers_and_wait() {
    let started: [&Server; 8] = [
        servers::postgres(),
        servers::mariadb(),
        servers::redis(),
        servers::pgbouncer(),
        &servers::redis_sentinel().sentinel,
        &servers::redis_cluster().nodes[0],
        servers::postgres_tls(),
        servers::redis_users(),
    ];
    servers::postgres().freeze();
    for server in started {
        println!("server {} {}", server.port(), server.pid());
    }
    println!("all started");
    std::thread::sleep(PATIENCE * 2);
}

#[test]
fn nothing_is_left_of_two_processes_that_end_early() {
    // Where the servers are otherwise as well, but empty.
    let place = tempfile::tempdir_in(servers::redis().path().parent().unwrap()).unwrap();
    // The servers do not run as root.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backends::servers_start::start_servers_and_wait", "--ignored", "--nocapture"])
            .env("TMPDIR", place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    };
    let mut processes = [start(), start()];
    let mut servers = HashMap::new();
    for process in &mut processes {
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        for line in lines.take_while(|line| line != "all started") {
            if let Some((_, server)) = line.split_once("server ") {
                let (port, pid) = server.split_once(' ').unwrap();
                servers.insert(port.to_owned(), pid.parse::<i32>().unwrap());
            }
        }
    }
    assert_eq!(servers.len(), 16, "{servers:?}");
    assert!(servers.values().all(|pid| is_alive(*pid)));
    let segments = || {
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let makers = segments.lines().filter_map(|line| line.split_whitespace().nth(4)?.parse::<i32>().ok());
        makers.filter(|maker| servers.values().any(|pid| pid == maker)).count()
    };
    // One for each PostgreSQL server.
    assert_eq!(segments(), 4);

    // Somebody's kill -9, and ^C on a terminal.
    let [killed, interrupted] = processes.each_ref().map(|process| i32::try_from(process.id()).unwrap());
    kill(killed, "KILL");
    kill(-interrupted, "INT");
    assert_eq!(processes.map(|mut process| process.wait().unwrap().signal()), [Some(9), Some(2)]);

    for pid in servers.values() {
        wait_until("the server to end", || (!is_alive(*pid)).then_some(()));
    }
    // Those of the certificates and of the servers that were not named are in it as well.
    wait_until("every directory to go", || fs::read_dir(place.path()).unwrap().next().is_none().then_some(()));
    assert_eq!(segments(), 0);
}

#[test]
fn dropped_server_is_gone() {
    let server = Redis::fresh(&[]);
    let (pid, path) = (server.pid(), server.path().to_owned());
    drop(server);
    assert!(!is_alive(pid));
    wait_until("its directory to go", || (!path.exists()).then_some(()));
}
