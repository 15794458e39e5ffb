//! The documents: every command line in them is run, or says why not. Every link leads somewhere, and every command, option
//! and page that is named is there. `CONTRIBUTING.md` says how a block is marked.

mod command_lines;
mod links;
mod marks;
mod names;
mod numbers;
pub(super) mod printed;
mod sandbox;

use std::path::Path;

use crate::support::markdown::{self, Block, Document};
use crate::support::repository::{ROOT, text};
use crate::support::{Place, finish};
use marks::Use;
use sandbox::{Ran, Scene};

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
    comparison "docs/comparison.md";
    compatibility "docs/compatibility.md";
    guarantee "docs/guarantee.md";
    install "docs/install.md";
    // The statements for PostgreSQL are in the build that knows it.
    #[cfg(feature = "postgres")]
    java "docs/java.md";
    list "docs/README.md";
    prove "docs/prove.md";
    providers "docs/providers.md";
    quickstart "docs/quickstart.md";
    reference "docs/reference.md";
    releasing "docs/releasing.md";
    running "docs/running.md";
    security_in_use "docs/security.md";
    troubleshooting "docs/troubleshooting.md";
    packaging "packaging/README.md";
    arm64 "packaging/arm64.md";
    prometheus "packaging/prometheus/README.md";
}

/// Checks that the document's marks are in order, and that each of its commands ends and prints as it says.
fn passes(file: &str) -> Vec<Ran> {
    let document = Document::read(file);
    let faults = marks::faults(Path::new(ROOT), &document);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    run(&document).unwrap_or_else(|fault| panic!("\n{fault}"))
}

/// Runs a document's commands, and compares what they do with what it says; or says what was not so.
fn run(document: &Document) -> Result<Vec<Ran>, String> {
    let ran = Scene::new(&document.text).run(document);
    let mut results = ran.iter();
    let mut last: Option<&Ran> = None;
    // What has to be empty unless a block has it.
    let mut unsaid: Option<(usize, &Ran)> = None;
    let is_silent = |unsaid: Option<(usize, &Ran)>| match unsaid {
        Some((line, ran)) if !ran.stderr.is_empty() => {
            Err(format!("{}:{line}: this is on stderr:\n{}", document.name, ran.stderr))
        }
        _ => Ok(()),
    };
    for block in &document.blocks {
        let fault = |what: &str, text: &str| Err(format!("{}:{}: {what}\n{text}", document.name, block.line));
        match marks::of(block)? {
            Use::Run { code, .. } => {
                is_silent(unsaid)?;
                let Some(ran) = results.next() else { return fault("the shell has ended before these lines", "") };
                let text = format!("{}\n{}{}", block.text, ran.stdout, ran.stderr);
                match ran.code {
                    Some(found) if found == code => {}
                    Some(found) => return fault(&format!("these end with {found}, and not with {code}:"), &text),
                    None => return fault("the end of these was not reached:", &text),
                }
                (last, unsaid) = (Some(ran), Some((block.line, ran)));
            }
            Use::Printed => match last {
                Some(ran) if printed::matches(&block.text, &ran.stdout) => {}
                ran => return fault("not this is printed, but", ran.map_or("nothing", |ran| &ran.stdout)),
            },
            Use::Complaint => match last {
                Some(ran) if printed::matches(&block.text, &ran.stderr) => unsaid = None,
                ran => return fault("not this is on stderr, but", ran.map_or("nothing", |ran| &ran.stderr)),
            },
            Use::File(_) | Use::Other => {}
        }
    }
    is_silent(unsaid)?;
    Ok(ran)
}

/// Asserts that the lines of the README print what its text has.
fn shows_what_the_readme_says(ran: &[Ran]) {
    let (operators, jobs): (Vec<&Ran>, Vec<&Ran>) = ran.iter().partition(|ran| ran.stdout.contains("can lock here"));
    let shown = [
        "this host can lock here",
        "backup",
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
        "the report\nthe only backup of the day\none report for all hosts\nswitched over\n"
    );
}

