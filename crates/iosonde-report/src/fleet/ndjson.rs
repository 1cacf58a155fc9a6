//! A table as JSON lines: one object per row, with the name of its table, without what is missing.

use serde_json::{Map, Value};

use super::{FLEET_SCHEMA, Form, Kind};
use crate::json::json_line;
use crate::report::Datum;
use iosonde_model::record::store::timestamp;

/// A row as one line.
pub(super) fn line(form: Form, row: &[Datum]) -> String {
    let mut object = Map::new();
    object.insert("table".into(), form.name.into());
    for ((name, kind), datum) in form.columns().zip(row) {
        let value: Value = match (kind, datum) {
            (_, Datum::Missing) => continue,
            (Kind::Time, Datum::Integer(ns)) => timestamp(*ns).into(),
            (_, Datum::Integer(value)) => (*value).into(),
            (_, Datum::Number(value)) => (*value).into(),
            (_, Datum::Text(text)) => text.as_str().into(),
        };
        object.insert(name.into(), value);
    }
    json_line(FLEET_SCHEMA, &Value::Object(object))
}
