//! Draws locks and runs as one HTML page, without scripts or external resources. The tags come from the library that also
//! writes SVG, and it escapes what it is given.

use std::borrow::Borrow;
use std::fmt::Display;

use svg::node::element::{Element, Style};
use svg::node::{Node, Text};

use super::screen::Paint;
use super::tables::locks::{LockView, locks_columns};
use super::tables::runs::{RunState, ShownRun, ShownRuns, runs_columns};
use super::tables::table::{Cell, Column};
use super::timeline::layout::Timeline;
use super::timeline::svg::{SvgForm, svg_document};
use super::times::Zone;
use crate::system::Timestamp;

/// A page about jobs: their locks now, their runs as a picture, and the runs that went wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a> {
    /// The backend's URL, without a password.
    pub(crate) backend: &'a str,
    /// The time by the backend's clock.
    pub(crate) now: Timestamp,
    pub(crate) views: &'a [LockView<'a>],
    /// The runs of the picture, newest first.
    pub(crate) runs: &'a ShownRuns<'a>,
    /// The picture of the runs; `None` if there are none.
    pub(crate) timeline: Option<&'a Timeline<'a>>,
}

/// The most runs in the table of those that went wrong.
const MAX_FAILURES: usize = 50;

/// The drawing for a desk, and the one for a telephone. Only one of them is shown.
const WIDE: SvgForm = SvgForm { width: 1100.0, titled: false, above: false, id: "wide" };
const NARROW: SvgForm = SvgForm { width: 360.0, titled: false, above: true, id: "narrow" };

/// The style sheet. On a telephone the cells of a row follow each other, the name first.
const CSS: &str = "
:root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --line: #d0d7de; --faint: #59636e;
  --good: #0a6b4a; --bad: #a83c00; --warning: #7a4d00; --live: #005a94; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --faint: #9198a1;
    --good: #3ddba6; --bad: #ff9466; --warning: #f0b93a; --live: #7cc4f0; }
}
body { margin: 0 auto; max-width: 1100px; padding: 16px; color: var(--ink); background: var(--paper);
  font: 15px/1.45 system-ui, 'DejaVu Sans', sans-serif; overflow-wrap: break-word; }
h1 { font-size: 22px; margin: 0; }
h2 { font-size: 17px; margin: 28px 0 8px; }
p { margin: 4px 0; }
svg { max-width: 100%; height: auto; }
.narrow { display: none; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); }
th { font-size: 12px; color: var(--faint); }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
td[data-heading='LAST RUN'] { white-space: normal; min-width: 16em; }
td[data-heading='NAME'], td[data-heading='JOB'], td[data-heading='HOLDER'], td[data-heading='HOST'] {
  white-space: normal; overflow-wrap: anywhere; min-width: 6em; }
.faint { color: var(--faint); }
.good { color: var(--good); }
.bad { color: var(--bad); font-weight: 600; }
.warning { color: var(--warning); }
.live { color: var(--live); }
@media (max-width: 700px) {
  .wide, thead { display: none; }
  .narrow { display: block; }
  table, tbody { display: block; }
  tr { display: flex; flex-wrap: wrap; column-gap: 14px; border-bottom: 1px solid var(--line); padding: 6px 0; }
  td { border: 0; padding: 0; }
  td[data-heading='NAME'], td[data-heading='JOB'] { flex-basis: 100%; order: -1; font-weight: 600; }
  td[data-heading='HOLDER'], td[data-heading='HOST'] { min-width: 0; }
  td[data-heading='LAST RUN'] { min-width: 100%; }
  td:empty, td[data-heading='TOKEN'] { display: none; }
  td[data-heading='SINCE']::before, td[data-heading='UNTIL']::before, td[data-heading='LEFT']::before, td[data-heading='TOOK']::before,
  td[data-heading='CODE']::before, td[data-heading='LAST RUN']::before {
    content: attr(data-heading) ' '; font-size: 11px; font-weight: 400; color: var(--faint); }
}
";

/// The policy for the browser: the page's own style sheet, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

