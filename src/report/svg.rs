//! Draws runs over time as SVG, without scripts or external resources. The library escapes what
//! it is given.

use std::collections::BTreeMap;

use svg::Document;
use svg::node::Blob;
use svg::node::element::{Circle, Definitions, Description, Group, Line, Path, Pattern, Rectangle, Style, Text, Title};
use unicode_width::UnicodeWidthStr;

use super::past::{Past, RunState};
use super::picture::{Bar, By, Picture};
use super::table::cut;
use super::times::{Zone, finely};
use crate::system::Timestamp;
use crate::text::{shown, visible};

const EDGE: f64 = 16.0;
/// The height of the title, of the axis below it, and of a line of the legend.
const TITLE: f64 = 28.0;
const HEAD: f64 = 44.0;
const FOOT: f64 = 24.0;
/// The height of a row of bars, and the gap between two lanes.
const ROW: f64 = 18.0;
const LANE: f64 = 10.0;
/// The approximate width of a letter; the reader's font decides.
const LETTER: f64 = 7.0;
const LONGEST_LABEL: usize = 30;
/// The least distance between two labels on the axis.
const TICK: f64 = 80.0;
/// The least widths of a bar; wider for a failure, so that it is not overlooked.
const SLIVER: f64 = 3.0;
const BAD_SLIVER: f64 = 5.0;

/// The form of a drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) width: f64,
    /// Draws the title, too.
    pub(super) titled: bool,
    /// Puts the name of a lane above it, where there is no room beside it.
    pub(super) above: bool,
    /// The beginning of the ids in the drawing: several drawings in one page differ in it.
    pub(super) id: &'static str,
}

/// The form of a drawing that is a file of its own.
const ALONE: Layout = Layout { width: 960.0, titled: true, above: false, id: "shedlock" };

