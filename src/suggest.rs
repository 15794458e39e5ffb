//! Finds the word that was probably meant by a misspelt one: the "did you mean" of every message.

use strsim::damerau_levenshtein;

/// The longest variable, without its prefix, that counts as short: many other words resemble a short name.
const SHORT_VARIABLE: usize = 5;

/// Returns the hint that names the word that was probably meant.
pub(crate) fn did_you_mean(known: &str) -> String {
    format!("did you mean `{known}`?")
}

/// Returns the known name nearest to this one, ignoring case, unless it differs in more than a third of its letters.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |known: &str| damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let (distance, known) = known.map(|known| (far(known), known)).min()?;
    (distance * 3 <= name.chars().count().max(known.chars().count())).then_some(known)
}

/// Returns the key of a file nearest to this one, unless it differs in more than half of its letters. An underscore in the place
/// of a dash is the most likely slip, and none.
pub(crate) fn nearest_key<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let key = key.replace('_', "-");
    let (distance, known) = known.map(|known| (damerau_levenshtein(&key, known), known)).min()?;
    (distance <= known.len() / 2).then_some(known)
}

/// Returns the variable nearest to this one, or else the longest with which it begins. All of them are given without their
/// common prefix, and known ones are in capitals.
pub(crate) fn nearest_variable(name: &str, known: &[String]) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let distances = known.iter().map(|known| (damerau_levenshtein(&name, known), known));
    let slip = distances.filter(|(distance, known)| *distance <= slips(known)).min().map(|(_, known)| known);
    let begins = known.iter().filter(|known| begins_with(&name, known)).max_by_key(|known| known.len());
    slip.or(begins).cloned()
}

/// Returns how many letters a name may differ to count as this one. `HOME`, `DATE` and `MODE` differ from `NAME` in two, and so
/// does `EVENT` from `EVERY`.
fn slips(known: &str) -> usize {
    if known.len() <= SHORT_VARIABLE { 1 } else { 2 }
}

/// Returns whether a name is this one with a suffix. `NAMESPACE` does not count as `NAME`, but `BACKENDURL` counts as
/// `BACKEND`.
fn begins_with(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|more| more.starts_with('_') || known.len() > SHORT_VARIABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_name_is_not() {
        let known = || ["backup", "nightly-report", "a"].into_iter();
        for (typed, meant) in [
            ("bakcup", Some("backup")),
            ("Backup", Some("backup")),
            ("nightly_report", Some("nightly-report")),
            ("nightly", None),
            ("b", None),
            ("vacuum", None),
        ] {
            assert_eq!(nearest(typed, known()), meant, "{typed}");
        }
        assert_eq!(nearest("a", [].into_iter()), None);
    }
}
