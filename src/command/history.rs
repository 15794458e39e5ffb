//! `shedlock history`.

use clap::ArgMatches;

use super::operator::{Operator, asked_names, nearest, only, zone};
use super::status::look;
use super::{print, print_all, refuse, remark, save};
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::{Lock, Wanted};
use crate::report::{self, By, Page, Picture, Screen, drawn, past, runs_json, runs_table, standings, timeline};
use crate::text::shown;

/// The default of --limit for a table or JSON without --since.
const LIMIT: u32 = 50;

/// The output format.
struct Shape {
    json: bool,
    timeline: bool,
    /// The file for the picture.
    svg: Option<String>,
    /// The file for the page.
    html: Option<String>,
}

/// Shows past runs.
pub(crate) fn history(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let names = asked_names(matches)?;
    let shape = shape(matches)?;
    let limit = limit(matches)?;
    let zone = zone(matches)?;
    let mut operator = Operator::new(matches, only(&names).as_ref())?;
    // Read before the runs: a run without an end is running if it holds its lock, and a run that began in between is
    // recognised.
    let locks = operator.ask(|backend| backend.locks(&names.iter().map(String::as_str).collect::<Vec<_>>()))?;
    let since = matches.get_one::<String>("since").map(|text| zone.read(text, locks.now)).transpose();
    let since = since.map_err(|why| Mistake::new(format!("--since {why}")))?;
    let limit = limit.or((since.is_none() && !shape.is_picture()).then_some(LIMIT));
    // One more than is shown, to know whether some are left out. A picture also needs the runs before --since, because the
    // oldest run shows where the records begin.
    let wanted = Wanted {
        names: names.clone(),
        limit: limit.map(|limit| limit.saturating_add(1)),
        since: since.filter(|_| !shape.is_picture() || limit.is_some()),
        of_each: None,
    };
    let mut runs = operator.ask(|backend| backend.runs(&wanted))?;
    let most = limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    // Not printed if the user gave --limit.
    let left_out = runs.runs.len() > most && !matches.contains_id("limit");
    runs.runs.truncate(most);
    if let Some(name) =
        names.first().filter(|_| runs.runs.is_empty() && locks.locks.iter().all(Lock::is_only_of_a_pause))
    {
        let ever = Wanted { names: names.clone(), limit: Some(1), ..Wanted::default() };
        if operator.ask(|backend| backend.runs(&ever))?.runs.is_empty() {
            return unknown(name, &mut operator);
        }
    }
    let mut past = past(&runs.runs, &locks);
    // A picture draws no run at a time before --since, and needs all of them to know since when there are records.
    if let Some(since) = since.filter(|_| !shape.is_picture()) {
        // The end of a run that never came back is unknown. It was over when a later run began, or when its lock expired, if
        // the backend still knows.
        let newest = Wanted { names: names.clone(), of_each: Some(1), ..Wanted::default() };
        let newest: Vec<_> = match past.iter().any(|past| past.is_gone_before(since)) {
            true => operator.ask(|backend| backend.runs(&newest))?.runs.iter().collect(),
            false => Vec::new(),
        };
        past.retain(|past| {
            !past.is_gone_before(since) || newest.contains(&past.run) && past.may_have_held(&locks, since)
        });
    }
    let screen = Screen::of_stdout();
    if !shape.is_picture() {
        let exit = match shape.json {
            true => print_all(runs_json(&past)),
            false if past.is_empty() => return nothing(),
            false => print_all(runs_table(&past, names.is_empty(), runs.now, &zone, &screen)),
        };
        warn_of_older(most, left_out);
        return exit;
    }
    let by = match matches.get_one::<String>("by").map(String::as_str) {
        Some("host") => By::Host,
        None if !names.is_empty() => By::Host,
        _ => By::Job,
    };
    let picture = Picture::new(&past, by, since, runs.now);
    if let Some(file) = &shape.html {
        // Also the last runs that are older than --since.
        let status = operator.ask(|backend| look(backend, &names))?;
        status.is_whole()?;
        let last = report::past(&status.runs.runs, &status.locks);
        let standings = &standings(&status.names, &status.locks, &last)[..];
        let backend = operator.address();
        let page = Page { backend, now: runs.now, standings, runs: &past, picture: picture.as_ref() };
        save(file, page.text(&zone).as_bytes())?;
    }
    let Some(picture) = picture else {
        // The page says so itself.
        return if shape.timeline || shape.svg.is_some() { nothing() } else { Ok(Exit { code: 0, raise: None }) };
    };
    if let Some(file) = &shape.svg {
        save(file, drawn(&picture, &zone).as_bytes())?;
    }
    match shape.timeline {
        true => print(timeline(&picture, &zone, &screen).as_bytes()),
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
    let others = all.locks.iter().filter(|lock| lock.name != name && !lock.is_only_of_a_pause());
    let near = nearest(name, others.map(|lock| &lock.name[..])).map(|near| format!("did you mean `{}`?", shown(near)));
    Ok(refuse(&format!("no run of `{}` is known", shown(name)), near.as_deref()))
}

/// Prints on stderr why stdout is empty.
fn nothing() -> anyhow::Result<Exit> {
    remark("there are no runs to show", None);
    Ok(Exit { code: 0, raise: None })
}
