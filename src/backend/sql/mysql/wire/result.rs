//! The packets of a statement's result: its columns and rows, or the number of rows that it changed.

use super::fields::{CUT, END, ERROR, FILE, Fields, OK, ProtocolError, ServerError, UNEXPECTED, read_server_error};
use crate::backend::sql::engine::{Cell, Row};

/// The most columns of a result, as many as a table may have.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// Set in a status if another statement's result follows.
const MORE_RESULTS: u16 = 1 << 3;
/// Set in a status if what has changed in the session follows.
const CHANGED: u16 = 1 << 14;
/// The kind of change that says what the transaction has done so far.
const TRANSACTION: u8 = 5;

/// Types of columns that hold a time.
pub(crate) const TIMESTAMP: u8 = 7;
pub(crate) const DATE: u8 = 10;
pub(crate) const DATETIME: u8 = 12;

/// Says how a statement's result begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstPacket {
    Completed(Completed),
    /// Rows with so many columns follow.
    Rows(usize),
}

/// Holds the result of a statement without rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Number of rows that were changed.
    pub(crate) changed: u64,
    /// The number that the server gave to a new row.
    pub(crate) id: Option<u64>,
    /// Set if another statement's result follows.
    pub(crate) more: bool,
    pub(crate) written: Written,
}

/// Says into what kinds of tables the transaction has written so far. Both are false if the server does not say, or has said
/// so before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// Into a table that takes part in transactions.
    pub(crate) within: bool,
    /// Into a table whose engine has none: what was written there stays, whatever becomes of the transaction.
    pub(crate) outside: bool,
}

/// Describes the type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) kind: u8,
    pub(crate) decimals: u8,
}

/// Says what follows in a result with rows.
pub(crate) enum NextPacket {
    Row(Row),
    /// The end of the rows, and whether another statement's result follows.
    End(bool),
}

/// Reads the first packet of a statement's result.
pub(crate) fn read_first(body: &[u8]) -> Result<Result<FirstPacket, ServerError>, ProtocolError> {
    let mut rest = Fields(body);
    match body.first() {
        Some(&ERROR) => return read_server_error(body).map(Err),
        Some(&OK) => return read_completed(&mut rest).map(|done| Ok(FirstPacket::Completed(done))).ok_or(CUT),
        Some(&FILE) => return Err(ProtocolError("it asks for a file of this host")),
        _ => {}
    }
    match rest.number().map(usize::try_from) {
        Some(Ok(count @ 1..=MAX_COLUMNS)) => Ok(Ok(FirstPacket::Rows(count))),
        Some(_) => Err(ProtocolError("it announces more columns than a result can have")),
        None => Err(CUT),
    }
}

/// Reads the description of a column.
pub(crate) fn read_column(body: &[u8]) -> Result<Result<Column, ServerError>, ProtocolError> {
    if body.first() == Some(&ERROR) {
        return read_server_error(body).map(Err);
    }
    read_column_fields(&mut Fields(body)).map(Ok).ok_or(CUT)
}

/// Reads a packet after the columns, of which there are so many: a row or the end.
pub(crate) fn read_next(body: &[u8], columns: usize) -> Result<Result<NextPacket, ServerError>, ProtocolError> {
    match body {
        [ERROR, ..] => read_server_error(body).map(Err),
        [END, _, _, status @ ..] if body.len() < 9 => Ok(Ok(NextPacket::End(has_more(status)))),
        [END] => Ok(Ok(NextPacket::End(false))),
        _ => {
            let mut rest = Fields(body);
            let cells: Option<Vec<Cell>> = (0..columns).map(|_| read_cell(&mut rest)).collect();
            cells.map(|cells| Ok(NextPacket::Row(Row(cells)))).ok_or(CUT)
        }
    }
}

/// Reads the packet that separates the columns from the rows.
pub(crate) fn read_end_of_columns(body: &[u8]) -> Result<Result<(), ServerError>, ProtocolError> {
    match body {
        [ERROR, ..] => read_server_error(body).map(Err),
        [END, ..] if body.len() < 9 => Ok(Ok(())),
        _ => Err(UNEXPECTED),
    }
}

/// Returns whether a status announces another statement's result.
fn has_more(status: &[u8]) -> bool {
    Fields(status).short().is_some_and(|status| status & MORE_RESULTS != 0)
}

/// Reads a value of a row.
fn read_cell(fields: &mut Fields<'_>) -> Option<Cell> {
    if let Some(rest) = fields.0.strip_prefix(&[FILE]) {
        fields.0 = rest;
        return Some(Cell::Null);
    }
    fields.bytes().map(|bytes| Cell::Text(String::from_utf8_lossy(bytes).into_owned()))
}

/// Reads the fields of a column's description.
fn read_column_fields(fields: &mut Fields<'_>) -> Option<Column> {
    // Catalogue, schema, table and column, two of them by two names.
    for _ in 0..6 {
        fields.bytes()?;
    }
    // The length of what follows, character set, width; then the flags.
    fields.take(1 + 2 + 4)?;
    let kind = fields.byte()?;
    fields.take(2)?;
    Some(Column { kind, decimals: fields.byte()? })
}

/// Reads the result of a statement without rows.
fn read_completed(fields: &mut Fields<'_>) -> Option<Completed> {
    fields.byte()?;
    let (changed, id) = (fields.number()?, fields.number()?);
    let more = has_more(fields.0);
    Some(Completed {
        changed,
        id: Some(id).filter(|id| *id != 0),
        more,
        written: read_written(fields).unwrap_or_default(),
    })
}

/// Reads what the transaction has written, after the numbers of a result. Changes of other kinds are skipped.
fn read_written(fields: &mut Fields<'_>) -> Option<Written> {
    let status = fields.short()?;
    // The number of warnings, and a text about the statement.
    fields.take(2)?;
    fields.bytes()?;
    if status & CHANGED == 0 {
        return None;
    }
    let mut changes = Fields(fields.bytes()?);
    loop {
        let (kind, data) = (changes.byte()?, changes.bytes()?);
        if kind == TRANSACTION {
            let letters = Fields(data).bytes()?;
            return Some(Written { within: letters.get(4) == Some(&b'W'), outside: letters.get(3) == Some(&b'w') });
        }
    }
}
