//! Fuzzes the packets of MySQL and MariaDB.

use super::wire::{self, FirstPacket};

/// Reads packets that follow each other, each as every message that it could be.
pub(crate) fn fuzz(input: &[u8]) {
    let mut bytes = input;
    while let Some((length, _)) = wire::head(bytes) {
        let (body, rest) = bytes[wire::HEAD_LENGTH..].split_at(length.min(bytes.len() - wire::HEAD_LENGTH));
        bytes = rest;
        let _ = (wire::read_greeting(body), wire::read_login_step(body));
        let _ = (wire::read_column(body), wire::read_end_of_columns(body));
        if let Ok(Ok(FirstPacket::Rows(count))) = wire::read_first(body) {
            assert!((1..=4096).contains(&count));
            let _ = wire::read_next(rest, count);
        }
    }
}
