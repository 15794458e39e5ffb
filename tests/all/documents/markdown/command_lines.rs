//! Command lines that are only named: in the text of a document or a manual page, or in a block that is not run. Their
//! commands and options are real, by what the program itself says in `--help`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use super::ROOT;
use super::marks::{self, Use};
use crate::support::markdown;
use crate::support::repository::text;
use crate::support::{Place, finish};

/// The options of a command, and whether each takes a value.
type Taken = BTreeMap<String, bool>;

/// Returns every command with its options; those of shedlock itself are under the empty name.
fn commands() -> &'static BTreeMap<String, Taken> {
    static COMMANDS: OnceLock<BTreeMap<String, Taken>> = OnceLock::new();
    COMMANDS.get_or_init(|| {
        let place = Place::new();
        let help = |words: &[&str]| finish(&mut place.shedlock(words)).stdout;
        let all = help(&["--help"]);
        let (_, list) = all.split_once("Commands:\n").unwrap();
        let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
        let taken = names.map(|name| (name.to_owned(), options(&help(&[name, "--help"]))));
        taken.chain([(String::new(), options(&all))]).collect()
    })
}

/// Returns the options that a help lists: `  -w, --wait <DURATION>  …`.
fn options(help: &str) -> Taken {
    let mut options = Taken::new();
    for line in help.lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
        let term = line.split("  ").next().unwrap();
        let value = term.contains('<');
        for word in term.split([' ', ',']).filter(|word| word.starts_with('-')) {
            options.insert(word.trim_end_matches('.').to_owned(), value);
        }
    }
    options
}

/// Returns the fault of a line that begins with `shedlock `, which may have words in capitals and brackets for what varies.
fn fault(line: &str) -> Option<String> {
    let line = line.split([';', '|', '&', '#', '>', ')']).next().unwrap();
    let words: Vec<&str> =
        line.split_whitespace().skip(1).map(|word| word.trim_matches(['[', ']', '"', '\''])).collect();
    let (command, rest) = match words.first() {
        None => return None,
        Some(option) if option.starts_with('-') => ("", &words[..]),
        // Any of them.
        Some(name) if name.chars().all(|c| c.is_ascii_uppercase() || c == '…' || c == '.') => return None,
        Some(name) => (*name, &words[1..]),
    };
    let Some(taken) = commands().get(command) else { return Some(format!("there is no command `{command}`")) };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let option = word.split('=').next().unwrap();
        match taken.get(option) {
            _ if *word == "--" => break,
            // The job, whose options are its own.
            _ if !option.starts_with('-') && command == "run" && !["", "…", "...", "OPTIONS"].contains(&option) => {
                break;
            }
            _ if !option.starts_with('-') || option == "-" => {}
            Some(true) if !word.contains('=') => {
                words.next();
            }
            Some(_) => {}
            // `-vv`, and a value that is joined to its option.
            None if !option.starts_with("--")
                && option.chars().nth(1).is_some_and(|c| taken.contains_key(&format!("-{c}"))) => {}
            None => return Some(format!("`shedlock {command}` has no option `{option}`")),
        }
    }
    None
}

/// Returns the parts of a source that are set in bold, and the lines of its examples.
fn in_a_page(source: &str) -> Vec<String> {
    let prose =
        source.lines().filter(|line| !line.starts_with("    ")).map(|line| format!("{line}\n")).collect::<String>();
    let bold = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    bold.chain(source.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned)).collect()
}

/// Returns the commands of shedlock in these lines.
fn of_shedlock(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.trim_start().trim_start_matches("sudo ")).filter(|line| line.starts_with("shedlock "))
}

#[test]
fn every_command_line_in_a_text_is_real() {
    let mut lines: Vec<(String, String)> = Vec::new();
    for document in markdown::all() {
        let place = |line: usize| format!("{}:{line}", document.name);
        lines.extend(document.spans.iter().map(|(line, span)| (place(*line), span.clone())));
        for block in document.blocks.iter().filter(|block| block.is("sh") && marks::of(block) == Ok(Use::Other)) {
            let text = block.text.replace("\\\n", " ");
            lines.extend(of_shedlock(&text).map(|text| (place(block.line), text.to_owned())));
        }
    }
    for entry in std::fs::read_dir(Path::new(ROOT).join("src/generate")).unwrap() {
        let name = format!("src/generate/{}", entry.unwrap().file_name().to_str().unwrap());
        lines.extend(in_a_page(&text(&name)).into_iter().map(|line| (name.clone(), line)));
    }
    let lines: Vec<_> = lines.into_iter().filter(|(_, line)| line.starts_with("shedlock ")).collect();
    assert!(lines.len() > 80, "{}", lines.len());
    let faults = lines.iter().filter_map(|(place, line)| Some(format!("{place}: {line}: {}", fault(line)?)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn a_command_line_that_is_not_real_is_noticed() {
    for good in [
        "shedlock run --name NAME --at-most=1h -vv -E 75 [OPTIONS] -- COMMAND --none",
        "shedlock run --name a --at-most 1h job --none",
        "shedlock run --metrics-dir DIR",
        "shedlock status --json | jq --none",
        "shedlock COMMAND --help",
        "shedlock --version",
        "shedlock history [OPTIONS] [NAME]",
        "shedlock man shedlock-run | man -l -",
    ] {
        assert_eq!(fault(good), None, "{good}");
    }
    for bad in [
        "shedlock start --name NAME",
        "shedlock run --name NAME --none job",
        "shedlock run --names NAME",
        "shedlock status --timeline",
        "shedlock status job -x",
        "shedlock --none",
        "shedlock history [--none] NAME",
    ] {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
