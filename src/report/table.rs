//! Formats a table that fits its device. The caller says, step by step, how to make it narrower.

use unicode_width::UnicodeWidthStr;

use super::reporter::visible;
use super::screen::{Paint, Screen};

/// A cell: its text, and the meaning of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

/// A column, in its forms from the longest to the shortest.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    heading: &'static str,
    forms: Vec<Vec<Cell>>,
}

/// A step that makes the column with this heading narrower.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Give {
    /// Cuts its texts, but not below this width.
    Cut(&'static str, usize),
    /// Uses its next, shorter form.
    Shorten(&'static str),
    /// Drops the column.
    Drop(&'static str),
}

/// The gap between two columns.
const GAP: usize = 2;
/// The text of an empty cell, so that no program takes the next column for this one.
const NOTHING_THERE: &str = "-";

impl Cell {
    /// Creates a cell of any text, with control characters escaped.
    pub(crate) fn new(text: &str, paint: Paint) -> Self {
        Self { text: visible(text).into_owned(), paint }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Paint::Plain)
    }

    pub(crate) fn of(text: Option<String>) -> Self {
        Self::plain(&text.unwrap_or_default())
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl Column {
    pub(crate) fn new(heading: &'static str, cells: Vec<Cell>) -> Self {
        Self { heading, forms: vec![cells] }
    }

    /// Adds a shorter form.
    pub(crate) fn or(mut self, cells: Vec<Cell>) -> Self {
        self.forms.push(cells);
        self
    }

    pub(super) fn heading(&self) -> &'static str {
        self.heading
    }

    /// Returns the cells in the column's longest form that is left.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.forms[0]
    }

    /// Returns whether no cell has a text.
    pub(super) fn is_empty(&self) -> bool {
        self.cells().iter().all(|cell| cell.text.is_empty())
    }

    fn width(&self) -> usize {
        self.cells().iter().map(Cell::width).max().unwrap_or(0).max(self.heading.width())
    }

    fn cut(&mut self, width: usize) {
        for cell in &mut self.forms[0] {
            cell.text = cut(&cell.text, width);
        }
    }
}

/// Formats the columns, making them narrower in the order of these steps if necessary.
pub(crate) fn table(mut columns: Vec<Column>, gives: &[Give], screen: &Screen) -> String {
    for column in &mut columns {
        for cell in column.forms.iter_mut().flatten() {
            if cell.text.is_empty() {
                *cell = Cell::new(NOTHING_THERE, Paint::Faint);
            }
        }
    }
    if let Some(width) = screen.width {
        fit(&mut columns, gives, width);
    }
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let rows = columns.first().map_or(0, |column| column.cells().len());
    let heading = line(columns.iter().map(|column| (column.heading, Paint::Heading)), &widths, screen);
    let below = (0..rows).map(|row| {
        let cells = columns.iter().map(|column| &column.cells()[row]);
        line(cells.map(|cell| (cell.text.as_str(), cell.paint)), &widths, screen)
    });
    std::iter::once(heading).chain(below).collect()
}

/// Returns a line with each text aligned to its column, without trailing spaces.
fn line<'a>(cells: impl Iterator<Item = (&'a str, Paint)>, widths: &[usize], screen: &Screen) -> String {
    let (mut line, mut blanks) = (String::new(), 0);
    for ((text, paint), width) in cells.zip(widths) {
        line += &" ".repeat(blanks);
        line += &screen.painted(text, paint);
        blanks = width + GAP - text.width();
    }
    line + "\n"
}

/// Takes as few steps as this width needs, and cuts texts no shorter than necessary.
fn fit(columns: &mut Vec<Column>, gives: &[Give], width: usize) {
    for count in 0..=gives.len() {
        let mut less = columns.clone();
        for give in &gives[..count] {
            give.change(&mut less);
        }
        for give in &gives[..count] {
            give.cut(&mut less, width);
        }
        if breadth(&less) <= width || count == gives.len() {
            *columns = less;
            break;
        }
    }
    // Narrower than all steps allow.
    while columns.len() > 1 && breadth(columns) > width {
        columns.pop();
    }
    if let [only] = &mut columns[..] {
        only.cut(width);
    }
}

