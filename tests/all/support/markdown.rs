//! What stands in a document for a test to run: fenced blocks under the comment that names the test.

use std::fs;
use std::path::Path;

/// A fenced block, and what stands on the line before it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// The comment, without its marks; empty if there is none.
    pub(crate) mark: String,
}

/// All fenced blocks of a document, in order.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let (mut blocks, mut open, mut before) = (Vec::<Block>::new(), false, "");
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                let mark = before.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->")).unwrap_or_default();
                blocks.push(Block { language: language.to_owned(), text: String::new(), mark: mark.to_owned() });
                open = true;
            }
            None if open => blocks.last_mut().unwrap().text += &format!("{line}\n"),
            None => {}
        }
        before = line;
    }
    assert!(!open, "{document} has a block without an end");
    blocks
}

/// The text of the one block that says `run by: TEST`.
#[track_caller]
pub(crate) fn run_by(document: &str, test: &str) -> String {
    let mut found: Vec<Block> = blocks(document);
    found.retain(|block| block.mark == format!("run by: {test}"));
    assert_eq!(found.len(), 1, "{document}: {test}");
    found.remove(0).text
}
