//! Fills backends. A lock is called `job-000123`; every other one is held. Its runs are on twenty hosts, a minute apart from
//! those of the lock and some milliseconds from those of others, and one in ten has failed.

use std::process::Stdio;
use std::thread;

use serde_json::json;
use servers::stores::{EtcdStore, KubernetesStore, MongoDbStore, Store, ZooKeeperStore};

use super::measure::{SHEDLOCK, command, run};

/// Makes the tables of a database.
fn init(url: &str) {
    let words = [SHEDLOCK, "init", "--backend", url].map(str::to_owned);
    assert!(command(&words).status().unwrap().success());
}

pub(crate) fn sqlite(locks: usize, runs: usize) -> String {
    let url = "sqlite:many.db";
    init(url);
    let minutes = |minutes: &str| format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {minutes} || ' minutes')");
    let numbers = |count: usize| {
        format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {count}) SELECT"
        )
    };
    let sql = format!(
        "BEGIN;
        INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            {} printf('job-%06d', n), {}, {}, printf('web%d.example:%d:%016x', n % 20, n + 1, n) FROM numbers;
        INSERT INTO shedlock_history (name, id, owner, host, started_at, ended_at, exit_code, outcome)
            {} printf('job-%06d', n / {runs}), n, printf('web%d.example:%d:%016x', n % 20, n + 1, n),
            printf('web%d.example', n % 20), {}, {}, n % 10 = 0, iif(n % 10, 'success', 'failure') FROM numbers;
        COMMIT",
        numbers(locks),
        minutes("(n % 2 * 120 - 60)"),
        minutes("-61"),
        numbers(locks * runs),
        minutes(&format!("(n % {runs} - {runs} + n / {runs} / {locks}.0)")),
        minutes(&format!("(n % {runs} - {runs} + n / {runs} / {locks}.0 + 0.1)")),
    );
    rusqlite::Connection::open("many.db").unwrap().execute_batch(&sql).unwrap();
    url.to_owned()
}

pub(crate) fn postgres(locks: usize, runs: usize) -> String {
    let database = servers::postgres().database();
    init(&database.url());
    let begin = format!("now() + (n % {runs} - {runs} + n / {runs} / {locks}.0) * interval '1 minute'");
    database.psql(&format!(
        "SET TIME ZONE 'UTC';
        INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            SELECT 'job-' || lpad(n::text, 6, '0'), now() + (n % 2 * 120 - 60) * interval '1 minute',
            now() - interval '61 minutes', 'web' || n % 20 || '.example:' || n + 1 || ':' || lpad(to_hex(n), 16, '0')
            FROM generate_series(0, {locks} - 1) AS n;
        INSERT INTO shedlock_history (name, owner, host, started_at, ended_at, exit_code, outcome)
            SELECT 'job-' || lpad((n / {runs})::text, 6, '0'),
            'web' || n % 20 || '.example:' || n + 1 || ':' || lpad(to_hex(n), 16, '0'), 'web' || n % 20 || '.example',
            {begin}, {begin} + interval '6 seconds', CASE n % 10 WHEN 0 THEN 1 ELSE 0 END,
            CASE n % 10 WHEN 0 THEN 'failure' ELSE 'success' END FROM generate_series(0, {locks} * {runs} - 1) AS n;
        ANALYZE"
    ));
    database.url()
}

pub(crate) fn mariadb(locks: usize, runs: usize) -> String {
    let database = servers::mariadb().database();
    let numbers = |count: usize| format!("(SELECT CAST(seq AS SIGNED) AS seq FROM seq_0_to_{}) AS numbers", count - 1);
    init(&database.url());
    let begin =
        format!("UTC_TIMESTAMP(3) + INTERVAL (seq % {runs} - {runs}) * 60 + seq DIV {runs} * 60 / {locks} SECOND");
    database.mariadb(&format!(
        "SET time_zone = '+00:00';
        INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            SELECT CONCAT('job-', LPAD(seq, 6, '0')), UTC_TIMESTAMP(3) + INTERVAL seq % 2 * 120 - 60 MINUTE,
            UTC_TIMESTAMP(3) - INTERVAL 61 MINUTE,
            CONCAT('web', seq % 20, '.example:', seq + 1, ':', LPAD(LOWER(HEX(seq)), 16, '0'))
            FROM {};
        INSERT INTO shedlock_history (name, owner, host, started_at, ended_at, exit_code, outcome)
            SELECT CONCAT('job-', LPAD(seq DIV {runs}, 6, '0')),
            CONCAT('web', seq % 20, '.example:', seq + 1, ':', LPAD(LOWER(HEX(seq)), 16, '0')),
            CONCAT('web', seq % 20, '.example'), {begin}, {begin} + INTERVAL 6 SECOND, seq % 10 = 0,
            IF(seq % 10, 'success', 'failure') FROM {}",
        numbers(locks),
        numbers(locks * runs)
    ));
    database.url()
}

