//! A password that is changed while a job runs, on the server and in the file that has the URL: the lock is renewed and released
//! all the same.

use std::fs;
use std::process::Command;

use crate::support::fixtures::Holder;
use crate::support::relay::Relay;
use crate::support::{Place, finish, wait_until};
use servers::{Etcd, MariaDb, Redis, RedisCluster, RedisSentinel, certificates, unique};

/// Logins of one user, one after the other.
const LOGINS: [&str; 3] = ["clerk:s3cret", "clerk:n%2Fw", "clerk:th1rd"];

/// Returns the user and the password of a login, without percent-encoding.
fn parts(login: &str) -> (&str, String) {
    let (user, password) = login.split_once(':').unwrap();
    (user, password.replace("%2F", "/"))
}

/// The directory of a secret as kubelet mounts it: the file is a link that leads through another link, and that one is
/// replaced.
struct Secret<'a>(&'a Place);

impl Secret<'_> {
    fn write(&self, version: usize, url: &str) -> String {
        let data = format!("data-{version}");
        fs::create_dir(self.0.path(&data)).unwrap();
        fs::write(self.0.path(&data).join("url"), format!("{url}\n")).unwrap();
        std::os::unix::fs::symlink(&data, self.0.path("draft")).unwrap();
        fs::rename(self.0.path("draft"), self.0.path("data")).unwrap();
        let file = self.0.path("url");
        if !file.exists() {
            std::os::unix::fs::symlink("data/url", &file).unwrap();
        }
        file.display().to_string()
    }
}

