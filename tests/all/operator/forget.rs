//! `forget` on every backend: what it removes and refuses, what becomes of the runs, and the rights that it needs.

use std::fs;
use std::time::Duration;

use crate::support::fixtures::Holder;
use crate::support::per_backend::{Site, on_every_backend};
use crate::support::script as script_in;
use crate::support::{Finished, Place, finish, finish_child, start, wait_until};
use servers::stores::Store;

const MINUTE: Duration = Duration::from_secs(60);

impl<S: Store> Site<S> {
    fn forget(&self, words: &[&str]) -> Finished {
        finish(&mut self.shedlock(&[&["forget"], words].concat()))
    }

    /// Runs under the lock, which has to be free.
    #[track_caller]
    fn runs(&self, name: &str) {
        finish(&mut self.run_or_75(name, &["true"])).is_silent_with(0);
    }

    /// Returns what `status` and `history` know, in JSON. Redis tells an end only as the time that is left.
    fn known(&self) -> String {
        let list = |words: &[&str]| finish(&mut self.shedlock(words)).stdout;
        let all = list(&["status", "--json"]) + &list(&["history", "--json"]);
        all.lines().filter(|line| !line.contains("\"until\": ")).flat_map(|line| [line, "\n"]).collect()
    }
}

/// Asserts that the command said yes, in these lines, and nothing on stderr.
#[track_caller]
fn says(finished: &Finished, lines: &[&str]) {
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert_eq!(finished.stdout.lines().collect::<Vec<_>>(), lines);
}

/// Asserts that the command said no, and with this hint.
#[track_caller]
fn refuses(finished: &Finished, text: &str, hint: &str) {
    finished.complains(1, text);
    let found = finished.stderr.lines().nth(1).unwrap_or_default();
    assert!(found.contains(hint) && found.is_empty() == hint.is_empty(), "`{hint}` is not in {}", finished.stderr);
}

on_every_backend! {
    a_lock_that_is_no_longer_used_goes_with_its_history
    each_name_is_done_or_refused_by_itself
    what_another_program_had_last_goes_only_with_force
    a_run_that_goes_on_without_its_lock_brings_nothing_back
    a_run_starts_at_once_after_its_lock_was_forgotten
    no_two_jobs_overlap_while_their_lock_is_forgotten_again_and_again
}

fn a_lock_that_is_no_longer_used_goes_with_its_history<S: Store>(site: &Site<S>) {
    for name in ["old", "report", "old"] {
        site.runs(name);
    }
    says(&site.forget(&["old"]), &["forgot `old`: the lock and 2 runs"]);
    assert!(site.store.stored("old").is_none() && site.store.history("old").is_empty());
    assert!(!site.known().contains("\"old\"") && site.known().contains("\"report\""), "{}", site.known());
    assert_eq!(finish(&mut site.shedlock(&["history", "old"])).code(), Some(1));
    refuses(&site.forget(&["old"]), "neither the lock `old` nor a run of it is known", "");
    refuses(&site.forget(&["reprot"]), "neither the lock `reprot` nor a run of it is known", "did you mean `report`?");
    says(&site.forget(&["report", "report"]), &["forgot `report`: the lock and 1 run"]);
    assert_eq!(site.known(), "[]\n[]\n");
}

