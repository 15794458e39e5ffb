//! Text that other programs or people have written, in a form that a terminal shows and does not obey.

use std::borrow::Cow;

/// Escapes control characters, which a path, a command or a row may contain, so that a message stays one line and cannot
/// control a terminal. Also escapes invisible characters and those that change the direction, which make one name look like
/// another.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
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

/// Returns the name of a lock as every table and message shows it. Java applications and other programs store names that end
/// with a space or have a control character in them. Such a name is shown as `$'…'`, which Bash, Zsh and ksh read as exactly
/// that name, so that it can be copied into a command. A name that begins like this is quoted, too: no two names look alike.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    let is_plain = !name.contains(is_hidden) && name.trim() == name && !name.is_empty() && !name.starts_with("$'");
    if is_plain { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// Returns text as one word of a shell's command line.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if text.contains(is_hidden) {
        return Cow::Owned(quoted(text));
    }
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

/// Writes text as `$'…'`. Hidden characters, and blanks other than a space, become the octal numbers of their bytes, which
/// mean the same in every locale.
fn quoted(text: &str) -> String {
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
            assert_eq!(shown(plain), plain);
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
            assert_eq!(shown(name), text);
        }
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_or_expand_it() {
        for (text, written) in
            [("job", "job"), ("night shift", "'night shift'"), ("it's", r"'it'\''s'"), ("a\tb", r"$'a\tb'"), ("", "''")]
        {
            assert_eq!(word(text), written);
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
            let quoted: Vec<&String> = names.iter().filter(|name| shown(name) != name.as_str()).collect();
            let read = read_by_bash(&quoted.iter().map(|name| shown(name).into_owned()).collect::<Vec<_>>());
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), quoted);
            prop_assert_eq!(&read_by_bash(&names.iter().map(|name| word(name).into_owned()).collect::<Vec<_>>()), &names);
            let texts: HashSet<_> = names.iter().map(|name| shown(name)).collect();
            prop_assert_eq!(texts.len(), names.iter().collect::<HashSet<_>>().len());
            prop_assert!(!texts.iter().any(|text| text.contains(is_hidden)));
        }
    }
}
