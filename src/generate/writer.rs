//! Writes manual pages in roff out of a few marks of Markdown.

use std::iter::Peekable;
use std::str::Lines;

use roff::{Inline, Roff, bold, italic, roman};

/// Converts a page's source to a manual page. It knows these marks: `# SECTION`, `## Subsection`, paragraphs, a term with `: `
/// and its meaning in the next line, lists whose items begin with `* `, and examples indented by four spaces; within a line,
/// `bold` between backticks and *italic* between asterisks.
pub(super) struct Writer {
    roff: Roff,
    /// The heading has already separated the next paragraph.
    after_heading: bool,
}

impl Writer {
    /// Begins a page.
    pub(super) fn begin(title: &str, section: &str, version: &str) -> Self {
        let mut roff = Roff::new();
        // Without a date: the version shows how old the page is.
        roff.control("TH", [title, section, "\"\"", version]);
        // Turns off hyphenation, which gets in the way of searching and copying, and justification.
        roff.control("nh", []).control("ad", ["l"]);
        Self { roff, after_heading: true }
    }

    pub(super) fn render(&self) -> String {
        self.roff.render()
    }

    pub(super) fn write(&mut self, source: &str) {
        let mut lines = source.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(title) = line.strip_prefix("# ") {
                self.heading("SH", title);
            } else if let Some(title) = line.strip_prefix("## ") {
                self.heading("SS", title);
            } else if let Some(first) = line.strip_prefix("    ") {
                self.example(first, &mut lines);
            } else if !line.is_empty() {
                self.paragraph(line, &mut lines);
            }
        }
    }

    fn heading(&mut self, kind: &str, title: &str) {
        self.roff.control(kind, [title]);
        self.after_heading = true;
    }

    fn example(&mut self, first: &str, lines: &mut Peekable<Lines<'_>>) {
        let mut example = vec![first];
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with("    ")) {
            example.push(line.strip_prefix("    ").unwrap_or_default());
        }
        while example.last().is_some_and(|line| line.is_empty()) {
            example.pop();
        }
        self.distance();
        self.roff.control("RS", ["4"]).control("EX", []);
        for line in example {
            self.roff.text([roman(line)]);
        }
        // `EE` turns hyphenation back on.
        self.roff.control("EE", []).control("RE", []).control("nh", []);
        self.after_heading = false;
    }

    /// Separates a paragraph from the text above it.
    fn distance(&mut self) {
        if !self.after_heading {
            self.roff.control("PP", []);
        }
    }

    fn paragraph(&mut self, first: &str, lines: &mut Peekable<Lines<'_>>) {
        let mut rest: Vec<&str> = std::iter::from_fn(|| lines.next_if(|line| !line.is_empty())).collect();
        if let Some(item) = first.strip_prefix("* ") {
            self.list(item, &rest);
        } else if let Some(meaning) = rest.first().and_then(|line| line.strip_prefix(": ")) {
            rest[0] = meaning;
            self.roff.control("TP", []).text(inline(first)).text(inline(&rest.join(" ")));
        } else {
            self.distance();
            rest.insert(0, first);
            self.roff.text(inline(&rest.join(" ")));
        }
        self.after_heading = false;
    }

    /// Writes a list; `first` is the first line of its first item.
    fn list(&mut self, first: &str, lines: &[&str]) {
        let mut items = vec![first.to_owned()];
        for line in lines {
            match (line.strip_prefix("* "), items.last_mut()) {
                (None, Some(item)) => *item += &format!(" {line}"),
                (next, _) => items.extend(next.map(str::to_owned)),
            }
        }
        for item in items {
            self.roff.control("IP", ["•", "2"]).text(inline(&item));
        }
    }
}

/// Parses the marks within a paragraph. Words that begin with `--` are bold too, because help texts have no marks.
fn inline(text: &str) -> Vec<Inline> {
    let mut parts = Vec::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            parts.push(bold(part));
            continue;
        }
        for (index, part) in part.split('*').enumerate() {
            if index % 2 == 1 {
                parts.push(italic(part));
            } else {
                parts.extend(with_options_bold(part));
            }
        }
    }
    parts
}

fn with_options_bold(text: &str) -> Vec<Inline> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("--") {
        let option = &rest[start..];
        let length = option.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(option.len());
        parts.extend([roman(&rest[..start]), bold(&option[..length])]);
        rest = &option[length..];
    }
    parts.push(roman(rest));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_item_for_each_mark() {
        let mut writer = Writer { roff: Roff::new(), after_heading: false };
        writer.write("A *b*\nc.\n\n* d `e`\nf\n* *g*\n");
        let made = writer.roff.to_roff();
        assert_eq!(made, ".PP\nA \\fIb\\fR c.\n.IP • 2\nd \\fBe\\fR f\n.IP • 2\n\\fIg\\fR\n");
    }

    #[test]
    fn marks_become_fonts() {
        let mut roff = Roff::new();
        roff.text(inline("a `b-c` *d* (see --at-most, or --every)."));
        assert_eq!(
            roff.to_roff(),
            "a \\fBb\\-c\\fR \\fId\\fR (see \\fB\\-\\-at\\-most\\fR, or \\fB\\-\\-every\\fR).\n"
        );
    }
}
