//! Formats a table that fits its device. The caller says, step by step, how to make it narrower.

use unicode_width::UnicodeWidthStr;

use crate::report::screen::{Paint, Screen};
use crate::text::{escape_hidden, printable_name, shorten};

/// A cell of a table: its text, and the meaning of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

/// A column of a table with rows of this type, in its forms from the longest to the shortest.
pub(crate) struct Column<'a, T> {
    heading: &'static str,
    forms: Vec<Form<'a, T>>,
}

/// A function that makes the cell of a row.
type Form<'a, T> = Box<dyn Fn(&T) -> Cell + 'a>;

/// A column in the form and width in which it is shown.
#[derive(Debug, Clone)]
struct Shown {
    /// The place of the column among all of them.
    column: usize,
    heading: &'static str,
    /// The form that is shown, and the widths of this form and those that are shorter.
    form: usize,
    widths: Vec<usize>,
    /// The width to which its texts are cut.
    most: Option<usize>,
    /// The width of the heading and all texts.
    width: usize,
}

/// A step that makes the column with this heading narrower.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Narrow {
    /// Cuts the column's texts, but not below this width.
    Cut(&'static str, usize),
    /// Uses the column's next, shorter form.
    Shorten(&'static str),
    /// Drops the column.
    Drop(&'static str),
}

/// The gap between two columns.
const COLUMN_GAP: usize = 2;
/// The bytes of the longest name of a lock that is shown whole.
const LONGEST_NAME: usize = 1000;
/// The text of an empty cell, so that no program takes the next column for this one.
const EMPTY_CELL: &str = "-";

impl Cell {
    /// Creates a cell of any text, with control characters escaped.
    pub(crate) fn new(text: &str, paint: Paint) -> Self {
        Self { text: escape_hidden(&shorten(text)).into_owned(), paint }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Paint::Plain)
    }

    /// Creates the cell of a lock's name.
    pub(crate) fn name(name: &str) -> Self {
        // A name is to be given to another command, unless it is none that anybody would have chosen.
        let text = if name.len() > LONGEST_NAME { &shorten(name) } else { name };
        Self { text: printable_name(text).into_owned(), paint: Paint::Plain }
    }

    pub(crate) fn optional(text: Option<String>) -> Self {
        Self::plain(&text.unwrap_or_default())
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<'a, T> Column<'a, T> {
    pub(crate) fn new(heading: &'static str, form: impl Fn(&T) -> Cell + 'a) -> Self {
        Self { heading, forms: vec![Box::new(form)] }
    }

    /// Adds a shorter form of the column.
    pub(crate) fn or(mut self, form: impl Fn(&T) -> Cell + 'a) -> Self {
        self.forms.push(Box::new(form));
        self
    }

    pub(crate) fn heading(&self) -> &'static str {
        self.heading
    }

    /// Returns the cell of a row in the longest form.
    pub(crate) fn whole(&self, row: &T) -> Cell {
        self.forms[0](row)
    }

    /// Returns the cell of a row in a form, for a table.
    fn cell(&self, row: &T, form: usize) -> Cell {
        let cell = self.forms[form](row);
        if cell.text.is_empty() { Cell::new(EMPTY_CELL, Paint::Faint) } else { cell }
    }
}

/// Returns the lines of a table, whose columns become narrower in the order of these steps if necessary. The rows are read
/// several times: first for their widths, so that they need not all be in memory.
pub(crate) fn table<'a, T: 'a, R: Iterator<Item = T> + 'a>(
    rows: impl Fn() -> R + 'a,
    columns: Vec<Column<'a, T>>,
    steps: &[Narrow],
    screen: Screen,
) -> impl Iterator<Item = String> + 'a {
    let mut shown = measured(&rows, &columns, screen);
    if let Some(width) = screen.width {
        let cut_width = |shown: &Shown, most| {
            let cells = rows().map(|row| cut(&columns[shown.column].cell(&row, shown.form).text, most).width());
            cells.max().unwrap_or(0)
        };
        fit(&mut shown, steps, width, &cut_width);
    }
    let heading = line(shown.iter().map(|shown| (shown.heading, Paint::Heading, shown.width)), &screen);
    let below = rows().map(move |row| {
        let cells: Vec<Cell> = shown.iter().map(|shown| shown.cell(&columns, &row)).collect();
        let widths = shown.iter().map(|shown| shown.width);
        line(cells.iter().zip(widths).map(|(cell, width)| (&cell.text[..], cell.paint, width)), &screen)
    });
    std::iter::once(heading).chain(below)
}

