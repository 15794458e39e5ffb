//! The protocol of MySQL and MariaDB: messages to the server as bytes, and answers read from bytes that may be anything.
//!
//! A packet is a length of three bytes, a number, and as many bytes as the length says.

mod fields;
mod login;
mod result;

pub(crate) use fields::{ProtocolError, ServerError};
pub(crate) use login::{
    Capabilities, LoginStep, MAX_PACKET, NONCE, login, nonce_from, read_greeting, read_login_step, tls_request,
};
pub(crate) use result::{
    Column, Completed, DATE, DATETIME, FirstPacket, NextPacket, TIMESTAMP, read_column, read_end_of_columns,
    read_first, read_next,
};

/// The most bytes that one packet can have; a longer message goes on in the next.
pub(crate) const MAX_PACKET_BODY: usize = 0xff_ffff;

/// Reads the head of a packet: its length and its number.
pub(crate) fn head(bytes: &[u8]) -> Option<(usize, u8)> {
    let [one, two, three, number, ..] = *bytes else { return None };
    Some((usize::from(one) | usize::from(two) << 8 | usize::from(three) << 16, number))
}

/// Length of a packet's head.
pub(crate) const HEAD_LENGTH: usize = 4;

/// Returns a message as packets, the first of which has this number.
pub(crate) fn packets(body: &[u8], mut number: u8) -> Vec<u8> {
    let mut all = Vec::with_capacity(body.len() + HEAD_LENGTH);
    let mut rest = body;
    loop {
        let (part, left) = rest.split_at(rest.len().min(MAX_PACKET_BODY));
        all.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_le_bytes()[..3]);
        all.push(number);
        all.extend_from_slice(part);
        if part.len() < MAX_PACKET_BODY {
            return all;
        }
        (rest, number) = (left, number.wrapping_add(1));
    }
}

/// Returns the body of the message that asks to execute statements.
pub(crate) fn query(text: &str) -> Vec<u8> {
    [b"\x03", text.as_bytes()].concat()
}

/// The body of the message that ends the session.
pub(crate) const QUIT: &[u8] = b"\x01";

#[cfg(test)]
mod tests;