/// The colours of Okabe and Ito, which colour-blind people can tell apart, adjusted to the background. No two kinds of bars
/// have the same shape either.
const LOOKS: &str = "
svg { color: #1f2328; }
text { fill: currentColor; font: 12px system-ui, 'DejaVu Sans', sans-serif; }
.head { font-size: 14px; font-weight: 600; }
.quiet { fill-opacity: 0.7; }
.ground { fill: #ffffff; }
.lane { fill: currentColor; fill-opacity: 0.05; }
.grid { stroke: currentColor; stroke-opacity: 0.2; }
.success { fill: #009e73; }
.failure { fill: #c74a00; }
.failure-line { stroke: #ffffff; stroke-width: 2; }
.stopped { fill: #e69f00; }
.stopped-line { stroke: #5c3f00; stroke-width: 2; }
.running { fill: #0072b2; }
.gone { fill: none; stroke: #b0408a; stroke-width: 2; }
.mark { fill: #b0408a; font-size: 11px; font-weight: 700; text-anchor: middle; }
.unknown { fill: none; stroke: currentColor; }
@media (prefers-color-scheme: dark) {
  svg { color: #e6edf3; }
  .ground { fill: #0d1117; }
  .success { fill: #1fbf90; }
  .failure { fill: #ff7b33; }
  .failure-line { stroke: #0d1117; }
  .stopped { fill: #f0b93a; }
  .stopped-line { stroke: #5c3f00; }
  .running { fill: #56b4e9; }
  .gone { stroke: #e58cc4; }
  .mark { fill: #e58cc4; }
}
";

/// Draws the picture as a file of its own.
pub(crate) fn drawn(picture: &Picture<'_>, zone: &Zone) -> String {
    format!("{}\n", drawing(picture, zone, &ALONE))
}

/// Draws the picture in this form.
pub(super) fn drawing(picture: &Picture<'_>, zone: &Zone, layout: &Layout) -> Document {
    let labels: Vec<String> = picture.lanes.iter().map(|lane| cut(&picture.label(lane), LONGEST_LABEL)).collect();
    let widest = labels.iter().map(|label| label.width()).max().unwrap_or(0) as f64;
    let left = if layout.above { EDGE } else { EDGE + widest * LETTER + 14.0 };
    let head = if layout.titled { TITLE + HEAD } else { HEAD };
    let chart = Chart { picture, zone, layout, head, left, width: layout.width - EDGE - left };
    let mut lanes = Group::new();
    let mut top = head;
    for (lane, label) in picture.lanes.iter().zip(labels) {
        let mut told = picture.label(lane).into_owned();
        if lane.recorded_from > picture.from {
            told += &format!("; records since {}", zone.stamp(lane.recorded_from));
        }
        lanes = lanes.add(written(&label, EDGE, top + 13.0, "").add(Title::new(told)));
        if layout.above {
            top += ROW;
        }
        let height = lane.rows.len() as f64 * ROW;
        // Draws no background where the history has no records.
        let known = rounded(chart.x(lane.recorded_from));
        let ground = Rectangle::new().set("class", "lane").set("x", known).set("y", top).set("rx", 2);
        lanes = lanes.add(ground.set("width", rounded(left + chart.width - known)).set("height", height));
        for (number, row) in lane.rows.iter().enumerate() {
            // As text, of which an element takes the tenfold.
            let heaps = chart.heaps(row);
            let bars = heaps.iter().map(|heap| chart.heap(heap, top + number as f64 * ROW).to_string());
            lanes = lanes.add(Blob::new(bars.collect::<Vec<_>>().join("\n")));
        }
        top += height + LANE;
    }
    let bottom = top - LANE / 2.0;
    let since = picture.records_since(zone);
    let (legend, height) = legend(top + FOOT, picture, since.as_deref(), layout);
    let title = picture.title(zone);
    let id = |what: &str| format!("{}-{what}", layout.id);
    let document = Document::new()
        .set("viewBox", (0, 0, layout.width, height))
        .set("width", layout.width)
        .set("height", height)
        .set("role", "img")
        .set("aria-labelledby", format!("{} {}", id("title"), id("desc")))
        .add(Title::new(&title[..]).set("id", id("title")))
        .add(Description::new().set("id", id("desc")).add(svg::node::Text::new(described(picture, since.as_deref()))))
        .add(Style::new(LOOKS))
        .add(patterns(layout))
        .add(Rectangle::new().set("class", "ground").set("width", layout.width).set("height", height).set("rx", 6));
    let document = if layout.titled { document.add(written(&title, EDGE, 26.0, "head")) } else { document };
    document.add(chart.axis(bottom)).add(lanes).add(legend)
}

/// Overlapping runs with the same outcome, drawn as one bar. Otherwise a picture of many short runs would have more bars than a
/// browser can show.
struct Heap {
    /// The first of them, extended over all.
    bar: Bar,
    runs: usize,
    /// The start of the last one.
    last: Timestamp,
}

struct Chart<'a> {
    picture: &'a Picture<'a>,
    zone: &'a Zone,
    layout: &'a Layout,
    /// The top of the first lane.
    head: f64,
    left: f64,
    width: f64,
}

impl Chart<'_> {
    fn x(&self, time: Timestamp) -> f64 {
        self.left + self.picture.share(time) * self.width
    }

    fn axis(&self, bottom: f64) -> Group {
        let ticks = self.picture.ticks(self.zone, (self.width / TICK) as usize);
        ticks.iter().fold(Group::new(), |group, tick| {
            let x = rounded(self.x(tick.at));
            let line =
                Line::new().set("class", "grid").set("x1", x).set("x2", x).set("y1", self.head - 8.0).set("y2", bottom);
            let room = self.left + self.width - x;
            let fits = |label: &&str| label.width() as f64 * LETTER <= room + EDGE;
            let group = Some(&tick.label[..])
                .filter(fits)
                .into_iter()
                .fold(group.add(line), |group, label| group.add(written(label, x, self.head - 12.0, "quiet")));
            tick.date
                .as_deref()
                .filter(fits)
                .into_iter()
                .fold(group, |group, date| group.add(written(date, x, self.head - 26.0, "quiet")))
        })
    }

    /// Draws the bars of a row, the most important on top.
    fn heaps(&self, row: &[u32]) -> Vec<Heap> {
        let sliver = |time: Timestamp| ((self.x(time) - self.left) / SLIVER) as u32;
        let mut heaps: BTreeMap<_, Heap> = BTreeMap::new();
        for bar in row.iter().map(|run| self.picture.bar(*run)) {
            let word = self.picture.run(&bar).word().to_owned();
            let place = (bar.fate.weight(), sliver(bar.from), sliver(bar.to), word);
            let heap = heaps.entry(place).or_insert(Heap { bar, runs: 0, last: bar.from });
            heap.bar.to = heap.bar.to.max(bar.to);
            heap.last = heap.last.max(bar.from);
            heap.runs += 1;
        }
        heaps.into_values().collect()
    }

    /// Draws a bar with its tooltip.
    fn heap(&self, heap: &Heap, top: f64) -> Group {
        let bar = heap.bar;
        let least = if matches!(bar.fate, RunState::Failure | RunState::Stopped) { BAD_SLIVER } else { SLIVER };
        // Keeps a short bar within the right edge.
        let from = self.x(bar.from).min(self.left + self.width - least);
        let to = self.x(bar.to).max(from + least);
        shape(bar.fate, from, to - from, top, self.layout).add(Title::new(match heap.runs {
            1 => self.told(&self.picture.run(&bar)),
            runs => self.counted(runs, heap),
        }))
    }

    /// Returns the tooltip of several runs drawn as one bar.
    fn counted(&self, runs: usize, heap: &Heap) -> String {
        let past = self.picture.run(&heap.bar);
        let of = match self.picture.by {
            By::Job => format!("of {}", shown(&past.run.name)),
            By::Host => format!("on {}", past.run.host),
        };
        let (first, last) = (self.zone.stamp(heap.bar.from), self.zone.stamp(heap.last));
        visible(&format!("{runs} runs {of}: {}; the first began {first}, the last {last}", past.word())).into_owned()
    }

    fn told(&self, past: &Past) -> String {
        let run = &past.run;
        let code = run.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let began = run.started_at.map(|time| self.zone.stamp(time)).unwrap_or_default();
        let took = past.took(self.picture.to).map(|took| format!(", {}", finely(took))).unwrap_or_default();
        let (name, host, word) = (shown(&run.name), &run.host, past.word());
        let text = format!("{name} on {host}: {word}{code}; {began}{took}; token {}", run.token);
        visible(&text).into_owned()
    }
}

/// Returns the style for an outcome: no two have the same outline or filling.
fn shape(fate: RunState, x: f64, width: f64, top: f64, layout: &Layout) -> Group {
    let block = |class: &str, inset: f64| {
        let block = Rectangle::new().set("class", class).set("x", rounded(x)).set("y", top + inset).set("rx", 1.5);
        block.set("width", rounded(width)).set("height", ROW - 2.0 * inset)
    };
    let pattern = |what: &str| block("", 1.0).set("fill", format!("url(#{}-{what})", layout.id));
    let group = Group::new();
    match fate {
        RunState::Success => group.add(block("success", 4.0)),
        RunState::Failure => group.add(block("failure", 1.0)).add(pattern("failure")),
        RunState::Stopped => group.add(block("stopped", 1.0)).add(pattern("stopped")),
        RunState::Unknown => group.add(block("unknown", 4.0)),
        RunState::Running => {
            // An arrow, because the run goes on.
            let (middle, end) = (top + ROW / 2.0, x + width);
            let arrow = format!("M{end:.1} {middle:.1}l-6 -7v14z");
            group.add(block("running", 6.5)).add(Path::new().set("class", "running").set("d", arrow))
        }
        RunState::Gone => {
            let (x, y) = (rounded(x), top + ROW / 2.0);
            let ring = Circle::new().set("class", "gone").set("cx", x).set("cy", y).set("r", 7);
            let blank = Circle::new().set("class", "ground").set("cx", x).set("cy", y).set("r", 7);
            group.add(blank).add(ring).add(written("?", x, y + 4.0, "mark"))
        }
    }
}

fn patterns(layout: &Layout) -> Definitions {
    let pattern = |what: &str, class: &str, turn: &str| {
        let line = Line::new().set("class", class).set("x1", 0).set("x2", 0).set("y1", 0).set("y2", 6);
        let pattern = Pattern::new()
            .set("id", format!("{}-{what}", layout.id))
            .set("width", 6)
            .set("height", 6)
            .set("patternUnits", "userSpaceOnUse");
        pattern.set("patternTransform", turn).add(line)
    };
    Definitions::new().add(pattern("failure", "failure-line", "rotate(45)")).add(pattern(
        "stopped",
        "stopped-line",
        "rotate(90)",
    ))
}

/// Draws the legend, in as many lines as it needs, and returns the height at which it ends.
fn legend(top: f64, picture: &Picture<'_>, since: Option<&str>, layout: &Layout) -> (Group, f64) {
    let words = [
        (RunState::Success, "success"),
        (RunState::Failure, "failure"),
        (RunState::Stopped, "expired or lost"),
        (RunState::Running, "running"),
        (RunState::Gone, "never came back"),
        (RunState::Unknown, "unknown"),
    ];
    let (sample, gap) = (22.0, 8.0);
    let (mut group, mut x, mut y) = (Group::new(), EDGE, top);
    let mut place = |width: f64| {
        if x > EDGE && x + width > layout.width - EDGE {
            (x, y) = (EDGE, y + FOOT);
        }
        let place = (x, y);
        x += width + 22.0;
        place
    };
    for (fate, word) in words.into_iter().filter(|(fate, _)| *fate != RunState::Unknown || picture.count(*fate) > 0) {
        let (x, y) = place(sample + gap + word.len() as f64 * LETTER);
        let start = if fate == RunState::Gone { x + sample / 2.0 } else { x };
        group = group.add(shape(fate, start, sample, y - 13.0, layout)).add(written(word, x + sample + gap, y, ""));
    }
    let notes = since.map(|since| ["no background: no records"].into_iter().chain(since.split_inclusive(", ")));
    for note in notes.into_iter().flatten() {
        let (x, y) = place(note.len() as f64 * LETTER);
        group = group.add(written(note.trim_end(), x, y, "quiet"));
    }
    (group, y + FOOT)
}

/// Describes the picture for screen readers.
fn described(picture: &Picture<'_>, since: Option<&str>) -> String {
    let lanes = picture.lanes.len();
    let of = if picture.by == By::Job { "jobs" } else { "hosts" };
    let number = |fate| picture.count(fate);
    let gaps = since.map(|since| format!("; where a line has no background, there are no records: {since}"));
    let gaps = gaps.unwrap_or_default();
    format!(
        "{of}: {lanes}; runs that succeeded: {}, failed: {}, expired or lost their lock: {}, are running: {}, never came back: {}{gaps}",
        number(RunState::Success),
        number(RunState::Failure),
        number(RunState::Stopped),
        number(RunState::Running),
        number(RunState::Gone),
    )
}

fn written(text: &str, x: f64, y: f64, class: &str) -> Text {
    let text = Text::new(text).set("x", rounded(x)).set("y", rounded(y));
    if class.is_empty() { text } else { text.set("class", class) }
}

/// Rounds to a tenth of a pixel.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::past::past;
    use crate::report::past::tests::NOW;
    use crate::report::picture::tests::runs;
    use crate::report::times::tests::at;

    fn drawing() -> String {
        let (runs, locks) = runs();
        let past = past(&runs, &locks);
        drawn(&Picture::new(&past, By::Job, None, at(NOW)).unwrap(), &Zone::utc())
    }

    #[test]
    fn the_drawing_has_a_bar_for_each_run_which_says_what_it_is() {
        let drawing = drawing();
        for told in [
            "backup on web2: failure, exit code 3; 2026-01-31 08:00:00Z, 1h; token 4",
            "backup on db1: success, exit code 0; 2026-01-31 11:20:00Z, 1h30m; token 5",
            "vacuum on db1: never came back; 2026-01-31 12:00:00Z; token 6",
            "backup on db1: running; 2026-01-31 17:20:00Z, 45m3s; token 9",
        ] {
            assert!(drawing.contains(&format!("<title>{told}</title>")), "{told}: {drawing}");
        }
        // Besides that, the drawing's own and those of three lanes.
        assert_eq!(drawing.matches("<title").count(), 6 + 1 + 3);
        assert!(drawing.contains("prefers-color-scheme: dark") && !drawing.contains("<script"));
        assert!(drawing.contains("role=\"img\"") && drawing.contains("failed: 1, expired or lost their lock: 1"));
    }

    #[test]
    fn the_drawing_says_since_when_there_are_records() {
        let (runs, locks) = runs();
        let past = past(&runs, &locks);
        let drawn_since = |since| drawn(&Picture::new(&past, By::Job, Some(at(since)), at(NOW)).unwrap(), &Zone::utc());
        let (early, late) = (drawn_since("2026-01-24T18:00:00Z"), drawn_since("2026-01-31T14:00:00Z"));
        let said = ["records since 2026-01-31 08:00:00Z,", "of all jobs since 2026-01-31 13:00:00Z"];
        assert!(early.contains(&format!("there are no records: {}</desc>", said.join(" "))), "{early}");
        for note in [&["no background: no records"], &said[..]].concat() {
            assert!(early.contains(&format!("\n{note}\n")), "{note}: {early}");
        }
        assert!(early.contains("vacuum; records since 2026-01-31 12:00:00Z"), "{early}");
        assert!(!late.contains("records"), "{late}");
    }

    #[test]
    fn a_name_is_text_and_never_markup() {
        let drawing = drawing();
        assert!(drawing.contains(r"$'&lt;b&gt;&amp;\033' on web2"), "{drawing}");
        assert!(!drawing.contains("<b>") && !drawing.contains('\u{1b}'));
    }

    #[test]
    fn of_many_runs_that_lie_upon_each_other_there_is_one_bar() {
        let none = crate::report::past::tests::locks(&[]);
        let begin = at("2026-01-01T00:00:00Z");
        let run = |number: u64| {
            let (start, outcome) = (begin + std::time::Duration::from_secs(number * 10), number % 1000);
            let outcome = if outcome == 7 { "failure" } else { "success" };
            crate::report::past::tests::run(number, "a", "h", &start.to_string(), Some(8), outcome)
        };
        let runs = (0..20_000).map(run).collect();
        let past = past(&runs, &none);
        let now = begin + std::time::Duration::from_secs(200_000);
        let drawing = drawn(&Picture::new(&past, By::Job, None, now).unwrap(), &Zone::utc());
        assert!(drawing.len() < 150_000, "{}", drawing.len());
        // What failed is not hidden by what did not, and all are counted.
        assert_eq!(drawing.matches("a on h: failure, exit code 3; ").count(), 20, "{drawing}");
        assert!(drawing.contains("runs that succeeded: 19980, failed: 20,"));
        assert!(drawing.contains("runs of a: success; the first began 2026-01-01 00:00:00Z, the last 2026-01-01 00:1"));
    }

    #[test]
    fn a_short_run_is_seen_and_none_stands_out() {
        let none = crate::report::past::tests::locks(&[]);
        let run = |token, start: &str| crate::report::past::tests::run(token, "a", "h", start, Some(0), "success");
        let runs = [run(1, "2026-01-01T00:00:00Z"), run(2, NOW)].into_iter().collect();
        let past = past(&runs, &none);
        let drawing = drawn(&Picture::new(&past, By::Job, None, at(NOW)).unwrap(), &Zone::utc());
        let bars: Vec<&str> = drawing.lines().filter(|line| line.contains("class=\"success\"")).collect();
        let bars: Vec<&str> = bars.into_iter().take(2).collect();
        assert!(bars.iter().all(|bar| bar.contains("width=\"3\"")), "{bars:?}");
        assert!(bars[1].contains(&format!("x=\"{}\"", ALONE.width - EDGE - SLIVER)), "{bars:?}");
    }
}
