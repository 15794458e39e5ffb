//! The requests, as shedlock sends them.

use serde_json::{Value, json};

use crate::json::{Fields, Malformed, object};
use crate::record::Record;

/// Asks a provider for something. Each gets one answer, but for the list, which gets one for each lock and one at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The first request. The store need not be reached yet.
    Open(Open),
    /// Asks for the record of a lock.
    Read {
        /// The lock.
        name: String,
    },
    /// Writes a record if the store still has the version; `None` if it must have no record.
    Write {
        /// The lock.
        name: String,
        /// The version that the store must have.
        version: Option<String>,
        /// The record to write.
        record: Record,
    },
    /// Removes a record if the store still has the version.
    Remove {
        /// The lock.
        name: String,
        /// The version that the store must have.
        version: String,
    },
    /// Asks for the records of all locks.
    List,
    /// Creates what the store needs: a table, a bucket, a collection.
    Make,
    /// Asks for what a person would do to create it, without reaching the store.
    Schema,
    /// Asks for findings about the store.
    Check,
}

/// Holds what a provider has to know first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The number of the protocol, [`crate::PROTOCOL`].
    pub protocol: u64,
    /// The backend's URL as the user wrote it, which may have a password in it.
    pub url: String,
    /// The password that comes before one in the URL.
    pub password: Option<String>,
    /// The time within which each request has to be answered, in milliseconds.
    pub timeout: u64,
}

impl Request {
    /// Returns the request as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Open(Open { protocol, url, password, timeout }) => {
                json!({"op": "open", "protocol": protocol, "url": url, "password": password, "timeout": timeout})
            }
            Self::Read { name } => json!({"op": "read", "name": name}),
            Self::Write { name, version, record } => object([
                ("op", "write".into()),
                ("name", name.as_str().into()),
                ("version", version.as_deref().into()),
                ("record", record.to_json()),
            ]),
            Self::Remove { name, version } => json!({"op": "remove", "name": name, "version": version}),
            Self::List => json!({"op": "list"}),
            Self::Make => json!({"op": "make"}),
            Self::Schema => json!({"op": "schema"}),
            Self::Check => json!({"op": "check"}),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another kind, or the unknown `op`.
    pub fn from_json(value: &Value) -> Result<Self, Malformed> {
        let fields = Fields::new(value)?;
        let name = || fields.text("name");
        Ok(match fields.text("op")?.as_str() {
            "open" => Self::Open(Open {
                protocol: fields.number("protocol")?,
                url: fields.text("url")?,
                password: fields.optional("password", Fields::text)?,
                timeout: fields.number("timeout")?,
            }),
            "read" => Self::Read { name: name()? },
            "write" => Self::Write {
                name: name()?,
                version: fields.optional("version", Fields::text)?,
                record: fields.object("record", Record::from_json)?,
            },
            "remove" => Self::Remove { name: name()?, version: fields.text("version")? },
            "list" => Self::List,
            "make" => Self::Make,
            "schema" => Self::Schema,
            "check" => Self::Check,
            other => return Err(Malformed::new(format!("its op `{other}` is unknown"))),
        })
    }
}
