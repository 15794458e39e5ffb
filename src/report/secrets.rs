//! Hides passwords and tokens in a text that is printed: a backend's URL may stand in the wrong place, or be none.
//!
//! Two forms count: a named value, such as `password=…`, and a login before an `@`, such as `USER:…@HOST`. It is better to hide
//! too much than too little; docs/security.md has the rule.

use std::borrow::Cow;
use std::ops::Range;

/// The text in the place of a hidden secret.
const MASK: &str = "***";

/// The ends of keys whose values are secret, in small letters, without `-`, `_` and `.`.
const SECRET_KEYS: [&str; 10] =
    ["password", "passwd", "passphrase", "pass", "pwd", "secret", "token", "apikey", "accesskey", "credentials"];

/// Placeholders of shedlock's own hints, which hide nothing.
const PLACEHOLDERS: [&str; 3] = [MASK, "PASSWORD", "PORT"];

/// The beginning of the owner of a pause, `paused:USER@HOST:…`.
const PAUSE_OWNER_PREFIX: &str = "paused:";

/// Returns the text with `***` in the place of every password or token that it seems to contain.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '=']) && !text.contains("://") {
        return Cow::Borrowed(text);
    }
    // What is left may look like a secret only now. This ends, as `***` is not hidden again.
    let mut shown = masked(text);
    while let Cow::Owned(again) = masked(&shown) {
        shown = Cow::Owned(again);
    }
    shown
}

/// Hides what looks like a secret as the text stands.
fn masked(text: &str) -> Cow<'_, str> {
    let mut secrets: Vec<Range<usize>> = secret_values(text);
    secrets.extend(
        words_and_quotes(text)
            .filter_map(|unit| Some(shifted(login_secret(&text[unit.clone()], &text[unit.end..])?, unit.start))),
    );
    secrets.retain(|secret| !secret.is_empty() && !PLACEHOLDERS.contains(&&text[secret.clone()]));
    secrets.sort_unstable_by_key(|secret| secret.start);
    let (mut shown, mut end) = (String::new(), 0);
    for secret in secrets {
        if end == 0 || secret.start > end {
            shown += &text[end..secret.start];
            shown += MASK;
        }
        end = end.max(secret.end);
    }
    match end {
        0 => Cow::Borrowed(text),
        end => Cow::Owned(shown + &text[end..]),
    }
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// Finds the values of secret keys: `password=…`, also in quotes, and with blanks around the `=`.
fn secret_values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('=') {
        let before = text[..at].trim_end_matches([' ', '"', '\'']);
        let key = &before[before.trim_end_matches(is_of_a_key).len()..];
        let key: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        if SECRET_KEYS.iter().any(|name| key.to_ascii_lowercase().ends_with(name)) {
            let start = text.len() - text[at + 1..].trim_start_matches(' ').len();
            found.push(start..start + value_length(&text[start..]));
        }
    }
    found
}

const fn is_of_a_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns the length of the value at the beginning of a text.
fn value_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut last = ' ';
    for (at, c) in text.char_indices().skip(usize::from(quote.is_some())) {
        let rest = &text[at + c.len_utf8()..];
        let ends = match (c, quote) {
            _ if last == '\\' => false,
            (c, Some(quote)) => c == quote && is_end(rest),
            (' ', None) => true,
            ('&' | ';', None) => rest.is_empty() || is_assignment(rest) || rest.starts_with(' '),
            ('`' | '"' | '\'' | ',' | ':' | ')', None) => is_end(rest),
            _ => false,
        };
        if ends {
            return at + usize::from(quote.is_some());
        }
        last = c;
    }
    text.len()
}

/// Returns whether a quoted text can end before the rest of a text.
fn is_end(rest: &str) -> bool {
    rest.trim_start_matches(['`', '"', '\'', ',', ';', ':', '.', ')']).chars().next().is_none_or(|c| c == ' ')
}

