//! The record of a lock, as it is sent and stored.

use serde_json::Value;

use crate::json::{Fields, Malformed, object};

/// Holds the record of one lock. All times are milliseconds since 1970 by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The owner that holds the lock, or held it last; empty if there was none.
    pub owner: String,
    /// The time of the acquisition; `None` if the store has no time there.
    pub since: Option<u64>,
    /// The end of the lock; `None` is a lock without an end.
    pub until: Option<u64>,
    /// The store's clock when shedlock wrote `until`; `None` if another program wrote that.
    pub set_at: Option<u64>,
    /// The token of the last acquisition.
    pub token: u64,
    /// The last runs, oldest first.
    pub runs: Vec<Run>,
}

/// Holds what is kept of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The run's token.
    pub token: u64,
    /// The run's owner, `HOST:PID:RANDOM`.
    pub owner: String,
    /// The time of its acquisition.
    pub started_at: Option<u64>,
    /// The time of its release; `None` while it runs, or if it never released its lock.
    pub ended_at: Option<u64>,
    /// The exit code of its job.
    pub exit_code: Option<i64>,
    /// How it ended.
    pub outcome: Option<String>,
}

impl Record {
    /// Returns the record as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("owner", self.owner.as_str().into()),
            ("since", self.since.into()),
            ("until", self.until.into()),
            ("set_at", self.set_at.into()),
            ("token", self.token.into()),
            ("runs", self.runs.iter().map(Run::to_json).collect()),
        ])
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        Ok(Self {
            owner: fields.text("owner")?,
            since: fields.optional("since", Fields::number)?,
            until: fields.optional("until", Fields::number)?,
            set_at: fields.optional("set_at", Fields::number)?,
            token: fields.number("token")?,
            runs: fields.list("runs")?.iter().map(Run::from_json).collect::<Result<_, _>>()?,
        })
    }
}

impl Run {
    fn to_json(&self) -> Value {
        object([
            ("token", self.token.into()),
            ("owner", self.owner.as_str().into()),
            ("started_at", self.started_at.into()),
            ("ended_at", self.ended_at.into()),
            ("exit_code", self.exit_code.into()),
            ("outcome", self.outcome.as_deref().into()),
        ])
    }

    fn from_json(value: &Value) -> Result<Self, Malformed> {
        let read = |fields: Fields<'_>| {
            Ok(Self {
                token: fields.number("token")?,
                owner: fields.text("owner")?,
                started_at: fields.optional("started_at", Fields::number)?,
                ended_at: fields.optional("ended_at", Fields::number)?,
                exit_code: fields.optional("exit_code", Fields::signed)?,
                outcome: fields.optional("outcome", Fields::text)?,
            })
        };
        Fields::new(value).and_then(read).map_err(|why: Malformed| Malformed::new(format!("of a run, {why}")))
    }
}
