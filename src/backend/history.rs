//! Whether a backend may keep a history of the runs. Without one there is no token, and the lock works all the same.

use super::Trouble;

/// What is known of a history; one that may not be kept is not asked for again.
#[derive(Debug, Default)]
pub(super) enum History {
    #[default]
    Kept,
    /// With the reason, until it was told.
    Barred(Option<Trouble>),
}

impl History {
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept)
    }

    pub(super) fn bar(&mut self, why: Trouble) {
        *self = Self::Barred(Some(why));
    }

    /// Why there is none; said once.
    pub(super) fn take_reason(&mut self) -> Option<Trouble> {
        match self {
            Self::Kept => None,
            Self::Barred(why) => why.take(),
        }
    }
}