#[test]
fn what_a_document_says_of_its_commands_is_compared() {
    let ran = |text: &str| run(&Document::parse("x.md", text)).err();
    for good in [
        "```sh\nword=carried\n```\n```sh\ncd /srv; echo \"$word $PWD $HOME\"\n```\n<!-- prints -->\n```text\ncarried /srv /home/jobs\n```",
        "```sh\nword=x\n```\n<!-- new shell -->\n```sh\necho ${word-unset}\n```\n<!-- prints -->\n```text\nunset\n```",
        "<!-- exits: 3 -->\n```sh\nsh -c 'echo why >&2; exit 3'\necho never\n```\n<!-- prints -->\n```text\n```\n\
         <!-- complains -->\n```text\nwh…\n```",
        "<!-- file: /etc/shedlock/config.toml -->\n```toml\nat-most = \"$1m\"\n```\n```sh\ncat /etc/shedlock/*\n```\n\
         <!-- prints -->\n```text\nat-most = \"$1m\"\n```",
        "<!-- file: /etc/shedlock/config.toml -->\n```toml\nat-most = \"1m\"\nbackend = \"sqlite:/srv/x.db\"\n```\n```sh\n\
         sudo -u jobs shedlock run --name x report; test -e /srv/x.db\n```\n<!-- prints -->\n```text\nreport\n```",
        "```sh\nshedlock run --name x --at-most 1m -- sh -c 'touch begun; sleep 1000' &\nuntil [ -e begun ]; do sleep 0.01; done\n```\n\
         <!-- new shell -->\n```sh\nshedlock status x\n```\n<!-- prints -->\n```text\nNAME …\nx held …\n```",
        "```sh\nshedlock run --name x --at-most 1m true\nls /var/lib/shedlock\n```\n<!-- prints -->\n```text\nshedlock.db\n…\n```",
    ] {
        assert_eq!(ran(good), None, "{good}");
    }
    for (bad, why) in [
        ("```sh\nfalse; true\n```", "end with 1"),
        ("<!-- exits: 3 -->\n```sh\ntrue\n```", "end with 0"),
        ("<!-- exits: 3 -->\n```sh\nfalse\n```", "end with 1"),
        ("```sh\necho $none\n```", "end with 2"),
        ("```sh\nexit 0\n```", "was not reached"),
        ("```sh\ncat <<END\n```\n```sh\ntrue\n```", "was not reached"),
        ("```sh\nexit 0\n```\n```sh\ntrue\n```", "was not reached"),
        ("```sh\necho >&2\n```\n```sh\ntrue\n```", "x.md:1: this is on stderr"),
        ("```sh\ntrue\n```\n```sh\necho >&2\n```", "x.md:4: this is on stderr"),
        ("```sh\necho a\n```\n<!-- prints -->\n```text\nb\n```", "not this is printed, but\na"),
        ("```sh\necho a >&2\n```\n<!-- complains -->\n```text\nb\n```", "not this is on stderr, but\na"),
        ("```sh\ntrue\n```\n<!-- complains -->\n```text\nb\n```", "not this is on stderr, but\n"),
        ("```sh\ncat /etc/passwd > copy 2>&1\n```", "end with 1"),
        ("```sh\nmkdir /usr/lib/shedlock 2> why\n```", "end with 1"),
    ] {
        let fault = ran(bad).unwrap_or_default();
        assert!(fault.contains(why), "{bad}\n{fault}");
    }
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

/// Two hosts that share a file, whose crons fire in the same minute; the backup is a line in a file.
#[test]
fn the_crontab_line_of_the_readme_makes_one_backup_a_day() {
    let readme = Document::read("README.md");
    let line = &readme.blocks.iter().find(|block| block.is("crontab")).unwrap().text;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (when, command) = words.split_at(5);
    assert_eq!((when, command[0]), (&["30", "2", "*", "*", "*"][..], "shedlock"));
    let (backup, ours) = command.split_last().unwrap();
    assert_eq!(*backup, "/usr/local/bin/backup");
    let place = Place::new();
    for _ in 0..2 {
        let job = ["sh", "-c", "echo backup >> backups"];
        finish(&mut place.shedlock(ours[1..].iter().chain(&job))).is_silent_with(0);
    }
    assert_eq!(place.lines("backups"), ["backup"]);
}

#[test]
fn every_document_has_its_commands_run() {
    let names: Vec<String> = markdown::all().into_iter().map(|document| document.name).collect();
    let missing: Vec<&String> = names.iter().filter(|name| !LISTED.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "these need a line in tests/all/documents/markdown/mod.rs: {missing:?}");
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
