//! `docs/java.md` shows the matrix as it is tested.

use std::fmt::Write;

use super::matrix::{Kept, Late, MATRIX, Promise, Row};
use crate::documents::shown::is_shown;
use crate::support::repository::text;

/// The stores and the zones in them where rows have the same result.
type Places = Vec<(String, Vec<&'static str>)>;

/// Lists the rows by their results. Rows that differ only in the store, the zone or the provider are one line.
fn results() -> String {
    let mut text = String::new();
    for result in RESULTS {
        writeln!(text, "{}", said(result)).unwrap();
        text += "\n";
        let mut lines: Vec<(Vec<String>, &str, Places)> = Vec::new();
        for row in MATRIX.iter().filter(|row| row.promise == result) {
            let (providers, settings) = (vec![version(row)], row.setting.shown);
            let place = match lines.iter().position(|line| (&line.0, line.1) == (&providers, settings)) {
                Some(place) => place,
                None => {
                    lines.push((providers, settings, Vec::new()));
                    lines.len() - 1
                }
            };
            add(&mut lines[place].2, row);
        }
        let mut merged: Vec<(Vec<String>, &str, Places)> = Vec::new();
        for line in lines {
            match merged.iter_mut().find(|other| (other.1, &other.2) == (line.1, &line.2)) {
                Some(other) => other.0.extend(line.0),
                None => merged.push(line),
            }
        }
        for (providers, settings, places) in merged {
            let places: Vec<String> =
                places.iter().map(|(store, zones)| format!("{store} ({})", zones.join(", "))).collect();
            writeln!(text, "* {}{settings}: {}", providers.join(", "), places.join("; ")).unwrap();
        }
        text += "\n";
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Adds a row's store and zone to those of its line.
fn add(places: &mut Places, row: &Row) {
    let (store, zone) = (store(row), row.zone.rsplit('/').next().unwrap());
    match places.iter_mut().find(|(other, _)| *other == store) {
        Some((_, zones)) => zones.push(zone),
        None => places.push((store, vec![zone])),
    }
}

fn store(row: &Row) -> String {
    let at = |zone| if zone == "+00:00" { String::new() } else { format!(" at {zone}") };
    match row.store {
        Kept::Postgres => "PostgreSQL".to_owned(),
        Kept::PostgresWithZones => "`timestamptz`".to_owned(),
        Kept::MariaDb(zone) => format!("MariaDB{}", at(zone)),
        Kept::MySql(zone) => format!("MariaDB, MySQL{}", at(zone)),
        Kept::Redis => "Redis".to_owned(),
        Kept::Valkey => "Redis, Valkey".to_owned(),
        Kept::MongoDb => "MongoDB".to_owned(),
        Kept::ZooKeeper => "ZooKeeper".to_owned(),
        Kept::Etcd => "etcd".to_owned(),
    }
}

/// Returns the provider with the version that the tests fetch; one that is replayed has a star.
fn version(row: &Row) -> String {
    let Some((artifact, file)) = row.provider.version else { return format!("{}*", row.provider.shown) };
    let fetched = text(&format!("tests/java/{file}"));
    let (_, after) = fetched.split_once(&format!("<artifactId>{artifact}</artifactId>")).unwrap();
    let version = after.split_once("<version>").unwrap().1.split_once("</version>").unwrap().0;
    format!("{} {version}", row.provider.shown)
}

/// The results in the order of the page.
const RESULTS: [Promise; 5] = [
    Promise::Exclude(Late::Harmless),
    Promise::Exclude(Late::Frees),
    Promise::Exclude(Late::Takes),
    Promise::Ahead,
    Promise::Behind,
];

fn said(result: Promise) -> &'static str {
    match result {
        Promise::Exclude(Late::Harmless) => "**Yes**, and a late method is harmless:",
        Promise::Exclude(Late::Frees) => "**Yes**, but a late method frees the next holder's lock:",
        Promise::Exclude(Late::Takes) => "**Yes**, but a late method frees that lock or takes it over:",
        Promise::Ahead => "**No**, the method runs beside the job:",
        Promise::Behind => "**No**, the job runs beside the method:",
    }
}

#[test]
fn the_page_shows_the_matrix() {
    is_shown("docs/java.md", "matrix", &results());
}
