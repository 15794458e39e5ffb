//! Real servers that break a rule, by scripts that were changed on their way, by eviction, by a restart without their data, or by their clock; and a proxy before a
//! real one. Every rule is seen broken.

use servers::{Deed, Etcd, Front, Postgres, Redis, Rewriter};

use super::{Report, command, prove};
use crate::support::{Place, finish, start};

/// The rule of each test, so that none is forgotten.
const SEEN: &[(&str, &str)] = &[
    ("one holder", "two_that_are_both_granted_the_lock_are_found"),
    ("taken again", "an_owner_that_is_refused_its_own_lock_is_found"),
    ("expiry", "locks_that_free_too_early_are_found"),
    ("renewal", "renewals_that_shorten_are_found"),
    ("late owner", "late_owners_that_harm_the_next_one_are_found"),
    ("release", "locks_that_are_not_kept_are_found"),
    ("token", "tokens_that_repeat_are_found"),
    ("cut off", "requests_that_are_carried_out_after_they_were_undone_are_found"),
    ("skip", "refusals_that_name_another_holder_are_found"),
    ("clock", "a_clock_that_jumps_is_found"),
    ("record", "a_history_that_tells_another_end_is_found"),
];

#[test]
fn every_rule_is_seen_broken() {
    let place = Place::new();
    let report = prove(&place, &format!("sqlite:{}", place.path("locks.db").display()), &["--for", "1s"]);
    let mut rules = report.subjects();
    rules.retain(|subject| *subject != "backend");
    let seen: Vec<&str> = SEEN.iter().map(|(subject, _)| *subject).collect();
    assert_eq!(rules, seen);
    let source = include_str!("broken_servers.rs");
    assert!(SEEN.iter().all(|(_, test)| source.contains(&format!("fn {test}()"))));
}

/// Proves a Redis whose scripts were changed on their way: each text into another.
fn with_scripts(changes: &[(&str, &str)]) -> Report {
    let scripts = [
        include_str!("../../../../src/backend/redis/acquire.lua"),
        include_str!("../../../../src/backend/redis/renew.lua"),
        include_str!("../../../../src/backend/redis/release.lua"),
        include_str!("../../../../src/backend/redis/close.lua"),
    ];
    for (from, _) in changes {
        assert!(scripts.iter().any(|script| script.contains(from)), "no script has {from}");
    }
    // A server that has never seen the scripts as they are.
    let server = Redis::fresh(&[]);
    let front = Rewriter::new(server.port(), changes);
    let url = server.database().url().replace(&server.port().to_string(), &front.port().to_string());
    prove(&Place::new(), &url, &["--for", "10s"])
}

#[test]
fn two_that_are_both_granted_the_lock_are_found() {
    let report = with_scripts(&[("if value and owner ~= caller and not is_over then", "if false then")]);
    report.is_broken("one holder");
    let (_, worst) = report.line("one holder");
    assert!(worst.contains(" held it from ") && worst.contains(" s to ") && worst.matches(":").count() >= 4, "{worst}");
}

#[test]
fn an_owner_that_is_refused_its_own_lock_is_found() {
    with_scripts(&[("if value and owner ~= caller and not is_over then", "if value and not is_over then")])
        .is_broken("taken again");
}

#[test]
fn locks_that_free_too_early_are_found() {
    let report = with_scripts(&[("'@' .. caller, 'PX', lease_ms)", "'@' .. caller, 'PX', whole(lease_ms / 2))")]);
    report.is_broken("expiry");
    let (_, worst) = report.line("expiry");
    assert!(worst.contains("before its time") || worst.contains("earlier"), "{worst}");
}

#[test]
fn locks_that_free_late_are_remarked_upon() {
    let report = with_scripts(&[("'@' .. caller, 'PX', lease_ms)", "'@' .. caller, 'PX', whole(lease_ms + 3500))")]);
    let (grade, seen) = report.line("expiry");
    assert!(grade == "unwise" && seen.contains("after its time"), "{:?}", report.finished);
}