/// Returns the columns in their longest forms. Only a screen with a width needs the widths of the others.
fn measured<T, R: Iterator<Item = T>>(rows: impl Fn() -> R, columns: &[Column<'_, T>], screen: Screen) -> Vec<Shown> {
    let forms = |column: &Column<'_, T>| if screen.width.is_some() { column.forms.len() } else { 1 };
    let widths = |column: &Column<'_, T>| vec![column.heading.width(); forms(column)];
    let mut all: Vec<Vec<usize>> = columns.iter().map(widths).collect();
    for row in rows() {
        for (column, widths) in columns.iter().zip(&mut all) {
            for (form, width) in widths.iter_mut().enumerate() {
                *width = column.cell(&row, form).width().max(*width);
            }
        }
    }
    let shown = columns.iter().zip(all).enumerate();
    shown
        .map(|(place, (column, widths))| Shown {
            column: place,
            heading: column.heading,
            form: 0,
            width: widths[0],
            widths,
            most: None,
        })
        .collect()
}

impl Shown {
    fn cell<T>(&self, columns: &[Column<'_, T>], row: &T) -> Cell {
        let cell = columns[self.column].cell(row, self.form);
        match self.most {
            Some(most) => Cell { text: cut(&cell.text, most), ..cell },
            None => cell,
        }
    }

    fn cut(&mut self, most: usize, cut_width: CutWidth<'_>) {
        if most < self.width {
            self.width = cut_width(self, most).max(self.heading.width());
            self.most = Some(most);
        }
    }
}

/// Returns the width of the widest text of a column after cutting.
type CutWidth<'a> = &'a dyn Fn(&Shown, usize) -> usize;

/// Returns a line with each text aligned to its column, without trailing spaces.
fn line<'a>(cells: impl Iterator<Item = (&'a str, Paint, usize)>, screen: &Screen) -> String {
    let (mut line, mut blanks) = (String::new(), 0);
    for (text, paint, width) in cells {
        line += &" ".repeat(blanks);
        line += &screen.painted(text, paint);
        blanks = (width + COLUMN_GAP).saturating_sub(text.width());
    }
    line + "\n"
}

/// Takes as few steps as this width needs, and cuts texts no shorter than necessary.
fn fit(columns: &mut Vec<Shown>, steps: &[Narrow], width: usize, cut_width: CutWidth<'_>) {
    for count in 0..=steps.len() {
        let mut less = columns.clone();
        for step in &steps[..count] {
            step.change(&mut less);
        }
        for step in &steps[..count] {
            step.cut(&mut less, width, cut_width);
        }
        if total_width(&less) <= width || count == steps.len() {
            *columns = less;
            break;
        }
    }
    // Narrower than all steps allow.
    while columns.len() > 1 && total_width(columns) > width {
        columns.pop();
    }
    if let [only] = &mut columns[..] {
        only.cut(width, cut_width);
    }
}

impl Narrow {
    fn change(self, columns: &mut Vec<Shown>) {
        match self {
            Self::Cut(..) => {}
            Self::Shorten(heading) => {
                let has_shorter = |column: &&mut Shown| column.form + 1 < column.widths.len();
                for column in columns.iter_mut().filter(|column| column.heading == heading).filter(has_shorter) {
                    column.form += 1;
                    column.width = column.widths[column.form];
                }
            }
            Self::Drop(heading) => columns.retain(|column| column.heading != heading),
        }
    }

