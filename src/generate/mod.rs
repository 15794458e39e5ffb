//! Generates the manual pages, the completions and the tables of docs/reference.md from the tables of the program, and fails as
//! a test when a committed file is stale. The program includes the committed files and has no code of this folder.
//!
//! The prose of the pages lies here, in the few marks of Markdown that [`Writer`] knows. For a command beside `run` it is the
//! description and, after a heading, the sections below the options.

mod backends;
mod completions;
mod writer;

use serde_json::Value;

use crate::cli::{OPTIONS, Opt, OptionKind, SUBS, Scope, Sub};
use crate::exit;
use crate::report::{COMMON, EVENTS, EventKind, FIELDS, Field};
use completions::completions;
use writer::Writer;

/// A manual page.
struct Page {
    name: &'static str,
    section: &'static str,
    /// The text, with `{options}` and other marks in place of tables and examples.
    source: &'static str,
}

/// Builds the table of pages from lines `NAME SECTION`.
macro_rules! pages {
    ($($name:literal $section:literal;)*) => {
        const PAGES: &[Page] = &[$(Page {
            name: $name,
            section: $section,
            source: include_str!(concat!($name, ".", $section, ".md")),
        }),*];
    };
}

crate::command::man::for_each_page!(pages);

const STATUS_SCHEMA: &str = include_str!("../../docs/json/status.schema.json");
const HISTORY_SCHEMA: &str = include_str!("../../docs/json/history.schema.json");
const CHECK_SCHEMA: &str = include_str!("../../docs/json/check.schema.json");
const ACQUIRE_SCHEMA: &str = include_str!("../../docs/json/acquire.schema.json");
const CONFIG: &str = include_str!("../../packaging/examples/config.toml");
const FENCED_TABLE: &str = include_str!("../../packaging/examples/fenced-table.sql");
const FENCED_REPORT: &str = include_str!("../../packaging/examples/fenced-report.sh");

impl Page {
    fn write(&self) -> String {
        let sub = SUBS.iter().find(|sub| self.name.strip_prefix("shedlock-") == Some(sub.name));
        let source = sub.map_or_else(|| self.source.to_owned(), |sub| page_of(sub, self.source));
        let source = backends::fill(&source)
            .replace("{commands}\n", &commands())
            .replace("{options}\n", &options(OPTIONS.iter()))
            .replace("{keys}\n", &keys())
            .replace("{exit codes}\n", &exit_codes())
            .replace("{events}\n", &events())
            .replace("{json lock}\n", &json_fields(STATUS_SCHEMA, "/$defs/lock"))
            .replace("{json run}\n", &json_fields(HISTORY_SCHEMA, "/$defs/run"))
            .replace("{json handle}\n", &json_fields(ACQUIRE_SCHEMA, ""))
            .replace("{json finding}\n", &json_fields(CHECK_SCHEMA, "/items"))
            .replace("{common fields}\n", &fields(&COMMON))
            .replace("{fields}\n", &fields(&FIELDS))
            .replace("{config}\n", &indented(CONFIG))
            .replace("{fenced-table}\n", &indented(FENCED_TABLE))
            .replace("{fenced-report}\n", &indented(FENCED_REPORT));
        let version = concat!("shedlock ", env!("CARGO_PKG_VERSION"));
        let mut writer = Writer::begin(&self.name.to_uppercase(), self.section, version);
        writer.write(&source);
        ascii(&writer.render())
    }
}

/// Returns the descriptions of an object's fields in a JSON Schema, as a page's source.
fn json_fields(schema: &str, object: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let object = schema.pointer(object).unwrap_or(&Value::Null);
    let names = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let meaning = |name| object["properties"][name]["description"].as_str().unwrap_or_default().to_owned();
    names.map(|name| format!("`{name}`\n: {}\n\n", meaning(name))).collect()
}

/// Escapes characters outside ASCII by their numbers, so that every groff(1) can read the page.
fn ascii(page: &str) -> String {
    let escaped = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    page.chars().map(escaped).collect()
}

/// Returns the source of the page of a command beside `run`, around its prose.
fn page_of(sub: &Sub, prose: &str) -> String {
    let (description, rest) = prose.find("\n# ").map_or((prose, ""), |start| prose.split_at(start + 1));
    let words = sub.words.iter().map(|word| format!("*{}*\n: {}.\n\n", word.name, word.help));
    // What 125 means to all of them is on the page of shedlock itself.
    let codes = sub.codes.iter().filter(|(code, _)| *code != "125");
    let codes = codes.map(|(code, when)| format!("`{code}`\n: {when}.\n\n"));
    format!(
        "# NAME\n\nshedlock-{name} - {about}\n\n# SYNOPSIS\n\n{usage}\n\n# DESCRIPTION\n\n{description}\n# OPTIONS\n\n{words}{options}\
         # EXIT STATUS\n\n{codes}{rest}\n",
        name = sub.name,
        about = first_lower(sub.about),
        usage = usage(sub),
        words = words.collect::<String>(),
        options = own_options(sub),
        codes = codes.collect::<String>(),
    )
}