#[test]
fn renewals_that_shorten_are_found() {
    with_scripts(&[("whole(math.max(left, tonumber(lease_ms)))", "whole(150)")]).is_broken("renewal");
}

/// As a proxy does that answers a write from a cache.
#[test]
fn renewals_that_are_answered_and_not_carried_out_are_found() {
    with_scripts(&[("redis.call('PEXPIRE', lock_key, whole(math.max(left, tonumber(lease_ms))))", "")])
        .is_broken("renewal");
}

#[test]
fn late_owners_that_harm_the_next_one_are_found() {
    with_scripts(&[
        ("elseif owner == caller then", "elseif value then"),
        ("if owner ~= caller then", "if not value then"),
    ])
    .is_broken("late owner");
}

#[test]
fn locks_that_are_not_kept_are_found() {
    with_scripts(&[("local rest = math.min", "local rest = -1e9 + math.min")]).is_broken("release");
}

#[test]
fn releases_that_are_answered_and_not_carried_out_are_found() {
    let report = with_scripts(&[("redis.call('DEL', lock_key)", "")]);
    report.is_broken("release");
}

#[test]
fn releases_that_are_carried_out_and_answered_lost_are_found() {
    let report = with_scripts(&[("return was_held", "return 0")]);
    assert_eq!(report.finished.code(), Some(1), "{:?}", report.finished);
}

#[test]
fn tokens_that_repeat_are_found() {
    with_scripts(&[("math.max(tonumber(last) + 1, now)", "7")]).is_broken("token");
}

/// The relay delivers late what it kept; here nothing makes it void.
#[test]
fn requests_that_are_carried_out_after_they_were_undone_are_found() {
    with_scripts(&[("if mark_key and try('GET', mark_key) then", "if false then")]).is_broken("cut off");
}

#[test]
fn refusals_that_name_another_holder_are_found() {
    let wrong = "return {0, now, left, 'ADDED:' .. iso(now) .. '@web9:1:0000000000000001'}";
    with_scripts(&[("return {0, now, left, value}", wrong)]).is_broken("skip");
}

#[test]
fn a_history_that_tells_another_end_is_found() {
    with_scripts(&[(".. ending .. '}'", ".. string.gsub(ending, 'success', 'failure') .. '}'")]).is_broken("record");
}

/// shedlock itself compares what a table has stored with what it asked for.
#[test]
fn a_trigger_that_shortens_locks_is_an_error() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let run = ["run", "--name", "job", "--at-most", "1m", "true"];
    finish(place.shedlock(run).env("SHEDLOCK_BACKEND", database.url())).is_silent_with(0);
    database.psql(
        "create function meddle() returns trigger language plpgsql as $$ begin \
         new.lock_until = new.locked_at + interval '700 ms'; return new; end $$; \
         create trigger meddle before insert or update on shedlock for each row execute function meddle()",
    );
    let mut command = command(&place, &database.url(), &["--for", "10s"]);
    finish(&mut command).complains(125, "stores an earlier end of the lock than requested");
}

#[test]
fn a_clock_that_jumps_is_found() {
    let server = Postgres::with_moving_clock();
    let (place, database) = (Place::new(), server.database());
    let running = start(command(&place, &database.url(), &["--for", "10s"]).stdout(std::process::Stdio::piped()));
    let takings = || {
        database
            .try_psql("select count(*) from shedlock_history")
            .is_ok_and(|count| count.parse::<u32>().is_ok_and(|count| count > 40))
            .then_some(())
    };
    crate::support::wait_until("a lock is taken", takings);
    server.set_clock("+1h");
    let report = Report::of(running.wait_with_output().unwrap().into());
    report.is_broken("clock");
    let (_, seen) = report.line("clock");
    assert!(seen.contains("jumped ahead by 1h"), "{seen}");
}

