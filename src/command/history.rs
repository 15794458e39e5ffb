//! `shedlock history`: shows past runs as a table, JSON, a picture or a page.

use clap::ArgMatches;

use super::arguments::{lock_arguments, only_lock, zone};
use super::operator::Operator;
use super::output::{print, print_all, refuse, remark};
use super::save::save;
use super::status::Listing;
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::{Lock, RunQuery};
use crate::report::{
    GroupBy, Page, Screen, Timeline, lock_views, runs_json, runs_table, shown_runs, timeline_svg, timeline_text,
};
use crate::suggest::{did_you_mean, nearest};
use crate::text::printable_name;

/// The default of --limit for a table or JSON without --since.
const DEFAULT_LIMIT: u32 = 50;

/// The form of the output, as the options say.
struct Shape {
    json: bool,
    timeline: bool,
    /// The file into which the timeline is drawn.
    svg: Option<String>,
    /// The file into which the page is written.
    html: Option<String>,
}

/// Shows past runs.
pub(crate) fn history(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let names = lock_arguments(matches)?;
    let shape = shape(matches)?;
    let limit = limit(matches)?;
    let zone = zone(matches)?;
    let mut operator = Operator::new(matches, only_lock(&names).as_ref())?;
    // Read before the runs: a run without an end is running if it holds its lock, and a run that began in between is
    // recognised.
    let locks = operator.ask(|backend| backend.locks(&names.iter().map(String::as_str).collect::<Vec<_>>()))?;
    let since = matches.get_one::<String>("since").map(|text| zone.read(text, locks.now)).transpose();
    let since = since.map_err(|why| Mistake::new(format!("--since {why}")))?;
    let limit = limit.or((since.is_none() && !shape.is_picture()).then_some(DEFAULT_LIMIT));
    // One more than is shown, to know whether some are left out. A picture also needs the runs before --since, because the
    // oldest run shows where the records begin.
    let wanted = RunQuery {
        names: names.clone(),
        limit: limit.map(|limit| limit.saturating_add(1)),
        since: since.filter(|_| !shape.is_picture() || limit.is_some()),
        newest_per_lock: None,
    };
    let mut runs = operator.ask(|backend| backend.runs(&wanted))?;
    let most = limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    // Not printed if the user gave --limit.
    let left_out = runs.runs.len() > most && !matches.contains_id("limit");
    runs.runs.truncate(most);
    if let Some(name) = names.first().filter(|_| runs.runs.is_empty() && locks.locks.iter().all(Lock::is_past_pause)) {
        let ever = RunQuery { names: names.clone(), limit: Some(1), ..RunQuery::default() };
        if operator.ask(|backend| backend.runs(&ever))?.runs.is_empty() {
            return unknown(name, &mut operator);
        }
    }
    let mut shown = shown_runs(&runs.runs, &locks);
    // A picture draws no run at a time before --since, and needs all of them to know since when there are records.
    if let Some(since) = since.filter(|_| !shape.is_picture()) {
        // The end of a run that never came back is unknown. It was over when a later run began, or when its lock expired, if
        // the backend still knows.
        let newest = RunQuery { names: names.clone(), newest_per_lock: Some(1), ..RunQuery::default() };
        let newest: Vec<_> = match shown.iter().any(|run| run.is_gone_before(since)) {
            true => operator.ask(|backend| backend.runs(&newest))?.runs.iter().collect(),
            false => Vec::new(),
        };
        shown.retain(|run| {
            !run.is_gone_before(since) || newest.contains(&run.record) && run.may_have_held(&locks, since)
        });
    }
    let screen = Screen::for_stdout();
    if !shape.is_picture() {
        let exit = match shape.json {
            true => print_all(runs_json(&shown)),
            false if shown.is_empty() => return nothing(),
            false => print_all(runs_table(&shown, names.is_empty(), runs.now, &zone, &screen)),
        };
        warn_of_older(most, left_out);
        return exit;
    }
    let by = match matches.get_one::<String>("by").map(String::as_str) {
        Some("host") => GroupBy::Host,
        None if !names.is_empty() => GroupBy::Host,
        _ => GroupBy::Job,
    };
    let timeline = Timeline::new(&shown, by, since, runs.now);
    if let Some(file) = &shape.html {
        // Also the last runs that are older than --since.
        let status = operator.ask(|backend| Listing::read(backend, &names))?;
        status.must_be_whole()?;
        let last = shown_runs(&status.runs.runs, &status.locks);
        let views = &lock_views(&status.names, &status.locks, &last)[..];
        let backend = operator.address();
        let page = Page { backend, now: runs.now, views, runs: &shown, timeline: timeline.as_ref() };
        save(file, page.text(&zone).as_bytes())?;
    }
    let Some(timeline) = timeline else {
        // The page says so itself.
        return if shape.timeline || shape.svg.is_some() { nothing() } else { Ok(Exit { code: 0, raise: None }) };
    };
    if let Some(file) = &shape.svg {
        save(file, timeline_svg(&timeline, &zone).as_bytes())?;
    }
    match shape.timeline {
        true => print(timeline_text(&timeline, &zone, &screen).as_bytes()),
        false => Ok(Exit { code: 0, raise: None }),
    }
}

