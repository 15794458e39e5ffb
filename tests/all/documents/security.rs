//! docs/security.md: its statements and command lines are carried out as they stand there, on real servers and as the users
//! whom they are for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(feature = "redis")]
use std::process::Stdio;

#[cfg(feature = "redis")]
use crate::support::fixtures::Holder;
use crate::support::fixtures::{by_root, change, mode};
use crate::support::markdown::{Document, run_by};
#[cfg(feature = "redis")]
use crate::support::process::pid_in;
use crate::support::process::write_script;
use crate::support::repository::{ROOT, text};
use crate::support::script;
use crate::support::{Finished, Place, finish};
#[cfg(feature = "redis")]
use crate::support::{is_alive, wait_until};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd", feature = "kubernetes"))]
use servers::unique;

const DOCUMENT: &str = "docs/security.md";

/// Returns the block that this test runs.
fn block(test: &str) -> String {
    run_by(DOCUMENT, test).concat()
}

#[test]
fn all_that_the_document_says_to_do_is_done_here() {
    for block in Document::read(DOCUMENT).blocks {
        assert!(block.marks.iter().any(|mark| mark.starts_with("run by: ")), "{block:?}");
    }
}

/// The last column of the table of who can do what names tests, or modules of them, wherever these are.
#[cfg(feature = "default")]
#[test]
fn what_the_table_names_as_shown_is_tested() {
    let listed = finish(Command::new(std::env::current_exe().unwrap()).arg("--list")).stdout;
    let text = text(DOCUMENT);
    let table = text.split("| shown by |").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let rows: Vec<&str> = table.lines().filter(|row| row.starts_with("| ") && !row.starts_with("| -")).collect();
    assert!(rows.len() > 10, "{table}");
    for row in rows {
        let shown = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            let is_named = |test: &str| test.starts_with(name) || test.contains(&format!("::{name}"));
            assert!(listed.lines().any(is_named), "{name} is no test");
        }
    }
}

/// Runs the block's lines as root, with the programs of the place.
fn by_the_administrator(place: &Place, lines: &str) -> Finished {
    finish(&mut by_root(&["env"], &script(place, &format!("PATH=.:$PATH\n{lines}"))))
}

/// Returns a place that every user may enter.
fn open_place() -> Place {
    let place = Place::new();
    change("chmod", "0755", &place.path(""));
    place
}

#[cfg(feature = "redis")]
const PASSWORD: &str = "s3cret";

/// Redis with a user who has a password.
#[cfg(feature = "redis")]
fn guarded() -> String {
    servers::redis_users().database().login(&format!("clerk:{PASSWORD}")).url()
}

#[cfg(feature = "redis")]
#[test]
fn where_a_password_stands_decides_who_sees_it() {
    let url = guarded();
    let (scheme, rest) = url.split_once("://").unwrap();
    let without = format!("{scheme}://clerk@{}", rest.split_once('@').unwrap().1);
    // The way, and whether the password is in the command line, in the environment, and in the job's environment.
    for (way, on_line, in_environment, in_job) in [
        ("line", true, false, true),
        ("variable", false, true, true),
        ("password", false, true, true),
        ("file", false, false, false),
        ("config", false, false, false),
    ] {
        let place = open_place();
        let mut run = place.shedlock(["run", "--name", "job", "--at-most", "1m"]);
        run.env_remove("SHEDLOCK_BACKEND");
        match way {
            "line" => run.args(["--backend", &url]),
            "variable" => run.env("SHEDLOCK_BACKEND", &url),
            "password" => run.env("SHEDLOCK_BACKEND", &without).env("SHEDLOCK_BACKEND_PASSWORD", PASSWORD),
            "file" => {
                // Its mode is not looked at.
                fs::write(place.path("backend"), &url).unwrap();
                change("chmod", "0644", &place.path("backend"));
                run.args(["--backend-file", "backend"])
            }
            _ => {
                fs::write(place.path("config.toml"), format!("backend = \"{url}\"")).unwrap();
                run.args(["--config", "config.toml"])
            }
        };
        let holder = Holder::start(&place, &mut run, "");
        let read = |pid: i32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap();
        let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(PASSWORD);
        let (ours, job) = (holder.pid(), holder.job());
        assert_eq!(has(&read(ours, "cmdline")), on_line, "{way}");
        assert_eq!(has(&read(ours, "environ")), in_environment, "{way}");
        assert_eq!(has(&read(job, "environ")), in_job, "{way}");
        let seen = |what: &str| {
            let stranger = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "cat"];
            finish(&mut by_root(&stranger, &Command::new(format!("/proc/{ours}/{what}"))))
        };
        assert_eq!(seen("cmdline").stdout.contains(PASSWORD), on_line, "{way}");
        assert_ne!(seen("environ").code(), Some(0), "{way}");
        holder.end().is_silent_with(0);
    }
}