fn first_lower(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(characters).collect()
}

/// Returns a command's usage with a page's marks: literal words in bold, placeholders in italics.
fn usage(sub: &Sub) -> String {
    let marked = sub.usage.split(' ').map(|word| {
        if word.chars().any(|c| c.is_ascii_uppercase()) {
            let inner = word.trim_matches(['[', ']', '.']);
            word.replacen(inner, &format!("*{inner}*"), 1)
        } else {
            format!("`{word}`")
        }
    });
    marked.collect::<Vec<_>>().join(" ")
}

/// Returns every command beside `run`, as a list of terms.
fn commands() -> String {
    SUBS.iter().map(|sub| format!("`{}`\n: {}.\n\n", sub.name, sub.about)).collect()
}

/// Returns a command's own options, and the names of those that it shares with `run`, as a page's source.
fn own_options(sub: &Sub) -> String {
    let is_own = |option: &&Opt| sub.own.iter().chain(sub.overrides).any(|own| own.long == option.long);
    let shared = sub.options().filter(|option| !is_own(option)).map(|option| format!("`--{}`", option.long));
    let own = sub.options().filter(is_own).map(explained).collect::<String>();
    format!("{own}{}\n: As in shedlock-run(1).\n\n", shared.collect::<Vec<_>>().join(", "))
}

/// Returns options under their headings, as a page's source.
fn options(options: impl Iterator<Item = &'static Opt>) -> String {
    let mut text = String::new();
    let mut heading = "";
    for option in options {
        if option.heading != heading {
            heading = option.heading;
            text += &format!("## {heading}\n\n");
        }
        text += &explained(option);
    }
    text
}

/// Returns an option with its help, as a page's source.
fn explained(option: &Opt) -> String {
    format!("{}\n: {}.{}\n\n", term(option), option.help, default(option))
}

/// Returns an option with its value, as a page's source.
fn term(option: &Opt) -> String {
    let short = option.short.map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    let value = match option.kind {
        OptionKind::Value(name) => format!(" *{name}*"),
        OptionKind::Choice(words) => format!(" `{}`", words.join("|")),
        OptionKind::Flag | OptionKind::Count => String::new(),
    };
    format!("{short}`--{}`{value}", option.long)
}

fn default(option: &Opt) -> String {
    if option.default.is_empty() { String::new() } else { format!(" Default: {}.", option.default) }
}

/// Returns every key of the configuration files with its values, as an example of a page.
fn keys() -> String {
    let key = |option: &Opt| {
        let value = match option.kind {
            OptionKind::Value(name) => name.to_owned(),
            OptionKind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | "),
            OptionKind::Flag => "true | false".to_owned(),
            OptionKind::Count => "true | false | N".to_owned(),
        };
        format!("    {} = {value}\n", option.long)
    };
    OPTIONS.iter().filter(|option| option.scope == Scope::Files).map(key).collect::<String>() + "\n"
}

fn exit_codes() -> String {
    exit::TABLE.iter().map(|row| format!("`{}`\n: {}.\n\n", row.code, row.when)).collect()
}

/// Returns every event, as a page's source.
fn events() -> String {
    let show = |event: &EventKind| {
        let levels: Vec<&str> = event.levels().collect();
        format!("`{}` (*{}*)\n: {}.\n\n", event.name, levels.join(", "), capital(event.meaning))
    };
    EVENTS.iter().map(show).collect()
}

fn fields(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("`{}`\n: {}.\n\n", field.name, capital(field.meaning))).collect()
}

