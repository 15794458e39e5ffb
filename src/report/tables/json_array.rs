//! Formats a JSON array in pieces, so that it is never in memory as a whole.

use serde_json::Value;

use crate::report::messages::escaped_json;

/// Returns an array of these values, in pieces that together are the text of the whole, with a line's end. Control characters are
/// escaped.
pub(crate) fn json_array(values: impl Iterator<Item = Value>) -> impl Iterator<Item = String> {
    let mut before = Some("[\n  ");
    let mut values = values.map(|value| escaped_json(format!("{value:#}")).replace('\n', "\n  "));
    let mut is_empty = true;
    std::iter::from_fn(move || match (values.next(), before) {
        (Some(value), Some(text)) => {
            before = Some(",\n  ");
            is_empty = false;
            Some(text.to_owned() + &value)
        }
        (None, Some(_)) => {
            before = None;
            Some(if is_empty { "[]\n" } else { "\n]\n" }.to_owned())
        }
        (_, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pieces_make_the_text_of_the_whole() {
        for whole in [json!([]), json!([1]), json!([{"a": {"b": []}, "c": "\n  \u{1b}"}, [], {"x": [1, 2]}])] {
            let values = whole.as_array().unwrap().iter().cloned();
            assert_eq!(json_array(values).collect::<String>(), escaped_json(format!("{whole:#}\n")));
        }
    }
}