impl Shape {
    /// Returns whether the runs are drawn instead of listed.
    fn is_picture(&self) -> bool {
        self.timeline || self.svg.is_some() || self.html.is_some()
    }
}

fn shape(matches: &ArgMatches) -> Result<Shape, Mistake> {
    let file = |option: &str| matches.get_one::<String>(option).cloned();
    let (svg, html) = (file("svg"), file("html"));
    let shape = Shape { json: matches.get_flag("json"), timeline: matches.get_flag("timeline"), svg, html };
    let files = [("--svg", &shape.svg), ("--html", &shape.html)];
    if let Some((option, _)) = files.iter().find(|(_, file)| file.as_deref() == Some("")) {
        return Err(Mistake::new(format!("{option} is empty")).hint("name the file, or `-`"));
    }
    // JSON is for programs, which draw pictures of their own.
    let end = if shape.json { "" } else { " -" };
    let drawn = files.iter().filter(|(_, file)| file.as_deref().is_some_and(|file| shape.json || file == "-"));
    let listed = [("--json", shape.json), ("--timeline", shape.timeline)].into_iter().filter(|(_, given)| *given);
    let printed = listed.map(|(option, _)| option.to_owned()).chain(drawn.map(|(option, _)| format!("{option}{end}")));
    if let [one, other, ..] = &printed.collect::<Vec<_>>()[..] {
        return Err(Mistake::new(format!("{one} and {other} exclude each other")).hint("give only one of them"));
    }
    if !shape.is_picture() && matches.contains_id("by") {
        return Err(Mistake::new("--by is for pictures only").hint("add --timeline, --svg FILE or --html FILE"));
    }
    match matches.get_one::<String>("by").map(String::as_str) {
        None | Some("job" | "host") => Ok(shape),
        Some(other) => Err(Mistake::new(format!("--by is `{other}`; known are job, host"))),
    }
}

/// Parses --limit.
fn limit(matches: &ArgMatches) -> Result<Option<u32>, Mistake> {
    let Some(text) = matches.get_one::<String>("limit") else { return Ok(None) };
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(Some(number)),
        _ => Err(Mistake::new(format!("--limit `{text}` is not a number of runs; write 1 or more"))),
    }
}

/// Prints on stderr that there are more runs.
fn warn_of_older(shown: usize, left_out: bool) {
    if left_out {
        remark(
            &format!("only the newest {shown} runs are shown"),
            Some("--limit N shows N runs, --since 7d all runs of a week"),
        );
    }
}

/// Refuses a name without runs, and without a holder other than a pause.
fn unknown(name: &str, operator: &mut Operator) -> anyhow::Result<Exit> {
    let all = operator.ask(|backend| backend.locks(&[]))?;
    let others = all.locks.iter().filter(|lock| lock.name != name && !lock.is_past_pause());
    let near = nearest(name, others.map(|lock| &lock.name[..])).map(|near| did_you_mean(&printable_name(near)));
    Ok(refuse(&format!("no run of `{}` is known", printable_name(name)), near.as_deref()))
}

/// Prints on stderr why stdout is empty.
fn nothing() -> anyhow::Result<Exit> {
    remark("there are no runs to show", None);
    Ok(Exit { code: 0, raise: None })
}
