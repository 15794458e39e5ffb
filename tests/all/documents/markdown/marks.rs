//! What is to become of each block of a document, by its language and its marks. `CONTRIBUTING.md` describes them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::markdown::{Block, Document};

/// What becomes of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Commands that are run, and end with this code; in a shell that knows nothing of the earlier blocks' variables
    /// if it is new.
    Run { code: i32, new: bool },
    /// What the commands before it print.
    Printed,
    /// What they say on stderr.
    Complaint,
    /// A file that is there from here on.
    File(String),
    /// Looked after elsewhere, or not run for a reason.
    Other,
}

/// Returns the use of a block, or its fault.
pub(super) fn of(block: &Block) -> Result<Use, String> {
    let Some(language) = &block.language else {
        return Err("an indented block: it needs fences and a language".to_owned());
    };
    if language.is_empty() || !language.chars().all(|c| c.is_ascii_lowercase()) {
        return Err(format!("a block of the language `{language}`: it needs one, in small letters"));
    }
    let marks: Vec<(&str, &str)> = block.marks.iter().map(|mark| parts(mark)).collect();
    match marks[..] {
        _ if block.generated.is_some() && marks.is_empty() => Ok(Use::Other),
        [("not run", reason)] if reason.split(' ').count() >= 3 => Ok(Use::Other),
        [("not run", reason)] => Err(format!("not run, and no sentence says why: `{reason}`")),
        [("run by", test)] if !test.is_empty() => Ok(Use::Other),
        [("file", name)] if !name.is_empty() => Ok(Use::File(name.to_owned())),
        [("prints", "")] if language == "text" => Ok(Use::Printed),
        [("complains", "")] if language == "text" => Ok(Use::Complaint),
        _ if language == "sh" => {
            let mut found = Use::Run { code: 0, new: false };
            for (mark, value) in marks {
                let Use::Run { code, new } = &mut found else { break };
                match (mark, value.parse()) {
                    ("exits", Ok(value)) if value != 0 => *code = value,
                    ("new shell", _) if value.is_empty() => *new = true,
                    _ => return Err(format!("`{mark}: {value}` is no mark of commands")),
                }
            }
            Ok(found)
        }
        [] => Err(format!("a block of the language `{language}` that neither is run nor says why")),
        _ => Err(format!("these are no marks of a block of the language `{language}`: {:?}", block.marks)),
    }
}

fn parts(mark: &str) -> (&str, &str) {
    let (mark, value) = mark.split_once(':').unwrap_or((mark, ""));
    (mark.trim(), value.trim())
}

/// Returns the faults in the marks of a document, each with its line.
pub(super) fn faults(root: &Path, document: &Document) -> Vec<String> {
    let mut faults: Vec<(usize, String)> = document
        .comments
        .iter()
        .map(|(line, comment)| (*line, format!("a comment before no block: `{comment}`")))
        .collect();
    let mut commands = false;
    for block in &document.blocks {
        let found = of(block);
        match &found {
            Err(fault) => faults.push((block.line, fault.clone())),
            Ok(Use::Printed | Use::Complaint) if !commands => {
                faults.push((block.line, "output, and no commands before it that are run".to_owned()));
            }
            _ => {}
        }
        // Output belongs to the commands before it, and not to those before these.
        commands = match &found {
            Ok(Use::Run { .. }) => true,
            Ok(Use::Other) if block.is("sh") => false,
            _ => commands,
        };
        if let Some(test) = block.marks.iter().find_map(|mark| mark.strip_prefix("run by:")) {
            faults.extend(is_run(root, &document.name, test.trim()).err().map(|fault| (block.line, fault)));
        }
        if let Some(name) = &block.generated {
            faults.extend(is_generated(root, name, &block.text).err().map(|fault| (block.line, fault)));
        }
    }
    faults.sort();
    faults.into_iter().map(|(line, fault)| format!("{}:{line}: {fault}", document.name)).collect()
}

