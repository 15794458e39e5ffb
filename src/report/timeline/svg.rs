//! Draws runs over time as SVG, without scripts or external resources. The library escapes what it is given.

use std::collections::BTreeMap;

use svg::Document;
use svg::node::Blob;
use svg::node::element::{Circle, Definitions, Description, Group, Line, Path, Pattern, Rectangle, Style, Text, Title};
use unicode_width::UnicodeWidthStr;

use super::layout::{Bar, GroupBy, Timeline};
use crate::report::tables::runs::{RunState, ShownRun};
use crate::report::tables::table::cut;
use crate::report::times::{Zone, in_two_units};
use crate::system::Timestamp;
use crate::text::{escape_hidden, printable_name};

const MARGIN: f64 = 16.0;
/// The height of the title, of the axis below it, and of a line of the legend.
const TITLE_HEIGHT: f64 = 28.0;
const AXIS_HEIGHT: f64 = 44.0;
const LEGEND_LINE_HEIGHT: f64 = 24.0;
/// The height of a row of bars, and the gap between two lanes.
const ROW_HEIGHT: f64 = 18.0;
const LANE_GAP: f64 = 10.0;
/// The approximate width of a letter; the reader's font decides.
const LETTER_WIDTH: f64 = 7.0;
const LONGEST_LABEL: usize = 30;
/// The least distance between two labels on the axis.
const MIN_TICK_WIDTH: f64 = 80.0;
/// The least widths of a bar; wider for a failure, so that it is not overlooked.
const MIN_BAR_WIDTH: f64 = 3.0;
const MIN_FAILURE_WIDTH: f64 = 5.0;

/// The size and the parts of a drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SvgForm {
    pub(crate) width: f64,
    /// Whether the title is drawn, too.
    pub(crate) titled: bool,
    /// Whether the name of a lane is above it, where there is no room beside it.
    pub(crate) above: bool,
    /// The beginning of the ids in the drawing: several drawings in one page differ in it.
    pub(crate) id: &'static str,
}

/// The form of a drawing in a file of its own.
const OWN_FILE: SvgForm = SvgForm { width: 960.0, titled: true, above: false, id: "shedlock" };

/// The colours of Okabe and Ito, which colour-blind people can tell apart, adjusted to the background. No two kinds of bars
/// have the same shape either.
const CSS: &str = "
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

/// Draws the timeline as a file of its own.
pub(crate) fn timeline_svg(timeline: &Timeline<'_>, zone: &Zone) -> String {
    format!("{}\n", svg_document(timeline, zone, &OWN_FILE))
}

/// Draws the timeline in this form.
pub(crate) fn svg_document(timeline: &Timeline<'_>, zone: &Zone, form: &SvgForm) -> Document {
    let labels: Vec<String> = timeline.lanes.iter().map(|lane| cut(&timeline.label(lane), LONGEST_LABEL)).collect();
    let widest = labels.iter().map(|label| label.width()).max().unwrap_or(0) as f64;
    let left = if form.above { MARGIN } else { MARGIN + widest * LETTER_WIDTH + 14.0 };
    let head = if form.titled { TITLE_HEIGHT + AXIS_HEIGHT } else { AXIS_HEIGHT };
    let chart = Chart { timeline, zone, form, head, left, width: form.width - MARGIN - left };
    let mut lanes = Group::new();
    let mut top = head;
    for (lane, label) in timeline.lanes.iter().zip(labels) {
        let mut told = timeline.label(lane).into_owned();
        if lane.recorded_from > timeline.from {
            told += &format!("; records since {}", zone.stamp(lane.recorded_from));
        }
        lanes = lanes.add(svg_text(&label, MARGIN, top + 13.0, "").add(Title::new(told)));
        if form.above {
            top += ROW_HEIGHT;
        }
        let height = lane.rows.len() as f64 * ROW_HEIGHT;
        // Draws no background where the history has no records.
        let known = rounded(chart.x(lane.recorded_from));
        let ground = Rectangle::new().set("class", "lane").set("x", known).set("y", top).set("rx", 2);
        lanes = lanes.add(ground.set("width", rounded(left + chart.width - known)).set("height", height));
        for (number, row) in lane.rows.iter().enumerate() {
            // As text, of which an element takes the tenfold.
            let merged_bars = chart.merged_bars(row);
            let bars = merged_bars
                .iter()
                .map(|merged| chart.draw_merged(merged, top + number as f64 * ROW_HEIGHT).to_string());
            lanes = lanes.add(Blob::new(bars.collect::<Vec<_>>().join("\n")));
        }
        top += height + LANE_GAP;
    }
    let bottom = top - LANE_GAP / 2.0;
    let since = timeline.records_since(zone);
    let (legend, height) = legend(top + LEGEND_LINE_HEIGHT, timeline, since.as_deref(), form);
    let title = timeline.title(zone);
    let id = |what: &str| format!("{}-{what}", form.id);
    let document = Document::new()
        .set("viewBox", (0, 0, form.width, height))
        .set("width", form.width)
        .set("height", height)
        .set("role", "img")
        .set("aria-labelledby", format!("{} {}", id("title"), id("desc")))
        .add(Title::new(&title[..]).set("id", id("title")))
        .add(
            Description::new().set("id", id("desc")).add(svg::node::Text::new(description(timeline, since.as_deref()))),
        )
        .add(Style::new(CSS))
        .add(patterns(form))
        .add(Rectangle::new().set("class", "ground").set("width", form.width).set("height", height).set("rx", 6));
    let document = if form.titled { document.add(svg_text(&title, MARGIN, 26.0, "head")) } else { document };
    document.add(chart.axis(bottom)).add(lanes).add(legend)
}