fn each_name_is_done_or_refused_by_itself<S: Store>(site: &Site<S>) {
    for name in ["first", "paused", "last"] {
        site.runs(name);
    }
    finish(&mut site.shedlock(&["run", "--name", "kept", "--at-most", "9m", "--at-least", "9m", "true"]))
        .is_silent_with(0);
    assert_eq!(finish(&mut site.shedlock(&["pause", "paused"])).code(), Some(0));
    let holder = site.hold("held", &[], "true");
    let before = site.known();
    let all = ["held", "kept", "paused", "nowhere"];
    for force in [&[][..], &["--force"]] {
        let refused = site.forget(&[force, &all].concat());
        assert_eq!((refused.code(), refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
        let lines: Vec<&str> = refused.stderr.lines().collect();
        let [held, end, kept, wait, paused, resume, unknown] = lines[..] else { panic!("{refused:?}") };
        assert!(held.starts_with("shedlock: the lock `held` is held by ") && held.ends_with("it is not forgotten"));
        assert!(end.contains("wait until the job has ended") && end.contains("`shedlock unlock held`"), "{end}");
        assert!(kept.starts_with("shedlock: the lock `kept` is kept after the run of "), "{kept}");
        assert!(wait.contains("wait until 20") && wait.contains("`shedlock unlock kept`"), "{wait}");
        assert!(paused.starts_with("shedlock: the lock `paused` is paused by "), "{paused}");
        assert!(resume.contains("`shedlock resume paused`"), "{resume}");
        assert!(unknown.contains("neither the lock `nowhere` nor a run of it is known"), "{unknown}");
    }
    assert_eq!(site.known(), before);
    let mixed = site.forget(&["first", "held", "last", "paused"]);
    let lines = "forgot `first`: the lock and 1 run\nforgot `last`: the lock and 1 run\n";
    assert_eq!((mixed.code(), mixed.stdout.as_str()), (Some(1), lines), "{mixed:?}");
    holder.end().is_silent_with(0);
    assert_eq!(finish(&mut site.shedlock(&["resume", "paused"])).code(), Some(0));
    assert_eq!(finish(&mut site.shedlock(&["unlock", "--force", "kept"])).code(), Some(0));
    let lines = ["held", "kept", "paused"].map(|name| format!("forgot `{name}`: the lock and 1 run"));
    says(&site.forget(&["held", "kept", "paused"]), &lines.each_ref().map(String::as_str));
    assert_eq!(site.known(), "[]\n[]\n");
}

fn what_another_program_had_last_goes_only_with_force<S: Store>(site: &Site<S>) {
    site.runs("job");
    assert!(site.store.java_take("job", "java-host", MINUTE));
    let held = format!("the lock `job` is held by {}", site.store.java_owner("java-host"));
    for words in [&["job"][..], &["--force", "job"]] {
        refuses(&site.forget(words), &held, "`shedlock unlock job`");
    }
    site.store.java_release("job", "java-host", Duration::ZERO);
    // Where a free lock leaves nothing behind, nobody remembers it.
    if !site.store.deletes_free_locks() {
        let owner = site.store.java_owner("java-host");
        let message = format!("the lock `job` is not forgotten: its last holder, {owner}, was not shedlock");
        refuses(&site.forget(&["job"]), &message, "stop all of them, then use --force");
        assert!(site.store.stored("job").is_some() && !site.store.history("job").is_empty());
    }
    says(&site.forget(&["job", "--force"]), &["forgot `job`: the lock and 1 run"]);
    assert!(site.store.stored("job").is_none() && site.store.history("job").is_empty());
}

fn a_run_that_goes_on_without_its_lock_brings_nothing_back<S: Store>(site: &Site<S>) {
    let words = ["run", "--name", "job", "--at-most", "1s", "--on-expiry", "ignore"];
    let holder = Holder::start(&site.place, &mut site.shedlock(&words), "exit 7");
    wait_until("the end of the lock", || (!site.is_held("job")).then_some(()));
    // A store may free it a little late.
    wait_until("the lock to be forgotten", || (site.forget(&["job"]).code() == Some(0)).then_some(()));
    holder.end().complains(7, "the job runs on without the lock because --at-most 1s is used up");
    assert_eq!(site.known(), "[]\n[]\n");
    assert!(site.store.stored("job").is_none() && site.store.history("job").is_empty());
    site.runs("job");
}

fn a_run_starts_at_once_after_its_lock_was_forgotten<S: Store>(site: &Site<S>) {
    let print = ["--every", "1h", "sh", "-c", "echo $SHEDLOCK_LOCK_TOKEN"];
    let token = |finished: &Finished| finished.stdout.trim().parse::<u64>().unwrap();
    let before = token(&finish(&mut site.run_or_75("job", &print)));
    finish(&mut site.run_or_75("job", &print)).is_silent_with(75);
    assert_eq!(finish(&mut site.shedlock(&["unlock", "--force", "job"])).code(), Some(0));
    says(&site.forget(&["job"]), &["forgot `job`: the lock and 1 run"]);
    let after = token(&finish(&mut site.run_or_75("job", &print)));
    assert!(after > before, "{after} {before}");
    finish(&mut site.run_or_75("job", &print)).is_silent_with(75);
}

/// The jobs write when they begin and end, into one file.
fn no_two_jobs_overlap_while_their_lock_is_forgotten_again_and_again<S: Store>(site: &Site<S>) {
    const LOOPS: usize = 3;
    const RUNS: usize = 8;
    let job = "echo begin >> jobs; sleep 0.02; echo end >> jobs";
    let runs = format!(
        "n=0; while [ $n -lt {RUNS} ] || [ ! -s forgotten ] || [ ! -s refused ]; do \
             shedlock run --name job --at-most 1m -E 75 sh -c '{job}' && n=$((n + 1)) || [ $? = 75 ] || exit; \
         done; echo done >> ended"
    );
    let forgets = "n=0; while [ ! -e stop ]; do \
             shedlock forget job >> forgotten 2>> refused || [ $? = 1 ] || exit; \
         done";
    let script = |text: &str| {
        let mut command = script_in(&site.place, text);
        command.env("SHEDLOCK_BACKEND", site.store.url());
        start(&mut command)
    };
    let runners: Vec<_> = (0..LOOPS).map(|_| script(&runs)).collect();
    let removers: Vec<_> = (0..2).map(|_| script(forgets)).collect();
    for runner in runners {
        finish_child(runner).is_silent_with(0);
    }
    fs::write(site.place.path("stop"), "").unwrap();
    for remover in removers {
        finish_child(remover).is_silent_with(0);
    }
    let jobs = site.place.read("jobs");
    let count = jobs.lines().count() / 2;
    assert_eq!(jobs, "begin\nend\n".repeat(count));
    assert!(count >= LOOPS * RUNS, "{count}");
    let (forgotten, refused) = (site.place.read("forgotten"), site.place.read("refused"));
    assert!(forgotten.contains("forgot `job`: the lock and "), "{forgotten}{refused}");
    assert!(refused.contains("the lock `job` is held by "), "{forgotten}{refused}");
}

#[test]
fn all_names_are_looked_at_before_one_is_forgotten() {
    let place = Place::new();
    finish(&mut place.run("job", ["true"])).is_silent_with(0);
    for (words, message) in [
        (&["forget"][..], "NAME is missing"),
        (&["forget", "job", ""], "NAME is empty"),
        (&["forget", "job", "--purge"], "unknown option `--purge`"),
    ] {
        finish(&mut place.shedlock(words)).complains(125, message);
    }
    assert!(place.row("job").is_some());
}

#[test]
fn trouble_with_the_backend_says_what_was_forgotten_before() {
    let place = Place::new();
    let config = place.path("config.toml");
    let ours = place.database();
    let text =
        format!("backend = \"sqlite:{}\"\n[jobs.b]\nbackend = \"sqlite:/nonexistent/locks.db\"\n", ours.display());
    fs::write(&config, text).unwrap();
    for name in ["a", "c"] {
        finish(&mut place.run(name, ["true"])).is_silent_with(0);
    }
    let mut command = place.shedlock(["forget", "a", "a", "b", "c"]);
    let finished = finish(command.env("SHEDLOCK_CONFIG", &config).env_remove("SHEDLOCK_BACKEND"));
    assert_eq!(finished.code(), Some(125), "{finished:?}");
    assert_eq!(finished.stdout, "forgot `a`: the lock and 1 run\n");
    assert!(finished.stderr.contains("; forgotten before that: `a`\n"), "{finished:?}");
    assert!(place.row("c").is_some());
}

/// A user with the documented rights of jobs, and what is missing.
#[cfg(feature = "postgres")]
#[test]
fn in_postgres_only_who_may_delete_forgets() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let role = servers::unique("jobs");
    database.psql(&finish(&mut place.shedlock(["schema", "postgres"])).stdout);
    database.psql(&format!(
        "create role {role} login; grant select, insert, update on shedlock to {role}; \
         grant select, insert, update, delete on shedlock_history to {role}"
    ));
    let url = database.login(&role).socket_url();
    let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    let run = || with(&["run", "--name", "job", "--at-most", "1m", "true"]).is_silent_with(0);
    let counts =
        || database.psql("select (select count(*) from shedlock) || '/' || (select count(*) from shedlock_history)");
    run();
    let denied = with(&["forget", "job"]);
    denied.complains(125, "permission denied for table shedlock");
    let hint = format!(
        "needs DELETE on the tables shedlock and shedlock_history: run it as their owner, or grant that to {role}"
    );
    assert!(denied.stderr.contains(&hint), "{denied:?}");
    database.psql(&format!("grant delete on shedlock to {role}; revoke delete on shedlock_history from {role}"));
    with(&["forget", "job"]).complains(125, "permission denied for table shedlock_history");
    assert_eq!(counts(), "1/1", "all or nothing");
    // A trigger that keeps the row.
    database.psql(&format!(
        "grant delete on shedlock_history to {role}; \
         create function keep() returns trigger language plpgsql as 'begin return null; end'; \
         create trigger keep before delete on shedlock for each row execute function keep()"
    ));
    with(&["forget", "job"]).complains(125, "the backend did not remove the lock `job`");
    assert_eq!(counts(), "1/1");
    database.psql("drop trigger keep on shedlock");
    says(&with(&["forget", "job"]), &["forgot `job`: the lock and 1 run"]);
    assert_eq!(counts(), "0/0");
    // Without a history the lock goes alone, and another program's table of that name is left as it is.
    for (history, left) in
        [("", "0"), ("create table shedlock_history (name text); insert into shedlock_history values ('job')", "1")]
    {
        run();
        database.psql(&format!("drop table shedlock_history; {history}"));
        says(&with(&["forget", "job"]), &["forgot `job`: the lock"]);
        assert_eq!(database.psql("select count(*) from shedlock"), "0");
        if history.is_empty() {
            database.psql("create table shedlock_history (x int)");
        } else {
            assert_eq!(database.psql("select count(*) from shedlock_history"), left);
        }
    }
}

#[cfg(feature = "mysql")]
#[test]
fn in_mysql_only_who_may_delete_forgets() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let name = &database.name;
    let user = servers::unique("jobs");
    let url = database.login(&user).url();
    database.mariadb(&finish(&mut place.shedlock(["schema", "mysql"])).stdout);
    database.mariadb(&format!(
        "create user {user}@'%'; grant select, insert, update on {name}.shedlock to {user}@'%'; \
         grant select, insert, update, delete on {name}.shedlock_history to {user}@'%'"
    ));
    let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    let counts = || {
        database.mariadb("select concat((select count(*) from shedlock), '/', (select count(*) from shedlock_history))")
    };
    with(&["run", "--name", "job", "--at-most", "1m", "true"]).is_silent_with(0);
    let denied = with(&["forget", "job"]);
    denied.complains(125, "DELETE command denied");
    assert!(denied.stderr.contains("needs DELETE on the tables shedlock and shedlock_history"), "{denied:?}");
    database.mariadb(&format!(
        "grant delete on {name}.shedlock to {user}@'%'; revoke delete on {name}.shedlock_history from {user}@'%'"
    ));
    with(&["forget", "job"]).complains(125, "DELETE command denied");
    assert_eq!(counts().trim(), "1/1", "all or nothing");
    database.mariadb(&format!("grant delete on {name}.shedlock_history to {user}@'%'"));
    says(&with(&["forget", "job"]), &["forgot `job`: the lock and 1 run"]);
    assert_eq!(counts().trim(), "0/0");
}

