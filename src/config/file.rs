//! Reads a configuration file: defaults for every job at the top, settings of one job in `[jobs.NAME]`.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;
use super::value::{Given, Layer, Source};
use crate::cli::{OPTIONS, Scope};
use crate::lock::LockName;
use crate::suggest::{did_you_mean, nearest_key};

/// The settings in a file.
#[derive(Default)]
pub(super) struct File {
    pub(super) defaults: Layer,
    /// The settings of each job, by the name of its lock.
    jobs: BTreeMap<String, Layer>,
}

impl File {
    /// Returns the settings that the file has for the job of this name alone.
    pub(super) fn job(&self, name: Option<&LockName>) -> Layer {
        name.and_then(|name| self.jobs.get(name.as_str())).cloned().unwrap_or_default()
    }
}

/// Parses a file. Checks the keys of every job, so that a mistake is found early.
pub(super) fn parse(text: &str, path: &Path) -> Result<File, Mistake> {
    let reader = Reader { text, path };
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().next().unwrap_or_default().to_owned();
        reader.mistake(offset, &format!("not valid TOML: {message}"))
    })?;
    let mut file = File::default();
    for (key, value) in document.get_ref() {
        if key.get_ref() != "jobs" {
            reader.set(&mut file.defaults, key, value)?;
            continue;
        }
        for (job, keys) in reader.table(key, value)? {
            LockName::new(job.get_ref())
                .map_err(|why| reader.mistake(job.span().start, &format!("the job's name {why}")))?;
            let mut layer = Layer::new();
            for (key, value) in reader.table(job, keys)? {
                reader.set(&mut layer, key, value)?;
            }
            file.jobs.insert(job.get_ref().to_string(), layer);
        }
    }
    Ok(file)
}

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Reader<'_> {
    fn set(
        &self,
        layer: &mut Layer,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Mistake> {
        let offset = key.span().start;
        let key = key.get_ref().as_ref();
        let Some(option) = OPTIONS.iter().find(|option| option.long == key) else {
            return Err(self.unknown(offset, key));
        };
        if option.scope != Scope::Files {
            let message = format!("`{key}` cannot be set in a file");
            let hint = match key {
                "name" => "put the settings of one job into [jobs.NAME]".to_owned(),
                _ => format!("use --{key} or {}", option.variable()),
            };
            return Err(self.mistake(offset, &message).hint(hint));
        }
        let text = scalar(value.get_ref())
            .ok_or_else(|| self.mistake(offset, &format!("`{key}` must be a string, a number, true or false")))?;
        let source = Source::File { key: key.to_owned(), path: self.path.to_owned(), line: self.line(offset) };
        layer.insert(option.long, Given { text, source });
        Ok(())
    }

    fn table<'a>(
        &self,
        key: &Spanned<impl AsRef<str>>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Result<&'a DeTable<'a>, Mistake> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.mistake(
                key.span().start,
                &format!("`{}` must be a table such as [jobs.NAME]", key.get_ref().as_ref()),
            )),
        }
    }

    fn unknown(&self, offset: usize, key: &str) -> Mistake {
        let mistake = self.mistake(offset, &format!("unknown key `{key}`"));
        let settable = OPTIONS.iter().filter(|option| option.scope == Scope::Files).map(|option| option.long);
        match nearest_key(key, settable.chain(["jobs"])) {
            Some(known) => mistake.hint(did_you_mean(known)),
            None => mistake.hint("shedlock.toml(5) lists the keys"),
        }
    }

    fn mistake(&self, offset: usize, message: &str) -> Mistake {
        Mistake::new(format!("{}:{}: {message}", self.path.display(), self.line(offset)))
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }
}

/// Returns a value as it would be typed, a list with commas.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Array(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(|part| scalar(part.get_ref())).collect();
            Some(parts?.join(","))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<File, Mistake> {
        parse(text, Path::new("/etc/x.toml"))
    }

    fn refusal(text: &str) -> (String, String) {
        let mistake = read(text).err().unwrap();
        (mistake.message, mistake.hint.unwrap_or_default())
    }

    #[test]
    fn a_job_has_its_own_table() {
        let file = read("at-most = '1h'\nquiet = true\n[jobs.nightly]\nat-most = 90\nsuccess-codes = [0, 3]\n[jobs.other]\nat-least = 1.5\n").unwrap();
        let job = file.job(Some(&LockName::new("nightly").unwrap()));
        assert_eq!(file.defaults["at-most"].text, "1h");
        assert_eq!(file.defaults["quiet"].text, "true");
        assert_eq!(job["at-most"].text, "90");
        assert_eq!(job["at-most"].source.to_string(), "/etc/x.toml:4: `at-most`");
        assert_eq!(job["success-codes"].text, "0,3");
        assert!(!job.contains_key("at-least"));
    }

    #[test]
    fn an_unknown_key_is_named_with_file_line_and_the_nearest_known_one() {
        let (message, hint) = refusal("at-most = '1h'\n\n[jobs.other]\nat_leest = '1s'\n");
        assert_eq!(message, "/etc/x.toml:4: unknown key `at_leest`");
        assert_eq!(hint, "did you mean `at-least`?");
        assert_eq!(refusal("frobnicate = 1").1, "shedlock.toml(5) lists the keys");
    }

    #[test]
    fn what_is_no_setting_is_refused_with_its_line() {
        assert!(refusal("\nat-most = \n").0.starts_with("/etc/x.toml:2: not valid TOML: "));
        assert_eq!(refusal("name = 'x'").1, "put the settings of one job into [jobs.NAME]");
        assert!(refusal("[at-most]\nx = 1").0.contains("`at-most` must be a string"));
        assert!(refusal("jobs = 3").0.contains("must be a table"));
        assert!(refusal("[jobs]\nnightly = 3").0.contains("must be a table"));
        assert!(refusal("at-most = 1979-05-27").0.contains("must be a string"));
        assert!(refusal("[jobs.' x']\n").0.contains("begins or ends with a space"));
    }
}
