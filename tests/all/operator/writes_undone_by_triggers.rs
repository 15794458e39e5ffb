//! Tables that take every statement and keep their rows as they were: the commands that change a lock do not say that they did.

use crate::support::per_backend::Site;
use crate::support::{Finished, finish};
use servers::stores::{MariaDbStore, PostgresStore, Store};
use servers::unique;

/// The lock `job`, and the users with this URL who would change it.
struct Case<S> {
    site: Site<S>,
    url: String,
}

impl<S: Store> Case<S> {
    fn shedlock(&self, words: &[&str]) -> Finished {
        finish(self.site.shedlock(words).env("SHEDLOCK_BACKEND", &self.url))
    }

    #[track_caller]
    fn does(&self, words: &[&str]) {
        let finished = self.shedlock(words);
        assert_eq!((finished.code(), &finished.stderr[..]), (Some(0), ""), "{words:?}");
    }

    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        let before = self.site.stored("job");
        let finished = self.shedlock(words);
        finished.complains(125, "the backend did not change the lock `job` as requested: it is ");
        assert!(
            finished.stderr.contains("\nhint: a trigger or row security on the table may cause this"),
            "{finished:?}"
        );
        assert_eq!((self.site.stored("job").until, &finished.stdout[..]), (before.until, ""), "{words:?}");
    }

    /// Runs each command in turn, while the table is spoilt and after it was mended.
    fn tells_the_truth(&self, spoil: &str, mend: &str) {
        println!("{spoil}");
        self.does(&["run", "--name", "job", "--at-most", "1m", "--at-least", "1m", "true"]);
        self.site.store.carry_out(spoil);
        self.refuses(&["pause", "job"]);
        self.refuses(&["unlock", "job", "--force"]);
        self.site.store.carry_out(mend);
        self.does(&["pause", "job"]);
        self.site.store.carry_out(spoil);
        self.refuses(&["resume", "job"]);
        self.refuses(&["unlock", "job", "--force"]);
        self.site.store.carry_out(mend);
        self.does(&["resume", "job"]);
        self.does(&["unlock", "job", "--force"]);
        assert!(!self.site.is_held("job"));
    }
}

#[test]
fn on_postgres_triggers_and_row_security_are_seen() {
    for (spoil, mend) in [
        (
            "create function meddle() returns trigger language plpgsql as 'begin return null; end'; \
             create trigger meddle before update on shedlock for each row execute function meddle()",
            "drop trigger meddle on shedlock; drop function meddle",
        ),
        (
            "create function meddle() returns trigger language plpgsql as 'begin return old; end'; \
             create trigger meddle before update on shedlock for each row execute function meddle()",
            "drop trigger meddle on shedlock; drop function meddle",
        ),
        (
            "alter table shedlock enable row level security; create policy seen on shedlock for select using (true)",
            "drop policy seen on shedlock; alter table shedlock disable row level security",
        ),
    ] {
        let (site, clerk) = (Site::new(PostgresStore::new()), unique("clerk"));
        finish(&mut site.run("other", &["true"])).is_silent_with(0);
        site.store.carry_out(&format!(
            "create role {clerk} login; grant all on shedlock, shedlock_history, shedlock_history_id_seq to {clerk}"
        ));
        let url = site.store.0.login(&clerk).url();
        Case { site, url }.tells_the_truth(spoil, mend);
    }
}

#[test]
fn on_mariadb_triggers_are_seen() {
    let site = Site::new(MariaDbStore::new());
    let case = Case { url: site.store.url(), site };
    case.does(&["run", "--name", "other", "--at-most", "1m", "true"]);
    let [end, rest] =
        ["new.lock_until = old.lock_until", "new.locked_by = old.locked_by, new.locked_at = old.locked_at"];
    let meddle = |what: &str| format!("create trigger meddle before update on shedlock for each row set {what}");
    case.tells_the_truth(&meddle(&format!("{end}, {rest}")), "drop trigger meddle");
    // The owner is another then, and the lock is not free.
    case.does(&["pause", "job"]);
    case.site.store.carry_out(&meddle(end));
    case.refuses(&["resume", "job"]);
    case.refuses(&["unlock", "job", "--force"]);
}