/// Returns the place with the backend's file, made by the document's lines, and the same lines for the place.
#[cfg(feature = "redis")]
fn with_backend_file(report: &str) -> (Place, impl Fn(&str) -> String) {
    let place = open_place();
    write_script(&place, "report", report);
    let etc = place.path("etc").display().to_string();
    let url = guarded();
    let here = move |lines: &str| {
        lines
            .replace("/etc/shedlock", &etc)
            .replace("redis://jobs:PASSWORD@cache.example", &url)
            .replace("--reuid=report --regid=report --init-groups", "--reuid=65534 --regid=65534 --clear-groups")
    };
    let made = by_the_administrator(&place, &here(&block("the_backend_file_is_read_by_its_owner_alone")));
    made.is_silent_with(0);
    (place, here)
}

#[cfg(feature = "redis")]
#[test]
fn the_backend_file_is_read_by_its_owner_alone() {
    let (place, _) = with_backend_file("#!/bin/sh\nenv > seen\n");
    assert_eq!(mode(&place.path("etc/backend")), 0o600);
    assert_eq!(mode(&place.path("etc")), 0o755);
    let seen = place.read("seen");
    assert!(seen.contains("SHEDLOCK_LOCK_BACKEND_FILE=/") && !seen.contains(PASSWORD), "{seen}");
}

#[cfg(feature = "redis")]
#[test]
fn a_job_of_another_user_does_not_learn_the_password() {
    let lines = block("a_job_of_another_user_does_not_learn_the_password");
    let (place, here) = with_backend_file("#!/bin/sh\nexit 0\n");
    write_script(&place, "report", "#!/bin/sh\nid -u\nenv\ncat etc/backend 2>&1\nshedlock verify 2>&1\n");
    let asked = by_the_administrator(&place, &here(&lines));
    assert_eq!(asked.code(), Some(125), "{asked:?}");
    assert!(asked.stdout.starts_with("65534\n") && !asked.stdout.contains(PASSWORD), "{asked:?}");
    assert!(asked.stdout.contains("etc/backend: Permission denied"), "{asked:?}");
    assert!(asked.stdout.contains("etc/backend cannot be read: permission denied"), "{asked:?}");

    // The kernel does not end it together with shedlock, and the guardian does.
    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    change("chmod", "0777", &out);
    let job = "#!/bin/sh\necho $PPID > out/ours\necho $$ > out/job.new\nmv out/job.new out/job\nexec sleep 60\n";
    write_script(&place, "report", job);
    let mut line = by_root(&["env"], &script(&place, &format!("PATH=.:$PATH\n{}", here(&lines))));
    let mut child = line.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the job", || out.join("job").exists().then_some(()));
    let (ours, job) = (pid_in(&place, "out/ours"), pid_in(&place, "out/job"));
    let killed = finish(&mut by_root(&["kill"], Command::new("-KILL").arg(ours.to_string())));
    assert_eq!(killed.code(), Some(0), "{killed:?}");
    wait_until("the end of the job", || (!is_alive(job)).then_some(()));
    child.wait().unwrap();
}

#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
#[test]
fn verify_full_is_what_check_says_it_is() {
    let place = Place::new();
    let postgres = servers::postgres_tls().database_of("clerk").login("clerk:s3cret").url_at("localhost");
    let mysql = servers::mariadb_tls().database().login("clerk:s3cret").url_at("localhost");
    let redis = servers::redis_tls().database().url().replace("127.0.0.1", "localhost");
    let lines = block("verify_full_is_what_check_says_it_is")
        .replace("postgres://jobs@db.example/ops", &postgres)
        .replace("mysql://jobs@db.example/ops", &mysql)
        .replace("rediss://cache.example", &redis)
        .replace("/etc/shedlock/authority.pem", &servers::certificates().authority());
    let asked = finish(&mut script(&place, &lines));
    assert_eq!((asked.code(), asked.stderr.as_str()), (Some(0), ""), "{asked:?}");
    assert_eq!(asked.stdout.matches("the server's certificate and name are verified").count(), 3, "{asked:?}");
    // What stands there without the mode is another matter.
    let unsaid = lines.replace("sslmode=verify-full&", "");
    let asked = finish(&mut script(&place, &unsaid));
    assert_eq!(asked.stdout.matches("the server's certificate and name are verified").count(), 2, "{asked:?}");
    assert_eq!(asked.stdout.matches("the server's certificate is verified, but not its name").count(), 1, "{asked:?}");
}