impl Give {
    fn change(self, columns: &mut Vec<Column>) {
        match self {
            Self::Cut(..) => {}
            Self::Shorten(heading) => {
                for column in columns.iter_mut().filter(|column| column.heading == heading && column.forms.len() > 1) {
                    column.forms.remove(0);
                }
            }
            Self::Drop(heading) => columns.retain(|column| column.heading != heading),
        }
    }

    fn cut(self, columns: &mut [Column], width: usize) {
        let Self::Cut(heading, least) = self else { return };
        let excess = breadth(columns).saturating_sub(width);
        for column in columns.iter_mut().filter(|column| column.heading == heading && excess > 0) {
            column.cut(column.width().saturating_sub(excess).max(least));
        }
    }
}

fn breadth(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Cuts the text to this many columns, ending in `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if kept.width() >= width {
            kept.pop();
            break;
        }
    }
    kept.trim_end().to_owned() + "…"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const fn on(width: usize) -> Screen {
        Screen { width: Some(width), colour: false }
    }
    pub(crate) const PIPED: Screen = Screen { width: None, colour: false };

    fn columns() -> Vec<Column> {
        let cells = |texts: [&str; 2]| texts.map(Cell::plain).to_vec();
        vec![
            Column::new("NAME", cells(["a-rather-long-name", "日本語の名前"])),
            Column::new("SINCE", cells(["18:00:03Z (5m ago)", ""])).or(cells(["5m ago", ""])),
            Column::new("TOKEN", cells(["123456", "7"])),
        ]
    }

    const GIVES: [Give; 4] = [Give::Cut("NAME", 12), Give::Drop("TOKEN"), Give::Shorten("SINCE"), Give::Cut("NAME", 6)];

    #[test]
    fn columns_stand_below_each_other_whatever_their_letters() {
        let text = "\
NAME                SINCE               TOKEN
a-rather-long-name  18:00:03Z (5m ago)  123456
日本語の名前        -                   7
";
        assert_eq!(table(columns(), &GIVES, &PIPED), text);
        assert_eq!(table(columns(), &GIVES, &on(46)), text);
    }

    #[test]
    fn what_matters_least_is_given_up_first_and_no_more_than_is_needed() {
        assert_eq!(
            table(columns(), &GIVES, &on(45)),
            "NAME               SINCE               TOKEN\n\
             a-rather-long-na…  18:00:03Z (5m ago)  123456\n\
             日本語の名前       -                   7\n"
        );
        assert_eq!(
            table(columns(), &GIVES, &on(32)),
            "NAME          SINCE\na-rather-lo…  18:00:03Z (5m ago)\n日本語の名前  -\n"
        );
        assert_eq!(
            table(columns(), &GIVES, &on(15)),
            "NAME     SINCE\na-rathe  5m ago\n日本語…  -\n".replace("a-rathe ", "a-rath… ")
        );
    }

    #[test]
    fn no_width_is_too_small() {
        for width in 1..60 {
            let text = table(columns(), &GIVES, &on(width));
            for line in text.lines().skip(1) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colours_do_not_move_columns() {
        let cells = vec![Cell::new("held", Paint::Live), Cell::new("free", Paint::Faint)];
        let columns = vec![Column::new("STATE", cells), Column::new("HOST", vec![Cell::plain("a"), Cell::plain("b")])];
        let coloured = table(columns, &[], &Screen { width: Some(80), colour: true });
        assert_eq!(
            coloured,
            "\x1b[1mSTATE\x1b[0m  \x1b[1mHOST\x1b[0m\n\x1b[38;5;31mheld\x1b[0m   a\n\x1b[2mfree\x1b[0m   b\n"
        );
    }

    #[test]
    fn a_stored_text_does_nothing_to_a_terminal() {
        let evil = "a\x1b[31m\nb\u{202e}c\u{e0044}\u{e007f}\u{200b}";
        let text =
            table(vec![Column::new("NAME", vec![Cell::plain(evil)])], &[], &Screen { width: None, colour: true });
        assert_eq!(text.lines().nth(1).unwrap(), "a\\u{1b}[31m\\nb\\u{202e}c\\u{e0044}\\u{e007f}\\u{200b}");
    }

    #[test]
    fn a_text_is_cut_where_it_is_full() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("ab cd", 4), "ab…");
        assert_eq!(cut("abcd", 1), "…");
    }
}
