//! A report as JSON.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::report::{Block, Picture, Report, Table};

/// Name and version of the document; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.report/2";

/// The whole report. Pictures are given by the stems of their file names, and their numbers in
/// `data`.
pub fn report_json(report: &Report) -> Value {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        program: &'static str,
        #[serde(flatten)]
        report: &'a Report,
    }
    let program = concat!("iosonde ", env!("CARGO_PKG_VERSION"));
    json!(Document { schema: SCHEMA, program, report })
}

/// Serialises each fact about machine and target as an object.
pub(crate) fn environment<S: Serializer>(
    facts: &[(String, String)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(facts.iter().map(|(name, value)| json!({ "name": name, "value": value })))
}

/// Serialised as an object with the kind of the block.
impl Serialize for Block {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case", tag = "kind")]
        enum Object<'a> {
            Words { words: &'a str },
            List { items: &'a [String] },
            Text { text: &'a str },
            Table(&'a Table),
            Picture(&'a Picture),
        }
        let object = match self {
            Block::Words(words) => Object::Words { words },
            Block::List(items) => Object::List { items },
            Block::Text(text) => Object::Text { text },
            Block::Table(table) => Object::Table(table),
            Block::Picture(picture) => Object::Picture(picture),
        };
        object.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::golden::closed;
    use crate::sample;

    const SCHEMA_FILE: &str = include_str!("../../../schema/iosonde-report-2.schema.json");

    #[test]
    fn the_document_fits_its_schema() {
        let document = report_json(&sample::report());
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
            assert!(kinds.contains(&&json!(kind)), "the sample has no {kind}: {kinds:?}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_null() {
        let mut report = sample::report();
        report.data[0].rows[0][0] = super::super::report::Datum::Number(f64::INFINITY);
        let document = report_json(&report);
        assert_eq!(document["data"][0]["rows"][0][0], Value::Null);
    }
}
