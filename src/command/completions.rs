//! `shedlock completions`: prints the completions for a shell.

use clap::ArgMatches;

use super::output::print;
use crate::exit::Exit;

/// The completions by the name of their shell, as the tests of `generate` keep them.
pub(crate) const SHELLS: [(&str, &str); 5] = [
    ("bash", include_str!("../../packaging/completions/shedlock.bash")),
    ("elvish", include_str!("../../packaging/completions/shedlock.elv")),
    ("fish", include_str!("../../packaging/completions/shedlock.fish")),
    ("powershell", include_str!("../../packaging/completions/_shedlock.ps1")),
    ("zsh", include_str!("../../packaging/completions/_shedlock")),
];

/// Prints the completions for a shell.
pub(crate) fn completions(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let name = matches.get_one::<String>("shell").map(String::as_str).unwrap_or_default();
    let (_, script) = SHELLS.iter().find(|(shell, _)| *shell == name).expect("the parser knows the shells");
    print(script.as_bytes())
}