/// Runs all commands of a person who runs jobs, on this backend, and returns the first that does not do its work, if any.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd", feature = "kubernetes"))]
fn hindered(url: &str) -> Option<String> {
    let place = Place::new();
    let lines = [
        "test \"$(shedlock run -v --name job --at-most 1m --history-keep 1 true 2>&1 | wc -l)\" = 2",
        "test \"$(shedlock run -v --name job --at-most 1m --history-keep 1 true 2>&1 | wc -l)\" = 2",
        // One run is kept, and its end is written down.
        "test \"$(shedlock history job | grep -c success)\" = 1",
        "shedlock run --name kept --at-most 1m --at-least 30s sh -c 'test -n \"$SHEDLOCK_LOCK_TOKEN\"'",
        "shedlock run --name kept --at-most 1m -E 75 true || test $? = 75",
        "shedlock status | grep kept",
        "shedlock history | grep kept",
        "shedlock unlock --force kept",
        "handle=$(shedlock acquire --name held --at-most 1m)\nshedlock extend 2m \"$handle\"\nshedlock verify \"$handle\"\nshedlock release \"$handle\"",
        "shedlock pause job --reason maintenance",
        "shedlock resume job",
    ];
    lines.into_iter().find_map(|line| {
        let finished = finish(script(&place, line).env("SHEDLOCK_BACKEND", url));
        (finished.code() != Some(0)).then(|| format!("{line}: {finished:?}"))
    })
}

/// Asserts that a user with these rights can do all that jobs need, and renew.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd", feature = "kubernetes"))]
#[track_caller]
fn has_enough(url: &str) {
    let place = Place::new();
    assert_eq!(hindered(url), None);
    let shedlock = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", url));
    let checked = shedlock(&["check"]);
    assert_eq!(checked.code(), Some(0), "{checked:?}");
    // It lives for longer than its lease.
    shedlock(&["run", "--name", "long", "--at-most", "1m", "--lease", "2s", "sleep", "2.5"]).is_silent_with(0);
}

