//! Generates the lists of backends in the documents and the manual from the table of kinds, so that none is written by hand.

use crate::backend::{self, Listed};

/// Chooses the kinds of a list.
type Has = fn(&Listed) -> bool;

/// The lists for a sentence: the mark in a page and in `<!-- generated: MARK -->`, and the kinds that it stands for.
const LISTS: [(&str, Has); 2] = [("backends", |_| true), ("shared backends", is_shared)];

/// Returns a page's source with the lists of backends in place of their marks, such as `{shared backends}`.
pub(super) fn fill(source: &str) -> String {
    let source = source.replace("{table of backends}\n", &terms());
    LISTS.iter().fold(source, |source, (mark, has)| source.replace(&format!("{{{mark}}}"), &list(*has)))
}

/// Returns every kind with its servers, as a list of a page's terms.
fn terms() -> String {
    let schemes =
        |kind: &Listed| kind.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect::<Vec<_>>().join(", ");
    backend::listed().map(|kind| format!("{}\n: {}.\n\n", schemes(&kind), kind.servers)).collect()
}

/// Returns the names of servers, as a sentence has them: `PostgreSQL, MySQL or etcd`.
fn list(has: Has) -> String {
    let kinds = backend::listed().filter(has);
    let names: Vec<&str> = kinds.flat_map(|kind| kind.servers.split(", ")).map(without_version).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Returns whether several hosts can share the backend; a file is one host's.
fn is_shared(kind: &Listed) -> bool {
    !kind.schemes.contains(&"sqlite")
}

fn without_version(server: &str) -> &str {
    server.split(' ').next().unwrap_or(server)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::super::tests::{is_fresh, table};
    use super::*;

    const END: &str = "<!-- /generated -->";

    /// Returns the text of every Markdown file by its path, that of the manual's sources too.
    fn documents() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
                let path = folder.join(entry.file_name());
                let name = path.to_str().unwrap().to_owned();
                if entry.file_type().unwrap().is_dir() {
                    if !name.starts_with('.') && !["target", "fuzz/target"].contains(&name.as_str()) {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|end| end == "md") {
                    let text = fs::read_to_string(root.join(&path)).unwrap();
                    files.push((name, text));
                }
            }
        }
        files.sort();
        files
    }

    /// Returns the document with every list of backends between its marks made anew.
    fn with_lists(document: &str) -> String {
        let mut text = document.to_owned();
        for (mark, has) in LISTS {
            text = with_block(&text, mark, &list(has));
        }
        let rows = backend::listed().map(|kind| {
            let schemes = kind.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect::<Vec<_>>().join(", ");
            [kind.servers.to_owned(), format!("`{}`", kind.example), schemes]
        });
        with_block(&text, "table of backends", &format!("\n{}", table(["backend", "URL", "schemes"], rows)))
    }

    /// Puts `made` between each pair of marks of this name, unless the same words are there with other line breaks.
    fn with_block(document: &str, mark: &str, made: &str) -> String {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let begin = format!("<!-- generated: {mark} -->");
        let mut parts = document.split(&begin);
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (found, after) = part.split_once(END).unwrap_or_else(|| panic!("{begin} has no end"));
            let block = if words(found) == words(made) { found } else { made };
            text += &format!("{begin}{block}{END}{after}");
        }
        text
    }

    #[test]
    fn the_lists_of_backends_in_the_documents_are_fresh() {
        for (name, document) in documents() {
            is_fresh(&name, &with_lists(&document));
        }
    }

    #[test]
    fn a_list_between_marks_is_made_anew_and_keeps_its_line_breaks() {
        let shared = list(is_shared);
        let inline = |list: &str| format!("In <!-- generated: shared backends -->{list}{END}, or a file.\n");
        assert_eq!(with_lists(&inline("Oracle")), inline(&shared));
        let broken = inline(&shared.replacen(' ', "\n", 2));
        assert_eq!(with_lists(&broken), broken);
        let table = with_lists(&format!("<!-- generated: table of backends -->\n{END}\n"));
        assert!(table.contains(
            "-->\n| backend | URL | schemes |\n| --- | --- | --- |\n| SQLite | `sqlite:PATH` | `sqlite:` |\n"
        ));
        assert_eq!(fill("Use {backends}."), format!("Use SQLite, {shared}."));
        assert!(shared.starts_with("PostgreSQL, MySQL, MariaDB, Redis, ") && shared.contains(" or "), "{shared}");
    }

    /// The kinds that make a list one of all backends. A shorter one has a fact of its own, such as which servers were measured.
    const FEWEST: usize = 5;

    /// Returns the lists of [`FEWEST`] or more kinds of backends that stand outside of generated blocks, of examples and of code.
    fn by_hand(document: &str) -> Vec<String> {
        let mut parts = document.split("<!-- generated:");
        let mut text = parts.next().unwrap().to_owned();
        text.extend(parts.filter_map(|part| part.split_once(END)).map(|(_, after)| format!("\n\n{after}")));
        let mut fenced = false;
        let prose = text.lines().map(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            // A line of a page's example, a row of a table, and each item stand for themselves.
            if fence || fenced || line.starts_with("    ") {
                "\n\n".to_owned()
            } else {
                line.replace(" | ", "\n\n") + "\n"
            }
        });
        let prose: String = prose.collect();
        prose.split("\n\n").flat_map(lists).collect()
    }

    /// Returns the lists in a paragraph: names that nothing but commas, versions and conjunctions stand between.
    fn lists(paragraph: &str) -> Vec<String> {
        let (mut found, mut list) = (Vec::new(), Vec::new());
        let mut kinds = BTreeSet::new();
        for word in paragraph.split_whitespace().chain([""]) {
            let bare = word.trim_matches(|c: char| "`*(),.;:".contains(c));
            let kind = kind_of(bare);
            let is_glue = ["and", "or", "/"].contains(&bare) || bare.starts_with(|c: char| c.is_ascii_digit());
            if kind.is_some() || is_glue && !list.is_empty() {
                list.push(word);
                kinds.extend(kind);
            }
            if kind.is_none() && !is_glue || word.ends_with('.') {
                if kinds.len() >= FEWEST {
                    found.push(list.join(" "));
                }
                list.clear();
                kinds.clear();
            }
        }
        found
    }

    /// Returns which of the listed kinds a name or a URL is of.
    fn kind_of(word: &str) -> Option<usize> {
        backend::listed().position(|kind| {
            let mut servers = kind.servers.split(", ").map(without_version);
            servers.any(|name| name == word)
                || kind.schemes.iter().any(|scheme| word == *scheme || word.starts_with(&format!("{scheme}:")))
        })
    }

    #[test]
    fn a_list_that_is_written_by_hand_is_found() {
        for bad in [
            "in PostgreSQL, MySQL,\nMariaDB, `Redis`, ZooKeeper, or etcd.",
            "| x | SQLite, PostgreSQL 12+, MySQL 8 / Redis, Kubernetes |",
            "use sqlite:PATH, `postgres://`, `redis://HOST`, `etcd://` and `zookeeper://H`",
            "<!-- generated: backends -->SQLite<!-- /generated --> PostgreSQL, MySQL, Redis, etcd, Kubernetes",
        ] {
            assert_eq!(by_hand(bad).len(), 1, "{bad}: {:?}", by_hand(bad));
        }
        for good in [
            "in PostgreSQL, MySQL, MariaDB, Redis and etcd",
            "in SQLite, PostgreSQL, MySQL and Redis. etcd does not",
            "| PostgreSQL | MySQL | Redis | etcd | Kubernetes |",
            "<!-- generated: backends -->SQLite, PostgreSQL, MySQL, Redis, etcd<!-- /generated -->",
            "```sh\nsqlite postgres mysql redis etcd\n```",
        ] {
            assert!(by_hand(good).is_empty(), "{good}: {:?}", by_hand(good));
        }
    }

    #[test]
    fn no_document_lists_the_backends_by_hand() {
        let lists = documents().into_iter().flat_map(|(name, document)| {
            by_hand(&document).into_iter().map(move |list| format!("{name}: {list}")).collect::<Vec<_>>()
        });
        let lists: Vec<String> = lists.collect();
        assert!(lists.is_empty(), "these belong into <!-- generated: backends -->:\n{}\n", lists.join("\n"));
    }
}
