//! `shedlock status --watch`: prints the table again every two seconds.

use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::operator::Operator;
use super::super::output::{print, print_all, print_failure, remark};
use super::listing::Listing;
use super::view::View;
use crate::exit::Exit;
use crate::report::{LockView, Screen, Zone, lock_views, printable, shown_runs};

/// The interval of --watch, in milliseconds.
const REFRESH_INTERVAL: u16 = 2_000;

/// The escape sequence that clears the screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";

/// Refreshes the table until the reader closes it. After an error prints the error and retries.
pub(super) fn watch(operator: &mut Operator, view: &View, first: Listing) -> anyhow::Result<Exit> {
    let clear = if view.screen.width.is_some() && !view.json { CLEAR_SCREEN } else { "" };
    let mut listing = Ok(first);
    loop {
        match listing {
            Ok(listing) => {
                let shown = shown_runs(&listing.runs.runs, &listing.locks);
                let mut views = lock_views(&listing.names, &listing.locks, &shown);
                let hidden = if clear.is_empty() { 0 } else { cut_to_height(Screen::height(), &mut views) };
                // The terminal's width may have changed.
                let view = View { screen: Screen::for_stdout(), names: Vec::new(), zone: view.zone.clone(), ..*view };
                let head = if clear.is_empty() { String::new() } else { head(operator, &listing, &view.zone) };
                let more = if hidden > 0 { format!("… and {hidden} more\n") } else { String::new() };
                print_all([clear.to_owned() + &head].into_iter().chain(view.pieces(&listing, &views)).chain([more]))?;
                if let Some(why) = &listing.unread {
                    remark(&format!("the last runs are not shown: {why}"), None);
                }
            }
            Err(error) => {
                print(clear.as_bytes())?;
                print_failure(&error);
            }
        }
        if reader_is_gone() {
            return Ok(Exit { code: 0, raise: None });
        }
        listing = operator.ask(|backend| Listing::read(backend, &view.names));
    }
}

/// Cuts the list to as many locks as a terminal of this height shows, those first that are taken, and returns how many are
/// hidden.
fn cut_to_height(height: Option<usize>, views: &mut Vec<LockView<'_>>) -> usize {
    // The heading, an empty line, the table's heading, and the line where the cursor is.
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(4).max(1));
    if views.len() <= room {
        return 0;
    }
    views.sort_by_key(|view| !view.is_held());
    // The last line says how many are hidden.
    let hidden = views.len() - (room - 1).max(1);
    views.truncate(views.len() - hidden);
    hidden
}

/// Returns the heading of the table: the backend and its time.
fn head(operator: &Operator, listing: &Listing, zone: &Zone) -> String {
    format!("{}  {}\n\n", printable(operator.address()), zone.stamp(listing.locks.now))
}

/// Waits for the next refresh, and returns whether the reader is gone.
fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    // Without requested events, poll(2) still reports that the other end is closed.
    let mut descriptors = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    poll(&mut descriptors, PollTimeout::from(REFRESH_INTERVAL)).is_ok_and(|ready| ready > 0)
}