/// Returns whether a text begins like `KEY=`.
fn is_assignment(rest: &str) -> bool {
    let key = rest.trim_start().find(|c| !is_of_a_key(c));
    key.is_some_and(|end| end > 0 && rest.trim_start()[end..].trim_start().starts_with('='))
}

/// Cuts a text into words, where a text in backticks, which somebody has given, is one word.
fn words_and_quotes(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        start += text[start..].len() - text[start..].trim_start_matches(' ').len();
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let shell_words = rest.trim_start_matches('(').starts_with('`').then(|| {
            let mut marks = rest.match_indices('`').skip(1);
            marks.find(|(at, _)| is_end(&rest[at + 1..])).map(|(at, _)| at + 1)
        });
        let word = rest.find(' ').unwrap_or(rest.len());
        let unit = start..start + shell_words.flatten().unwrap_or(word).max(word.min(1));
        start = unit.end;
        Some(unit)
    })
}

/// Returns where the secret of a login is in a word: in `USER:…@HOST`, in `USER/…@HOST`, or in a URL without an `@`. That may be
/// in the `rest`, after a blank in the password.
fn login_secret(word: &str, rest: &str) -> Option<Range<usize>> {
    let begin = login_start(word);
    let Some(at) = word.rfind('@').filter(|at| *at >= begin) else {
        let port = secret_port(word)?;
        return Some(port.start..rest.rfind('@').map_or(port.end, |at| word.len() + at));
    };
    let user = &word[begin..at];
    if user.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).starts_with(PAUSE_OWNER_PREFIX)
        || is_owner(&word[at + 1..])
    {
        return None;
    }
    if let Some(colon) = user.find(':') {
        return Some(begin + colon + 1..at);
    }
    // The login of Oracle's clients; a path has another form, or more than one slash.
    let (name, secret) = user.split_once('/')?;
    let is_path = name.trim_start_matches(['`', '\'', '"', '(']).is_empty() || name.ends_with(['.', '~']);
    (begin == 0 && !is_path && !secret.contains('/')).then_some(name.len() + 1..at)
}

/// Returns where a URL's login may begin: after `SCHEME:/` with any number of slashes. A colon before the scheme may be that of a
/// login whose password looks like the rest.
fn login_start(word: &str) -> usize {
    let Some(mark) = word.find(":/") else { return 0 };
    let before = word[..mark].replacen("jdbc:", "", 1);
    let is_scheme = !before.contains([':', '@', '/']) && before.ends_with(|c: char| c.is_ascii_alphanumeric());
    if is_scheme { word.len() - word[mark + 1..].trim_start_matches('/').len() } else { 0 }
}

/// Returns whether this is the owner of a run, `HOST:PID:RANDOM`, as in the handle of a lock.
fn is_owner(text: &str) -> bool {
    let mut parts = text.split(':').skip(1);
    let is_pid = parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let random = parts.next().unwrap_or_default();
    is_pid && random.len() >= 16 && random.bytes().take(16).all(|byte| byte.is_ascii_hexdigit())
}

