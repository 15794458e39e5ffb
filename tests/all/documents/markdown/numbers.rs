//! Numbers and names in the documents that the sources have too.

use super::{ROOT, markdown, marks, text};

/// Returns the number that stands between two texts.
#[track_caller]
fn between(text: &str, before: &str, after: &str) -> String {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} is not there")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("{after:?} is not there")).0.to_owned()
}

#[test]
fn every_document_names_the_same_oldest_rust() {
    let oldest = between(&text("Cargo.toml"), "\nrust-version = \"", "\"");
    let named: Vec<(String, String)> = markdown::all()
        .into_iter()
        .flat_map(|document| {
            let text = std::fs::read_to_string(format!("{ROOT}/{}", document.name)).unwrap();
            let versions = text.split("Rust ").skip(1).filter(|rest| rest.starts_with("1."));
            let version = |rest: &str| rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>();
            versions
                .map(|rest| (document.name.clone(), version(rest).trim_end_matches('.').to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    assert!(named.iter().all(|(_, version)| *version == oldest), "not {oldest}: {named:?}");
}

#[test]
fn the_guarantee_counts_the_tests_as_they_are() {
    let tests = |file: &str| text(file).matches("#[test]").count();
    let files = marks::sources(std::path::Path::new(ROOT));
    let stories = files.iter().filter(|file| file.starts_with("src/run/stories"));
    let stories: usize = stories.map(|file| tests(file.to_str().unwrap())).sum();
    let suite = between(&text("src/backend/testing/conformance.rs"), "            #$attribute $store;\n", "        );");
    let broken = ["tests/model/broken.rs", "tests/model/clocks/broken.rs"];
    let said = [
        format!("| {stories} stories | `src/run/stories/` |"),
        format!("| {} tests | `{}`, `{}` |", broken.map(tests).iter().sum::<usize>(), broken[0], broken[1]),
        format!(
            "| {} tests for each backend | `src/backend/testing/conformance.rs` |",
            suite.split_whitespace().count()
        ),
    ];
    let guarantee = text("docs/guarantee.md");
    for said in said {
        assert!(guarantee.contains(&said), "{said} is not in docs/guarantee.md");
    }
}

/// The last column of its tables names the tests that show a row, or the places of the tests.
#[test]
fn what_the_guarantee_names_as_shown_is_tested() {
    let sources: Vec<String> =
        marks::sources(std::path::Path::new(ROOT)).iter().map(|file| text(file.to_str().unwrap())).collect();
    let (mut shown, mut rows, mut names) = (false, 0, 0);
    for line in text("docs/guarantee.md").lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let last = cells.rsplit(" | ").next().unwrap();
        match last {
            "shown by" | "where" => shown = true,
            _ if cells.starts_with("---") || !shown => {}
            "—" => rows += 1,
            _ => {
                let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
                assert!(!named.is_empty(), "{line}");
                for name in &named {
                    let test = format!("fn {name}(");
                    let is_there = match name.contains('/') {
                        true => std::path::Path::new(ROOT).join(name).exists(),
                        false => sources.iter().any(|source| source.contains(&test)),
                    };
                    assert!(is_there, "{name} is no test");
                }
                (rows, names) = (rows + 1, names + named.len());
            }
        }
    }
    assert!(rows > 50 && names > 55, "{names} names in {rows} rows");
}

#[test]
fn contributing_counts_the_lines_of_the_trial_backend() {
    let trial = text("src/backend/testing/trial.rs");
    let lines = trial.lines().take_while(|line| *line != "#[cfg(test)]").count() - 1;
    let contributing = text("CONTRIBUTING.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(contributing.contains(&format!("in {lines} lines that passes the whole contract")), "there are {lines}");
}

/// `Run::leave` and `src/run/acquiring.rs` in its table of rules.
#[test]
fn what_the_model_names_of_the_program_is_there() {
    let model = text("tests/model/main.rs");
    let rows = model.lines().filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").nth(2));
    let named: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 15, "{named:?}");
    let files = marks::sources(std::path::Path::new(ROOT));
    let program = files.iter().filter(|file| file.starts_with("src"));
    let sources: Vec<String> = program.map(|file| text(file.to_str().unwrap())).collect();
    for name in named {
        let is_there = match name.rsplit_once("::") {
            _ if name.starts_with("src/") => text(name).len() > 1,
            Some((_, last)) => sources
                .iter()
                .any(|source| [format!("fn {last}("), format!(" {last}: ")].iter().any(|text| source.contains(text))),
            None => sources.iter().any(|source| source.contains(name)),
        };
        assert!(is_there, "{name}");
    }
}

/// Returns the seconds of a duration as the examples write it.
fn seconds(duration: &str) -> Option<f64> {
    let (number, unit) = duration.split_at(duration.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)]
        .into_iter()
        .find(|(name, _)| *name == unit)?;
    Some(number.parse::<f64>().ok()? * unit.1)
}

/// Returns the fault of a line of a document or an example, by docs/choosing.md's own rule of one run per firing.
fn too_short(line: &str) -> Option<String> {
    let words: Vec<&str> =
        line.split(|c: char| c.is_whitespace() || "[],`".contains(c)).filter(|w| !w.is_empty()).collect();
    let value = |option: &str| {
        let place = words.iter().position(|word| *word == option)?;
        seconds(words.get(place + 1)?)
    };
    let held = [value("--at-least"), value("--every").map(|every| every * 0.9)];
    let others = value("--splay").unwrap_or(0.0) + value("--backend-timeout").unwrap_or(10.0);
    let held = held.into_iter().flatten().reduce(f64::max)?;
    (held <= others).then(|| line.to_owned())
}

#[test]
fn at_least_or_nine_tenths_of_every_is_longer_than_splay_and_backend_timeout_in_every_example() {
    let mut files: Vec<String> = markdown::all().into_iter().map(|document| document.name).collect();
    for directory in ["packaging/examples", "packaging/container", "packaging/kubernetes", "src/generate"] {
        let entries = std::fs::read_dir(format!("{ROOT}/{directory}")).unwrap();
        files.extend(entries.map(|entry| format!("{directory}/{}", entry.unwrap().file_name().display())));
    }
    let lines: Vec<String> =
        files.iter().flat_map(|file| text(file).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(lines.iter().filter(|line| line.contains("--at-least ")).count() > 10);
    let wrong: Vec<String> = lines.iter().filter_map(|line| too_short(line)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(too_short("[--at-least, 1m, --backend-timeout, 1m]").is_some());
    assert!(too_short("--every 1m --splay 45s").is_some() && too_short("--every 1m --splay 40s").is_none());
}

/// Two branches that write into the list are merged line by line, so a line that one of them has moved stays twice.
#[test]
fn the_changelog_says_nothing_twice() {
    let changes = text("CHANGELOG.md");
    let mut items: Vec<String> =
        changes.split("\n- ").skip(1).map(|item| item.chars().take(24).collect::<String>()).collect();
    items.sort_unstable();
    let twice: Vec<&str> = items.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].as_str()).collect();
    assert!(items.len() > 10 && twice.is_empty(), "{twice:?}");
}
