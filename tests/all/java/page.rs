//! `docs/java.md` shows the matrix as it is tested.

use std::fmt::Write;

use super::cases::{LAST_COLUMN, cases};
use super::matrix::{Kept, Late, MATRIX, Promise, Row, Table};
use super::shown::is_shown;
use crate::generated::text;
use servers::stores::RedisStore;

/// What is generated in the page, by its names there.
fn blocks() -> [(&'static str, String); 3] {
    let rows = |is_replayed: bool| table(MATRIX.iter().filter(|row| row.provider.version.is_none() == is_replayed));
    [("matrix", rows(false)), ("replayed", rows(true)), ("cases", list())]
}

/// What each row passes where both exclude each other.
fn list() -> String {
    let mut list = String::new();
    for case in cases::<RedisStore>().iter().filter(|case| case.says != LAST_COLUMN) {
        let of =
            if case.extends { " (Not with the providers for ZooKeeper and etcd, which extend nothing.)" } else { "" };
        writeln!(list, "* {}{of}", case.says).unwrap();
    }
    let counted = MATRIX.iter().filter(|row| row.beside.is_some());
    let counted: Vec<String> = counted.map(|row| format!("{} ({})", store(row), row.provider.shown)).collect();
    let stores = counted.join(", ");
    writeln!(list, "* Methods in two JVMs and four loops of shedlock add to a number, and it is exact: {stores}.")
        .unwrap();
    list
}

/// Rows that differ only in the zone are one line.
fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut lines: Vec<([String; 4], Vec<&str>, [&str; 2])> = Vec::new();
    for row in rows {
        let first = [store(row), version(row), row.setting.shown.to_owned(), made_by(row).to_owned()];
        let last = promised(row);
        match lines.iter_mut().find(|line| line.0 == first && line.2 == last) {
            Some((_, zones, _)) => zones.push(row.zone),
            None => lines.push((first, vec![row.zone], last)),
        }
    }
    let mut text = "| store | provider | settings | table | JVM in | exclude each other | a late method |\n\
                    | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for ([store, provider, settings, table], zones, [exclude, late]) in lines {
        let zones = zones.join(", ");
        writeln!(text, "| {store} | {provider} | {settings} | {table} | {zones} | {exclude} | {late} |").unwrap();
    }
    text
}

fn store(row: &Row) -> String {
    let at = |zone| if zone == "+00:00" { "in UTC".to_owned() } else { format!("at {zone}") };
    match row.store {
        Kept::Postgres => "PostgreSQL".to_owned(),
        Kept::PostgresWithZones => "PostgreSQL, `timestamptz`".to_owned(),
        Kept::MariaDb(zone) => format!("MariaDB {}", at(zone)),
        Kept::MySql(zone) => format!("MariaDB and MySQL {}", at(zone)),
        Kept::Redis => "Redis".to_owned(),
        Kept::Valkey => "Redis and Valkey".to_owned(),
        Kept::MongoDb => "MongoDB".to_owned(),
        Kept::ZooKeeper => "ZooKeeper".to_owned(),
        Kept::Etcd => "etcd".to_owned(),
    }
}

/// The provider with the version that the tests fetch.
fn version(row: &Row) -> String {
    let Some((artifact, file)) = row.provider.version else { return row.provider.shown.to_owned() };
    let fetched = text(&format!("tests/java/{file}"));
    let (_, after) = fetched.split_once(&format!("<artifactId>{artifact}</artifactId>")).unwrap();
    let version = after.split_once("<version>").unwrap().1.split_once("</version>").unwrap().0;
    format!("{} {version}", row.provider.shown)
}

fn made_by(row: &Row) -> &'static str {
    match row.table {
        Table::Ours => "shedlock's",
        Table::Java => "the library's",
        Table::None => "",
    }
}

fn promised(row: &Row) -> [&'static str; 2] {
    match row.promise {
        Promise::Exclude(Late::Harmless) => ["yes", "harmless"],
        Promise::Exclude(Late::Frees) => ["yes", "frees the next holder's lock, a pause too"],
        Promise::Exclude(Late::Takes) => ["yes", "frees the next holder's lock or takes it over, a pause too"],
        Promise::Ahead => ["**no**: the method runs beside our job, and its locks last too long for us", ""],
        Promise::Behind => ["**no**: our job runs beside the method, and our locks last too long for it", ""],
    }
}

#[test]
fn the_page_shows_the_matrix() {
    for (name, block) in blocks() {
        is_shown("docs/java.md", name, &block);
    }
}
