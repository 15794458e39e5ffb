//! Numbers in the documents that the sources have too.

use super::{ROOT, markdown, text};

/// The number that stands between two texts.
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
    let suite = between(&text("src/backend/conformance.rs"), "            $store;\n", "        );");
    let said = [
        format!("| {} stories | `src/run/stories.rs` |", tests("src/run/stories.rs")),
        format!("| {} tests | `tests/model/broken.rs` |", tests("tests/model/broken.rs")),
        format!("| {} tests for each of four | `src/backend/conformance.rs` |", suite.split_whitespace().count()),
    ];
    let guarantee = text("docs/guarantee.md");
    for said in said {
        assert!(guarantee.contains(&said), "{said} is not in docs/guarantee.md");
    }
}
