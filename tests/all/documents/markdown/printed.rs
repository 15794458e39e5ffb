//! Output beside what a document shows of it.

/// Returns whether this was printed. `…` within a line stands for anything in that line, and as a line of its own for any
/// number of lines. Blanks count once, since columns are as wide as what is in them.
pub(crate) fn matches(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(plain).collect::<Vec<_>>();
    any(
        &lines(shown),
        &lines(printed),
        |line| line == "…",
        |line, printed| {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            any(&letters(line), &letters(printed), |letter| *letter == '…', |a, b| a == b)
        },
    )
}

fn plain(line: &str) -> String {
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.starts_with(' ') { format!(" {words}") } else { words }
}

/// Returns whether `given` is what `pattern` says, of which some parts stand for any number of parts.
fn any<T>(pattern: &[T], given: &[T], wild: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    // Which beginnings of `given` the pattern so far can be.
    let mut reached = vec![false; given.len() + 1];
    reached[0] = true;
    for part in pattern {
        if wild(part) {
            let first = reached.iter().position(|reached| *reached).unwrap_or(reached.len());
            reached.iter_mut().skip(first).for_each(|reached| *reached = true);
        } else {
            for end in (1..reached.len()).rev() {
                reached[end] = reached[end - 1] && same(part, &given[end - 1]);
            }
            reached[0] = false;
        }
    }
    reached.last() == Some(&true)
}

#[test]
fn dots_stand_for_anything() {
    for (shown, printed) in [
        ("a\nb\n", "a\nb\n"),
        ("a … c\n", "a b b c\n"),
        ("a …", "a b"),
        ("a  b", "a    b"),
        ("a\n…\nd", "a\nb\nc\nd"),
        ("a\n…\nd", "a\nd"),
        ("…\nc …, …", "a\nc\nc d, e"),
        ("…", ""),
    ] {
        assert!(matches(shown, printed), "{shown:?} {printed:?}");
    }
    for (shown, printed) in [
        ("a", ""),
        ("", "a"),
        ("a", "a\nb"),
        ("a … c", "a\nc"),
        ("a …", "b a"),
        ("a\n…\nd", "a\nb\ndd"),
        ("a", "  a"),
        ("ab", "a b"),
    ] {
        assert!(!matches(shown, printed), "{shown:?} {printed:?}");
    }
}
