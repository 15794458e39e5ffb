//! The Markdown files of the repository, and what a test looks at in them: blocks of code with their marks, code in a line,
//! links, and the headings that a link can lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A file, by its path in the repository.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    /// The code within lines.
    pub(crate) spans: Vec<(usize, String)>,
    pub(crate) links: Vec<(usize, String)>,
    /// What `#…` of a link can be.
    pub(crate) anchors: BTreeSet<String>,
    /// Comments that are before no block.
    pub(crate) comments: Vec<(usize, String)>,
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line where it begins.
    pub(crate) line: usize,
    /// The word after the fence, which may be missing; `None` if the block is indented and has no fence.
    pub(crate) language: Option<String>,
    pub(crate) text: String,
    /// The comments right before it.
    pub(crate) marks: Vec<String>,
    /// The name in `<!-- generated: NAME -->`, of which the block is a part.
    pub(crate) generated: Option<String>,
}

impl Block {
    pub(crate) fn is(&self, language: &str) -> bool {
        self.language.as_deref() == Some(language)
    }
}

/// The repository.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Reads all files, in the order of their names.
pub(crate) fn all() -> Vec<Document> {
    let mut names = Vec::new();
    walk(Path::new(""), &mut names);
    names.sort();
    names.iter().map(|name| Document::read(name)).collect()
}

/// Returns the blocks of a document that say `run by: TEST`, as that test needs them. Modules before the name are for the
/// reader.
#[track_caller]
pub(crate) fn run_by(document: &str, test: &str) -> Vec<String> {
    let is_meant =
        |mark: &String| mark.strip_prefix("run by: ").is_some_and(|named| named.rsplit("::").next() == Some(test));
    let blocks = Document::read(document).blocks.into_iter().filter(|block| block.marks.iter().any(is_meant));
    let blocks: Vec<String> = blocks.map(|block| block.text).collect();
    assert!(!blocks.is_empty(), "{document} has nothing for {test}");
    blocks
}

/// Adds the names of the Markdown files below a directory. The sources of the manual in `src/` are in marks of their own, and
/// what was built is nobody's to read.
fn walk(directory: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(Path::new(ROOT).join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = directory.join(&name);
        let passed_over = name.starts_with('.') && name != ".github" || ["src", "target"].contains(&name.as_str());
        if entry.file_type().unwrap().is_dir() {
            if !passed_over {
                walk(&path, names);
            }
        } else if path.extension().is_some_and(|end| end == "md") {
            names.push(path.to_str().unwrap().to_owned());
        }
    }
}

impl Document {
    pub(crate) fn read(name: &str) -> Self {
        let text = fs::read_to_string(Path::new(ROOT).join(name));
        Self::parse(name, &text.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut document = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            blocks: Vec::new(),
            spans: Vec::new(),
            links: Vec::new(),
            anchors: BTreeSet::new(),
            comments: Vec::new(),
        };
        let mut reader = Reader::default();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            reader.take(&mut document, event, &range);
        }
        reader.drop_marks(&mut document);
        document
    }

    fn line(&self, place: usize) -> usize {
        self.text[..place].matches('\n').count() + 1
    }
}

/// What has been begun.
#[derive(Default)]
struct Reader {
    /// Comments that wait for their block.
    marks: Vec<(usize, String)>,
    generated: Option<String>,
    html: String,
    block: Option<Block>,
    heading: Option<String>,
    /// How often each anchor was there already.
    seen: BTreeMap<String, usize>,
}

impl Reader {
    fn take(&mut self, document: &mut Document, event: Event<'_>, range: &Range<usize>) {
        let line = document.line(range.start);
        match event {
            Event::Start(Tag::HtmlBlock) => self.html.clear(),
            Event::Html(html) => self.html += &html,
            Event::End(TagEnd::HtmlBlock) => self.html(document, line),
            Event::InlineHtml(html) => {
                document.links.extend(addresses(&html).map(|address| (line, address)));
                // A generated list stands within a sentence.
                let others = comments(&html).filter(|it| !it.starts_with("generated:") && it != "/generated");
                document.comments.extend(others.map(|comment| (line, comment)));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(word) => Some(word.into_string()),
                    CodeBlockKind::Indented => None,
                };
                let marks = self.marks.drain(..).map(|(_, mark)| mark).collect();
                self.block =
                    Some(Block { line, language, text: String::new(), marks, generated: self.generated.clone() });
            }
            Event::End(TagEnd::CodeBlock) => document.blocks.extend(self.block.take()),
            Event::Text(text) => {
                if let Some(block) = &mut self.block {
                    block.text += &text;
                }
                self.heading.iter_mut().for_each(|heading| *heading += &text);
            }
            Event::Code(code) => {
                self.heading.iter_mut().for_each(|heading| *heading += &code);
                document.spans.push((line, code.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => {
                self.drop_marks(document);
                self.heading = Some(String::new());
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&self.heading.take().unwrap_or_default());
                let count = self.seen.entry(slug.clone()).and_modify(|count| *count += 1).or_default();
                document.anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push((line, dest_url.into_string()));
            }
            Event::Start(_) => self.drop_marks(document),
            _ => {}
        }
    }

    /// Takes in HTML that is no part of a paragraph: a comment, mostly.
    fn html(&mut self, document: &mut Document, line: usize) {
        let html = std::mem::take(&mut self.html);
        document.links.extend(addresses(&html).map(|address| (line, address)));
        for comment in comments(&html) {
            if let Some(name) = comment.strip_prefix("generated:") {
                self.generated = Some(name.trim().to_owned());
            } else if comment == "/generated" {
                self.generated = None;
            } else {
                self.marks.push((line, comment));
            }
        }
    }

    /// Drops the marks when something else than a block has come.
    fn drop_marks(&mut self, document: &mut Document) {
        document.comments.append(&mut self.marks);
    }
}

fn comments(html: &str) -> impl Iterator<Item = String> {
    let parts = html.split("<!--").skip(1).filter_map(|rest| rest.split_once("-->"));
    parts.map(|(comment, _)| comment.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the addresses that the tags of HTML lead to.
fn addresses(html: &str) -> impl Iterator<Item = String> {
    [" src=\"", " href=\"", " srcset=\""]
        .into_iter()
        .flat_map(|name| html.split(name).skip(1))
        .filter_map(|rest| rest.split_once('"'))
        .map(|(address, _)| address.to_owned())
}

/// Returns the anchor that GitHub makes of a heading: its letters, digits and hyphens, with hyphens for blanks.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}
