//! The answers, as a provider sends them.

use serde_json::{Value, json};

use crate::json::{Fields, Malformed, object};
use crate::record::Record;

/// Answers `open`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The name of the backend in messages, without a password.
    pub label: String,
    /// How coarse the store's clock is, in milliseconds: the true time is at most this much later than `now` of an answer.
    pub grain: u64,
    /// The most runs that a record is to keep.
    pub runs: u32,
    /// The name and the version of the provider, as `shedlock check` shows it.
    pub version: Option<String>,
}

impl Default for Opened {
    /// Returns the answer for a store whose clock counts milliseconds, and whose records keep 100 runs.
    fn default() -> Self {
        Self { label: String::new(), grain: 1, runs: 100, version: None }
    }
}

/// Answers `read`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// The store's clock, read with the record or before it: the earliest time that it can be.
    pub now: u64,
    /// The smallest token that an acquisition may get, from a number of the store that only grows; 0 if it has none.
    pub floor: u64,
    /// The record with its version; `None` if the store has none.
    pub found: Option<(String, Record)>,
}

/// Answers `write`: false if the store does not have the version any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written(pub bool);

/// Answers `remove`: false if the store does not have the version any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed(pub bool);

/// Answers `list`: a lock, or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A lock with its record.
    Lock(String, Record),
    /// The end of the list, with the store's clock.
    End {
        /// The earliest time that it can be.
        now: u64,
    },
}

/// Answers `make`: a line for each thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made(pub Vec<String>);

/// Answers `schema`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(pub String);

/// Says what `check` found about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Says whether it is good.
    pub grade: Grade,
    /// The thing that was checked, in a word or two.
    pub subject: String,
    /// The result.
    pub text: String,
    /// The remedy, if it is not good.
    pub advice: Option<String>,
}

/// Grades a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// As it should be.
    Good,
    /// Locks work, and something may go wrong later.
    Unwise,
    /// Locks do not work, or not reliably.
    Bad,
}

/// Answers any request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// Says what is wrong, as an operator would, without a password.
    pub error: String,
    /// Says whether it may go away by itself.
    pub class: Class,
    /// False: surely nothing was carried out.
    pub sent: bool,
    /// The way out, if there is one to tell.
    pub hint: Option<String>,
    /// The store refuses the user or the password: shedlock reads a URL in a file once more.
    pub login_refused: bool,
}

/// Says whether an error may go away by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may be over in a moment: shedlock tries again.
    Transient,
    /// The store is full, or asks for fewer requests: shedlock tries again more slowly.
    Overloaded,
    /// It stays until somebody changes something.
    Permanent,
}

impl StoreError {
    /// Returns an error that may go away by itself. Nothing was carried out.
    pub fn transient(error: impl Into<String>) -> Self {
        Self { error: error.into(), class: Class::Transient, sent: false, hint: None, login_refused: false }
    }

    /// Returns an error of a store that is full. Nothing was carried out.
    pub fn overloaded(error: impl Into<String>) -> Self {
        Self { class: Class::Overloaded, ..Self::transient(error) }
    }

    /// Returns an error that stays. Nothing was carried out.
    pub fn permanent(error: impl Into<String>) -> Self {
        Self { class: Class::Permanent, ..Self::transient(error) }
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Notes that the request was sent to the store, which may have carried it out.
    #[must_use]
    pub fn sent(self) -> Self {
        Self { sent: true, ..self }
    }

    /// Notes that the store refuses the user or the password.
    #[must_use]
    pub fn refusing_login(self) -> Self {
        Self { login_refused: true, ..self }
    }

    /// Returns the answer as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let class = match self.class {
            Class::Transient => "transient",
            Class::Overloaded => "overloaded",
            Class::Permanent => "permanent",
        };
        let mut answer = json!({"error": self.error, "class": class, "sent": self.sent, "hint": self.hint});
        if self.login_refused {
            answer["login_refused"] = true.into();
        }
        answer
    }

    /// Reads the answer if it is an error.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Option<Self>, Malformed> {
        let fields = Fields::new(value)?;
        if fields.get("error").is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            error: fields.text("error")?,
            class: match fields.text("class")?.as_str() {
                "transient" => Class::Transient,
                "overloaded" => Class::Overloaded,
                "permanent" => Class::Permanent,
                other => return Err(Malformed::new(format!("its class `{other}` is unknown"))),
            },
            sent: fields.truth("sent")?,
            hint: fields.optional("hint", Fields::text)?,
            login_refused: fields.optional("login_refused", Fields::truth)?.unwrap_or_default(),
        }))
    }
}

