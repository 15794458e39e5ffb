//! `shedlock history`.

use clap::ArgMatches;

use super::operator::{Operator, asked_names, nearest, only, zone};
use super::{print, refuse, remark, save};
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::Wanted;
use crate::report::{By, Picture, Screen, drawn, harmless, past, runs_json, runs_table, timeline};

/// How many runs are shown unless it is said.
const LIMIT: u32 = 50;

/// What is made of the runs.
struct Shape {
    json: bool,
    timeline: bool,
    /// Where a drawing goes.
    svg: Option<String>,
}

/// Shows past runs.
pub(crate) fn history(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let names = asked_names(matches)?;
    let shape = shape(matches)?;
    let limit = limit(matches, &shape)?;
    let zone = zone(matches)?;
    let mut operator = Operator::new(matches, only(&names).as_ref())?;
    // Asked first, since a run that is not over is one that runs if it holds its lock: what begins later is seen to be later.
    let locks = operator.ask(|backend| backend.locks(&names.iter().map(String::as_str).collect::<Vec<_>>()))?;
    let since = matches.get_one::<String>("since").map(|text| zone.read(text, locks.now)).transpose();
    let since = since.map_err(|why| Mistake::new(format!("--since {why}")))?;
    let wanted = Wanted { names: names.clone(), limit, since, of_each: None };
    let runs = operator.ask(|backend| backend.runs(&wanted))?;
    if let Some(name) = names.first().filter(|_| runs.runs.is_empty() && locks.locks.is_empty()) {
        let ever = Wanted { names: names.clone(), limit: Some(1), ..Wanted::default() };
        if operator.ask(|backend| backend.runs(&ever))?.runs.is_empty() {
            return unknown(name, &mut operator);
        }
    }
    let mut past = past(&runs.runs, &locks);
    if let Some(since) = since {
        // Nobody knows when a run ended that never came back. A later run shows that it was over before that one began, and what
        // the store has left of its lock when its time was up.
        let newest = Wanted { names: names.clone(), of_each: Some(1), ..Wanted::default() };
        let newest: Vec<_> = match past.iter().any(|past| past.is_gone_before(since)) {
            true => operator.ask(|backend| backend.runs(&newest))?.runs,
            false => Vec::new(),
        };
        past.retain(|past| {
            !past.is_gone_before(since)
                || newest.iter().any(|last| last == past.run) && past.may_have_held(&locks, since)
        });
    }
    if shape.json {
        return print(harmless(format!("{:#}\n", runs_json(&past))).as_bytes());
    }
    let screen = Screen::of_stdout();
    if !shape.timeline && shape.svg.is_none() {
        return match past.is_empty() {
            true => nothing(),
            false => print(runs_table(&past, names.is_empty(), runs.now, &zone, &screen).as_bytes()),
        };
    }
    let by = match matches.get_one::<String>("by").map(String::as_str) {
        Some("host") => By::Host,
        None if !names.is_empty() => By::Host,
        _ => By::Job,
    };
    let Some(picture) = Picture::new(&past, by, since, runs.now) else { return nothing() };
    if let Some(file) = &shape.svg {
        save(file, drawn(&picture, &zone).as_bytes())?;
    }
    match shape.timeline {
        true => print(timeline(&picture, &zone, &screen).as_bytes()),
        false => Ok(Exit { code: 0, raise: None }),
    }
}

fn shape(matches: &ArgMatches) -> Result<Shape, Mistake> {
    let json = matches.get_flag("json");
    let timeline = matches.get_flag("timeline");
    let svg = matches.get_one::<String>("svg").cloned();
    let exclusive = |one: &str, other: &str| {
        Err(Mistake::new(format!("{one} and {other} exclude each other")).hint("give one of them"))
    };
    match &svg {
        Some(_) if json => return exclusive("--json", "--svg"),
        Some(file) if timeline && file == "-" => return exclusive("--timeline", "--svg -"),
        Some(file) if file.is_empty() => return Err(Mistake::new("--svg is empty").hint("name the file, or `-`")),
        _ if json && timeline => return exclusive("--json", "--timeline"),
        None if !timeline && matches.contains_id("by") => {
            return Err(Mistake::new("--by is for pictures only").hint("add --timeline or --svg FILE"));
        }
        _ => {}
    }
    match matches.get_one::<String>("by").map(String::as_str) {
        None | Some("job" | "host") => Ok(Shape { json, timeline, svg }),
        Some(other) => Err(Mistake::new(format!("--by is `{other}`; known are job, host"))),
    }
}

/// A picture has room for all, and a table for some.
fn limit(matches: &ArgMatches, shape: &Shape) -> Result<Option<u32>, Mistake> {
    let Some(text) = matches.get_one::<String>("limit") else {
        return Ok((!shape.timeline && shape.svg.is_none()).then_some(LIMIT));
    };
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(Some(number)),
        _ => Err(Mistake::new(format!("--limit `{text}` is no number of runs; write one from 1"))),
    }
}

/// The store has nothing of a lock of this name.
fn unknown(name: &str, operator: &mut Operator) -> anyhow::Result<Exit> {
    let all = operator.ask(|backend| backend.locks(&[]))?;
    let near = nearest(name, all.locks.iter().map(|lock| &lock.name[..])).map(|near| format!("did you mean `{near}`?"));
    Ok(refuse(&format!("there is no lock `{name}` and no run of it"), near.as_deref()))
}

/// Says on stderr why there is nothing on stdout.
fn nothing() -> anyhow::Result<Exit> {
    remark("there are no runs to show", None);
    Ok(Exit { code: 0, raise: None })
}
