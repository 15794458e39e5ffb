//! Reading fields out of JSON objects. Unknown fields are ignored.

use std::fmt;

use serde_json::Value;

/// Says what is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl Malformed {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// Makes an object. A record of 100 runs would be copied several times by `json!`, which copies what is in it.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Reads the fields of one object.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    pub(crate) fn new(value: &'a Value) -> Result<Self, Malformed> {
        if value.is_object() { Ok(Self(value)) } else { Err(Malformed::new("it is no object")) }
    }

    /// Returns a field; `None` if it is missing or null.
    pub(crate) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(self, key: &str, kind: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, Malformed> {
        let value = self.0.get(key).ok_or_else(|| Malformed::new(format!("it has no `{key}`")))?;
        read(value).ok_or_else(|| Malformed::new(format!("its `{key}` is {kind}")))
    }

    /// Reads a field that may be null or missing.
    pub(crate) fn optional<T>(
        self,
        key: &str,
        read: impl FnOnce(Self, &str) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        self.get(key).map(|_| read(self, key)).transpose()
    }

    pub(crate) fn text(self, key: &str) -> Result<String, Malformed> {
        self.typed(key, "no text", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn number(self, key: &str) -> Result<u64, Malformed> {
        self.typed(key, "no whole number from 0", Value::as_u64)
    }

    pub(crate) fn signed(self, key: &str) -> Result<i64, Malformed> {
        self.typed(key, "no whole number", Value::as_i64)
    }

    pub(crate) fn truth(self, key: &str) -> Result<bool, Malformed> {
        self.typed(key, "neither true nor false", Value::as_bool)
    }

    pub(crate) fn list(self, key: &str) -> Result<&'a [Value], Malformed> {
        self.typed(key, "no list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(crate) fn object<T>(
        self,
        key: &str,
        read: impl FnOnce(&'a Value) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let value = self.typed(key, "missing", Some)?;
        read(value).map_err(|why| Malformed::new(format!("of `{key}`, {why}")))
    }
}