/// The accounts of the manifest: one for jobs, and a Role for the people who remove locks.
#[cfg(feature = "kubernetes")]
#[test]
fn in_kubernetes_only_who_may_delete_forgets() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    let manifest = finish(place.shedlock(["schema", "kubernetes"]).env("SHEDLOCK_BACKEND", "")).stdout;
    namespace.apply(&manifest);
    fs::write(place.path("token"), namespace.token_of("shedlock")).unwrap();
    let address = format!("127.0.0.1:{}", namespace.port());
    let url = namespace.url_at(&address, place.path("token").to_str().unwrap());
    let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    with(&["run", "--name", "job", "--at-most", "1m", "true"]).is_silent_with(0);
    let denied = with(&["forget", "job"]);
    denied.complains(125, "cannot delete resource");
    assert!(denied.stderr.contains("prints a Role shedlock-forget"), "{denied:?}");
    let binding = manifest.split("---\n").find(|part| part.contains("kind: RoleBinding")).unwrap();
    namespace.apply(&binding.replacen("name: shedlock\n", "name: people\n", 1).replacen(
        "kind: Role\n  name: shedlock\n",
        "kind: Role\n  name: shedlock-forget\n",
        1,
    ));
    wait_until("the right to delete", || (with(&["forget", "job"]).code() == Some(0)).then_some(()));
    assert_eq!(with(&["status", "--json"]).stdout, "[]\n");
}

