//! A table as Parquet: each column compressed separately, in row groups that fit into memory.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::{FLEET_SCHEMA, Form, Kind};
use crate::report::Datum;

const GROUP_ROWS: usize = 200_000;

/// A Parquet file under construction.
pub struct Columns {
    form: Form,
    writer: SerializedFileWriter<File>,
    waiting: Vec<Vec<Datum>>,
}

impl std::fmt::Debug for Columns {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Columns").field("form", &self.form).finish_non_exhaustive()
    }
}

impl Columns {
    pub(super) fn new(form: Form, file: File) -> io::Result<Columns> {
        let schema = schema(form).map_err(io::Error::other)?;
        let version = KeyValue::new("schema".to_owned(), FLEET_SCHEMA.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties));
        Ok(Columns { form, writer: writer.map_err(io::Error::other)?, waiting: Vec::new() })
    }

    pub(super) fn append(&mut self, rows: Vec<Vec<Datum>>) -> io::Result<()> {
        self.waiting.extend(rows);
        if self.waiting.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        self.writer.into_inner().map_err(io::Error::other)
    }

    /// Writes the buffered rows as one row group.
    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.waiting);
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for (at, (_, kind)) in self.form.columns().enumerate() {
            column(&mut group, kind, rows.iter().map(|row| &row[at])).map_err(io::Error::other)?;
        }
        group.close().map(drop).map_err(io::Error::other)
    }
}

fn schema(form: Form) -> Result<Type, ParquetError> {
    let moment = LogicalType::timestamp(true, TimeUnit::NANOS);
    let field = |(name, kind): (&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer => (Physical::INT64, None),
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Time => (Physical::INT64, Some(moment.clone())),
        };
        let field = Type::primitive_type_builder(name, physical);
        let field = field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = form.columns().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(form.name).with_fields(fields).build()
}

fn column<'a>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    kind: Kind,
    cells: impl Iterator<Item = &'a Datum>,
) -> Result<(), ParquetError> {
    match kind {
        Kind::Text => values::<ByteArrayType>(group, cells, |datum| match datum {
            Datum::Text(text) => Some(ByteArray::from(text.as_str())),
            Datum::Missing | Datum::Integer(_) | Datum::Number(_) => None,
        }),
        Kind::Integer | Kind::Time => values::<Int64Type>(group, cells, |datum| match datum {
            Datum::Integer(value) => i64::try_from(*value).ok(),
            Datum::Missing | Datum::Number(_) | Datum::Text(_) => None,
        }),
        Kind::Number => values::<DoubleType>(group, cells, |datum| match datum {
            Datum::Number(value) => Some(*value),
            Datum::Integer(value) => Some(*value as f64),
            Datum::Missing | Datum::Text(_) => None,
        }),
    }
}

/// Writes the next column: the present values, and the definition level of each cell.
fn values<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    cells: impl Iterator<Item = &'a Datum>,
    value: impl Fn(&Datum) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let cells: Vec<Option<T::T>> = cells.map(value).collect();
    let present: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let missing = || ParquetError::General("fewer columns than the schema has".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&values, Some(&present), None)?;
    column.close()
}