/// Overlapping runs with the same outcome, drawn as one bar. Otherwise a picture of many short runs would have more bars than a
/// browser can show.
struct MergedBars {
    /// The bar of the first of them, extended over all.
    bar: Bar,
    runs: usize,
    /// The start of the last one.
    last: Timestamp,
}

struct Chart<'a> {
    timeline: &'a Timeline<'a>,
    zone: &'a Zone,
    form: &'a SvgForm,
    /// The top of the first lane.
    head: f64,
    left: f64,
    width: f64,
}

impl Chart<'_> {
    fn x(&self, time: Timestamp) -> f64 {
        self.left + self.timeline.share(time) * self.width
    }

    fn axis(&self, bottom: f64) -> Group {
        let ticks = self.timeline.ticks(self.zone, (self.width / MIN_TICK_WIDTH) as usize);
        ticks.iter().fold(Group::new(), |group, tick| {
            let x = rounded(self.x(tick.at));
            let line =
                Line::new().set("class", "grid").set("x1", x).set("x2", x).set("y1", self.head - 8.0).set("y2", bottom);
            let room = self.left + self.width - x;
            let fits = |label: &&str| label.width() as f64 * LETTER_WIDTH <= room + MARGIN;
            let group = Some(&tick.label[..])
                .filter(fits)
                .into_iter()
                .fold(group.add(line), |group, label| group.add(svg_text(label, x, self.head - 12.0, "quiet")));
            tick.date
                .as_deref()
                .filter(fits)
                .into_iter()
                .fold(group, |group, date| group.add(svg_text(date, x, self.head - 26.0, "quiet")))
        })
    }

    /// Merges the bars of a row, in the order in which they are drawn: the most important on top.
    fn merged_bars(&self, row: &[u32]) -> Vec<MergedBars> {
        let sliver = |time: Timestamp| ((self.x(time) - self.left) / MIN_BAR_WIDTH) as u32;
        let mut merged_bars: BTreeMap<_, MergedBars> = BTreeMap::new();
        for bar in row.iter().map(|run| self.timeline.bar(*run)) {
            let word = self.timeline.run(&bar).word().to_owned();
            let place = (bar.state.drawing_order(), sliver(bar.from), sliver(bar.to), word);
            let merged = merged_bars.entry(place).or_insert(MergedBars { bar, runs: 0, last: bar.from });
            merged.bar.to = merged.bar.to.max(bar.to);
            merged.last = merged.last.max(bar.from);
            merged.runs += 1;
        }
        merged_bars.into_values().collect()
    }

    /// Draws a bar with its tooltip.
    fn draw_merged(&self, merged: &MergedBars, top: f64) -> Group {
        let bar = merged.bar;
        let least =
            if matches!(bar.state, RunState::Failure | RunState::Stopped) { MIN_FAILURE_WIDTH } else { MIN_BAR_WIDTH };
        // Keeps a short bar within the right edge.
        let from = self.x(bar.from).min(self.left + self.width - least);
        let to = self.x(bar.to).max(from + least);
        shape(bar.state, from, to - from, top, self.form).add(Title::new(match merged.runs {
            1 => self.run_tooltip(&self.timeline.run(&bar)),
            runs => self.runs_tooltip(runs, merged),
        }))
    }

    /// Returns the tooltip of several runs drawn as one bar.
    fn runs_tooltip(&self, runs: usize, merged: &MergedBars) -> String {
        let run = self.timeline.run(&merged.bar);
        let of = match self.timeline.by {
            GroupBy::Job => format!("of {}", printable_name(&run.record.name)),
            GroupBy::Host => format!("on {}", run.record.host),
        };
        let (first, last) = (self.zone.stamp(merged.bar.from), self.zone.stamp(merged.last));
        escape_hidden(&format!("{runs} runs {of}: {}; the first began {first}, the last {last}", run.word()))
            .into_owned()
    }

    fn run_tooltip(&self, run: &ShownRun) -> String {
        let record = &run.record;
        let code = record.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let began = record.started_at.map(|time| self.zone.stamp(time)).unwrap_or_default();
        let took = run.took(self.timeline.to).map(|took| format!(", {}", in_two_units(took))).unwrap_or_default();
        let (name, host, word) = (printable_name(&record.name), &record.host, run.word());
        let text = format!("{name} on {host}: {word}{code}; {began}{took}; token {}", record.token);
        escape_hidden(&text).into_owned()
    }
}

