//! The fields of packets, and the errors that any packet may have in their place.
//!
//! Numbers are little-endian. A number of its own length is one byte, or a byte that says how many more follow; a text of its
//! own length has such a number before it.

/// The longest message of an error, as servers limit it themselves.
const MAX_ERROR_TEXT: usize = 512;

/// The bytes by which the kind of a packet is known.
pub(crate) const ERROR: u8 = 0xff;
pub(crate) const END: u8 = 0xfe;
pub(crate) const FILE: u8 = 0xfb;
pub(crate) const OK: u8 = 0;

/// Says how bytes break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) &'static str);

pub(crate) const CUT: ProtocolError = ProtocolError("a packet is cut short");
pub(crate) const UNEXPECTED: ProtocolError = ProtocolError("unexpected packet");

/// Holds an error that the server answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// Reads an error that the server answered with.
pub(crate) fn read_server_error(body: &[u8]) -> Result<ServerError, ProtocolError> {
    let mut rest = Fields(body.get(1..).unwrap_or_default());
    let code = rest.short().ok_or(CUT)?;
    // The state comes first, in an error before the greeting as well.
    if let Some(said) = rest.0.strip_prefix(b"#").and_then(|said| said.get(5..)) {
        rest.0 = said;
    }
    let said = &rest.0[..rest.0.len().min(MAX_ERROR_TEXT)];
    Ok(ServerError { code, message: String::from_utf8_lossy(said).into_owned() })
}

/// Reads the fields of a packet, one after the other.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Reads this many bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads one byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads a number of two bytes.
    pub(crate) fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    /// Reads bytes up to a zero, or all that are left.
    pub(crate) fn string(&mut self) -> String {
        let (text, rest) = match self.0.iter().position(|byte| *byte == 0) {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// Reads a number of its own length.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let count = match self.byte()? {
            small @ 0..=0xfa => return Some(small.into()),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return None,
        };
        Some(self.take(count)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a text of its own length.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }
}