/// Writes the locks from ARGV[1] to ARGV[2], of ARGV[3], each with ARGV[4] runs. Redis' Lua has no dates, so the script begins
/// with a table of them, `MINUTES`.
const REDIS: &str = r#"
local runs = tonumber(ARGV[4])
for lock = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local key = string.format('job-lock:default:job-%06d', lock)
  for run = 1, runs do
    local token = lock * runs + run
    local host = 'web' .. token % 20 .. '.example'
    local began = MINUTES[runs - run] .. string.format(':%06.3f', lock * 54 / ARGV[3])
    local ended = MINUTES[runs - run] .. string.format(':%06.3f', lock * 54 / ARGV[3] + 5)
    redis.call('ZADD', '{' .. key .. '}:history', token, string.format(
      '{"token":%d,"owner":"%s:%d:%016x","host":"%s","started_at":"%sZ","ended_at":"%sZ","exit_code":%d,"outcome":"%s"}',
      token, host, token, token, host, began, ended, token % 10 == 0 and 1 or 0, token % 10 == 0 and 'failure' or 'success'))
  end
  redis.call('SET', '{' .. key .. '}:token', lock * runs + runs)
  if lock % 2 == 1 then
    redis.call('SET', key, 'ADDED:' .. MINUTES[0] .. ':00.000Z@java-' .. lock, 'PX', 3600000)
  end
end
"#;

pub(crate) fn redis(locks: usize, runs: usize) -> String {
    let database = servers::redis().database();
    let now = std::time::SystemTime::now();
    let minute = |back: u64| {
        let time = now - std::time::Duration::from_secs(back * 60);
        format!("'{}'", &humantime::format_rfc3339_millis(time).to_string()[.."2026-01-31T18:00".len()])
    };
    let minutes: Vec<String> = (0..runs as u64).map(|run| format!("[{run}]={}", minute(run + 1))).collect();
    let script = format!("local MINUTES = {{{}}}\n{REDIS}", minutes.join(","));
    let stride = (100_000 / runs).max(1);
    for first in (0..locks).step_by(stride) {
        let last = (first + stride).min(locks) - 1;
        let numbers = [first, last, locks, runs].map(|number| number.to_string());
        let arguments: Vec<&str> =
            ["eval", &script, "0"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        database.cli(&arguments);
    }
    database.url()
}

/// Operations in one transaction; etcd takes 128.
const OPERATIONS: usize = 120;

pub(crate) fn etcd(locks: usize, runs: usize) -> String {
    let (store, client) = (EtcdStore::new(), servers::etcd().client());
    let url = store.url();
    let environment = url.split_once("environment=").unwrap().1;
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let now = std::time::SystemTime::now();
    let time =
        |back: f64| humantime::format_rfc3339_millis(now - std::time::Duration::from_secs_f64(back * 60.0)).to_string();
    let put = |key: &str, value: &str| json!({"request_put": {"key": encode(key), "value": encode(value)}});
    let owner = |n: usize| format!("web{}.example:{}:{n:016x}", n % 20, n + 1);
    let mut puts = Vec::new();
    let send = |puts: &mut Vec<serde_json::Value>| client.ask("kv/txn", &json!({"success": std::mem::take(puts)}));
    // The token is the revision of the store, so the older runs come first.
    for n in 0..locks * runs {
        let (lock, run) = (n % locks, n / locks);
        let back = (runs - run + 1) as f64 - lock as f64 / locks as f64;
        let failed = n % 10 == 0;
        let record = json!({
            "started_at": time(back), "ended_at": time(back - 0.1), "exit_code": i32::from(failed),
            "outcome": if failed { "failure" } else { "success" },
        });
        puts.push(put(
            &format!("shedlock-history:{environment}:job-{lock:06}\0{n:020}\0{}", owner(n)),
            &record.to_string(),
        ));
        if run == 0 {
            let state = json!({"owner": owner(n), "since": time(61.0), "until": time(60.0), "run": n});
            puts.push(put(&format!("shedlock-state:{environment}:job-{lock:06}"), &state.to_string()));
        }
        if puts.len() + 1 >= OPERATIONS {
            send(&mut puts);
        }
    }
    send(&mut puts);
    url
}

pub(crate) fn zookeeper(locks: usize, runs: usize) -> String {
    by_running(&ZooKeeperStore::new(), locks, runs)
}

pub(crate) fn kubernetes(locks: usize, runs: usize) -> String {
    by_running(&KubernetesStore::new(), locks, runs)
}

pub(crate) fn mongodb(locks: usize, runs: usize) -> String {
    by_running(&MongoDbStore::new(), locks, runs)
}

/// Fills a store as jobs would.
fn by_running(store: &dyn Store, locks: usize, runs: usize) -> String {
    let url = store.url();
    let workers = thread::available_parallelism().unwrap().get();
    thread::scope(|scope| {
        for worker in 0..workers {
            let url = &url;
            scope.spawn(move || {
                for lock in (worker..locks).step_by(workers) {
                    for round in 0..runs {
                        let job = if round % 10 == 0 { "false" } else { "true" };
                        let words = run(url, &format!("job-{lock:06}"), &[job]);
                        let code = command(&words).stderr(Stdio::inherit()).status().unwrap().code();
                        assert_eq!(code, Some(i32::from(round % 10 == 0)));
                    }
                }
            });
        }
    });
    url
}
