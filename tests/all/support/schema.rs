//! The schemas of what is printed, docs/json/.

use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

/// A schema, and what only this version knows: a field that it does not name is a mistake here. Who is not of this version has
/// to pass over it, so that the files themselves forbid none.
pub(crate) struct Schema {
    pub(crate) text: Value,
    validator: Validator,
    strict: Validator,
}

impl Schema {
    /// Returns the schema of what a command prints, or of an `event`.
    pub(crate) fn of(what: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/json/{what}.schema.json"));
        let text = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let build = |schema: &Value| jsonschema::options().should_validate_formats(true).build(schema).unwrap();
        Self { validator: build(&text), strict: build(&strict(&text)), text }
    }

    pub(crate) fn is_kept_by(&self, value: &Value) -> bool {
        self.strict.is_valid(value)
    }

    /// Returns whether a value is right for a program that knows this version only.
    pub(crate) fn is_understood(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    #[track_caller]
    pub(crate) fn accepts(&self, value: &Value) {
        let errors: Vec<String> = self.strict.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{value:#}");
    }
}

/// Returns a schema that forbids what it does not name.
fn strict(schema: &Value) -> Value {
    match schema {
        // The fields of an event are those that all have, and its own.
        Value::Object(fields) if fields.contains_key("oneOf") => {
            let mut fields = fields.clone();
            fields.insert("unevaluatedProperties".to_owned(), false.into());
            Value::Object(fields)
        }
        Value::Object(fields) => {
            let mut stricter: serde_json::Map<_, _> =
                fields.iter().map(|(key, value)| (key.clone(), strict(value))).collect();
            if fields.contains_key("required") {
                stricter.insert("additionalProperties".to_owned(), false.into());
            }
            Value::Object(stricter)
        }
        other => other.clone(),
    }
}