fn on(place: &Place, url: &str, words: &[&str]) -> Command {
    let mut command = place.shedlock(words);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Returns the end of the lock as `status` shows it.
fn until(place: &Place, url: &str) -> String {
    let status = finish(&mut on(place, url, &["status", "--json", "job"]));
    let locks: serde_json::Value = serde_json::from_str(&status.stdout).unwrap_or_else(|_| panic!("{status:?}"));
    locks[0]["until"].as_str().unwrap_or_else(|| panic!("{status:?}")).to_owned()
}

/// Asserts that a job keeps its lock while its login is changed twice: the lock is renewed with the second one, and released
/// with the third. `change` has the server accept a login, and no other from then on.
fn keeps_its_lock(url: impl Fn(&str) -> String, logins: [&str; 3], change: impl Fn(&str)) {
    let place = Place::new();
    let secret = Secret(&place);
    let file = secret.write(0, &url(logins[0]));
    let mut run =
        place.shedlock(["run", "--name", "job", "--at-most", "5m", "--lease", "30s", "--backend-file", &file]);
    let holder = Holder::start(&place, run.env_remove("SHEDLOCK_BACKEND"), "exit 7");
    secret.write(1, &url(logins[1]));
    change(logins[1]);
    let second = url(logins[1]);
    let before = until(&place, &second);
    wait_until("a renewal with the new password", || (until(&place, &second) != before).then_some(()));
    secret.write(2, &url(logins[2]));
    change(logins[2]);
    holder.end().is_silent_with(7);
    let third = url(logins[2]);
    finish(&mut on(&place, &third, &["run", "--name=job", "--at-most=1m", "-E75", "true"])).is_silent_with(0);
    // The run was recorded as well, and the acquisition of a run that has the file is no different.
    let history = finish(&mut on(&place, &third, &["history", "job"])).stdout;
    assert_eq!((history.matches("failure").count(), history.matches("success").count()), (1, 1), "{history}");
}

#[test]
fn a_job_on_postgresql_outlives_its_password_and_even_its_user() {
    let server = servers::postgres_tls();
    let (first, other) = (unique("rotated"), unique("rotated"));
    server.psql(&format!("create role {first} login password 's3cret'"));
    let database = server.database_of(&first);
    let logins = [format!("{first}:s3cret"), format!("{first}:n%2Fw"), format!("{other}:th1rd")];
    let change = |login: &str| {
        let (user, password) = parts(login);
        if user == other {
            server.psql(&format!("create role {other} login password '{password}' in role {first}"));
            server.psql(&format!("alter role {first} nologin"));
        } else {
            server.psql(&format!("alter role {user} password '{password}'"));
        }
        server.psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where usename = '{first}'"));
    };
    keeps_its_lock(|login| database.login(login).url(), logins.each_ref().map(String::as_str), change);
}

#[test]
fn a_job_on_postgresql_outlives_a_change_of_its_password_file() {
    let (server, place) = (servers::postgres_tls(), Place::new());
    let role = unique("rotated");
    server.psql(&format!("create role {role} login password 's3cret'"));
    let url = server.database_of(&role).login(&role).url();
    let file = place.path("passwords");
    let write = |password: &str| {
        fs::write(&file, format!("*:*:*:*:{password}\n")).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    write("s3cret");
    let mut run = on(&place, &url, &["run", "--name=job", "--at-most=1m"]);
    let holder = Holder::start(&place, run.env("PGPASSFILE", &file), "true");
    server.psql(&format!("alter role {role} password 'new'"));
    write("new");
    holder.end().is_silent_with(0);
}

/// The certificate is read for each connection, so that a renewed one is used.
#[test]
fn a_job_on_postgresql_outlives_a_change_of_its_certificate() {
    let (server, place, files) = (servers::postgres_tls(), Place::new(), certificates());
    let copy = |certificate: String, key: String| {
        for (from, to) in [(certificate, "own.pem"), (key, "own.key")] {
            fs::copy(from, place.path("draft")).unwrap();
            fs::rename(place.path("draft"), place.path(to)).unwrap();
        }
    };
    copy(files.client(), files.client_key());
    let database = server.database_of("jobs").login("jobs");
    let own = [place.path("own.pem"), place.path("own.key")].map(|path| path.display().to_string());
    let url = format!("{}?sslmode=require&sslcert={}&sslkey={}", database.url(), own[0], own[1]);
    let (url, relay) = Relay::before(&url, |_| crate::support::relay::Act::Pass);
    let mut run = on(&place, &url, &["run", "--name=job", "--at-most=5m", "--backend-timeout=1m"]);
    let holder = Holder::start(&place, &mut run, "true");
    wait_until("the connection to be closed", || (relay.ended() == relay.connections()).then_some(()));
    // The old one is not accepted any more, and then there is the new one.
    copy(files.server(), files.server_key());
    let before = relay.connections();
    let ended = std::thread::spawn(move || holder.end());
    wait_until("the old certificate to be refused", || (relay.ended() > before).then_some(()));
    copy(files.client(), files.client_key());
    ended.join().unwrap().is_silent_with(0);
}

#[test]
fn a_job_on_mysql_outlives_its_password() {
    let server = MariaDb::fresh(&[]);
    let database = server.database();
    server.mariadb("create user clerk@'127.0.0.1' identified by 's3cret'");
    server.mariadb(&format!("grant all on {}.* to clerk@'127.0.0.1'", database.name));
    let change = |login: &str| {
        let (_, password) = parts(login);
        server.mariadb(&format!("alter user clerk@'127.0.0.1' identified by '{password}'"));
        let sessions = server.mariadb("select id from information_schema.processlist where user = 'clerk'");
        for id in sessions.lines() {
            // It may have ended by itself.
            let _ = database.try_mariadb(&format!("kill {id}"));
        }
    };
    keeps_its_lock(|login| database.login(login).url(), LOGINS, change);
}

/// Has Redis accept this login, and closes the connections of others.
fn change_at(server: &Redis, login: &str) {
    let (user, password) = parts(login);
    server.cli(&["acl", "setuser", user, "on", "resetpass", &format!(">{password}"), "+@all", "~*"]);
    server.cli(&["client", "kill", "user", user]);
}

#[test]
fn a_job_on_redis_outlives_its_password() {
    let server = Redis::fresh(&[]);
    change_at(&server, LOGINS[0]);
    keeps_its_lock(
        |login| format!("redis://{login}@127.0.0.1:{}", server.port()),
        LOGINS,
        |login| {
            change_at(&server, login);
        },
    );
}

#[test]
fn a_job_on_a_cluster_of_redis_outlives_its_password() {
    let cluster = RedisCluster::fresh();
    let change = |login: &str| cluster.nodes.iter().for_each(|node| change_at(node, login));
    change(LOGINS[0]);
    keeps_its_lock(|login| cluster.url().replacen("//", &format!("//{login}@"), 1), LOGINS, change);
}

#[test]
fn a_job_on_redis_behind_a_sentinel_outlives_its_password() {
    let sentinel = RedisSentinel::fresh();
    let url = sentinel.url(&sentinel.master.database());
    change_at(&sentinel.master, LOGINS[0]);
    keeps_its_lock(
        |login| url.replacen("//", &format!("//{login}@"), 1),
        LOGINS,
        |login| {
            change_at(&sentinel.master, login);
        },
    );
}

#[test]
fn a_job_on_etcd_outlives_its_password() {
    let schema = finish(&mut Place::new().shedlock(["schema", "etcd://clerk@x"])).stdout;
    let server = Etcd::fresh_with_users(&schema);
    let change = |login: &str| {
        let (user, password) = parts(login);
        let passwd = format!(
            "echo {password} | etcdctl --endpoints http://127.0.0.1:{} --user root:s3cret user passwd {user} --interactive=false",
            server.port()
        );
        server.directory().run("sh", &["-c", &passwd]);
    };
    keeps_its_lock(|login| server.url().replace("//", &format!("//{login}@")), LOGINS, change);
}

/// Its rights name user and password, so a change is one of the rights of each node.
#[test]
fn a_job_on_zookeeper_outlives_its_password() {
    let server = servers::zookeeper();
    let chroot = server.chroot();
    let root = format!("{chroot}/shedlock");
    server.client().request(&serde_json::json!(["create", root, ""]));
    let protect = |client: &servers::Script, path: &str, login: &str| {
        let (user, password) = parts(login);
        client.request(&serde_json::json!(["protect", path, [["login", format!("{user}:{password}"), 31]]]));
    };
    protect(server.client(), &root, LOGINS[0]);
    let url = |login: &str| format!("zookeeper://{login}@127.0.0.1:{}{chroot}", server.port());
    let last = std::cell::RefCell::new(LOGINS[0].to_owned());
    keeps_its_lock(url, LOGINS, |login| {
        let before = last.replace(login.to_owned());
        let (user, password) = parts(&before);
        let client = server.client_of(&format!("{user}:{password}"));
        let mut paths = vec![root.clone()];
        while let Some(path) = paths.pop() {
            let below = client.request(&serde_json::json!(["children", path]));
            paths.extend(below.as_array().unwrap().iter().map(|name| format!("{path}/{}", name.as_str().unwrap())));
            protect(&client, &path, login);
        }
    });
}

#[cfg(feature = "provider")]
#[test]
fn a_job_on_mongodb_outlives_its_password() {
    let server = servers::mongodb_users();
    let store = servers::stores::MongoDbStore::of(server);
    let resource = serde_json::json!({"db": store.database(), "collection": "shedLock"});
    let privileges = serde_json::json!([{"resource": resource, "actions": ["find", "insert", "update"]}]);
    store.command("createRole", "clerk", &serde_json::json!({"roles": [], "privileges": privileges}));
    store.command("createUser", "clerk", &serde_json::json!({"pwd": "s3cret", "roles": ["clerk"]}));
    let url = |login: &str| format!("mongodb://{login}@127.0.0.1:{}/{}", server.port(), store.database());
    keeps_its_lock(url, LOGINS, |login| {
        store.command("updateUser", "clerk", &serde_json::json!({"pwd": parts(login).1}));
    });
}
