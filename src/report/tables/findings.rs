//! Prints the findings of `shedlock check`: one line each as soon as it is known, or JSON.

use std::io::{ErrorKind, Write, stdout};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::proof::ProofReport;
use crate::backend::{Finding, Grade, LockTest};
use crate::report::messages::{escaped_json, stdout_error};
use crate::report::screen::{Paint, Screen};
use crate::report::secrets::without_secrets;
use crate::text::escape_hidden;

/// The width of the longest subject.
const SUBJECT_WIDTH: usize = 12;
/// The column of the text, after mark, subject and the spaces between them.
const TEXT_COLUMN: usize = SUBJECT_WIDTH + 4;
/// The narrowest terminal for folding: on a narrower one, the text would be a column of single words.
const MIN_FOLDED_WIDTH: usize = TEXT_COLUMN + 24;

/// The findings of a check so far, and how they are printed.
pub(crate) struct Findings {
    found: Vec<Finding>,
    style: Style,
    /// The error of stdout after which nothing more is printed.
    broken: Option<std::io::Error>,
}

/// The form in which findings are printed.
enum Style {
    Json,
    Text { letters: Letters, screen: Screen },
}

/// The set of characters that a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    All,
    Ascii,
}

impl Findings {
    pub(crate) fn new(json: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let style = match json {
            true => Style::Json,
            false => Style::Text { letters: letters(locale.as_deref()), screen: Screen::for_stdout() },
        };
        Self { found: Vec::new(), style, broken: None }
    }

    /// Stores a finding and prints it at once.
    pub(crate) fn add(&mut self, mut finding: Finding) {
        finding.seen = without_secrets(&finding.seen).into_owned();
        finding.advice = finding.advice.map(|advice| without_secrets(&advice).into_owned());
        if let Style::Text { letters, screen } = self.style {
            self.write(&line(&finding, letters, screen));
        }
        self.found.push(finding);
    }

    /// Returns the worst grade of all findings.
    pub(crate) fn worst(&self) -> Grade {
        let grades = self.found.iter().map(|finding| finding.grade);
        grades.max_by_key(|grade| *grade as u8).unwrap_or(Grade::Good)
    }

    /// Prints the verdict of all findings.
    pub(crate) fn finish(&mut self, reached: LockTest) -> anyhow::Result<()> {
        let text = match self.style {
            Style::Json => {
                let all: Vec<Value> = self.found.iter().map(object).collect();
                escaped_json(format!("{:#}\n", Value::Array(all)))
            }
            Style::Text { .. } => summary(&self.found, reached),
        };
        self.write(&text);
        self.result()
    }

    /// Returns the error of stdout.
    fn result(&mut self) -> anyhow::Result<()> {
        match self.broken.take() {
            // `shedlock check | head` closes the pipe early; that is no error.
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(stdout_error(&error)),
            _ => Ok(()),
        }
    }

    /// Prints the verdict and the figures of `prove`.
    pub(crate) fn finish_proof(&mut self, report: &ProofReport<'_>) -> anyhow::Result<()> {
        let text = match self.style {
            Style::Json => {
                escaped_json(format!("{:#}\n", report.json(&self.found.iter().map(object).collect::<Vec<_>>())))
            }
            Style::Text { .. } => {
                let broken = self.found.iter().filter(|finding| finding.grade == Grade::Bad).count();
                let open = self.found.iter().filter(|finding| finding.grade == Grade::Unwise).count();
                let verdict = match broken {
                    0 if open > 0 => {
                        format!(
                            "this backend kept the rules of a lock, as far as they were tried: {open} not tried, or in doubt"
                        )
                    }
                    0 => "this backend kept the rules of a lock".to_owned(),
                    1 => "1 rule of a lock was broken here".to_owned(),
                    broken => format!("{broken} rules of a lock were broken here"),
                };
                format!("{verdict}\n\n{}", report.text())
            }
        };
        self.write(&text);
        self.result()
    }

    fn write(&mut self, text: &str) {
        let mut stdout = stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.broken.get_or_insert(error);
        }
    }
}

/// Returns the characters that a locale allows. Without a locale, as under cron, only ASCII is safe.
fn letters(locale: Option<&str>) -> Letters {
    let locale = locale.unwrap_or_default().to_ascii_uppercase();
    if locale.contains("UTF-8") || locale.contains("UTF8") { Letters::All } else { Letters::Ascii }
}

fn line(finding: &Finding, letters: Letters, screen: Screen) -> String {
    let (mark, ascii, paint) = match finding.grade {
        Grade::Good => ("✓", "+", Paint::Good),
        Grade::Unwise => ("!", "!", Paint::Warning),
        Grade::Bad => ("✗", "x", Paint::Bad),
    };
    let (mark, arrow) = if letters == Letters::All { (mark, "→") } else { (ascii, "->") };
    let mark = screen.painted(mark, paint);
    let seen = folded(&one_line(&finding.seen), screen.width, TEXT_COLUMN);
    let line = format!("{mark} {:SUBJECT_WIDTH$}  {seen}\n", finding.subject);
    match finding.advice.as_deref().filter(|advice| !advice.is_empty()) {
        Some(advice) => {
            let under = TEXT_COLUMN + arrow.width() + 1;
            format!("{line}{:TEXT_COLUMN$}{arrow} {}\n", "", folded(&one_line(advice), screen.width, under))
        }
        None => line,
    }
}

