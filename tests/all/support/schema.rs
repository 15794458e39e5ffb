//! The schemas of what is printed, docs/json/.

use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

/// A schema.
pub(crate) struct Schema {
    pub(crate) text: Value,
    validator: Validator,
}

impl Schema {
    /// The schema of what a command prints, or of an `event`.
    pub(crate) fn of(what: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/json/{what}.schema.json"));
        let text = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&text).unwrap();
        Self { text, validator }
    }

    pub(crate) fn is_kept_by(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    #[track_caller]
    pub(crate) fn accepts(&self, value: &Value) {
        let errors: Vec<String> = self.validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{value:#}");
    }
}