/// The rights of jobs are enough, since a key that expires is deleted anyway.
#[cfg(feature = "etcd")]
#[test]
fn in_etcd_the_rights_of_jobs_are_enough_and_fewer_are_not() {
    let schema = finish(&mut Place::new().shedlock(["schema", "etcd://clerk@x"])).stdout;
    for lacking in ["", "shedlock-history:", "shedlock-state:"] {
        let granted: Vec<_> = schema.lines().filter(|line| lacking.is_empty() || !line.contains(lacking)).collect();
        let (place, server) = (Place::new(), servers::Etcd::fresh_with_users(&granted.join("\n")));
        let url = server.url().replace("//", "//clerk:s3cret@");
        let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
        with(&["run", "--name", "job", "--at-most", "1m", "true"]).is_silent_with(0);
        let finished = with(&["forget", "job"]);
        match lacking.is_empty() {
            true => says(&finished, &["forgot `job`: the lock and 1 run"]),
            false => finished.complains(125, "the user lacks rights"),
        }
    }
}

#[cfg(feature = "redis")]
#[test]
fn in_redis_the_rights_of_jobs_are_enough() {
    use servers::stores::RedisStore;
    let (place, database) = (Place::new(), servers::redis().database());
    let store = RedisStore::of(database.clone());
    let schema = finish(place.shedlock(["schema"]).env("SHEDLOCK_BACKEND", store.url())).stdout;
    let line = schema.lines().find_map(|line| line.strip_prefix("# ACL SETUSER jobs on >PASSWORD ")).unwrap();
    let user = servers::unique("jobs");
    let words: Vec<&str> = ["acl", "setuser", &user, "on", ">PASSWORD"].into_iter().chain(line.split(' ')).collect();
    database.cli(&words);
    let url = store.url().replace("redis://", &format!("redis://{user}:PASSWORD@"));
    let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    with(&["run", "--name", "job", "--at-most", "1m", "true"]).is_silent_with(0);
    says(&with(&["forget", "job"]), &["forgot `job`: the lock and 1 run"]);
    assert!(store.things().is_empty(), "{:?}", store.things());
}

/// A lock whose keys lie on several nodes is refused by the cluster, so they do not.
#[cfg(feature = "redis")]
#[test]
fn in_a_cluster_each_lock_is_forgotten_on_its_node() {
    let (place, cluster) = (Place::new(), servers::RedisCluster::fresh());
    let url = cluster.url();
    let with = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        with(&["run", "--name", name, "--at-most", "1m", "true"]).is_silent_with(0);
    }
    let lines = names.map(|name| format!("forgot `{name}`: the lock and 1 run"));
    says(&with(&[&["forget"][..], &names].concat()), &lines.each_ref().map(String::as_str));
    assert_eq!(with(&["status", "--json"]).stdout, "[]\n");
}
