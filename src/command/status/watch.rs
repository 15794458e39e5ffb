//! `shedlock status --watch`: the table again and again.

use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::operator::Operator;
use super::super::{print, print_all, remark, tell};
use super::{Answer, View, look};
use crate::exit::Exit;
use crate::report::{Screen, Standing, Zone, past, standings};

/// The interval of --watch, in milliseconds.
const PAUSE: u16 = 2_000;

/// The escape sequence that clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Refreshes the table until the reader closes it. After an error prints the error and retries.
pub(super) fn watched(operator: &mut Operator, view: &View, first: Answer) -> anyhow::Result<Exit> {
    let clear = if view.screen.width.is_some() && !view.json { CLEAR } else { "" };
    let mut answer = Ok(first);
    loop {
        match answer {
            Ok(answer) => {
                let past = past(&answer.runs.runs, &answer.locks);
                let mut standings = standings(&answer.names, &answer.locks, &past);
                let hidden = if clear.is_empty() { 0 } else { cut_to(Screen::height(), &mut standings) };
                // The terminal's width may have changed.
                let view = View { screen: Screen::of_stdout(), names: Vec::new(), zone: view.zone.clone(), ..*view };
                let head = if clear.is_empty() { String::new() } else { head(operator, &answer, &view.zone) };
                let more = if hidden > 0 { format!("… and {hidden} more\n") } else { String::new() };
                print_all([clear.to_owned() + &head].into_iter().chain(view.of(&answer, &standings)).chain([more]))?;
                if let Some(why) = &answer.unread {
                    remark(&format!("the last runs are not shown: {why}"), None);
                }
            }
            Err(error) => {
                print(clear.as_bytes())?;
                tell(&error);
            }
        }
        if reader_is_gone() {
            return Ok(Exit { code: 0, raise: None });
        }
        answer = operator.ask(|backend| look(backend, &view.names));
    }
}

/// Keeps as many locks as a terminal of this height shows, those first that are taken, and returns how many are hidden.
fn cut_to(height: Option<usize>, standings: &mut Vec<Standing<'_>>) -> usize {
    // The heading, an empty line, the table's heading, and the line where the cursor is.
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(4).max(1));
    if standings.len() <= room {
        return 0;
    }
    standings.sort_by_key(|standing| !standing.is_held());
    // The last line says how many are hidden.
    let hidden = standings.len() - (room - 1).max(1);
    standings.truncate(standings.len() - hidden);
    hidden
}

/// Returns the heading: backend and time.
fn head(operator: &Operator, answer: &Answer, zone: &Zone) -> String {
    format!("{}  {}\n\n", operator.address(), zone.stamp(answer.locks.now))
}

/// Waits for the next refresh, and returns whether the reader is gone.
fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    // Without requested events, poll(2) still reports that the other end is closed.
    let mut descriptors = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    poll(&mut descriptors, PollTimeout::from(PAUSE)).is_ok_and(|ready| ready > 0)
}
