//! A resource that knows tokens: what the manual page shedlock-fencing(7) tells people to build.

use crate::host::Host;

/// What the jobs write to: it refuses a token that is older than one that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Resource {
    highest: u8,
    /// Which taking wrote last.
    number: u8,
    /// A write was accepted from an acquisition that came before that of an earlier write.
    pub(crate) overwritten: bool,
    /// A write was refused.
    pub(crate) refused: bool,
}

impl Resource {
    /// Returns whether a write would make a difference to what is known.
    pub(crate) fn would_change(self, host: &Host) -> bool {
        let grant = host.lease.grant;
        let accepts = grant.token >= self.highest;
        if accepts { (grant.token, grant.number) != (self.highest, self.number) } else { !self.refused }
    }

    /// Writes as in `UPDATE … SET …, token = :token WHERE token <= :token`.
    pub(crate) fn write(&mut self, host: &Host) {
        let grant = host.lease.grant;
        if grant.token < self.highest {
            self.refused = true;
            return;
        }
        self.overwritten |= grant.number < self.number;
        (self.highest, self.number) = (grant.token, grant.number);
    }
}
