//! Whether this host can lock here, one thing after the other.

mod table;

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::session::Failure;
use super::{Postgres, trouble};
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::tls::Mode;
use crate::backend::{Finding, Reached, Trouble};

/// Who we are and what the server is. All answers are text.
const ABOUT: &str = "SELECT current_user::text, current_database()::text, version(), \
    current_setting('server_version_num'), pg_is_in_recovery()::text, current_setting('transaction_read_only'), \
    current_setting('synchronous_commit')";

const ENCRYPTION: &str = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";

const CLOCK: &str = "SELECT (date_part('epoch', clock_timestamp()) * 1000000::float8)::int8::text";

/// To the console of PgBouncer.
const POOLER: &str = "SHOW VERSION";
const POOLER_CONFIG: &str = "SHOW CONFIG";

/// Of earlier servers the statements are not understood.
const OLDEST: u32 = 120_000;

/// No answer is waited for less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// What a server said of itself.
struct About {
    version: String,
    number: u32,
    standby: bool,
    read_only: bool,
    commits: String,
}

/// What stands between us and the server.
enum Between {
    Nothing,
    /// PgBouncer, with its settings if it says them.
    Pooler(Option<Pooler>),
}

/// The settings of PgBouncer that matter.
struct Pooler {
    /// How it shares its connections.
    mode: String,
    /// For how many seconds it refuses everybody after it found the server away.
    retry: Option<f64>,
}

impl Postgres {
    /// Tries what a run needs.
    pub(super) fn probe(&mut self, tell: Tell<'_>) -> Reached {
        let distance = self.servers.look(tell);
        if distance == Distance::Unreached {
            return Reached::No;
        }
        self.servers.make_one_attempt();
        match self.servers.connect() {
            Ok(session) => self.session = Some(session),
            Err(trouble) => {
                tell(Finding::of_trouble(probe::subject(&trouble), trouble));
                return Reached::No;
            }
        }
        match self.probe_server(distance, tell) {
            Ok(reached) => reached,
            Err(trouble) => {
                tell(Finding::of_trouble("server", trouble));
                Reached::No
            }
        }
    }

    /// The error is that the server does not answer any more.
    fn probe_server(&mut self, distance: Distance, tell: Tell<'_>) -> Result<Reached, Trouble> {
        let between = self.between();
        if let Some(rows) = probe::if_told("TLS", self.text(ENCRYPTION, &[]), tell)? {
            let version = rows.into_iter().flatten().flatten().next();
            tell(self.judge_tls(&between, version.as_deref(), distance));
        }
        let mut about = self.about(tell)?;
        for _ in 1..self.servers.count() {
            if !about.standby && (!about.read_only || self.why_read_only()?.is_some()) {
                break;
            }
            tell(Finding::good("writable", format!("{} can only be read, and is passed over", self.servers.first())));
            self.disconnect_now();
            self.servers.pass_over();
            about = self.about(tell)?;
        }
        tell(judge_version(&about));
        probe::clock(|| self.clock(), tell)?;
        let writing = self.judge_writing(&about)?;
        let reached = probe::reached(&writing);
        tell(writing);
        tell_pooler(&between, self.patience, tell);
        if reached == Reached::Yes {
            let told = self.probe_tables(tell);
            probe::if_told("table", told, tell)?;
        }
        Ok(reached)
    }

    /// `version` is that of TLS as the server sees it, which behind a pooler is another connection than ours.
    fn judge_tls(&self, between: &Between, version: Option<&str>, distance: Distance) -> Finding {
        let wanted = self.servers.tls();
        match (between, wanted.mode) {
            (Between::Nothing, _) => probe::tls(Some(wanted), version, distance),
            (Between::Pooler(_), Mode::Disable) => probe::tls(Some(wanted), None, distance),
            (Between::Pooler(_), Mode::Require | Mode::VerifyCa | Mode::VerifyFull) => {
                probe::tls(Some(wanted), Some("on"), distance)
            }
            (Between::Pooler(_), Mode::Allow | Mode::Prefer) if distance == Distance::Here => {
                Finding::good("TLS", "if the pooler has it; the connection stays on this machine")
            }
            (Between::Pooler(_), Mode::Allow | Mode::Prefer) => Finding::unwise(
                "TLS",
                "if the pooler has it, and not verified: anybody in between could pass for it",
                "write sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
            ),
        }
    }

    /// Logs in if need be, and asks who we are.
    fn about(&mut self, tell: Tell<'_>) -> Result<About, Trouble> {
        let rows = self.text(ABOUT, &[])?;
        let mut row = rows.into_iter().next().unwrap_or_default().into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let (user, database) = (next(), next());
        tell(Finding::good("login", format!("as {user} to the database {database}")));
        Ok(About {
            version: next(),
            number: next().parse().unwrap_or_default(),
            standby: next() == "true",
            read_only: next() == "on",
            commits: next(),
        })
    }

