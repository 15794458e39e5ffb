//! The server's report about itself, and the text of an answer.

use std::collections::BTreeMap;

use ::redis::{Value, cmd};

use super::super::connection::Connection;
use crate::lock::BackendError;

/// Holds the fields of INFO by their names; empty if the user may not run it.
pub(crate) type Info = BTreeMap<String, String>;

/// Returns the text of an answer; empty for a refusal.
pub(crate) fn text(answer: &Value) -> String {
    match answer {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Reads the fields of INFO.
pub(crate) fn read_info(connection: &mut Connection) -> Result<Info, BackendError> {
    let answer = text(&connection.ask_one(cmd("INFO"))?);
    let pair = |line: &str| line.trim().split_once(':').map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(answer.lines().filter_map(pair).collect())
}