impl Page<'_> {
    /// Formats the page as HTML.
    pub(crate) fn text(&self, zone: &Zone) -> String {
        let head = element("head")
            .with(element("meta").set("charset", "utf-8"))
            .with(element("meta").set("http-equiv", "Content-Security-Policy").set("content", CONTENT_SECURITY_POLICY))
            .with(element("meta").set("name", "viewport").set("content", "width=device-width, initial-scale=1"))
            .with(line("title", "", "Jobs"))
            .with(Style::new(CSS));
        let body = element("body")
            .with(line("h1", "", "Jobs"))
            .with(line("p", "faint", format!("{}, {}", self.backend, zone.stamp(self.now))))
            .with(line("p", "", self.counts()))
            .with(line("h2", "", "Locks now"));
        let body = match self.views.is_empty() {
            true => body.with(line("p", "", "The backend has no locks.")),
            false => body.with(table(|| self.views.iter(), locks_columns(self.now, zone, true))),
        };
        let body = self.failures(self.drawings(body, zone), zone);
        format!("<!DOCTYPE html>\n{}\n", element("html").set("lang", "en").with(head).with(body))
    }

    /// Counts the locks of the page by their states.
    fn counts(&self) -> String {
        let mut states: Vec<(&str, usize)> = Vec::new();
        for word in self.views.iter().map(LockView::word) {
            match states.iter_mut().find(|(known, _)| *known == word) {
                Some((_, number)) => *number += 1,
                None => states.push((word, 1)),
            }
        }
        let bad = self.views.iter().filter_map(LockView::last_run).filter(went_wrong).count();
        let states = states.iter().map(|(word, number)| format!("{number} {word}"));
        let all: Vec<String> = states.chain([format!("last run went wrong: {bad}")]).collect();
        all.join(", ")
    }

    fn drawings(&self, body: Element, zone: &Zone) -> Element {
        let Some(timeline) = self.timeline else {
            return body.with(line("h2", "", "Runs")).with(line("p", "", "There are no runs to show."));
        };
        let drawing = |form: &SvgForm| element("div").set("class", form.id).with(svg_document(timeline, zone, form));
        body.with(line("h2", "", timeline.title(zone))).with(drawing(&WIDE)).with(drawing(&NARROW))
    }

    /// Adds the table of the runs that went wrong, newest first.
    fn failures(&self, body: Element, zone: &Zone) -> Element {
        let Some(timeline) = self.timeline else { return body };
        let seen =
            |run: &ShownRun| run.record.ended_at.or(run.record.started_at).is_none_or(|time| time >= timeline.from);
        let mut all = self.runs.iter().filter(went_wrong).filter(seen);
        let bad: Vec<ShownRun> = all.by_ref().take(MAX_FAILURES).collect();
        let more = all.count();
        let body = body.with(line("h2", "", "Runs that went wrong"));
        let body = match bad.is_empty() {
            true => body.with(line("p", "", format!("None since {}.", zone.stamp(timeline.from)))),
            false => body.with(table(|| bad.iter(), runs_columns(self.now, zone))),
        };
        match more {
            0 => body,
            more => body.with(line("p", "faint", format!("{more} older ones are not in this table."))),
        }
    }
}

/// Returns whether a person should look at the run.
fn went_wrong(run: &ShownRun) -> bool {
    matches!(run.state, RunState::Failure | RunState::Stopped | RunState::Gone)
}

/// Builds a table without the columns that are empty.
fn table<T: Borrow<R>, R, I: Iterator<Item = T>>(rows: impl Fn() -> I, columns: Vec<Column<'_, R>>) -> Element {
    let is_empty = |column: &Column<'_, R>| rows().all(|row| column.whole(row.borrow()).text().is_empty());
    let columns: Vec<Column<'_, R>> = columns.into_iter().filter(|column| !is_empty(column)).collect();
    let heading = columns.iter().fold(element("tr"), |row, column| row.with(line("th", "", column.heading())));
    let body = rows().fold(element("tbody"), |body, row| {
        let cells = columns.iter().map(|column| data(column.heading(), &column.whole(row.borrow())));
        body.with(cells.fold(element("tr"), Build::with))
    });
    element("table").with(element("thead").with(heading)).with(body)
}

fn data(heading: &'static str, cell: &Cell) -> Element {
    let class = match cell.paint() {
        Paint::Plain | Paint::Heading => "",
        Paint::Good => "good",
        Paint::Bad => "bad",
        Paint::Warning => "warning",
        Paint::Live => "live",
        Paint::Faint => "faint",
    };
    line("td", class, cell.text()).set("data-heading", heading)
}

fn element(name: &'static str) -> Element {
    Element::new(name)
}

/// Returns an element with a text, which may be empty.
fn line(name: &'static str, class: &'static str, text: impl Display) -> Element {
    let element = element(name).with(Text::new(text.to_string()));
    if class.is_empty() { element } else { element.set("class", class) }
}

/// Builds elements; the library does so only for those of SVG.
trait Build {
    fn with(self, child: impl Into<Box<dyn Node>>) -> Self;
    fn set(self, name: &'static str, value: &'static str) -> Self;
}

impl Build for Element {
    fn with(mut self, child: impl Into<Box<dyn Node>>) -> Self {
        self.append(child);
        self
    }

