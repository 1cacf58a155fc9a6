//! Functions shared by the report's tests: golden files (`IOSONDE_BLESS=1 cargo test` rewrites
//! them), and schemas that reject unlisted fields.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use serde_json::Value;

/// Asserts that a text equals the file `name` under `golden/report`.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/report").join(name);
    if std::env::var_os("IOSONDE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs; now it is:\n{text}\nit was:\n{expected}");
}

/// Screen widths with golden texts.
pub(crate) const SCREENS: [usize; 4] = [60, 80, 120, 200];

/// Asserts for each screen that the answer is the first three lines of a text, that no line is
/// wider than the screen, and that the text equals its golden file.
#[track_caller]
pub(crate) fn assert_screens(name: &str, text: impl Fn(usize) -> String) {
    for screen in SCREENS {
        let text = text(screen);
        let heads: Vec<&str> =
            text.lines().take(3).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(heads, ["Result", "Confidence", "Next"], "{name} at {screen}:\n{text}");
        for line in text.lines() {
            let wide = crate::wrap::width(line);
            assert!(wide <= screen, "{name} at {screen}: {wide}: {line}");
        }
        assert_golden(&format!("screens/{name}-{screen}.txt"), &text);
    }
}

/// The schema with `additionalProperties` false in every object that lists its fields.
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
