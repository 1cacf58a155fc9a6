//! A story as one JSON document.

use serde_json::{Value, json};

use super::story::{Block, Section, Story};

/// Name and version of the document; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.report/2";

/// The whole story. Pictures are named by the stems of their files; the numbers behind them stand
/// in `data`.
pub fn story_json(story: &Story) -> Value {
    let environment: Vec<Value> = story
        .environment
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    json!({
        "schema": SCHEMA,
        "program": concat!("iosonde ", env!("CARGO_PKG_VERSION")),
        "title": story.title,
        "source": story.source,
        "conformance": story.conformance,
        "question": story.question,
        "answer": story.answer,
        "warnings": story.warnings,
        "sections": story.sections.iter().map(section).collect::<Vec<_>>(),
        "method": story.method,
        "environment": environment,
        "data": story.data,
    })
}

fn section(section: &Section) -> Value {
    json!({
        "name": section.name,
        "heading": section.heading,
        "blocks": section.blocks.iter().map(block).collect::<Vec<_>>(),
    })
}

fn block(block: &Block) -> Value {
    match block {
        Block::Words(words) => json!({ "kind": "words", "words": words }),
        Block::List(items) => json!({ "kind": "list", "items": items }),
        Block::Text(text) => json!({ "kind": "text", "text": text }),
        Block::Table(table) => {
            let mut value = json!(table);
            value["kind"] = json!("table");
            value
        }
        Block::Picture(picture) => {
            json!({ "kind": "picture", "name": picture.name, "caption": picture.caption })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::demo;
    use crate::golden::closed;

    const SCHEMA_FILE: &str = include_str!("../../../schema/iosonde-report-2.schema.json");

    #[test]
    fn the_document_fits_its_schema() {
        let document = story_json(&demo::story());
        let validator = jsonschema::validator_for(&closed(SCHEMA_FILE)).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
        assert_eq!(document["source"]["complete"], true);
        let kinds: Vec<&Value> = document["sections"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|section| section["blocks"].as_array().unwrap())
            .map(|block| &block["kind"])
            .collect();
        for kind in ["words", "list", "table", "picture"] {
            assert!(kinds.contains(&&json!(kind)), "the demo has no {kind}: {kinds:?}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_null() {
        let mut story = demo::story();
        story.data[0].rows[0][0] = super::super::story::Datum::Number(f64::INFINITY);
        let document = story_json(&story);
        assert_eq!(document["data"][0]["rows"][0][0], Value::Null);
    }
}
