//! A JSON document whose schema is checked before the document is deserialised.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

/// The text of a document, with its schema and program version.
#[derive(Debug)]
pub struct JsonRecord {
    text: Vec<u8>,
    schema: String,
    program: String,
}

/// Fields of every iosonde document; in other documents they may have any type.
#[derive(Default, Deserialize)]
struct Heading {
    #[serde(default)]
    schema: Value,
    #[serde(default)]
    program: Value,
}

impl JsonRecord {
    /// Reads schema and program version of a text.
    ///
    /// # Errors
    /// If it is not JSON, or names its schema or program twice.
    pub fn of(text: Vec<u8>) -> serde_json::Result<JsonRecord> {
        let is_object = text.trim_ascii_start().first() == Some(&b'{');
        let heading = match is_object {
            true => serde_json::from_slice(&text)?,
            false => serde_json::from_slice::<IgnoredAny>(&text).map(|_| Heading::default())?,
        };
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(JsonRecord { schema: word(&heading.schema), program: word(&heading.program), text })
    }

    /// Its schema; empty if it names none.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Deserialises the document.
    ///
    /// # Errors
    /// If something is missing or of another type.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.text)
    }

    /// Accepts documents of these schemas, each `name/version`.
    ///
    /// # Errors
    /// What was found and what was expected; a newer version has its own message.
    pub fn expect(&self, known: &[&str]) -> Result<(), String> {
        let schema = self.schema.as_str();
        if known.contains(&schema) {
            return Ok(());
        }
        let found = name_and_version(schema);
        let older = known.iter().find(|ours| {
            let ours = name_and_version(ours);
            ours.0 == found.0 && ours.1 < found.1
        });
        let program = if self.program.is_empty() { "unknown" } else { &self.program };
        Err(match (older, schema) {
            (Some(ours), _) => format!(
                "found a document of {schema}, written by version {program}; this program, {}, \
                 knows {ours}: use that version or a newer one",
                env!("CARGO_PKG_VERSION")
            ),
            (None, "") => {
                format!("not an iosonde record: no schema, expected {}", known.join(", "))
            }
            (None, _) => format!("found a document of {schema}, expected {}", known.join(", ")),
        })
    }
}

/// `iosonde.run/2` as `iosonde.run` and 2; without a version, 0.
fn name_and_version(schema: &str) -> (&str, u64) {
    let split = schema.rsplit_once('/');
    split.and_then(|(name, version)| Some((name, version.parse().ok()?))).unwrap_or((schema, 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn of(text: &str) -> JsonRecord {
        JsonRecord::of(text.into()).unwrap()
    }

    #[test]
    fn the_schema_decides_how_a_document_is_read() {
        #[derive(Deserialize)]
        struct Own {
            count: u32,
        }
        let record = of(r#"{"count": 3, "schema": "iosonde.own/2", "more": [1, {"a": null}]}"#);
        assert_eq!(record.schema(), "iosonde.own/2");
        assert_eq!(record.expect(&["iosonde.own/1", "iosonde.own/2"]), Ok(()));
        assert_eq!(record.read::<Own>().unwrap().count, 3);
        let missing = of(r#"{"schema": "iosonde.own/2"}"#).read::<Own>().err().unwrap();
        assert!(missing.to_string().contains("missing field `count`"), "{missing}");
    }

    #[test]
    fn what_is_not_json_is_no_record_and_json_of_others_has_no_schema() {
        for text in ["", "{\"schema\": \"iosonde.run/2\"", "{\"a\": 1} x", "\u{1b}"] {
            assert!(JsonRecord::of(text.into()).is_err(), "{text}");
        }
        for text in ["3", "null", "[1, 2, 3]", "{}", r#"{"schema": 7}"#] {
            let record = of(text);
            assert_eq!(record.schema(), "", "{text}");
            assert_eq!(
                record.expect(&["iosonde.run/2"]).unwrap_err(),
                "not an iosonde record: no schema, expected iosonde.run/2",
                "{text}"
            );
        }
    }

    #[test]
    fn newer_versions_and_other_kinds_get_their_own_words() {
        let newer = of(r#"{"schema": "iosonde.run/9", "program": "7.1"}"#);
        let words = newer.expect(&["iosonde.ladder/12", "iosonde.run/2"]).unwrap_err();
        assert!(words.contains("iosonde.run/9, written by version 7.1;"), "{words}");
        assert!(words.contains("knows iosonde.run/2: use that version"), "{words}");
        let unnamed = of(r#"{"schema": "iosonde.run/9"}"#).expect(&["iosonde.run/2"]).unwrap_err();
        assert!(unnamed.contains("written by version unknown"), "{unnamed}");
        for other in ["iosonde.run/1", "iosonde.run", "iosonde.profile/9", "fio/3"] {
            let record = of(&format!(r#"{{"schema": "{other}"}}"#));
            let expected = format!("found a document of {other}, expected iosonde.run/2");
            assert_eq!(record.expect(&["iosonde.run/2"]).unwrap_err(), expected);
        }
    }
}
