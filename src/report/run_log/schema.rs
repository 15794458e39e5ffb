//! Makes the JSON Schema of the events from their table.

use serde_json::{Map, Value, json};

use super::event::EventKind;
use super::events::EVENTS;
use super::fields::{COMMON, FIELDS, Field, Presence};

/// Returns the JSON Schema of the events.
pub(crate) fn schema() -> Value {
    let property = |field: &Field| {
        let mut kind: Map<String, Value> = serde_json::from_str(field.kind).unwrap();
        kind.insert("description".to_owned(), sentence(field.meaning).into());
        (field.name.to_owned(), Value::Object(kind))
    };
    let one = |event: &EventKind| {
        let properties = FIELDS.iter().filter(|field| event.fields().any(|name| name == field.name));
        let mut properties: Map<String, Value> = properties.map(property).collect();
        properties.insert("event".to_owned(), json!({ "const": event.name }));
        properties.insert("level".to_owned(), json!({ "enum": event.levels().collect::<Vec<_>>() }));
        let required =
            event.fields.iter().filter(|(_, presence)| *presence == Presence::Always).map(|(field, _)| *field);
        json!({
            "description": sentence(event.meaning),
            "properties": properties,
            "required": required.collect::<Vec<_>>(),
        })
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of shedlock run",
        "description": "An object that shedlock run --log-format json writes to stderr, one on each line.",
        "type": "object",
        "properties": COMMON.iter().map(property).collect::<Map<String, Value>>(),
        "required": COMMON.iter().map(|field| field.name).filter(|name| *name != "hint").collect::<Vec<_>>(),
        "oneOf": EVENTS.iter().map(one).collect::<Vec<_>>(),
    })
}

fn sentence(meaning: &str) -> String {
    let (first, rest) = meaning.trim_start_matches('`').split_at(1);
    format!("{}{}.", first.to_uppercase(), rest.replace('`', ""))
}