    fn cut(self, columns: &mut [Shown], width: usize, cut_width: CutWidth<'_>) {
        let Self::Cut(heading, least) = self else { return };
        let excess = total_width(columns).saturating_sub(width);
        for column in columns.iter_mut().filter(|column| column.heading == heading && excess > 0) {
            column.cut(column.width.saturating_sub(excess).max(least), cut_width);
        }
    }
}

fn total_width(columns: &[Shown]) -> usize {
    columns.iter().map(|column| column.width + COLUMN_GAP).sum::<usize>().saturating_sub(COLUMN_GAP)
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

    /// Returns the columns of two rows.
    fn columns() -> Vec<Column<'static, usize>> {
        let cells = |texts: [&'static str; 2]| move |row: &usize| Cell::plain(texts[*row]);
        vec![
            Column::new("NAME", cells(["a-rather-long-name", "日本語の名前"])),
            Column::new("SINCE", cells(["18:00:03Z (5m ago)", ""])).or(cells(["5m ago", ""])),
            Column::new("TOKEN", cells(["123456", "7"])),
        ]
    }

    fn table(columns: Vec<Column<'static, usize>>, steps: &[Narrow], screen: &Screen) -> String {
        super::table(|| 0..2, columns, steps, *screen).collect()
    }

    const NARROWING: [Narrow; 4] =
        [Narrow::Cut("NAME", 12), Narrow::Drop("TOKEN"), Narrow::Shorten("SINCE"), Narrow::Cut("NAME", 6)];

    #[test]
    fn columns_stand_below_each_other_whatever_their_letters() {
        let text = "\
NAME                SINCE               TOKEN
a-rather-long-name  18:00:03Z (5m ago)  123456
日本語の名前        -                   7
";
        assert_eq!(table(columns(), &NARROWING, &PIPED), text);
        assert_eq!(table(columns(), &NARROWING, &on(46)), text);
    }

    #[test]
    fn what_matters_least_is_given_up_first_and_no_more_than_is_needed() {
        assert_eq!(
            table(columns(), &NARROWING, &on(45)),
            "NAME               SINCE               TOKEN\n\
             a-rather-long-na…  18:00:03Z (5m ago)  123456\n\
             日本語の名前       -                   7\n"
        );
        assert_eq!(
            table(columns(), &NARROWING, &on(32)),
            "NAME          SINCE\na-rather-lo…  18:00:03Z (5m ago)\n日本語の名前  -\n"
        );
        assert_eq!(
            table(columns(), &NARROWING, &on(15)),
            "NAME     SINCE\na-rathe  5m ago\n日本語…  -\n".replace("a-rathe ", "a-rath… ")
        );
    }

    #[test]
    fn no_width_is_too_small() {
        for width in 1..60 {
            let text = table(columns(), &NARROWING, &on(width));
            for line in text.lines().skip(1) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colours_do_not_move_columns() {
        let state = |row: &usize| [Cell::new("held", Paint::Live), Cell::new("free", Paint::Faint)][*row].clone();
        let columns = vec![Column::new("STATE", state), Column::new("HOST", |row| Cell::plain(["a", "b"][*row]))];
        let coloured = table(columns, &[], &Screen { width: Some(80), colour: true });
        assert_eq!(
            coloured,
            "\x1b[1mSTATE\x1b[0m  \x1b[1mHOST\x1b[0m\n\x1b[38;5;31mheld\x1b[0m   a\n\x1b[2mfree\x1b[0m   b\n"
        );
    }

    #[test]
    fn a_stored_text_does_nothing_to_a_terminal() {
        let evil = "a\x1b[31m\nb\u{202e}c\u{e0044}\u{e007f}\u{200b}";
        let columns = vec![Column::new("NAME", move |_: &usize| Cell::plain(evil))];
        let text = table(columns, &[], &Screen { width: None, colour: true });
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