#[test]
fn a_clock_that_runs_fast_is_found() {
    let server = Postgres::with_clock("+0 x1.1");
    let (place, database) = (Place::new(), server.database());
    let report = prove(&place, &database.url(), &["--for", "10s"]);
    report.is_broken("clock");
    let (_, seen) = report.line("clock");
    assert!(seen.contains("ahead in") && seen.contains(" %"), "{seen}");
}

#[test]
fn a_redis_that_evicts_is_found() {
    let server = Redis::fresh(&["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"]);
    let (place, database) = (Place::new(), server.database());
    let running = start(command(&place, &database.url(), &["--for", "10s"]).stdout(std::process::Stdio::piped()));
    let value = "x".repeat(20_000);
    let script = "for i = 1, 40 do redis.call('set', 'filler' .. ARGV[2] .. ':' .. i, ARGV[1]) end";
    let mut turn = 0;
    let mut running = running;
    while running.try_wait().unwrap().is_none() {
        turn += 1;
        let _ = database.try_cli(&["eval", script, "0", &value, &turn.to_string()]);
    }
    let report = Report::of(running.wait_with_output().unwrap().into());
    assert_eq!(report.finished.code(), Some(1), "{:?}", report.finished);
    assert!(report.forgotten() > 0, "{:?}", report.finished);
}

#[test]
fn a_redis_that_restarts_without_its_data_is_found() {
    let server = Redis::fresh(&["--save", "", "--appendonly", "no"]);
    let (place, database) = (Place::new(), server.database());
    let running = start(command(&place, &database.url(), &["--for", "12s"]).stdout(std::process::Stdio::piped()));
    // Two that have some time left: one of them is no racer's, and is not released at once.
    let script = "local all = 0; for _, key in ipairs(redis.call('keys', 'job-lock:*prove*')) do \
                  if not string.find(key, '-0$') and redis.call('pttl', key) > 800 then all = all + 1 end end return all";
    let held = || {
        database
            .try_cli(&["eval", script, "0"])
            .is_ok_and(|count| count.trim().parse::<u32>().is_ok_and(|count| count > 1))
            .then_some(())
    };
    for _ in 0..3 {
        crate::support::wait_until("two locks are held", held);
        server.kill();
        server.start();
    }
    let report = Report::of(running.wait_with_output().unwrap().into());
    assert_eq!(report.finished.code(), Some(1), "{:?}", report.finished);
    assert!(report.forgotten() > 0 && report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
}

#[test]
fn a_store_that_ignores_the_version_lets_two_hold_a_lock() {
    let server = Etcd::fresh();
    let front = Front::new("127.0.0.1", server.port());
    front.set_plan(|path, body| {
        let mut json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let compared = json.as_object_mut().and_then(|request| request.remove("compare"));
        if path.ends_with("/kv/txn") && compared.is_some() { Deed::Rewritten(json.to_string()) } else { Deed::Pass }
    });
    let place = Place::new();
    let report = prove(&place, &format!("etcd://127.0.0.1:{}", front.port()), &["--for", "10s"]);
    report.is_broken("one holder");
    let (_, worst) = report.line("one holder");
    assert!(worst.contains(" held it from ") && worst.contains(" s to "), "{worst}");
}

/// FerretDB, which a run refuses by its name, by another one.
#[cfg(feature = "provider")]
#[test]
fn ferretdb_lets_two_hold_a_lock() {
    let server = servers::MongoDb::ferretdb();
    let disguise = servers::Disguise::new(server.port(), "ferretdbVersion", "somebodyVersion");
    let report = prove(&Place::new(), &format!("mongodb://127.0.0.1:{}/locks", disguise.port()), &["--for", "10s"]);
    report.is_broken("one holder");
    let (_, worst) = report.line("one holder");
    assert!(worst.contains(" held it from ") && worst.contains(" s to "), "{worst}");
}