/// Draws the bar of an outcome: no two have the same outline or filling.
fn shape(state: RunState, x: f64, width: f64, top: f64, form: &SvgForm) -> Group {
    let block = |class: &str, inset: f64| {
        let block = Rectangle::new().set("class", class).set("x", rounded(x)).set("y", top + inset).set("rx", 1.5);
        block.set("width", rounded(width)).set("height", ROW_HEIGHT - 2.0 * inset)
    };
    let pattern = |what: &str| block("", 1.0).set("fill", format!("url(#{}-{what})", form.id));
    let group = Group::new();
    match state {
        RunState::Success => group.add(block("success", 4.0)),
        RunState::Failure => group.add(block("failure", 1.0)).add(pattern("failure")),
        RunState::Stopped => group.add(block("stopped", 1.0)).add(pattern("stopped")),
        RunState::Unknown => group.add(block("unknown", 4.0)),
        RunState::Running => {
            // An arrow, because the run goes on.
            let (middle, end) = (top + ROW_HEIGHT / 2.0, x + width);
            let arrow = format!("M{end:.1} {middle:.1}l-6 -7v14z");
            group.add(block("running", 6.5)).add(Path::new().set("class", "running").set("d", arrow))
        }
        RunState::Gone => {
            let (x, y) = (rounded(x), top + ROW_HEIGHT / 2.0);
            let ring = Circle::new().set("class", "gone").set("cx", x).set("cy", y).set("r", 7);
            let blank = Circle::new().set("class", "ground").set("cx", x).set("cy", y).set("r", 7);
            group.add(blank).add(ring).add(svg_text("?", x, y + 4.0, "mark"))
        }
    }
}

