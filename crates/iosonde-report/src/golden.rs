//! What the tests of the report share: golden files (`IOSONDE_BLESS=1 cargo test` writes them
//! anew), and schemas that let nothing pass unlisted.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use serde_json::Value;

/// Asserts that a text equals the file of this name under `golden/report`.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/report").join(name);
    if std::env::var_os("IOSONDE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs; now it is:\n{text}\nit was:\n{expected}");
}

/// The schema with every object of which it lists the fields closed to others.
pub(crate) fn closed(schema: &str) -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.values_mut().for_each(close);
                let is_object = fields.contains_key("properties")
                    && fields.contains_key("type")
                    && !fields.contains_key("additionalProperties");
                if is_object {
                    fields.insert("additionalProperties".into(), false.into());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema = serde_json::from_str(schema).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    close(&mut schema);
    schema
}