impl Opened {
    /// Returns the answer as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"label": self.label, "grain": self.grain, "runs": self.runs, "version": self.version})
    }

    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        Ok(Self {
            label: fields.text("label")?,
            grain: fields.number("grain")?,
            runs: fields.number("runs")?.try_into().unwrap_or(u32::MAX),
            version: fields.optional("version", Fields::text)?,
        })
    }
}

impl Reading {
    /// Returns the answer as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (version, record) =
            self.found.as_ref().map(|(version, record)| (version.as_str(), record.to_json())).unzip();
        object([
            ("now", self.now.into()),
            ("floor", self.floor.into()),
            ("version", version.into()),
            ("record", record.into()),
        ])
    }

    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        let version = fields.optional("version", Fields::text)?;
        let record = fields.get("record").map(|_| fields.object("record", Record::from_json)).transpose()?;
        let found = match (version, record) {
            (Some(version), Some(record)) => Some((version, record)),
            (None, None) => None,
            _ => return Err(Malformed::new("it has a `version` or a `record` without the other")),
        };
        Ok(Self { now: fields.number("now")?, floor: fields.number("floor")?, found })
    }
}

impl Item {
    /// Returns the answer as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Lock(name, record) => object([("name", name.as_str().into()), ("record", record.to_json())]),
            Self::End { now } => json!({"now": now}),
        }
    }

    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        Ok(match fields.get("name") {
            Some(_) => Self::Lock(fields.text("name")?, fields.object("record", Record::from_json)?),
            None => Self::End { now: fields.number("now")? },
        })
    }
}

impl Finding {
    fn to_json(&self) -> Value {
        let grade = match self.grade {
            Grade::Good => "good",
            Grade::Unwise => "unwise",
            Grade::Bad => "bad",
        };
        json!({"grade": grade, "subject": self.subject, "text": self.text, "advice": self.advice})
    }

    fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        Ok(Self {
            grade: match fields.text("grade")?.as_str() {
                "good" => Grade::Good,
                "unwise" => Grade::Unwise,
                "bad" => Grade::Bad,
                other => return Err(Malformed::new(format!("its grade `{other}` is unknown"))),
            },
            subject: fields.text("subject")?,
            text: fields.text("text")?,
            advice: fields.optional("advice", Fields::text)?,
        })
    }

    /// Returns the answer to `check` as JSON.
    #[must_use]
    pub fn all_to_json(findings: &[Self]) -> Value {
        json!({"findings": findings.iter().map(Self::to_json).collect::<Vec<_>>()})
    }

    /// Reads the answer to `check`.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind.
    pub fn all_from_json(value: &Value) -> Result<Vec<Self>, Malformed> {
        Fields::new(value)?.list("findings")?.iter().map(Self::from_json).collect()
    }
}

/// Gives an answer of one field its two directions.
macro_rules! one_field {
    ($answer:ident, $key:literal, $read:expr) => {
        impl $answer {
            /// Returns the answer as JSON.
            #[must_use]
            pub fn to_json(&self) -> Value {
                json!({ $key: self.0 })
            }

            /// Reads the answer.
            ///
            /// # Errors
            ///
            /// Names the field that is missing or of another kind.
            pub fn from_json(value: &Value) -> Result<Self, Malformed> {
                $read(Fields::new(value)?, $key).map(Self)
            }
        }
    };
}

one_field!(Written, "written", Fields::truth);
one_field!(Removed, "removed", Fields::truth);
one_field!(Schema, "schema", Fields::text);
one_field!(Made, "made", |fields: Fields<'_>, key| {
    let lines = fields.list(key)?.iter().map(|line| line.as_str().map(str::to_owned));
    lines.collect::<Option<_>>().ok_or_else(|| Malformed::new("its `made` has what is no text"))
});
