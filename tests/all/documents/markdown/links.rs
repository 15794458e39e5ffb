//! Links between the documents, and the pages of the manual that anything names.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::ROOT;
use super::marks;
use crate::support::markdown::{self, Document};
use crate::support::repository::text;

/// Returns the faults in the links of a document.
fn faults(document: &Document, all: &BTreeMap<PathBuf, &Document>) -> Vec<String> {
    let leads = |link: &str| {
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let file = Path::new(&document.name).parent().unwrap().join(path);
        let file = if path.is_empty() { PathBuf::from(&document.name) } else { plain(&file) };
        // Not out of the repository, and nothing that only this machine has.
        let inside = !path.starts_with('/') && !file.starts_with("..") && !file.starts_with("target");
        let found = inside && (all.contains_key(&file) || Path::new(ROOT).join(&file).exists());
        found && anchor.is_none_or(|anchor| all.get(&file).is_some_and(|document| document.anchors.contains(anchor)))
    };
    let elsewhere = |link: &str| ["https://", "http://", "mailto:"].iter().any(|scheme| link.starts_with(scheme));
    let broken = document.links.iter().filter(|(_, link)| !elsewhere(link) && !leads(link));
    broken.map(|(line, link)| format!("{}:{line}: {link}", document.name)).collect()
}

/// Returns the path without `.` and, where that is possible, `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    })
}

fn by_path(documents: &[Document]) -> BTreeMap<PathBuf, &Document> {
    documents.iter().map(|document| (PathBuf::from(&document.name), document)).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let documents = markdown::all();
    let all = by_path(&documents);
    let faults: Vec<String> = documents.iter().flat_map(|document| faults(document, &all)).collect();
    assert!(faults.is_empty(), "these links lead nowhere:\n{}\n", faults.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_noticed() {
    let text = "# Here I am\n[a](#here-i-am) [b](../README.md) [c](../src) [d](https://x.example/y) ![e](images/status.svg)\n\
                <a href=\"#here-i-am\">x</a>\n\n\
                [f](#nowhere) [g](README.md#here) [h](/README.md) [i](../../README.md) [j](../target) ![k](none.svg)\n\
                <img src=\"none.svg\">\n\n[l]\n\n[l]: no-file.md\n";
    let document = Document::parse("docs/x.md", text);
    let documents = [document];
    let found = faults(&documents[0], &by_path(&documents));
    let links: Vec<&str> = found.iter().map(|fault| fault.rsplit_once(' ').unwrap().1).collect();
    let bad = [
        "#nowhere",
        "README.md#here",
        "/README.md",
        "../../README.md",
        "../target",
        "none.svg",
        "none.svg",
        "no-file.md",
    ];
    assert_eq!(links, bad);
}

/// Returns the names like `shedlock-run(1)` in a text.
fn pages(text: &str) -> impl Iterator<Item = String> {
    let ends = [("(1)", ".1"), ("(5)", ".5"), ("(7)", ".7"), ("(8)", ".8")];
    ends.into_iter().flat_map(move |(mark, end)| {
        text.match_indices(mark).filter_map(move |(place, _)| {
            let name = text[..place].rsplit(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c)).next()?;
            name.starts_with("shedlock").then(|| format!("{name}{end}"))
        })
    })
}

#[test]
fn every_page_that_is_named_is_there() {
    assert_eq!(
        pages("see shedlock-run(1), shedlock.toml(5), `shedlock`(1)").collect::<Vec<_>>(),
        ["shedlock-run.1", "shedlock.toml.5"]
    );
    let documents = markdown::all();
    let mut texts: Vec<(String, String)> =
        documents.into_iter().map(|document| (document.name, document.text)).collect();
    let sources = marks::sources(Path::new(ROOT)).into_iter().map(|path| path.to_str().unwrap().to_owned());
    let others = ["src/generate", "packaging/examples"].into_iter().flat_map(|folder| {
        let files = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        files.map(move |file| format!("{folder}/{}", file.unwrap().file_name().to_str().unwrap()))
    });
    // This file names pages that are not there.
    let names = sources.chain(others).filter(|name| name != "tests/all/documents/markdown/links.rs");
    texts.extend(names.map(|name| (name.clone(), text(&name))));
    let mut count = 0;
    for (name, text) in texts {
        for page in pages(&text) {
            assert!(Path::new(ROOT).join("man").join(&page).exists(), "{name}: {page}");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}