fn patterns(form: &SvgForm) -> Definitions {
    let pattern = |what: &str, class: &str, turn: &str| {
        let line = Line::new().set("class", class).set("x1", 0).set("x2", 0).set("y1", 0).set("y2", 6);
        let pattern = Pattern::new()
            .set("id", format!("{}-{what}", form.id))
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
fn legend(top: f64, timeline: &Timeline<'_>, since: Option<&str>, form: &SvgForm) -> (Group, f64) {
    let words = [
        (RunState::Success, "success"),
        (RunState::Failure, "failure"),
        (RunState::Stopped, "expired or lost"),
        (RunState::Running, "running"),
        (RunState::Gone, "never came back"),
        (RunState::Unknown, "unknown"),
    ];
    let (sample, gap) = (22.0, 8.0);
    let (mut group, mut x, mut y) = (Group::new(), MARGIN, top);
    let mut place = |width: f64| {
        if x > MARGIN && x + width > form.width - MARGIN {
            (x, y) = (MARGIN, y + LEGEND_LINE_HEIGHT);
        }
        let place = (x, y);
        x += width + 22.0;
        place
    };
    for (state, word) in
        words.into_iter().filter(|(state, _)| *state != RunState::Unknown || timeline.count(*state) > 0)
    {
        let (x, y) = place(sample + gap + word.len() as f64 * LETTER_WIDTH);
        let start = if state == RunState::Gone { x + sample / 2.0 } else { x };
        group = group.add(shape(state, start, sample, y - 13.0, form)).add(svg_text(word, x + sample + gap, y, ""));
    }
    let notes = since.map(|since| ["no background: no records"].into_iter().chain(since.split_inclusive(", ")));
    for note in notes.into_iter().flatten() {
        let (x, y) = place(note.len() as f64 * LETTER_WIDTH);
        group = group.add(svg_text(note.trim_end(), x, y, "quiet"));
    }
    (group, y + LEGEND_LINE_HEIGHT)
}

/// Describes the timeline for screen readers.
fn description(timeline: &Timeline<'_>, since: Option<&str>) -> String {
    let lanes = timeline.lanes.len();
    let of = if timeline.by == GroupBy::Job { "jobs" } else { "hosts" };
    let number = |state| timeline.count(state);
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

fn svg_text(text: &str, x: f64, y: f64, class: &str) -> Text {
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
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::NOW;
    use crate::report::timeline::layout::tests::runs;
    use crate::report::times::tests::at;

    fn svg_document() -> String {
        let (runs, locks) = runs();
        let shown = shown_runs(&runs, &locks);
        timeline_svg(&Timeline::new(&shown, GroupBy::Job, None, at(NOW)).unwrap(), &Zone::utc())
    }

    #[test]
    fn the_drawing_has_a_bar_for_each_run_which_says_what_it_is() {
        let drawing = svg_document();
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
        let shown = shown_runs(&runs, &locks);
        let drawn_since =
            |since| timeline_svg(&Timeline::new(&shown, GroupBy::Job, Some(at(since)), at(NOW)).unwrap(), &Zone::utc());
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
        let drawing = svg_document();
        assert!(drawing.contains(r"$'&lt;b&gt;&amp;\033' on web2"), "{drawing}");
        assert!(!drawing.contains("<b>") && !drawing.contains('\u{1b}'));
    }

    #[test]
    fn of_many_runs_that_lie_upon_each_other_there_is_one_bar() {
        let none = crate::report::tables::runs::tests::locks(&[]);
        let begin = at("2026-01-01T00:00:00Z");
        let run = |number: u64| {
            let (start, outcome) = (begin + std::time::Duration::from_secs(number * 10), number % 1000);
            let outcome = if outcome == 7 { "failure" } else { "success" };
            crate::report::tables::runs::tests::run(number, "a", "h", &start.to_string(), Some(8), outcome)
        };
        let runs = (0..20_000).map(run).collect();
        let shown = shown_runs(&runs, &none);
        let now = begin + std::time::Duration::from_secs(200_000);
        let drawing = timeline_svg(&Timeline::new(&shown, GroupBy::Job, None, now).unwrap(), &Zone::utc());
        assert!(drawing.len() < 150_000, "{}", drawing.len());
        // What failed is not hidden by what did not, and all are counted.
        assert_eq!(drawing.matches("a on h: failure, exit code 3; ").count(), 20, "{drawing}");
        assert!(drawing.contains("runs that succeeded: 19980, failed: 20,"));
        assert!(drawing.contains("runs of a: success; the first began 2026-01-01 00:00:00Z, the last 2026-01-01 00:1"));
    }

    #[test]
    fn a_short_run_is_seen_and_none_stands_out() {
        let none = crate::report::tables::runs::tests::locks(&[]);
        let run =
            |token, start: &str| crate::report::tables::runs::tests::run(token, "a", "h", start, Some(0), "success");
        let runs = [run(1, "2026-01-01T00:00:00Z"), run(2, NOW)].into_iter().collect();
        let shown = shown_runs(&runs, &none);
        let drawing = timeline_svg(&Timeline::new(&shown, GroupBy::Job, None, at(NOW)).unwrap(), &Zone::utc());
        let bars: Vec<&str> = drawing.lines().filter(|line| line.contains("class=\"success\"")).collect();
        let bars: Vec<&str> = bars.into_iter().take(2).collect();
        assert!(bars.iter().all(|bar| bar.contains("width=\"3\"")), "{bars:?}");
        assert!(bars[1].contains(&format!("x=\"{}\"", OWN_FILE.width - MARGIN - MIN_BAR_WIDTH)), "{bars:?}");
    }
}
