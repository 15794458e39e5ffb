//! The node of a lock. The Java library puts the lock's name behind `/shedlock/`, so that a slash in it leads to a deeper
//! node.
//!
//! A part of a name that cannot be the name of a node is percent-encoded behind a mark. Names stay different, and those
//! that the Java library can use have its nodes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The node below a lock's that has shedlock's record. As a part of a lock's name it is encoded.
pub(crate) const STATE_NODE: &str = ".shedlock";
/// The mark of a part that is encoded.
const ENCODED_MARK: &str = "%:";
/// The longest name of a lock in characters, which bounds how deep nodes are searched for locks.
pub(crate) const MAX_DEPTH: usize = 64;

const ENCODED: &AsciiSet = NON_ALPHANUMERIC;

/// Returns the name of the node of a lock, below the root.
pub(crate) fn node_name(name: &str) -> String {
    let encode = |part: &str| match is_node(part) && part != STATE_NODE && !part.starts_with(ENCODED_MARK) {
        true => part.to_owned(),
        false => format!("{ENCODED_MARK}{}", utf8_percent_encode(part, ENCODED)),
    };
    name.split('/').map(encode).collect::<Vec<_>>().join("/")
}

/// Returns the name of the lock that such a node has.
pub(crate) fn lock_name(node: &str) -> String {
    let decode = |part: &str| {
        let encoded = part.strip_prefix(ENCODED_MARK).and_then(|part| percent_decode_str(part).decode_utf8().ok());
        let name = encoded.map_or_else(|| part.to_owned(), Into::into);
        // A part that another program wrote, and that only looks encoded, stays as it is.
        if node_name(&name) == part { name } else { part.to_owned() }
    };
    node.split('/').map(decode).collect::<Vec<_>>().join("/")
}

/// Returns true if ZooKeeper accepts this as the name of a node.
pub(crate) fn is_node(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && part.chars().all(is_accepted)
}

/// Returns whether ZooKeeper accepts a character. It judges the 16-bit units of Java, so that it accepts no character beyond the
/// first 65,536.
fn is_accepted(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    #[test]
    fn ordinary_names_are_java_s_and_others_are_encoded() {
        for same in ["job", "night shift", "reports/daily", "50%", "%41", "日本語", "{x}", ".hidden", "a:b"] {
            assert_eq!(node_name(same), same);
            assert_eq!(lock_name(same), same);
        }
        for (name, node) in [
            (".", "%:%2E"),
            ("..", "%:%2E%2E"),
            ("/a", "%:/a"),
            ("a//b", "a/%:/b"),
            ("a/./b", "a/%:%2E/b"),
            ("a/.shedlock", "a/%:%2Eshedlock"),
            ("%:x", "%:%25%3Ax"),
            ("🦀", "%:%F0%9F%A6%80"),
            ("a\tb", "%:a%09b"),
        ] {
            assert_eq!(node_name(name), node);
            assert_eq!(lock_name(node), name);
        }
        assert_eq!(lock_name("%:x"), "%:x", "another program's");
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(2000) })]

        #[test]
        fn any_name_has_a_node_of_its_own(name in "[a./%:\u{7f}\u{ffff}🦀]{1,8}|.{1,64}") {
            let node = node_name(&name);
            prop_assert!(node.split('/').all(|part| is_node(part) && part != STATE_NODE), "{node}");
            prop_assert_eq!(lock_name(&node), name);
        }
    }
}