/// Returns where the port of a URL without a login is, if it is no number: then it is a password, and the `@` is missing.
fn secret_port(word: &str) -> Option<Range<usize>> {
    let begin = word.find("://")? + 3;
    let end = word[begin..].find(['/', '?', '#', ',', ';', '`', '\'', '"', ')']).map_or(word.len(), |end| begin + end);
    let authority = word[begin..end].trim_end_matches([':', '.', '…']);
    let colon = authority.find(':').filter(|_| !authority.starts_with('['))?;
    let port = &authority[colon + 1..];
    let is_shown = port.bytes().all(|byte| byte.is_ascii_digit()) || authority == "HOST:PORT";
    (!is_shown).then_some(begin + colon + 1..begin + authority.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    #[test]
    fn a_secret_is_hidden_in_whatever_form_it_comes() {
        for (said, shown) in [
            ("cannot run `postgres://u:pw@db/x`: no", "cannot run `postgres://u:***@db/x`: no"),
            ("redis://:p/w@h:1 and mysql://u:p@@h", "redis://:***@h:1 and mysql://u:***@h"),
            ("`u:s@h/db` is not a duration", "`u:***@h/db` is not a duration"),
            ("--x=u:s@h/db is", "--x=u:***@h/db is"),
            ("(`:s@h`)", "(`:***@h`)"),
            ("`u:s e`c ret@h`: no", "`u:***@h`: no"),
            ("`u:s://e@h`: no", "`u:***@h`: no"),
            ("`postgres:/u:s@h`", "`postgres:/u:***@h`"),
            ("`postgres:u:s@h`", "`postgres:***@h`"),
            ("`postgres://u:s e@h`", "`postgres://u:***@h`"),
            ("redis://:s3 has", "redis://:*** has"),
            ("in mysql://u:two words@h/db: no", "in mysql://u:***@h/db: no"),
            ("`redis://u:s3/1`", "`redis://u:***/1`"),
            ("`scott/s@`", "`scott/***@`"),
            ("scott/s@ORCL: no", "scott/***@ORCL: no"),
            ("`jdbc:oracle:thin:scott/s@h`", "`jdbc:***@h`"),
            ("`jdbc:postgresql://u:s@h/db`", "`jdbc:postgresql://u:***@h/db`"),
            ("`jdbc:sqlserver://h;user=u;password=s;x=1`", "`jdbc:sqlserver://h;user=u;password=***;x=1`"),
            ("`redis://h?password=s&db=1`", "`redis://h?password=***&db=1`"),
            ("redis://h?sslpassword=s&e: no", "redis://h?sslpassword=***: no"),
            ("`?token=s` is", "`?token=***` is"),
            ("`x?api_key=s;`", "`x?api_key=***`"),
            ("`host=h password=s port=1`", "`host=h password=*** port=1`"),
            ("`host=h PASSWORD = 's e''c' port=1`", "`host=h PASSWORD = *** port=1`"),
            ("`password=s'e`c`, no", "`password=***`, no"),
            ("'password=s' is", "'password=***' is"),
            ("SHEDLOCK_BACKEND_PASSWORD=s", "SHEDLOCK_BACKEND_PASSWORD=***"),
            ("://:pass=://&pass=", "://:***"),
        ] {
            assert_eq!(without_secrets(said), shown);
        }
    }

    #[test]
    fn what_is_harmless_is_shown() {
        for text in [
            "http://host:80/x",
            "sqlite:///a b",
            "sqlite:/srv/app@prod/db: no",
            "/srv/app@prod/x.toml:4: unknown key `a`",
            "./units/a@b.service and ../a/b@c and ~/a@b",
            "anna@example.com: the lock is held by web1:7:00c0ffee00c0ffee since 2026-01-01T10:30:00Z",
            "`team:job@web1:4711:00c0ffee00c0ffee:30s` is not held",
            "paused by ada@web1: disk full; at 10:30 by ada@web1",
            "paused:ada@web1:disk:7:00c0ffee00c0ffee",
            "postgres://jobs@db.example/ops?sslmode=verify-full",
            "write USER:PASSWORD@ before the host, or redis://HOST:PORT,HOST:PORT, or kubernetes://HOST:PORT/x?token-file=FILE",
            "redis://a:1,b:2/3 and redis://[::1]:6379: no",
            "password authentication failed for user 'jobs'@'localhost'",
            "at-most = 1h, a=b",
            "",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(256) })]

        #[test]
        fn any_text_can_be_searched_and_twice_says_the_same(text in "[-a:/@=`' &;?.é\\\\]{0,30}|(pass(word)?=|://|[^\\x00]){0,40}") {
            let once = without_secrets(&text).into_owned();
            prop_assert_eq!(&without_secrets(&once), &once);
        }
    }
}