/// Checks that there is this test, wherever it is, and that it reads the document.
fn is_run(root: &Path, document: &str, test: &str) -> Result<(), String> {
    let function = test.rsplit("::").next().unwrap_or(test);
    let mut found = false;
    for file in sources(root) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        if text.contains(&format!("#[test]\nfn {function}()"))
            || text.contains(&format!("#[test]\n    fn {function}()"))
        {
            found = true;
            if text.contains(&format!("\"{document}\"")) {
                return Ok(());
            }
        }
    }
    Err(format!("run by `{test}`, {}", if found { "which does not read this document" } else { "which is no test" }))
}

/// Checks that a block shows a file as it is, and that a test runs that file.
fn is_generated(root: &Path, name: &str, block: &str) -> Result<(), String> {
    let examples = fs::read_dir(root.join("packaging/examples")).unwrap().map(|entry| entry.unwrap().path());
    let example = |path: &PathBuf| {
        path.file_name().is_some_and(|file| file == name) || path.file_stem().is_some_and(|stem| stem == name)
    };
    let paths = [root.join(name), root.join("packaging").join(name)];
    let file = paths.into_iter().find(|path| path.is_file()).or_else(|| {
        let mut named: Vec<PathBuf> = examples.filter(example).collect();
        named.sort();
        named.into_iter().next()
    });
    let Some(file) = file else { return Err(format!("generated of `{name}`, which is no file")) };
    if fs::read_to_string(&file).unwrap() != block {
        return Err(format!("it is not what is in {}", file.display()));
    }
    let file = file.file_name().unwrap().to_str().unwrap();
    let named = |source: &PathBuf| fs::read_to_string(root.join(source)).unwrap().contains(&format!("{file}\""));
    if sources(root).iter().filter(|source| source.starts_with("tests")).any(named) {
        Ok(())
    } else {
        Err(format!("no test reads {file}"))
    }
}

/// Returns the files of the program and its tests, by their paths in the repository.
pub(super) fn sources(root: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut folders = vec![root.join("tests"), root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    sources
}

#[test]
fn a_block_that_says_nothing_of_itself_is_a_fault() {
    let root = Path::new(super::ROOT);
    let faults = |text: &str| faults(root, &Document::parse("README.md", text)).join("\n");
    let test = "documents::the_readme_opens_with_the_two_commands_that_ci_runs";
    for good in [
        "```sh\ntrue\n```",
        "```sh\ntrue\n```\nand\n<!-- prints -->\n```text\n```\n<!-- complains -->\n```text\n```",
        "<!-- exits: 3 -->\n<!-- new shell -->\n```sh\nfalse\n```",
        "<!-- not run: it needs two hosts -->\n```sh\ntrue\n```",
        "<!-- file: /etc/shedlock/config.toml -->\n```toml\n```",
        &format!("<!-- run by: {test} -->\n```sh\ntrue\n```"),
    ] {
        assert_eq!(faults(good), "", "{good}");
    }
    for (bad, why) in [
        ("```\ntrue\n```", "language"),
        ("    true", "indented"),
        ("- item\n\n      true", "indented"),
        ("```toml\n```", "neither is run"),
        ("```text\n```", "neither is run"),
        ("<!-- prints -->\n```text\n```", "no commands before it"),
        ("<!-- not run: it needs two hosts -->\n```sh\n```\n<!-- prints -->\n```text\n```", "no commands before it"),
        ("<!-- print -->\n```text\n```", "no marks"),
        ("<!-- prints -->\n```sh\n```", "no mark"),
        ("<!-- prints -->\nprose\n\n```sh\n```", "before no block"),
        ("prose <!-- prints -->", "before no block"),
        ("<!-- exits: one -->\n```sh\n```", "no mark"),
        ("<!-- not run -->\n```sh\n```", "no sentence"),
        ("<!-- not run: because -->\n```sh\n```", "no sentence"),
        ("<!-- run by -->\n```sh\n```", "no mark"),
        ("<!-- run by: no_such_test -->\n```sh\n```", "is no test"),
        ("<!-- run by: bash_completes_with_them -->\n```sh\n```", "does not read"),
        ("<!-- generated: no-such-file -->\n```toml\n```\n<!-- /generated -->", "no file"),
        ("<!-- generated: config -->\n```toml\n```\n<!-- /generated -->", "not what is in"),
    ] {
        assert!(faults(bad).contains(why), "{bad}: {}", faults(bad));
    }
}