    fn set(mut self, name: &'static str, value: &'static str) -> Self {
        self.assign(name, value);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;
    use crate::lock::{Locks, RunList};
    use crate::report::tables::locks::lock_views;
    use crate::report::tables::runs::shown_runs;
    use crate::report::tables::runs::tests::{NOW, list, lock, locks, run};
    use crate::report::timeline::layout::GroupBy;
    use crate::report::timeline::layout::tests::runs;
    use crate::report::times::tests::at;

    fn page(locks: &Locks, runs: &RunList, since: Option<&str>) -> String {
        let shown = shown_runs(runs, locks);
        let timeline = Timeline::new(&shown, GroupBy::Job, since.map(at), at(NOW));
        let views = &lock_views(&[], locks, &shown)[..];
        let page = Page { backend: "sqlite:/x.db", now: at(NOW), views, runs: &shown, timeline: timeline.as_ref() };
        page.text(&Zone::utc())
    }

    /// Returns the part of the page from one heading to the next.
    fn part<'a>(page: &'a str, heading: &str) -> &'a str {
        let after = page.split_once(&format!("<h2>{heading}")).unwrap_or_else(|| panic!("no {heading}: {page}")).1;
        after.split("<h2>").next().unwrap()
    }

    #[test]
    fn it_has_the_locks_now_the_runs_and_those_that_went_wrong() {
        let (runs, mut locks) = runs();
        locks.locks.push(lock("idle", "web1:10007:00000000000000ff:ended", NOW, 0));
        let page = page(&locks, &runs, None);
        assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"), "{page}");
        assert!(page.contains("<p class=\"faint\">sqlite:/x.db, 2026-01-31 18:05:03Z</p>"), "{page}");
        assert!(page.contains("<p>3 free, 1 held, last run went wrong: 1</p>"), "{page}");
        let now = part(&page, "Locks now");
        assert!(now.contains("<td class=\"live\" data-heading=\"STATE\">held</td>"), "{now}");
        assert!(now.contains("data-heading=\"NAME\">idle</td>"), "{now}");
        let pictures = part(&page, "Runs by job, 2026-01-31 08:00:00Z to 2026-01-31 18:05:03Z (UTC)</h2>");
        assert_eq!(pictures.matches("<svg ").count(), 2);
        for id in ["id=\"wide-failure\"", "id=\"narrow-failure\"", "url(#wide-failure)", "url(#narrow-failure)"] {
            assert!(pictures.contains(id), "{id}: {pictures}");
        }
        let wrong = part(&page, "Runs that went wrong");
        let outcomes: Vec<&str> = wrong.split("data-heading=\"OUTCOME\">").skip(1).collect();
        let outcomes: Vec<&str> = outcomes.iter().filter_map(|rest| rest.split('<').next()).collect();
        assert_eq!(outcomes, ["lost", "never came back", "failure"], "{wrong}");
    }

    #[test]
    fn of_the_runs_that_went_wrong_it_has_the_newest_of_the_time_shown() {
        let minute =
            |number: u64| (at("2026-01-31T10:00:00Z") + std::time::Duration::from_secs(number * 60)).to_string();
        let runs: RunList =
            (0..60).rev().map(|number| run(number, "a", "h", &minute(number), Some(5), "failure")).collect();
        let all = page(&locks(&[]), &runs, None);
        assert_eq!(part(&all, "Runs that went wrong").matches("<tr>").count(), 1 + MAX_FAILURES);
        assert!(all.contains("data-heading=\"TOKEN\">59</td>") && !all.contains("data-heading=\"TOKEN\">9</td>"));
        assert!(all.contains("10 older ones are not in this table."), "{all}");
        let late = page(&locks(&[]), &runs, Some("2026-01-31T10:58:00Z"));
        assert_eq!(part(&late, "Runs that went wrong").matches("<tr>").count(), 1 + 2);
        let none = page(&locks(&[]), &runs.iter().take(1).collect(), Some("2026-01-31T17:00:00Z"));
        assert!(none.contains("There are no runs to show.") && !none.contains("went wrong</h2>"), "{none}");
    }

    #[test]
    fn of_an_empty_backend_it_says_so() {
        let page = page(&locks(&[]), &RunList::default(), None);
        assert!(page.contains("The backend has no locks.") && page.contains("There are no runs to show."), "{page}");
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(200) })]

        /// Names come from a database, into which other programs write.
        #[test]
        fn names_hosts_and_reasons_are_text_and_never_markup(
            name in any_text(), host in any_text(), reason in any_text(), outcome in any_text(),
        ) {
            let (plain, odd) = (store("n", "h", "r", "o"), store(&name, &host, &reason, &outcome));
            let (plain, odd) = (page(&plain.0, &plain.1, None), page(&odd.0, &odd.1, None));
            prop_assert_eq!(markup(&odd), markup(&plain));
            prop_assert!(!odd.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{1,20}",
            "[<>\"'&;/ a-z=!-]{1,20}",
            Just("<script>alert(1)</script>".to_owned()),
            Just("\"><img src=x onerror=alert(1)>".to_owned()),
            Just("</style><!--".to_owned()),
        ]
    }

    fn store(name: &str, host: &str, reason: &str, outcome: &str) -> (Locks, RunList) {
        let pause = crate::lock::Owner::for_pause("ada", "ops1", 7, None, reason);
        let locks = locks(&[lock(name, pause.as_str(), NOW, 60), lock("other", host, NOW, 60)]);
        let one_run = |token, outcome| run(token, name, host, "2026-01-31T12:00:00Z", Some(9), outcome);
        (locks, list(&[one_run(2, outcome), one_run(1, "failure")]))
    }

    /// Returns the elements of the page, each with the names of its attributes.
    fn markup(page: &str) -> BTreeSet<String> {
        let tags = page.split('<').skip(1).map(|tag| tag.split_once('>').map_or(tag, |(tag, _)| tag));
        tags.map(|tag| tag.split('"').step_by(2).collect()).collect()
    }
}
