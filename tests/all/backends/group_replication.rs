//! A group of MySQL servers: of racing runs on two members one gets the lock, and a member that has left the group is passed
//! over, as a read-only server is.

use std::process::Command;

use crate::support::fixtures::Holder;
use crate::support::{Place, finish, finish_child, start, wait_until};
use servers::{Group, MariaDbDatabase};

/// Returns a database that both members have.
fn shared(group: &Group) -> MariaDbDatabase {
    let database = group.members[0].database();
    wait_until("the second member to have the database", || {
        group.members[1].mariadb("show databases").contains(&database.name).then_some(())
    });
    database
}

fn url(group: &Group, database: &MariaDbDatabase, members: &[usize]) -> String {
    let hosts: Vec<String> = members.iter().map(|at| format!("127.0.0.1:{}", group.members[*at].port())).collect();
    format!("mysql://root@{}/{}", hosts.join(","), database.name)
}

fn on(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, ["-E", "75"]);
    command.args(arguments).env("SHEDLOCK_BACKEND", url);
    command
}

#[test]
fn of_runs_that_race_on_two_members_one_gets_the_lock() {
    let group = Group::fresh();
    let database = shared(&group);
    let place = Place::new();
    let urls = [url(&group, &database, &[0]), url(&group, &database, &[1])];
    finish(&mut on(&place, &urls[0], "warm", &["--", "true"])).is_silent_with(0);
    for round in 0..5 {
        let name = format!("race-{round}");
        let job = ["--at-least", "1m", "--", "sh", "-c", "echo ran >> ran"];
        let racers: Vec<_> = (0..8).map(|racer| start(&mut on(&place, &urls[racer % 2], &name, &job))).collect();
        let mut codes: Vec<_> = racers.into_iter().map(|racer| finish_child(racer).code()).collect();
        codes.sort();
        assert_eq!(codes, [&[Some(0)][..], &[Some(75); 7]].concat(), "{name}");
        assert_eq!(place.lines("ran").len(), round + 1, "{name}");
    }
}

#[test]
fn a_member_that_has_left_the_group_is_passed_over() {
    let group = Group::fresh();
    let database = shared(&group);
    group.leave();
    let place = Place::new();
    finish(&mut on(&place, &url(&group, &database, &[1, 0]), "a", &["--", "true"])).is_silent_with(0);
    finish(&mut on(&place, &url(&group, &database, &[1]), "a", &["--", "true"])).complains(125, "super-read-only");
}

#[test]
fn a_leased_job_outlives_its_member() {
    let group = Group::fresh();
    let database = shared(&group);
    let (place, url) = (Place::new(), url(&group, &database, &[1, 0]));
    let holder = Holder::start(&place, &mut on(&place, &url, "a", &["--lease", "6s"]), "true");
    let until = || group.members[0].mariadb(&format!("select max(lock_until) from {}.shedlock", database.name));
    let first = until();
    group.leave();
    let second = wait_until("a renewal", || Some(until()).filter(|until| *until > first));
    wait_until("another", || (until() > second).then_some(()));
    holder.end().is_silent_with(0);
    let outcome = format!("select outcome from {}.shedlock_history", database.name);
    assert_eq!(group.members[0].mariadb(&outcome), "success");
}
