//! Draws runs over time as text for a terminal.

use unicode_width::UnicodeWidthStr;

use super::layout::{Bar, Lane, Tick, Timeline};
use crate::report::screen::{Paint, Screen};
use crate::report::tables::runs::RunState;
use crate::report::tables::table::cut;
use crate::report::times::Zone;

/// The width of the drawing without a terminal.
const DEFAULT_WIDTH: usize = 100;
/// The labels of lanes take at most the width divided by this.
const LABEL_SHARE: usize = 3;
const LONGEST_LABEL: usize = 28;
/// The least distance between two labels on the axis, with room for a date.
const MIN_TICK_WIDTH: usize = 12;

const GAP: (char, Paint) = ('·', Paint::Faint);
/// The cell where the history has no records.
const UNRECORDED: (char, Paint) = (' ', Paint::Plain);
const GRID: (char, Paint) = ('┊', Paint::Faint);

/// The bar of a run shorter than half a cell, so that many of them do not look like one long run.
const SHORT_RUN: char = '▌';

/// The letter and the legend of each outcome.
const LEGEND: [(RunState, char, Paint, &str); 6] = [
    (RunState::Success, '█', Paint::Good, "success"),
    (RunState::Failure, '╳', Paint::Bad, "failure"),
    (RunState::Stopped, '▒', Paint::Warning, "expired or lost"),
    (RunState::Running, '▶', Paint::Live, "running"),
    (RunState::Gone, '?', Paint::Bad, "never came back"),
    (RunState::Unknown, '░', Paint::Plain, "unknown"),
];

/// Draws the timeline as wide as the screen.
pub(crate) fn timeline_text(timeline: &Timeline<'_>, zone: &Zone, screen: &Screen) -> String {
    let width = screen.width.unwrap_or(DEFAULT_WIDTH);
    let labels: Vec<String> = timeline.lanes.iter().map(|lane| timeline.label(lane).into_owned()).collect();
    let widest = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let margin = widest.min(LONGEST_LABEL).min(width / LABEL_SHARE).max(1);
    let columns = width.saturating_sub(margin + 2).max(1);
    let ticks = timeline.ticks(zone, columns / MIN_TICK_WIDTH);
    let folded = |line: &str| wrapped(line.split(' ').map(|word| (word.width(), word.to_owned())), " ", width);
    let mut text = folded(&timeline.title(zone));
    text += &axis(timeline, &ticks, margin, columns);
    for (lane, label) in timeline.lanes.iter().zip(&labels) {
        for (number, row) in lane.rows.iter().enumerate() {
            let label = if number == 0 { cut(label, margin) } else { String::new() };
            let blanks = " ".repeat(margin - label.width() + 2);
            text += &format!("{label}{blanks}{}\n", joined(&cells(timeline, lane, row, &ticks, columns), screen));
        }
    }
    let occurs = |state: &RunState| timeline.count(*state) > 0;
    let legend = LEGEND.iter().filter(|(state, ..)| *state != RunState::Unknown || occurs(state));
    let legend = legend.map(|(_, letter, paint, word)| (*letter, *paint, *word)).chain([(GAP.0, GAP.1, "no run")]);
    let legend = legend.map(|(letter, paint, word)| {
        (2 + word.width(), format!("{} {word}", screen.painted(&letter.to_string(), paint)))
    });
    let note = "blank: no records";
    let legend = legend.chain(timeline.has_gaps().then(|| (note.width(), note.to_owned())));
    let since = timeline.records_since(zone).map(|since| folded(&since)).unwrap_or_default();
    text + &wrapped(legend, "  ", width) + &since
}

/// Returns the column of a time.
fn column(timeline: &Timeline<'_>, time: crate::system::Timestamp, columns: usize) -> usize {
    ((timeline.share(time) * columns as f64) as usize).min(columns - 1)
}

/// Draws a row: gaps, grid, then the bars, the most important on top.
fn cells(timeline: &Timeline<'_>, lane: &Lane<'_>, row: &[u32], ticks: &[Tick], columns: usize) -> Vec<(char, Paint)> {
    let mut cells = vec![GAP; columns];
    cells[..column(timeline, lane.recorded_from, columns)].fill(UNRECORDED);
    for tick in ticks {
        cells[column(timeline, tick.at, columns)] = GRID;
    }
    let mut bars: Vec<Bar> = row.iter().map(|run| timeline.bar(*run)).collect();
    bars.sort_by_key(|bar| bar.state.drawing_order());
    for bar in bars {
        let (first, end) = (column(timeline, bar.from, columns), column(timeline, bar.to, columns));
        // The cell in which the run ended is left empty, unless it is the only one.
        let last = if bar.state == RunState::Running { end } else { end.saturating_sub(1).max(first) };
        if let Some((_, letter, paint, _)) = LEGEND.iter().find(|(state, ..)| *state == bar.state) {
            let short = bar.state == RunState::Success
                && timeline.share(bar.to) - timeline.share(bar.from) < 0.5 / columns as f64;
            cells[first..=last].fill((if short { SHORT_RUN } else { *letter }, *paint));
        }
    }
    cells
}