    /// Also tells a role that may only read from a server that can only be read.
    fn judge_writing(&mut self, about: &About) -> Result<Finding, Trouble> {
        if about.read_only
            && !about.standby
            && let Some(trouble) = self.why_read_only()?
        {
            return Ok(Finding::of_trouble("writable", trouble));
        }
        Ok(judge_writing(about))
    }

    fn why_read_only(&mut self) -> Result<Option<Trouble>, Trouble> {
        let limit = self.limit();
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let trouble = self.only_reads(&mut session, limit);
        self.session = Some(session);
        Ok(trouble)
    }

    fn clock(&mut self) -> Result<u64, Trouble> {
        let rows = self.text(CLOCK, &[])?;
        let text = rows.into_iter().flatten().flatten().next().unwrap_or_default();
        text.parse().map_err(|_| Trouble::lasting(format!("the server's time is `{text}`, which is no number")))
    }

    /// Asks for a pooler's console. A server has no such database and says so; what else it may say tells nothing.
    fn between(&mut self) -> Between {
        let mut session = match self.servers.connect_to_console() {
            Ok(session) => session,
            Err(trouble) if trouble.message.contains("not allowed") || trouble.message.contains("admin") => {
                return Between::Pooler(None);
            }
            Err(_) => return Between::Nothing,
        };
        let limit = self.limit();
        let is_pooler = session.ask(POOLER, limit).is_ok_and(|rows| {
            rows.first().and_then(|row| row.get(0)).is_some_and(|version| version.contains("PgBouncer"))
        });
        if !is_pooler {
            return Between::Nothing;
        }
        let rows = session.ask(POOLER_CONFIG, limit).unwrap_or_default();
        let value = |key| rows.iter().find(|row| row.get(0) == Some(key)).and_then(|row| row.get(1));
        let retry = value("server_login_retry").and_then(|secs| secs.parse().ok());
        let pooler = value("pool_mode").map(|mode| Pooler { mode: mode.to_owned(), retry });
        session.close();
        Between::Pooler(pooler)
    }

    /// Asks for rows of texts.
    fn text(&mut self, statement: &str, values: &[&str]) -> Result<Vec<Vec<Option<String>>>, Trouble> {
        let limit = self.limit();
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
        let answer = session.query(statement, &values, limit);
        if answer.as_ref().err().is_none_or(trouble::is_answer) && !session.is_over() {
            self.session = Some(session);
        }
        let rows = answer.map_err(|failure| self.explain(&failure))?;
        let read = |row: &tokio_postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| self.explain(&Failure::Said(error)))
    }

    fn limit(&self) -> Duration {
        self.patience.max(SHORTEST)
    }

    fn disconnect_now(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }
}

fn judge_version(about: &About) -> Finding {
    let version = about.version.split(" on ").next().unwrap_or_default();
    match about.number < OLDEST {
        false => Finding::good("version", version),
        true => Finding::bad("version", version, "locks need PostgreSQL 12 or later"),
    }
}

fn judge_writing(about: &About) -> Finding {
    if about.standby {
        return Finding::bad(
            "writable",
            "the server is a standby and can only be read",
            "name the primary, or all servers with commas between them: postgres://USER@HOST,HOST/DATABASE",
        );
    }
    if about.read_only {
        let advice = "set default_transaction_read_only off, for the server, the database or the role";
        return Finding::bad("writable", "transactions can only read here", advice);
    }
    match about.commits.as_str() {
        "off" => Finding::unwise(
            "writable",
            "yes, but with synchronous_commit=off: a crash of the server forgets what was locked just before",
            "add options=-csynchronous_commit%3Don to the URL, or set it for the role",
        ),
        _ => Finding::good("writable", "the server takes changes"),
    }
}

fn tell_pooler(between: &Between, patience: Duration, tell: Tell<'_>) {
    let Between::Pooler(pooler) = between else { return };
    let Some(Pooler { mode, retry }) = pooler else {
        let seen = "PgBouncer is in between, and every operation is one statement; a server that was away it may refuse \
                    for longer than --backend-timeout (server_login_retry)";
        return tell(Finding::good("pooler", seen));
    };
    let seen = format!("PgBouncer is in between, in {mode} mode, and every operation is one statement");
    tell(match retry.filter(|retry| *retry >= patience.as_secs_f64()) {
        None => Finding::good("pooler", seen),
        Some(retry) => Finding::unwise(
            "pooler",
            format!("{seen}; after the server was away it refuses for {retry} s (server_login_retry)"),
            "set server_login_retry in pgbouncer.ini to less than --backend-timeout, such as 1",
        ),
    });
}
