//! A node of a Galera cluster that is up and not ready is passed over, as a read-only server is.

use std::process::Command;

use crate::support::fixtures::Holder;
use crate::support::{Place, finish, wait_until};
use servers::{Galera, MariaDbDatabase};

/// Returns a URL with the second node, and then the first.
fn url(galera: &Galera, database: &MariaDbDatabase) -> String {
    let [first, second] = &galera.nodes;
    format!("mysql://root@127.0.0.1:{},127.0.0.1:{}/{}", second.port(), first.port(), database.name)
}

fn on(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.run("a", ["-E", "75"]);
    command.args(arguments).env("SHEDLOCK_BACKEND", url);
    command
}

/// Returns a cluster whose second node refuses queries, in one way or the other, and its database.
fn unready(isolates: bool) -> (Galera, MariaDbDatabase) {
    let galera = Galera::fresh();
    let database = galera.nodes[0].database();
    wait_until("the second node to have the database", || {
        galera.nodes[1].mariadb("show databases").contains(&database.name).then_some(())
    });
    if isolates {
        galera.isolate();
        wait_until("the second node to notice", || (!galera.is_ready()).then_some(()));
    } else {
        galera.reject_queries("ALL");
    }
    (galera, database)
}

fn passes_over(isolates: bool) {
    let (galera, database) = unready(isolates);
    let (place, url) = (Place::new(), url(&galera, &database));
    let run = |arguments: &[&str]| finish(&mut on(&place, &url, arguments));
    run(&["--", "true"]).is_silent_with(0);
    run(&["--at-least", "30s", "--", "true"]).is_silent_with(0);
    run(&["--", "true"]).is_silent_with(75);
    let ask = |what: &str| database.mariadb(&format!("select {what} from shedlock_history where name = 'a'"));
    assert_eq!(ask("group_concat(outcome)"), "success,success");
    let ask = |arguments: &[&str]| finish(place.shedlock(arguments).env("SHEDLOCK_BACKEND", &url));
    assert!(ask(&["status", "a"]).stdout.contains("kept"));
    assert!(ask(&["history", "a"]).stdout.contains("success"));
    let checked = ask(&["check"]);
    assert_eq!(checked.code(), Some(0), "{checked:?}");
    let skipped = format!("127.0.0.1:{} is not ready, and is skipped", galera.nodes[1].port());
    assert!(checked.stdout.contains(&skipped), "{checked:?}");
    // Alone, it is tried again until the time is up.
    let alone = format!("mysql://root@127.0.0.1:{}/{}", galera.nodes[1].port(), database.name);
    let failed = finish(&mut on(&place, &alone, &["--backend-timeout", "500ms", "--", "true"]));
    failed.complains(125, "WSREP has not yet prepared node");
    assert!(
        failed.stderr.contains("hint: the node of the cluster is not ready; name all nodes in the URL"),
        "{failed:?}"
    );
    let checked = finish(place.shedlock(["check"]).env("SHEDLOCK_BACKEND", &alone));
    assert_eq!(checked.code(), Some(1), "{checked:?}");
}

#[test]
fn a_node_that_rejects_queries_is_passed_over() {
    passes_over(false);
}

#[test]
fn a_node_that_was_cut_off_from_its_cluster_is_passed_over() {
    passes_over(true);
}

#[test]
fn a_leased_job_outlives_its_node() {
    let galera = Galera::fresh();
    let database = galera.nodes[1].database();
    let (place, url) = (Place::new(), url(&galera, &database));
    let holder = Holder::start(&place, &mut on(&place, &url, &["--lease", "3s"]), "true");
    let until = || galera.nodes[0].mariadb(&format!("select max(lock_until) from {}.shedlock", database.name));
    let first = until();
    galera.reject_queries("ALL");
    let second = wait_until("a renewal", || Some(until()).filter(|until| *until > first));
    wait_until("another", || (until() > second).then_some(()));
    holder.end().is_silent_with(0);
    let outcome = format!("select outcome from {}.shedlock_history", database.name);
    assert_eq!(galera.nodes[0].mariadb(&outcome), "success");
}
