//! The fault that is armed, and whether it has struck.

use super::super::history::Fault;

/// The fault that waits for bytes.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) armed: Option<Fault>,
    /// Whether the fault that was armed last has struck.
    pub(super) has_struck: bool,
}

impl Faults {
    /// Arms a fault in the place of another.
    pub(super) fn arm(&mut self, fault: Fault) {
        (self.armed, self.has_struck) = (Some(fault), false);
    }

    /// Notes that the armed fault strikes, and ends it.
    pub(super) fn strike(&mut self) {
        (self.armed, self.has_struck) = (None, true);
    }
}
