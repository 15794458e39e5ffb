//! The documents: every command line in them is run, or says why not. Every link leads somewhere, and every command, option
//! and page that is named is there. `CONTRIBUTING.md` says how a block is marked.

mod command_lines;
mod links;
mod marks;
mod printed;
mod scene;

use std::path::Path;

use super::generated::{ROOT, text};
use super::support::markdown::{self, Block, Document};
use marks::Use;
use scene::{Ran, Scene};

/// Makes a test of each document: `NAME "FILE";`, with what more is to be seen in what its commands print.
macro_rules! documents {
    ($($(#[$attribute:meta])* $name:ident $file:literal $(, $more:expr)?;)*) => {
        const LISTED: &[&str] = &[$($file),*];

        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                let ran = passes($file);
                let more: &[fn(&[Ran])] = &[$($more)?];
                more.iter().for_each(|more| more(&ran));
            }
        )*
    };
}

// One whose commands need more than SQLite, and no server by the name that stands for one, has `#[cfg(feature = …)]`.
documents! {
    changelog "CHANGELOG.md";
    contributing "CONTRIBUTING.md";
    readme "README.md", shows_what_the_readme_says;
    security "SECURITY.md";
    benches "benches/README.md";
    choosing "docs/choosing.md";
    install "docs/install.md";
    reference "docs/reference.md";
    running "docs/running.md";
    security_notes "docs/security.md";
    prometheus "packaging/prometheus/README.md";
}

/// The document's marks are in order, and each of its commands ends and prints as it says.
fn passes(file: &str) -> Vec<Ran> {
    let document = Document::read(file);
    let faults = marks::faults(Path::new(ROOT), &document);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    let ran = Scene::new(&document.text).run(&document);
    let mut results = ran.iter();
    let (mut last, mut complaint) = (None, None);
    let silent = |complaint: Option<(String, &Ran)>| {
        if let Some((place, ran)) = complaint {
            assert!(ran.stderr.is_empty(), "{place}: this is on stderr:\n{}", ran.stderr);
        }
    };
    for block in &document.blocks {
        let place = format!("\n{file}:{}", block.line);
        match marks::of(block).unwrap() {
            Use::Run { code, .. } => {
                silent(complaint.take());
                let ran = results.next().unwrap_or_else(|| panic!("{place}: the shell has ended before these lines"));
                let (stdout, stderr) = (&ran.stdout, &ran.stderr);
                assert_eq!(ran.code, Some(code), "{place}: the exit code of\n{}\n{stdout}{stderr}", block.text);
                (last, complaint) = (Some(ran), Some((place, ran)));
            }
            Use::Printed => {
                let printed = &last.unwrap().stdout;
                assert!(printed::matches(&block.text, printed), "{place}: not this is printed, but\n{printed}");
            }
            Use::Complaint => {
                complaint = None;
                let printed = &last.unwrap().stderr;
                assert!(printed::matches(&block.text, printed), "{place}: not this is on stderr, but\n{printed}");
            }
            Use::File(_) | Use::Other => {}
        }
    }
    silent(complaint);
    ran
}

/// What the lines of the README print, as its text has it.
fn shows_what_the_readme_says(ran: &[Ran]) {
    let (operators, jobs): (Vec<&Ran>, Vec<&Ran>) = ran.iter().partition(|ran| ran.stdout.contains("can lock here"));
    let shown = [
        "this host can lock here",
        "migrate",
        "kept",
        "success",
        "paused `backup`",
        "no longer paused",
        "`backup` is free now",
    ];
    assert_eq!(operators.len(), 1);
    shown.iter().for_each(|text| assert!(operators[0].stdout.contains(text), "{text}: {}", operators[0].stdout));
    assert_eq!(
        jobs.iter().map(|ran| ran.stdout.as_str()).collect::<String>(),
        "the report\na job of hours\nthe only backup of the day\ndeployed\none report for all hosts\nswitched over\n"
    );
}

#[test]
fn the_readme_opens_with_the_two_commands_that_ci_runs() {
    let readme = Document::read("README.md");
    let commands: Vec<&str> =
        readme.blocks.iter().filter(|block| block.is("sh")).map(|block| block.text.as_str()).take(2).collect();
    assert_eq!(commands, ["cargo run --release -- run --name hello --at-most 1m -- echo hello\n", "tests/run\n"]);
    let ci = text(".ci/run");
    for command in commands {
        assert!(ci.lines().any(|line| line == command.trim_end()), "{command}");
    }
}

#[test]
fn every_document_has_its_commands_run() {
    let names: Vec<String> = markdown::all().into_iter().map(|document| document.name).collect();
    let missing: Vec<&String> = names.iter().filter(|name| !LISTED.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "these need a line in tests/all/documents/mod.rs: {missing:?}");
    assert_eq!(names.len(), LISTED.len());
}

#[test]
fn the_marks_of_every_document_are_in_order() {
    let root = Path::new(ROOT);
    let faults: Vec<String> = markdown::all().iter().flat_map(|document| marks::faults(root, document)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn blocks_are_found_with_their_marks_wherever_they_stand() {
    let text = "# A `b`: c-d, E\n\n<!-- not run: why\nnot -->\n```sh\none\n```\n\n1. item\n\n   <!-- prints -->\n\n   ~~~text\n   two\n     three\n   ~~~\n\n\
                <!-- exits: 1 -->\nnothing\n\n````\n```sh\n````\n\n    four\n\n<!-- generated: x -->\n```\nfive\n```\n<!-- /generated -->\n# A b c-d E\n";
    let document = Document::parse("x.md", text);
    let block = |line, language: Option<&str>, text: &str, marks: &[&str]| Block {
        line,
        language: language.map(str::to_owned),
        text: text.to_owned(),
        marks: marks.iter().map(|mark| (*mark).to_owned()).collect(),
        generated: (text == "five\n").then(|| "x".to_owned()),
    };
    let blocks = [
        block(5, Some("sh"), "one\n", &["not run: why not"]),
        block(13, Some("text"), "two\n  three\n", &["prints"]),
        block(21, Some(""), "```sh\n", &[]),
        block(25, None, "four\n", &[]),
        block(28, Some(""), "five\n", &[]),
    ];
    assert_eq!(document.blocks, blocks);
    assert_eq!(document.comments, [(18, "exits: 1".to_owned())]);
    assert_eq!(document.anchors.iter().collect::<Vec<_>>(), ["a-b-c-d-e", "a-b-c-d-e-1"]);
}
