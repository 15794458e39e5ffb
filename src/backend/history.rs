//! Whether a backend may keep a history of the runs. Without one there is no token, and the lock works all the same.

use super::{Remark, Trouble};
use crate::lock::Purpose;

/// What is known of a history; one that may not be kept is not asked for again.
#[derive(Debug, Default)]
pub(super) enum History {
    #[default]
    Kept,
    /// With the reason.
    Barred(Trouble),
}

impl History {
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept)
    }

    pub(super) fn bar(&mut self, why: Trouble) {
        *self = Self::Barred(why);
    }

    /// Returns what to say beside an answer that would have had a record, of which a pause has none.
    pub(super) fn remark(&self, purpose: Purpose) -> Remark {
        let unrecorded = match self {
            Self::Barred(why) if purpose == Purpose::Run => Some(why.clone()),
            _ => None,
        };
        Remark { unrecorded, cut: None }
    }
}
