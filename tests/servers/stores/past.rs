//! Long histories, written by another party: shedlock itself would take an hour.

use super::super::MariaDbDatabase;
use super::{MariaDbStore, PostgresStore, RedisStore, SqliteStore, Store};

/// A store whose history has no bound but the number of runs that are to be kept.
pub trait Past: Store {
    /// Adds runs to a lock that has had one: from 2026-01-01 on one each second, each for a second, with the owners
    /// `host:1:0000000000000001` and so on, in hexadecimal.
    fn add_runs(&self, name: &str, count: u64);
}

impl Past for SqliteStore {
    fn add_runs(&self, name: &str, count: u64) {
        let time = |shift| format!("strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', (n + {shift}) || ' seconds')");
        self.carry_out(&format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
             INSERT INTO shedlock_history SELECT n, '{name}', printf('host:1:%016x', n), 'host', {}, {}, 0, 'success' \
             FROM numbers",
            time(0),
            time(1)
        ));
    }
}

impl Past for PostgresStore {
    fn add_runs(&self, name: &str, count: u64) {
        self.0.psql(&format!(
            "insert into shedlock_history select 1000000 + n, '{name}', 'host:1:' || lpad(to_hex(n), 16, '0'), 'host', \
             timestamp '2026-01-01' + n * interval '1 second', timestamp '2026-01-01' + (n + 1) * interval '1 second', \
             0, 'success' from generate_series(1, {count}) as n"
        ));
    }
}

impl Past for MariaDbStore {
    fn add_runs(&self, name: &str, count: u64) {
        self.0.mariadb(&format!(
            "insert into shedlock_history select 1000000 + seq, '{name}', concat('host:1:', lower(lpad(hex(seq), 16, '0'))), \
             'host', '2026-01-01' + interval seq second, '2026-01-01' + interval seq + 1 second, 0, 'success' \
             from {}",
            MariaDbDatabase::numbers(count)
        ));
    }
}

impl Past for RedisStore {
    fn add_runs(&self, name: &str, count: u64) {
        let script = "for n = 1, tonumber(ARGV[2]) do \
            local function time(n) \
              return string.format('2026-01-%02dT%02d:%02d:%02d.000Z', 1 + math.floor(n / 86400), \
                math.floor(n / 3600) % 24, math.floor(n / 60) % 60, n % 60) end \
            redis.call('ZADD', KEYS[1], n, string.format('{\"token\":%d,\"name\":%s,\"owner\":\"host:1:%016x\",\"host\":\"host\",' \
              .. '\"started_at\":\"%s\",\"ended_at\":\"%s\",\"exit_code\":0,\"outcome\":\"success\"}', \
              n, cjson.encode(ARGV[1]), n, time(n), time(n + 1))) end";
        let key = format!("{{{}}}:history", self.key(name));
        self.database.cli(&["eval", script, "1", &key, name, &count.to_string()]);
    }
}