/// Asserts that a user may look, and changes nothing.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd", feature = "kubernetes"))]
#[track_caller]
fn may_only_look(url: &str) {
    let place = Place::new();
    let shedlock = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", url));
    for words in [&["status"][..], &["status", "kept"], &["history"], &["history", "kept"]] {
        let seen = shedlock(words);
        assert_eq!((seen.code(), seen.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(seen.stdout.contains("success"), "{words:?}: {seen:?}");
    }
    let run = ["run", "--name", "job", "--at-most", "1m", "true"];
    for words in [&["pause", "job"][..], &["acquire", "--name", "other", "--at-most", "1m"], &run] {
        assert_eq!(shedlock(words).code(), Some(125), "{words:?}");
    }
}

/// Returns the statements of the block for these users and this database, and each without one of the rights.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn with_less(statements: &str) -> Vec<(String, String)> {
    let mut less = Vec::new();
    for line in statements.lines().filter(|line| line.starts_with("GRANT") && line.contains("INSERT")) {
        let rights = line.strip_prefix("GRANT ").unwrap().split_once(" ON ").unwrap().0;
        for right in rights.split(", ") {
            let rest: Vec<&str> = rights.split(", ").filter(|other| *other != right).collect();
            less.push((
                format!("{right} of {line}"),
                statements.replace(line, &line.replace(rights, &rest.join(", "))),
            ));
        }
    }
    assert_eq!(less.len(), 7, "{less:?}");
    less
}

#[cfg(feature = "postgres")]
#[test]
fn the_rights_in_postgres_are_enough() {
    let statements = block("the_rights_in_postgres_are_enough");
    let schema = finish(&mut Place::new().shedlock(["schema", "postgres"])).stdout;
    let granted = |statements: &str| {
        let database = servers::postgres().database();
        database.psql(&schema);
        let [jobs, watcher] = ["jobs", "watcher"].map(unique);
        database.psql(&statements.replace("jobs", &jobs).replace("watcher", &watcher));
        [jobs, watcher].map(|role| database.login(&role).socket_url())
    };
    let [jobs, watcher] = granted(&statements);
    has_enough(&jobs);
    may_only_look(&watcher);
    for (what, statements) in with_less(&statements) {
        assert!(hindered(&granted(&statements)[0]).is_some(), "{what}");
    }
}

#[cfg(feature = "etcd")]
#[test]
fn the_rights_in_etcd_are_enough() {
    let lines = block("the_rights_in_etcd_are_enough");
    let place = Place::new();
    let server = servers::Etcd::fresh_with_users("");
    let client = finish(Command::new("sh").args(["-c", "command -v etcdctl"])).stdout;
    let login = format!("--endpoints 127.0.0.1:{} --user root:s3cret", server.port());
    write_script(&place, "etcdctl", &format!("#!/bin/sh\nexec {} {login} \"$@\"\n", client.trim()));
    let granted = |lines: &str| {
        let [jobs, watcher] = ["jobs", "watcher"].map(unique);
        let lines = lines.replace("jobs", &jobs).replace("watcher", &watcher);
        let said = finish(&mut script(&place, &format!("set -e\nPATH=.:$PATH\n{lines}")));
        assert_eq!((said.code(), said.stderr.as_str()), (Some(0), ""), "{said:?}");
        [jobs, watcher].map(|user| server.url().replace("//", &format!("//{user}:PASSWORD@")))
    };
    let [jobs, watcher] = granted(&lines);
    has_enough(&jobs);
    may_only_look(&watcher);
    for key in ["shedlock:default:", "shedlock-state:default:", "shedlock-history:default:"] {
        let less = lines.replace(&format!("readwrite {key}"), &format!("read {key}"));
        assert_ne!(less, lines);
        assert!(hindered(&granted(&less)[0]).is_some(), "{key}");
    }
}

#[cfg(feature = "kubernetes")]
#[test]
fn the_rights_in_kubernetes_are_enough() {
    let roles = block("the_rights_in_kubernetes_are_enough");
    let place = Place::new();
    let granted = |roles: &str| {
        let namespace = servers::kubernetes().namespace();
        namespace.apply(roles);
        ["jobs", "watcher"].map(|name| {
            let bound = include_str!("../../../packaging/kubernetes/rbac.yaml").replace("shedlock", name);
            let (account, rest) = bound.split_once("\n---\n").unwrap();
            namespace.apply(&format!("{account}\n---\n{}", rest.split_once("\n---\n").unwrap().1));
            let file = place.path(&unique(name));
            fs::write(&file, namespace.token_of(name)).unwrap();
            namespace.url_at(&format!("127.0.0.1:{}", namespace.port()), file.to_str().unwrap())
        })
    };
    let [jobs, watcher] = granted(&roles);
    has_enough(&jobs);
    may_only_look(&watcher);
    for verb in ["get, ", "create, ", "update, ", ", list"] {
        let (ours, others) = roles.split_once("\n---\n").unwrap();
        let less = format!("{}\n---\n{others}", ours.replace(verb, ""));
        assert_ne!(less, roles);
        assert!(hindered(&granted(&less)[0]).is_some(), "{verb}");
    }
}

#[cfg(feature = "mysql")]
#[test]
fn the_rights_in_mysql_are_enough() {
    let statements = block("the_rights_in_mysql_are_enough");
    let schema = finish(&mut Place::new().shedlock(["schema", "mysql"])).stdout;
    let granted = |statements: &str| {
        let database = servers::mariadb_tls().database();
        database.mariadb(&schema);
        let [jobs, watcher] = ["jobs", "watcher"].map(unique);
        let here = statements.replace("ops.", &format!("{}.", database.name));
        database.mariadb(&here.replace("jobs", &jobs).replace("watcher", &watcher));
        let tls = format!("?sslmode=verify-full&sslrootcert={}", servers::certificates().authority());
        [jobs, watcher].map(|user| database.login(&format!("{user}:PASSWORD")).url_at("localhost") + &tls)
    };
    let [jobs, watcher] = granted(&statements);
    has_enough(&jobs);
    may_only_look(&watcher);
    let plain = jobs.split_once('?').unwrap().0;
    let refused = finish(Place::new().shedlock(["status"]).env("SHEDLOCK_BACKEND", plain));
    assert_eq!(refused.code(), Some(125), "without TLS: {refused:?}");
    for (what, statements) in with_less(&statements) {
        assert!(hindered(&granted(&statements)[0]).is_some(), "{what}");
    }
}

#[cfg(feature = "redis")]
#[test]
fn the_rights_in_redis_are_enough() {
    let (place, server) = (Place::new(), servers::redis_users());
    let login = format!("--user keeper --pass keeper --no-auth-warning -p {}", server.port());
    let client = finish(Command::new("sh").args(["-c", "command -v redis-cli"])).stdout;
    write_script(&place, "redis-cli", &format!("#!/bin/sh\nexec {} {login} \"$@\"\n", client.trim()));
    let [jobs, watcher] = ["jobs", "watcher"].map(unique);
    let lines = block("the_rights_in_redis_are_enough")
        .replace("SETUSER jobs", &format!("SETUSER {jobs}"))
        .replace("SETUSER watcher", &format!("SETUSER {watcher}"));
    let said = finish(&mut script(&place, &format!("PATH=.:$PATH\n{lines}")));
    assert_eq!((said.code(), said.stdout.as_str(), said.stderr.as_str()), (Some(0), "OK\nOK\n", ""));
    let database = server.database();
    has_enough(&database.login(&format!("{jobs}:PASSWORD")).url());
    may_only_look(&database.login(&format!("{watcher}:PASSWORD")).url());
}

#[test]
fn the_users_of_a_group_share_a_file() {
    let place = open_place();
    write_script(&place, "backup", "#!/bin/sh\nstat -c '%a %n' srv/locks srv/locks/*\n");
    fs::create_dir(place.path("srv")).unwrap();
    change("chmod", "0755", &place.path("srv"));
    let srv = place.path("srv").display().to_string();
    let lines = block("the_users_of_a_group_share_a_file").replace("-g jobs", "-g 54000").replace("/srv", &srv);
    let (making, running) = lines.split_once('\n').unwrap();
    by_the_administrator(&place, making).is_silent_with(0);
    let by = |user: &str, group: &str| {
        let words = ["setpriv", user, group, "--clear-groups"];
        finish(&mut by_root(&words, &script(&place, &format!("umask 077\nPATH=.:$PATH\n{running}"))))
    };
    for user in ["--reuid=54001", "--reuid=54002"] {
        let ran = by(user, "--regid=54000");
        assert_eq!((ran.code(), ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let file = "660 srv/locks/shared.db";
        assert_eq!(ran.stdout, format!("2770 srv/locks\n{file}\n{file}-shm\n{file}-wal\n"));
    }
    by("--reuid=54003", "--regid=54003").complains(125, "no permission to enter its directory");
    // Who made it does not own it alone.
    let made = by_root(&["stat"], Command::new("-c").args(["%g", &format!("{srv}/locks/shared.db")])).output().unwrap();
    assert_eq!(made.stdout, b"54000\n");
}

#[test]
fn the_default_file_is_for_its_user_alone_whatever_the_umask_is() {
    let place = Place::new();
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    let mut run = script(&place, "umask 000\nexec shedlock run --name job --at-most 1m -- sh -c 'stat -c %a *'");
    let state = home.join("state");
    run.env_remove("SHEDLOCK_BACKEND").env("HOME", &home).env("XDG_STATE_HOME", &state);
    let unprivileged = fs::metadata("/proc/self").unwrap().uid() != 0;
    let database = if unprivileged { state.join("shedlock/shedlock.db") } else { place.path("own/locks.db") };
    if !unprivileged {
        // Root's own is the system's, which tests leave alone; the file is made in the same way.
        fs::create_dir(place.path("own")).unwrap();
        run.env("SHEDLOCK_BACKEND", format!("sqlite:{}", database.display()));
    }
    assert_eq!(finish(&mut run).code(), Some(0));
    assert_eq!(mode(&database), 0o600);
}

/// Returns the sources of the program below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_blocks_of_unsafe_are_where_and_as_many_as_the_document_says() {
    let src = Path::new(ROOT).join("src");
    let (mut job, mut system, mut others) = (0, 0, Vec::new());
    for path in sources(&src) {
        let count = fs::read_to_string(&path).unwrap().matches("unsafe {").count();
        match path.strip_prefix(&src).unwrap() {
            within if within.starts_with("job") => job += count,
            within if within.starts_with("system") => system += count,
            within if count > 0 => others.push(within.to_owned()),
            _ => {}
        }
    }
    assert!(others.is_empty(), "{others:?}");
    let said = format!(
        "Blocks of `unsafe` stand in `src/job/`, where processes are started and signalled, {job} of them, and {system} in\n\
         `src/system/`, "
    );
    assert!(text(DOCUMENT).contains(&said), "{said}");
}
