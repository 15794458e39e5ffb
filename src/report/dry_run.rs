//! Formats the answer of `shedlock run --dry-run`: the settings of a run, where they come from, and its course.

use super::messages::printable;
use super::screen::{Paint, Screen};
use super::secrets::without_secrets;
use super::tables::table::{Cell, Column, Narrow, table};
use super::times::Zone;
use crate::duration::format;
use crate::run::Forecast;
use crate::system::Timestamp;
use crate::text::shell_word;

/// A setting that is in effect, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) option: &'static str,
    pub(crate) value: String,
    /// The option, variable or file that sets it; `None` for the default.
    pub(crate) source: Option<String>,
}

/// The width of the bar without a terminal, and its longest.
const MAX_BAR_WIDTH: usize = 78;

/// Formats the settings and the course of a run of the command.
pub(crate) fn dry_run(
    settings: &[Setting],
    command: &str,
    forecast: &Forecast,
    now: Timestamp,
    screen: &Screen,
) -> String {
    let columns = vec![
        Column::new("SETTING", |setting: &&Setting| Cell::plain(setting.option)),
        Column::new("VALUE", |setting: &&Setting| Cell::plain(&without_secrets(&setting.value))),
        Column::new("FROM", |setting: &&Setting| match &setting.source {
            Some(source) => Cell::plain(source),
            None => Cell::new("the default", Paint::Faint),
        }),
    ];
    let mut text: String = table(|| settings.iter(), columns, &NARROWING, *screen).collect();
    text += &format!("\nThe job:\n  {}\n\nA run that is granted the lock now:\n", printable(command));
    let offsets: Vec<String> = forecast.steps.iter().map(|step| format!("+{}", format(hundredths(step.at)))).collect();
    let widest = offsets.iter().map(String::len).max().unwrap_or_default();
    for (step, offset) in forecast.steps.iter().zip(&offsets) {
        text += &format!("  {}  {offset:<widest$}  {}\n", Zone::utc().stamp(now + step.at), step.what);
    }
    text += &bar(forecast, screen);
    forecast.remarks.iter().for_each(|remark| text += &format!("  {remark}\n"));
    text + "\nNothing was taken, and nothing was started.\n"
}

/// Cuts a time to hundredths of a second.
fn hundredths(time: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(time.as_millis() / 10 * 10).unwrap_or(u64::MAX))
}

/// Draws as a bar how long the job may run, how long it is being stopped, and how long the lock may stay held after that.
fn bar(forecast: &Forecast, screen: &Screen) -> String {
    let width = screen.width.unwrap_or(MAX_BAR_WIDTH).min(MAX_BAR_WIDTH).saturating_sub(4).max(20);
    let whole = forecast.lock.as_secs_f64().max(f64::MIN_POSITIVE);
    let column = |time: std::time::Duration| (time.as_secs_f64() / whole * width as f64).round() as usize;
    // Every part has a column, however short it is.
    let job = column(forecast.job).clamp(1, width);
    let dead = column(forecast.dead).clamp(job + usize::from(forecast.dead > forecast.job), width.max(job + 1));
    let lock = width.max(dead + usize::from(forecast.lock > forecast.dead));
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

const NARROWING: [Narrow; 3] = [Narrow::Cut("VALUE", 60), Narrow::Cut("FROM", 40), Narrow::Cut("VALUE", 30)];

/// Joins words as a shell reads them.
pub(crate) fn shell_words<'a>(words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    words.map(|text| shell_word(&text).into_owned()).collect::<Vec<_>>().join(" ")
}