/// Joins the cells, setting a colour once for neighbouring cells.
fn joined(cells: &[(char, Paint)], screen: &Screen) -> String {
    let same = cells.chunk_by(|one, next| one.1 == next.1);
    same.map(|chunk| {
        let letters: String = chunk.iter().map(|(letter, _)| letter).collect();
        screen.painted(&letters, chunk[0].1)
    })
    .collect()
}

/// Draws the dates, and below them the times of day; labels without room are left out.
fn axis(timeline: &Timeline<'_>, ticks: &[Tick], margin: usize, columns: usize) -> String {
    let line = |label: &dyn Fn(&Tick) -> Option<String>| {
        let mut line = String::new();
        for tick in ticks {
            let Some(label) = label(tick) else { continue };
            // Moves the last label left until it fits.
            let at = column(timeline, tick.at, columns).min(columns.saturating_sub(label.width()));
            if (at > line.width() || line.is_empty()) && at + label.width() <= columns {
                line += &" ".repeat(at - line.width());
                line += &label;
            }
        }
        line
    };
    let lines = [line(&|tick| tick.date.clone()), line(&|tick| Some(tick.label.clone()))];
    let lines = lines.iter().filter(|line| !line.is_empty());
    lines.map(|line| format!("{}{line}\n", " ".repeat(margin + 2))).collect()
}

/// Folds the parts into as many lines as they need.
fn wrapped(parts: impl Iterator<Item = (usize, String)>, between: &str, width: usize) -> String {
    let (mut text, mut filled) = (String::new(), 0);
    for (broad, part) in parts {
        if filled > 0 && filled + between.len() + broad > width {
            text.push('\n');
            filled = 0;
        }
        if filled > 0 {
            text += between;
            filled += between.len();
        }
        text += &part;
        filled += broad;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, locks, run};
    use crate::report::tables::table::tests::{PIPED, on};
    use crate::report::timeline::layout::GroupBy;
    use crate::report::timeline::layout::tests::runs;
    use crate::report::times::tests::{at, berlin};

    fn shown(by: GroupBy, zone: &Zone, screen: &Screen) -> String {
        let (runs, locks) = runs();
        let shown = shown_runs(&runs, &locks);
        timeline_text(&Timeline::new(&shown, by, None, at(NOW)).unwrap(), zone, screen)
    }

    #[test]
    fn every_way_a_run_can_end_is_seen_without_colours() {
        assert_eq!(
            shown(GroupBy::Job, &Zone::utc(), &PIPED),
            "\
Runs by job, 2026-01-31 08:00:00Z to 2026-01-31 18:05:03Z (UTC)
             2026-01-31
             08:00            10:00            12:00            14:00             16:00        18:00
$'<b>&\\033'  ┊                ┊                ┊        ▒▒▒▒▒▒▒▒┊·················┊················┊
backup       ╳╳╳╳╳╳╳╳·········┊··········█████████████··········┊·················┊··········▶▶▶▶▶▶▶
vacuum       ┊                ┊                ?················┊········▌········┊················┊
█ success  ╳ failure  ▒ expired or lost  ▶ running  ? never came back  · no run  blank: no records
records of all jobs since 2026-01-31 13:00:00Z
"
        );
    }

    #[test]
    fn hosts_have_lines_and_a_narrow_terminal_has_a_picture() {
        assert_eq!(
            shown(GroupBy::Host, &berlin(), &on(40)),
            "\
Runs by host, 2026-01-31 09:00:00+01:00
to 2026-01-31 19:05:03+01:00 (local
time)
                2026-01-31
                12:00              18:00
db1             ┊█████·······▌······┊▶▶▶
                ┊  ?················┊···
web2  ╳╳╳       ┊     ▒▒▒▒··········┊···
█ success  ╳ failure  ▒ expired or lost
▶ running  ? never came back  · no run
blank: no records
records since 2026-01-31 13:00:00+01:00,
of all hosts since 2026-01-31
14:00:00+01:00
"
        );
    }

    #[test]
    fn among_many_short_runs_the_one_that_failed_is_seen() {
        let outcome = |number| if number == 30 { "failure" } else { "success" };
        let start = |number| (at("2026-01-31T12:00:00Z") + Duration::from_secs(number * 60)).to_string();
        let runs: Vec<_> =
            (0..60).map(|number| run(number, "a", "h", &start(number), Some(5), outcome(number))).collect();
        let runs = list(&runs);
        let shown = shown_runs(&runs, &locks(&[]));
        let timeline = Timeline::new(&shown, GroupBy::Job, None, at("2026-01-31T18:00:00Z")).unwrap();
        let text = timeline_text(&timeline, &Zone::utc(), &on(40));
        let lane = text.lines().find(|line| line.starts_with("a ")).unwrap();
        assert!(lane.starts_with("a  ▌▌▌╳▌▌▌·"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 20..200 {
            let text = shown(GroupBy::Job, &berlin(), &on(width));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colours_say_the_same() {
        let coloured = shown(GroupBy::Job, &Zone::utc(), &Screen { width: Some(100), colour: true });
        assert!(coloured.contains("\x1b[1;38;5;160m╳"), "{coloured}");
        let plain: String = coloured
            .split('\x1b')
            .enumerate()
            .map(|(number, part)| if number == 0 { part } else { part.split_once('m').unwrap().1 })
            .collect();
        assert_eq!(plain, shown(GroupBy::Job, &Zone::utc(), &PIPED));
    }
}
