//! JSON that a server or another program has written: parsed only where its values fit into little memory. A text of one
//! megabyte can be a million values, each of which takes as much as a hundred letters.

use serde_json::Value;

/// Bytes that the values of an answer to a run, or of a record, may take.
pub(crate) const VALUES_BYTES: usize = 8 << 20;

/// Parses a text; `None` if it is no JSON, or its values would take more than [`VALUES_BYTES`] bytes.
pub(crate) fn parse(text: &[u8]) -> Option<Value> {
    if memory_bytes(text) <= VALUES_BYTES { serde_json::from_slice(text).ok() } else { None }
}

/// Returns the bytes that the values of a text take at most, whether or not it is JSON.
pub(crate) fn memory_bytes(text: &[u8]) -> usize {
    /// An object with its first field, an array with its first element, and one field or element more.
    const OBJECT: usize = 700;
    const ARRAY: usize = 160;
    const MORE: usize = 200;
    let (mut memory_bytes, mut is_string, mut is_escaped) = (text.len(), false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' => memory_bytes += OBJECT,
            b'[' => memory_bytes += ARRAY,
            b',' => memory_bytes += MORE,
            _ => {}
        }
    }
    memory_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_string_weighs_its_length() {
        assert_eq!(memory_bytes(br#""[{,\"{,\\""#), 11);
        assert_eq!(memory_bytes(b"[1,2]"), 5 + 160 + 200);
        assert_eq!(memory_bytes(br#"{"a\\":[]}"#), 10 + 700 + 160);
    }

    #[test]
    fn a_text_of_many_small_values_is_not_parsed() {
        assert!(parse(b"[{\"a\":[1,2]}]").is_some());
        for part in ["{\"\":0}", "[]", "0", "\"\""] {
            let text = format!("[{}{part}]", format!("{part},").repeat(VALUES_BYTES / 200));
            assert!(serde_json::from_str::<Value>(&text).is_ok() && parse(text.as_bytes()).is_none(), "{part}");
        }
        let long = format!("\"{}\"", "[{,".repeat(VALUES_BYTES / 4));
        assert!(parse(long.as_bytes()).is_some(), "one long text is one value");
    }
}
