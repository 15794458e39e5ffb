//! `shedlock run --dry-run`: the settings of a run, where they come from, and its course.

use super::screen::{Paint, Screen};
use super::table::{Cell, Column, Give, table};
use super::times::Zone;
use crate::duration::format;
use crate::run::Outline;
use crate::system::Timestamp;
use crate::text::{visible, word};

/// A setting in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) option: &'static str,
    pub(crate) value: String,
    /// The option, variable or file that sets it; `None` for the default.
    pub(crate) source: Option<String>,
}

/// The width of the picture without a terminal, and its longest.
const WIDTH: usize = 78;

/// Formats the settings and the course of a run of this command.
pub(crate) fn rehearsal(
    settings: &[Setting],
    command: &str,
    outline: &Outline,
    now: Timestamp,
    screen: &Screen,
) -> String {
    let columns = vec![
        Column::new("SETTING", |setting: &&Setting| Cell::plain(setting.option)),
        Column::new("VALUE", |setting: &&Setting| Cell::plain(&setting.value)),
        Column::new("FROM", |setting: &&Setting| match &setting.source {
            Some(source) => Cell::plain(source),
            None => Cell::new("the default", Paint::Faint),
        }),
    ];
    let mut text: String = table(|| settings.iter(), columns, &GIVES, *screen).collect();
    text += &format!("\nThe job:\n  {}\n\nA run that is granted the lock now:\n", visible(command));
    let offsets: Vec<String> = outline.steps.iter().map(|step| format!("+{}", format(hundredths(step.at)))).collect();
    let widest = offsets.iter().map(String::len).max().unwrap_or_default();
    for (step, offset) in outline.steps.iter().zip(&offsets) {
        text += &format!("  {}  {offset:<widest$}  {}\n", Zone::utc().stamp(now + step.at), step.what);
    }
    text += &picture(outline, screen);
    outline.remarks.iter().for_each(|remark| text += &format!("  {remark}\n"));
    text + "\nNothing was taken, and nothing was started.\n"
}

/// Cuts a time to hundredths of a second.
fn hundredths(time: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(time.as_millis() / 10 * 10).unwrap_or(u64::MAX))
}

/// Draws how long the job may run, how long it is being stopped, and how long the lock may stay held after that.
fn picture(outline: &Outline, screen: &Screen) -> String {
    let width = screen.width.unwrap_or(WIDTH).min(WIDTH).saturating_sub(4).max(20);
    let whole = outline.lock.as_secs_f64().max(f64::MIN_POSITIVE);
    let column = |time: std::time::Duration| (time.as_secs_f64() / whole * width as f64).round() as usize;
    // Whatever there is has a column, however short it is.
    let job = column(outline.job).clamp(1, width);
    let dead = column(outline.dead).clamp(job + usize::from(outline.dead > outline.job), width.max(job + 1));
    let lock = width.max(dead + usize::from(outline.lock > outline.dead));
    let bar = format!("{}{}{}", "█".repeat(job), "▒".repeat(dead - job), "░".repeat(lock - dead));
    let mut legend = vec!["█ the job may run".to_owned()];
    if dead > job {
        legend.push("▒ it is stopped".to_owned());
    }
    if lock > dead {
        legend.push("░ the lock is held without a job".to_owned());
    }
    format!("\n  {bar}\n  {}\n\n", legend.join("   "))
}

const GIVES: [Give; 3] = [Give::Cut("VALUE", 60), Give::Cut("FROM", 40), Give::Cut("VALUE", 30)];

/// Joins words as a shell reads them.
pub(crate) fn quoted<'a>(words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    words.map(|text| word(&text).into_owned()).collect::<Vec<_>>().join(" ")
}