/// Folds a text that begins in this column between words. Text in backticks counts as one word, so that it can be copied.
fn folded(text: &str, width: Option<usize>, column: usize) -> String {
    let Some(room) = width.filter(|width| *width >= MIN_FOLDED_WIDTH).map(|width| width - column) else {
        return text.to_owned();
    };
    let mut lines = vec![String::new()];
    let mut shell_words = false;
    for word in text.split_inclusive(|c: char| {
        shell_words ^= c == '`';
        c == ' ' && !shell_words
    }) {
        let line = lines.last().map_or(0, |line| line.width());
        if line > 0 && line + word.trim_end().width() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join(&format!("\n{:column$}", ""))
}

/// Puts a server's message, which may have several lines and any characters, on one line.
fn one_line(text: &str) -> String {
    escape_hidden(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

fn object(finding: &Finding) -> Value {
    let grade = match finding.grade {
        Grade::Good => "good",
        Grade::Unwise => "unwise",
        Grade::Bad => "bad",
    };
    let advice = finding.advice.as_deref().filter(|advice| !advice.is_empty());
    json!({ "grade": grade, "subject": finding.subject, "seen": finding.seen, "advice": advice })
}

fn summary(found: &[Finding], reached: LockTest) -> String {
    let count = |grade| found.iter().filter(|finding| finding.grade == grade).count();
    let things = |count| match count {
        1 => "1 thing is".to_owned(),
        count => format!("{count} things are"),
    };
    let text = match (count(Grade::Bad), count(Grade::Unwise)) {
        (0, 0) => "this host can lock here; next: shedlock prove".to_owned(),
        (0, unwise) => format!("this host can lock here, but {} unwise", things(unwise)),
        (bad, _) => format!("{} in the way of locking here", things(bad)),
    };
    match reached {
        LockTest::Possible => format!("{text}\n"),
        LockTest::Pointless => format!("{text}; fix this before the other tests can run\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Screen = Screen { width: None, colour: false };

    #[test]
    fn a_line_has_a_mark_and_what_to_do_stands_under_it() {
        let finding = Finding::bad("clock", "an hour\nlate", "set it");
        assert_eq!(line(&finding, Letters::All, PIPE), "✗ clock         an hour late\n                → set it\n");
        assert_eq!(line(&finding, Letters::Ascii, PIPE), "x clock         an hour late\n                -> set it\n");
        let odd = Finding::bad("table", "a\u{202e}b\x1b[1m", "see\u{200b}");
        let seen = "x table         a\\u{202e}b\\u{1b}[1m\n                -> see\\u{200b}\n";
        assert_eq!(line(&odd, Letters::Ascii, PIPE), seen);
        let coloured = line(&finding, Letters::All, Screen { width: Some(80), colour: true });
        assert!(coloured.starts_with("\x1b[1;38;5;160m✗\x1b[0m clock"), "{coloured}");
        assert_eq!(line(&Finding::good("TLS", "on"), Letters::All, PIPE), "✓ TLS           on\n");
    }

    #[test]
    fn a_terminal_gets_lines_that_fit_and_a_pipe_gets_all_in_one() {
        let seen = "the table shedlock is kept by MyISAM, which has no transactions";
        let finding = Finding::bad("table", seen, "run `ALTER TABLE shedlock ENGINE = InnoDB` and check again");
        let shown = |width| line(&finding, Letters::All, Screen { width, colour: false });
        assert_eq!(
            shown(Some(40)),
            "✗ table         the table shedlock is\n                kept by MyISAM, which\n                has no transactions\n\
             \x20               → run\n                  `ALTER TABLE shedlock ENGINE = InnoDB`\n                  and check again\n"
        );
        assert!(shown(Some(80)).lines().all(|line| line.width() <= 80), "{}", shown(Some(80)));
        for all_in_one in [None, Some(39), Some(200)] {
            assert_eq!(shown(all_in_one).lines().count(), 2, "{all_in_one:?}");
        }
        assert_eq!(folded("an `open quote", Some(40), 30), "an\n                              `open quote");
        assert_eq!(folded("äöü äöü äöü", Some(40), 29), "äöü äöü äöü");
    }

    #[test]
    fn only_a_locale_in_utf_8_has_all_letters() {
        for (locale, known) in [
            (Some("de_DE.UTF-8"), Letters::All),
            (Some("C.utf8"), Letters::All),
            (Some("C"), Letters::Ascii),
            (Some("de_DE@euro"), Letters::Ascii),
            (None, Letters::Ascii),
        ] {
            assert_eq!(letters(locale), known, "{locale:?}");
        }
    }

    #[test]
    fn the_last_line_says_what_it_all_means() {
        let (good, unwise) = (Finding::good("a", ""), Finding::unwise("b", "", ""));
        let bad = Finding::bad("c", "", "");
        let said =
            |found: &[&Finding]| summary(&found.iter().copied().cloned().collect::<Vec<_>>(), LockTest::Possible);
        assert_eq!(said(&[&good]), "this host can lock here; next: shedlock prove\n");
        assert_eq!(said(&[&good, &unwise]), "this host can lock here, but 1 thing is unwise\n");
        assert_eq!(said(&[&bad, &unwise, &bad]), "2 things are in the way of locking here\n");
        assert!(summary(&[bad], LockTest::Pointless).ends_with("fix this before the other tests can run\n"));
    }
}