/// Returns the text with a capital first letter.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use clap::ValueEnum as _;
    use clap::builder::PossibleValue;
    use clap_complete::{Generator as _, Shell};

    use super::*;
    use crate::cli;

    /// Compares what is committed with what the tables make; SHEDLOCK_BLESS=1 writes it instead.
    pub(super) fn is_fresh(file: &str, made: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        if std::env::var_os("SHEDLOCK_BLESS").is_some() {
            fs::write(path, made).unwrap();
            return;
        }
        assert!(
            fs::read_to_string(path).unwrap_or_default() == made,
            "{file} is stale; SHEDLOCK_BLESS=1 cargo test generate:: writes it anew"
        );
    }

    /// Puts `block` between a document's marks of this name.
    fn with_block(document: &str, name: &str, block: &str) -> String {
        let begin = format!("<!-- generated: {name} -->\n");
        let (before, rest) = document.split_once(&begin).unwrap();
        let (_, after) = rest.split_once("<!-- /generated -->").unwrap();
        format!("{before}{begin}{block}<!-- /generated -->{after}")
    }

    /// Rows of cells as a table of Markdown.
    pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let head = head.map(str::to_owned);
        let rule = format!("|{}\n", " --- |".repeat(N));
        rows.fold(line(&head) + &rule, |table, row| table + &line(&row))
    }

    #[test]
    fn the_manual_pages_are_fresh() {
        for page in PAGES {
            is_fresh(&format!("man/{}.{}", page.name, page.section), &page.write());
        }
    }

    fn committed(file: &str) -> String {
        fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
    }

    #[test]
    fn the_completions_are_fresh() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completions(*shell)).unwrap();
            is_fresh(&format!("packaging/completions/{}", shell.file_name("shedlock")), &script);
        }
    }

    #[test]
    fn the_reference_is_fresh() {
        let codes = table(["code", "when"], exit::TABLE.iter().map(|row| [row.code.to_owned(), row.when.to_owned()]));
        let commands = SUBS.iter().map(|sub| [format!("`{}`", sub.usage), sub.about.to_owned()]);
        let reference = with_block(&committed("docs/reference.md"), "commands", &table(["command", "does"], commands));
        let reference = with_block(&reference, "exit codes", &codes);
        is_fresh("docs/reference.md", &reference);
    }

    /// Bounds the manual, so that it stays short enough to be read.
    #[test]
    fn the_manual_has_no_more_than_16_100_words() {
        let words = |page: &Page| page.write().split_whitespace().count();
        assert!(PAGES.iter().map(words).sum::<usize>() <= 16_100);
    }

    #[test]
    fn every_page_that_can_be_asked_for_exists() {
        let command = cli::command();
        let man = command.find_subcommand("man").unwrap();
        let names = man.get_arguments().find(|argument| argument.get_id() == "page").unwrap().get_possible_values();
        let names: BTreeSet<&str> = names.iter().map(PossibleValue::get_name).collect();
        assert_eq!(names, PAGES.iter().map(|page| page.name).collect());
    }

    #[test]
    fn every_mark_in_a_page_is_filled() {
        for page in PAGES {
            let text = page.write();
            let marks = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            // A brace of another kind is the page's own.
            let left: Vec<_> =
                marks.map(|(mark, _)| mark).filter(|mark| !mark.contains([':', '#', '%', '\n'])).collect();
            assert!(left.is_empty(), "{}: {left:?}", page.name);
        }
    }

    #[test]
    fn the_schema_of_the_events_is_fresh() {
        let schema = serde_json::to_string_pretty(&crate::report::schema()).unwrap();
        is_fresh("docs/json/event.schema.json", &format!("{schema}\n"));
    }

    #[test]
    fn every_field_of_the_json_is_described() {
        let page = PAGES.iter().find(|page| page.name == "shedlock-json").unwrap();
        for (schema, object, count) in [
            (STATUS_SCHEMA, "/$defs/lock", 11),
            (HISTORY_SCHEMA, "/$defs/run", 9),
            (CHECK_SCHEMA, "/items", 4),
            (ACQUIRE_SCHEMA, "", 6),
        ] {
            let fields = json_fields(schema, object);
            assert_eq!(fields.matches("\n: ").count(), count);
            assert!(!fields.contains("\n: \n"), "{fields}");
        }
        assert_eq!(page.source.matches("{json ").count(), 4);
    }

    /// The text that stands in bold or italics in a page.
    fn marked(page: &str) -> Vec<String> {
        let spans = page.split("\\f").filter(|span| span.starts_with(['B', 'I']));
        spans.map(|span| span[1..].to_owned()).collect()
    }

    #[test]
    fn no_mark_in_a_page_is_left_open() {
        for page in PAGES {
            let text = page.write().replace("\\*(Aq", "'");
            for span in marked(&text) {
                // A word or a few are marked. A paragraph is where a mark of a list, or one alone, was taken for a font's.
                let closed = span.trim() == span && !span.contains(['\n', '`']) && span.len() <= 100;
                assert!(closed, "{}: {span}", page.name);
            }
        }
    }
}
