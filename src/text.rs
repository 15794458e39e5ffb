//! Text that other programs or people have written, in a form that a terminal shows and does not obey.

use std::borrow::Cow;

/// Escapes control characters, which a path, a command or a row may contain, so that a message stays one line and cannot
/// control a terminal. Also escapes invisible characters and those that change the direction, which make one name look like
/// another.
pub(crate) fn escape_hidden(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if is_hidden(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(show).collect()
}

pub(crate) fn is_hidden(c: char) -> bool {
    let unseen = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() || unseen || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The most characters that are shown of a text that others have stored: more than any owner of shedlock has.
const MAX_SHOWN: usize = 300;

/// Shortens a text that others have stored to what fits into a sentence or a table, and says how long it is. What programs read
/// is not shortened: there, half an owner would be another one.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}… ({} characters)", &text[..end], text.chars().count())),
    }
}

/// Begins a text of another program in lower case, as shedlock's messages do, if its first word is an ordinary one: `SCRAM`,
/// `I/O` and `OpenSSL` stay as they are.
pub(crate) fn begin_lowercase(text: &str) -> Cow<'_, str> {
    let word = text.split(' ').next().unwrap_or_default().trim_end_matches([',', ':', '.', ';']);
    let Some(first) = word.chars().next() else { return Cow::Borrowed(text) };
    let rest = &word[first.len_utf8()..];
    match first.is_uppercase() && rest.chars().all(|c| c.is_lowercase() || matches!(c, '\'' | '-' | '/')) {
        true => Cow::Owned(first.to_lowercase().chain(text[first.len_utf8()..].chars()).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Returns the name of a lock as every table and message shows it. Java applications and other programs store names that end
/// with a space or have a control character in them. Such a name is shown as `$'…'`, which Bash, Zsh and ksh read as exactly
/// that name, so that it can be copied into a command. A name that begins like this is quoted, too: no two names look alike.
pub(crate) fn printable_name(name: &str) -> Cow<'_, str> {
    let is_plain = !name.contains(is_hidden) && name.trim() == name && !name.is_empty() && !name.starts_with("$'");
    if is_plain { Cow::Borrowed(name) } else { Cow::Owned(ansi_c_quoted(name)) }
}

/// Returns text as one word of a shell's command line.
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if text.contains(is_hidden) {
        return Cow::Owned(ansi_c_quoted(text));
    }
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

/// Writes text as `$'…'`. Hidden characters, and blanks other than a space, become the octal numbers of their bytes, which
/// mean the same in every locale.
fn ansi_c_quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\\' | '\'' => format!("\\{c}"),
        c if is_hidden(c) || c.is_whitespace() && c != ' ' => {
            c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        c => c.to_string(),
    };
    format!("$'{}'", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::process::Command;

    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_unless_that_could_mislead() {
        for plain in ["job", "night shift", "it's", "a\\tb", "日本語", "$HOME", "'", "a'$'"] {
            assert_eq!(printable_name(plain), plain);
        }
        for (name, text) in [
            ("report ", "$'report '"),
            (" a", "$' a'"),
            ("a\tb\r\n", r"$'a\tb\r\n'"),
            ("\u{1b}[2J'\\", r"$'\033[2J\'\\'"),
            ("a\u{202e}b", r"$'a\342\200\256b'"),
            ("a\u{a0}", r"$'a\302\240'"),
            ("$'a'", r"$'$\'a\''"),
            ("", "$''"),
        ] {
            assert_eq!(printable_name(name), text);
        }
    }

    #[test]
    fn only_an_ordinary_word_begins_in_lower_case() {
        for (said, begun) in [
            ("Connection refused", "connection refused"),
            ("Couldn't connect: no", "couldn't connect: no"),
            ("Too-many", "too-many"),
            ("Timeout, again", "timeout, again"),
            ("A server", "a server"),
            ("Input/output error", "input/output error"),
            ("Éteint", "éteint"),
            ("SCRAM iteration count", "SCRAM iteration count"),
            ("I/O error", "I/O error"),
            ("OpenSSL", "OpenSSL"),
            ("UTF8 text", "UTF8 text"),
            ("INSERT command denied", "INSERT command denied"),
            ("no", "no"),
            ("", ""),
        ] {
            assert_eq!(begin_lowercase(said), begun);
        }
    }

    #[test]
    fn a_long_text_is_cut_and_its_length_is_said() {
        assert_eq!(shorten(&"ä".repeat(300)), "ä".repeat(300));
        assert_eq!(shorten(&"ä".repeat(400_000)), format!("{}… (400000 characters)", "ä".repeat(300)));
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_or_expand_it() {
        for (text, written) in
            [("job", "job"), ("night shift", "'night shift'"), ("it's", r"'it'\''s'"), ("a\tb", r"$'a\tb'"), ("", "''")]
        {
            assert_eq!(shell_word(text), written);
        }
    }

    /// Has Bash print what these words mean to it, in a locale that knows no letters beyond ASCII.
    fn read_by_bash(words: &[String]) -> Vec<String> {
        let script = format!("printf '%s\\0' {}", words.join(" "));
        let bash = Command::new("bash").arg("-c").arg(script).env("LC_ALL", "C").output().unwrap();
        assert!(bash.stderr.is_empty(), "{bash:?}");
        String::from_utf8(bash.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect()
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(16) })]

        #[test]
        fn bash_reads_a_name_as_it_is_stored(
            names in proptest::collection::vec("[ \\t\\n\\x1b\\x7f$'\"\\\\a0-9\u{a0}\u{202e}ä]{0,8}|[^\\x00]{0,80}", 100),
        ) {
            let quoted: Vec<&String> = names.iter().filter(|name| printable_name(name) != name.as_str()).collect();
            let read = read_by_bash(&quoted.iter().map(|name| printable_name(name).into_owned()).collect::<Vec<_>>());
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), quoted);
            prop_assert_eq!(&read_by_bash(&names.iter().map(|name| shell_word(name).into_owned()).collect::<Vec<_>>()), &names);
            let texts: HashSet<_> = names.iter().map(|name| printable_name(name)).collect();
            prop_assert_eq!(texts.len(), names.iter().collect::<HashSet<_>>().len());
            prop_assert!(!texts.iter().any(|text| text.contains(is_hidden)));
        }
    }
}
