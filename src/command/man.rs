//! `shedlock man`: prints a manual page.

use std::io::{IsTerminal, Write, stdout};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::ArgMatches;

use super::output::print;
use crate::exit::Exit;

/// Makes a table of every page of the manual, by a macro that gets lines `NAME SECTION`.
macro_rules! for_each_page {
    ($table:ident) => {
        $table! {
            "shedlock" "1";
            "shedlock-run" "1";
            "shedlock-status" "1";
            "shedlock-history" "1";
            "shedlock-unlock" "1";
            "shedlock-pause" "1";
            "shedlock-resume" "1";
            "shedlock-forget" "1";
            "shedlock-acquire" "1";
            "shedlock-release" "1";
            "shedlock-extend" "1";
            "shedlock-verify" "1";
            "shedlock-check" "1";
            "shedlock-prove" "1";
            "shedlock-init" "1";
            "shedlock-schema" "1";
            "shedlock-backends" "7";
            "shedlock-fencing" "7";
            "shedlock-provider" "7";
            "shedlock-json" "5";
            "shedlock.toml" "5";
        }
    };
}
#[cfg(test)]
pub(crate) use for_each_page;

/// Builds the table of pages from lines `NAME SECTION`.
macro_rules! pages {
    ($($name:literal $section:literal;)*) => {
        /// The manual pages by their names. The tests of `generate` keep the files fresh.
        const PAGES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../man/", $name, ".", $section)))),*];
    };
}

for_each_page!(pages);

/// Prints a manual page for man(1); on a terminal man(1) shows it in the pager.
pub(crate) fn man(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let name = matches.get_one::<String>("page").map(String::as_str).unwrap_or_default();
    let is_meant = |page: &str| page == name || page.strip_prefix("shedlock-") == Some(name);
    let (_, page) = PAGES.iter().find(|(page, _)| is_meant(page)).expect("the parser knows the pages");
    if stdout().is_terminal() {
        // Only an error comes back: there is no man(1), or no pipe.
        let _ = show(page);
    }
    print(page.as_bytes())
}

/// Becomes a man(1) that reads the page from a pipe, which has room for all of it.
fn show(page: &str) -> std::io::Result<()> {
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(page.as_bytes())?;
    drop(writer);
    Err(Command::new("man").args(["-l", "/dev/stdin"]).stdin(reader).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_room_in_a_pipe() {
        assert!(PAGES.iter().all(|(_, page)| page.len() <= 64 * 1024));
    }
}
