//! Shows a listing as a table or as JSON.

use super::listing::Listing;
use crate::report::{LockView, Screen, Zone, locks_json, locks_table};

/// The locks to show and their form, as the options say.
pub(super) struct View {
    pub(super) names: Vec<String>,
    pub(super) zone: Zone,
    pub(super) json: bool,
    pub(super) screen: Screen,
}

impl View {
    /// Returns the listing as a table or JSON, in pieces.
    pub(super) fn pieces<'a>(
        &'a self,
        listing: &Listing,
        views: &'a [LockView<'a>],
    ) -> Box<dyn Iterator<Item = String> + 'a> {
        match self.json {
            true => Box::new(locks_json(views)),
            false if views.is_empty() => Box::new(std::iter::empty()),
            false => Box::new(locks_table(views, listing.locks.now, &self.zone, &self.screen)),
        }
    }
}
