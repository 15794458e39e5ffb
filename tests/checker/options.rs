//! The command line.

use std::time::Duration;

pub(crate) const USAGE: &str = "usage: cargo test --test checker -- [--minutes N] [--hosts N] [--seed N] [--broken NAME] sqlite|postgres|mariadb|redis|etcd|zookeeper|kubernetes|mongodb";

/// What is asked for.
pub(crate) struct Options {
    pub(crate) store: String,
    pub(crate) length: Duration,
    pub(crate) hosts: u64,
    pub(crate) seed: u64,
    pub(crate) broken: Option<String>,
}

impl Options {
    /// Parses the command line. `None` without any store: this is one of all tests.
    pub(crate) fn parse(words: &[String]) -> Result<Option<Self>, String> {
        let seed = u64::from(std::process::id());
        let mut options = Self { store: String::new(), length: Duration::from_secs(60), hosts: 3, seed, broken: None };
        let mut words = words.iter().map(String::as_str).peekable();
        let asked = words.peek().is_some_and(|word| ["--minutes", "--hosts", "--seed", "--broken"].contains(word));
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let number = |value: &str| value.parse::<f64>().map_err(|_| format!("{value} is not a number"));
            match word {
                "--minutes" => options.length = Duration::from_secs_f64(number(value()?)? * 60.0),
                "--hosts" => options.hosts = value()?.parse().map_err(|_| "--hosts needs a number")?,
                "--seed" => options.seed = value()?.parse().map_err(|_| "--seed needs a number")?,
                "--broken" => options.broken = Some(value()?.to_owned()),
                "sqlite" | "postgres" | "mariadb" | "redis" | "etcd" | "zookeeper" | "kubernetes" | "mongodb" => {
                    options.store = word.to_owned();
                }
                _ => {}
            }
        }
        match options.store.is_empty() {
            true if asked => Err("which store is it to check?".to_owned()),
            true => Ok(None),
            false => Ok(Some(options)),
        }
    }
}
