//! Apache Parquet, read by rows and written by groups of rows.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use byway_console::records::{Record, with_a_key};
use parquet::basic::{Compression, ConvertedType};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};
use serde_json::Value;

use crate::columns::{Chosen, Column, Columns};
use crate::csv::as_json;
use crate::encoding::Encoding;
use crate::source::{Input, Place, Position, Source, SourceError, unopened};

/// A Parquet file that is read.
pub(crate) struct ParquetSource {
    rows: RowIter<'static>,
    names: Vec<String>,
    chosen: Chosen,
    /// Rows that were read.
    row: u64,
    total: u64,
}

impl ParquetSource {
    pub fn open(input: &dyn Input, columns: &Columns, at: Position) -> Result<Self, SourceError> {
        let file = input.file().map_err(unopened)?;
        // Groups of rows that end before the position are left out: rows of those, and of all.
        let counts = Rc::new(Cell::new((0, 0)));
        let counted = Rc::clone(&counts);
        let is_wanted = move |group: &RowGroupMetaData, _: usize| {
            let (before, all) = counted.get();
            let all = all + u64::try_from(group.num_rows()).unwrap_or_default();
            let is_over = all <= at.records;
            counted.set((if is_over { all } else { before }, all));
            !is_over
        };
        let options = ReadOptionsBuilder::new().with_predicate(Box::new(is_wanted)).build();
        let reader = SerializedFileReader::new_with_options(file, options).map_err(|error| unread(&error))?;
        let (row, total) = counts.get();
        let schema = reader.metadata().file_metadata().schema_descr().root_schema_ptr();
        let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        let chosen = columns.choose(&names).map_err(SourceError::File)?;
        for column in reader.metadata().file_metadata().schema_descr().columns() {
            ensure_read(column, &names, &chosen).map_err(SourceError::File)?;
        }
        let rows = RowIter::from_file_into(Box::new(reader));
        let rows = rows.project(projection(&schema, &chosen)).map_err(|error| unread(&error))?;
        let mut source = Self { rows, names, chosen, row, total };
        while source.row < at.records && source.next_row().transpose()?.is_some() {}
        Ok(source)
    }

    fn next_row(&mut self) -> Option<Result<Row, SourceError>> {
        let row = self.rows.next()?;
        self.row += 1;
        Some(row.map_err(|error| SourceError::File(format!("row {}: {}", self.row, said(&error)))))
    }

    fn record(&self, row: &Row) -> Result<Record, String> {
        let bytes_of = |column: Column| {
            let name = self.names.get(column.index).map_or("", String::as_str);
            let field = row.get_column_iter().find(|(there, _)| *there == name);
            bytes_of(name, field.map_or(&Field::Null, |(_, field)| field), column.encoding)
        };
        let value = match self.chosen.value {
            Some(column) => bytes_of(column)?,
            None => {
                let member = |(name, field): (&String, &Field)| Ok((name.clone(), json_of(name, field)?));
                as_json(row.get_column_iter().map(member).collect::<Result<_, String>>()?)?
            }
        };
        with_a_key(Record { key: bytes_of(self.chosen.key)?, value })
    }
}

/// Refuses a chosen column of a type that the library panics at.
fn ensure_read(column: &ColumnDescriptor, names: &[String], chosen: &Chosen) -> Result<(), String> {
    let name = column.path().parts().first().map_or("", String::as_str);
    let is_named = |of: Column| names.get(of.index).is_some_and(|there| there == name);
    let is_chosen = chosen.value.is_none_or(is_named) || is_named(chosen.key);
    if column.converted_type() == ConvertedType::INTERVAL && is_chosen {
        return Err(format!(
            "column {name} is an INTERVAL, which is not read: name others by --key and --value"
        ));
    }
    Ok(())
}

/// The columns that are read; all without one of the value.
fn projection(schema: &TypePtr, chosen: &Chosen) -> Option<Type> {
    let value = chosen.value?;
    let wanted = |(index, field): (usize, &TypePtr)| {
        (index == chosen.key.index || index == value.index).then(|| Arc::clone(field))
    };
    let fields = schema.get_fields().iter().enumerate().filter_map(wanted).collect();
    Type::group_type_builder(schema.name()).with_fields(fields).build().ok()
}

/// The bytes of a field: those of text and binary as they are, a number in decimal digits or as `NaN`, `inf` and `-inf`, JSON of
/// anything else.
fn bytes_of(name: &str, field: &Field, encoding: Encoding) -> Result<Vec<u8>, String> {
    let bytes = match field {
        Field::Null => return Err(format!("column {name} is null")),
        Field::Str(text) => text.clone().into_bytes(),
        Field::Bytes(bytes) => bytes.data().to_vec(),
        other => match (Float::of(other), json_of(name, other)) {
            (Some(float), Err(_)) => float.shown.into_bytes(),
            (_, Ok(Value::String(text))) => text.into_bytes(),
            (_, value) => value?.to_string().into_bytes(),
        },
    };
    encoding.decode(bytes).map_err(|why| format!("column {name}: {why}"))
}

/// A floating-point field.
struct Float {
    /// The fewest decimal digits that are this number of this width.
    shown: String,
    value: f64,
}

impl Float {
    fn of(field: &Field) -> Option<Self> {
        let (shown, value) = match field {
            Field::Float16(number) => {
                (shortest(f64::from(*number), |text| text.parse() == Ok(*number)), f64::from(*number))
            }
            Field::Float(number) => (number.to_string(), f64::from(*number)),
            Field::Double(number) => (number.to_string(), *number),
            _ => return None,
        };
        Some(Self { shown, value })
    }
}

/// The fewest digits of a half that are read as the same one: 5 are always enough. Its own `Display` has those of a single.
fn shortest(exact: f64, is_same: impl Fn(&str) -> bool) -> String {
    let rounded = (0..5).filter_map(|decimals| format!("{exact:.decimals$e}").parse::<f64>().ok());
    rounded.map(|number| number.to_string()).find(|text| is_same(text)).unwrap_or_else(|| exact.to_string())
}

/// Days from the epoch that the library has dates of, within a year (chrono: years of ±262,142).
const DAYS_MAX: i64 = 95_000_000;

/// How many days a date or time is from the epoch; none of other fields.
fn days_of(field: &Field) -> Option<i64> {
    const MILLIS: i64 = 24 * 60 * 60 * 1000;
    match field {
        Field::Date(days) => Some(i64::from(*days)),
        Field::TimestampMillis(millis) => Some(millis / MILLIS),
        Field::TimestampMicros(micros) => Some(micros / (1000 * MILLIS)),
        _ => None,
    }
}

/// A field as JSON.
///
/// # Errors
/// NaN and infinity, which JSON cannot represent (RFC 8259, section 6), and dates beyond the library's, as a phrase.
fn json_of(name: &str, field: &Field) -> Result<Value, String> {
    if days_of(field).is_some_and(|days| !(-DAYS_MAX..=DAYS_MAX).contains(&days)) {
        return Err(format!("column {name} is a date that cannot be shown"));
    }
    if let Some(Float { shown, value }) = Float::of(field) {
        // The digits of a half or a single, parsed as a double: 0.1 stays 0.1.
        let number = serde_json::Number::from_f64(shown.parse().unwrap_or(value));
        return number
            .map(Value::Number)
            .ok_or_else(|| format!("column {name} is {shown}, which JSON cannot represent"));
    }
    Ok(match field {
        Field::Group(row) => {
            let member = |(inner, field): (&String, &Field)| Ok((inner.clone(), json_of(name, field)?));
            Value::Object(row.get_column_iter().map(member).collect::<Result<_, String>>()?)
        }
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().map(|field| json_of(name, field)).collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let member = |(key, field): &(Field, Field)| Ok((text_of(name, key)?, json_of(name, field)?));
            Value::Object(map.entries().iter().map(member).collect::<Result<_, String>>()?)
        }
        other => other.to_json_value(),
    })
}

/// The key of a map as JSON has it.
fn text_of(name: &str, key: &Field) -> Result<String, String> {
    Ok(match json_of(name, key)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// A row for people, whatever is wrong with it.
fn shown(row: &Row) -> String {
    let field = |(name, field): (&String, &Field)| match json_of(name, field) {
        Ok(value) => format!("{name}: {value}"),
        Err(why) => why,
    };
    row.get_column_iter().map(field).collect::<Vec<_>>().join(", ")
}

fn unread(error: &ParquetError) -> SourceError {
    SourceError::File(format!("it cannot be read as Parquet: {}", said(error)))
}

/// What the library says, without the kind of its error before it.
fn said(error: &ParquetError) -> String {
    match error {
        ParquetError::General(said) | ParquetError::EOF(said) | ParquetError::NYI(said) => said.clone(),
        other => other.to_string(),
    }
}

impl Source for ParquetSource {
    fn next_record(&mut self) -> Option<Result<Record, SourceError>> {
        let row = match self.next_row()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        Some(self.record(&row).map_err(|why| SourceError::Record {
            place: self.place(),
            why,
            text: shown(&row),
        }))
    }

    fn place(&self) -> Place {
        Place::Row(self.row)
    }

    fn position(&self) -> Position {
        Position { records: self.row, ..Position::default() }
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

/// Rows that are written as one group, at most.
const GROUP_ROWS: usize = 128 * 1024;
/// Bytes of keys and values in one group, but for the last value's.
const GROUP_BYTES: usize = 32 << 20;

/// A Parquet file that is written: a column of keys and one of values, compressed by Snappy.
pub(crate) struct ParquetSink<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    encoding: Option<Encoding>,
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    bytes: usize,
}

impl<W: Write + Send> ParquetSink<W> {
    /// A new file: of bytes as they are without an encoding, else of text.
    pub fn new(out: W, encoding: Option<Encoding>) -> io::Result<Self> {
        let suffix = encoding.map_or("", Encoding::suffix);
        let kind = if encoding.is_some() { " (UTF8)" } else { "" };
        let schema = format!(
            "message records {{ required binary key{suffix}{kind}; required binary value{suffix}{kind}; }}"
        );
        let schema = Arc::new(parse_message_type(&schema).map_err(unwritten)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("byway {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(unwritten)?;
        Ok(Self { writer, encoding, keys: Vec::new(), values: Vec::new(), bytes: 0 })
    }

    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let bytes_of = |bytes: &[u8]| match self.encoding {
            None => Ok(bytes.to_vec()),
            Some(encoding) => {
                encoding.encode(bytes).map(String::into_bytes).ok_or_else(|| crate::sink::no_text(key))
            }
        };
        let (key, value) = (bytes_of(key)?, bytes_of(value)?);
        self.bytes += key.len() + value.len();
        self.keys.push(key.into());
        self.values.push(value.into());
        if self.keys.len() >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(unwritten)?;
        for column in [&mut self.keys, &mut self.values] {
            if let Some(mut writer) = group.next_column().map_err(unwritten)? {
                writer.typed::<ByteArrayType>().write_batch(column, None, None).map_err(unwritten)?;
                writer.close().map_err(unwritten)?;
            }
            column.clear();
        }
        self.bytes = 0;
        group.close().map(drop).map_err(unwritten)
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.end_group()?;
        let mut out = self.writer.into_inner().map_err(unwritten)?;
        out.flush()
    }
}

/// The error of the writer below, as it was.
fn unwritten(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::FileFormat;
    use crate::source::tests::{all, goes_on_behind_each};
    use parquet::data_type::{FixedLenByteArrayType, FloatType, Int32Type, Int64Type};

    fn written(pairs: &[(&[u8], &[u8])], encoding: Option<Encoding>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = ParquetSink::new(&mut out, encoding).unwrap();
        for (key, value) in pairs {
            sink.write(key, value).unwrap();
        }
        sink.finish().unwrap();
        out
    }

    fn read(file: &[u8], columns: &Columns) -> Vec<Result<Record, String>> {
        let found = all(file, FileFormat::Parquet, columns, Position::default());
        found.into_iter().map(|(record, _)| record).collect()
    }

    /// A file of numbers and texts in several groups of rows, some texts null.
    fn foreign(groups: i64, compression: Compression) -> Vec<u8> {
        let schema = "message m { required int64 id; optional binary city (UTF8); }";
        let properties = WriterProperties::builder().set_compression(compression).build();
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut out = Vec::new();
        let mut file = SerializedFileWriter::new(&mut out, schema, Arc::new(properties)).unwrap();
        for first in 0..groups {
            let mut group = file.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&[10 * first, 10 * first + 1], None, None).unwrap();
            column.close().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&["Basel".into()], Some(&[1, 0]), None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        file.close().unwrap();
        out
    }

    #[test]
    fn bytes_come_back_by_each_encoding() {
        let pairs = [(&b"a"[..], &[0, 0xff][..]), (b"b", b"")];
        for encoding in [None, Some(Encoding::Hex), Some(Encoding::Base64)] {
            let file = written(&pairs, encoding);
            let wanted = pairs.map(|(key, value)| Ok(Record { key: key.to_vec(), value: value.to_vec() }));
            assert_eq!(read(&file, &Columns::default()), wanted, "{encoding:?}");
        }
        let mut sink = ParquetSink::new(io::sink(), Some(Encoding::Text)).unwrap();
        assert!(sink.write(b"a", &[0xff]).unwrap_err().to_string().contains("--encoding"));
    }

    #[test]
    fn numbers_and_rows_become_text_and_null_is_named_by_its_row() {
        let by_id = Columns { key: Some("id".into()), ..Columns::default() };
        let rows = read(&foreign(1, Compression::UNCOMPRESSED), &by_id);
        let second = Record { key: b"1".to_vec(), value: br#"{"id":1,"city":null}"#.to_vec() };
        assert_eq!(rows[1], Ok(second));
        let city = Columns { value: Some("city".into()), ..by_id };
        let rows = read(&foreign(1, Compression::UNCOMPRESSED), &city);
        assert_eq!(rows[0], Ok(Record { key: b"0".to_vec(), value: b"Basel".to_vec() }));
        assert_eq!(rows[1], Err("row 2: column city is null".to_owned()));
    }

    #[test]
    fn number_that_json_has_not_is_text_in_its_column_and_no_row() {
        let schema = "message m { required binary key (UTF8); required float value; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut out = Vec::new();
        let mut file = SerializedFileWriter::new(&mut out, schema, Arc::default()).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let keys = ["a", "b", "c"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FloatType>().write_batch(&[0.1, f32::NAN, f32::NEG_INFINITY], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        let values = read(&out, &Columns::default()).into_iter().map(|record| record.unwrap().value);
        assert_eq!(values.collect::<Vec<_>>(), [&b"0.1"[..], b"NaN", b"-inf"]);
        let rows = read(&out, &Columns { key: Some("key".into()), ..Columns::default() });
        assert_eq!(rows[0].as_ref().unwrap().value, br#"{"key":"a","value":0.1}"#);
        assert_eq!(rows[1], Err("row 2: column value is NaN, which JSON cannot represent".to_owned()));
    }

    #[test]
    fn half_is_shown_by_the_fewest_digits_that_are_it() {
        let cases: [(u16, &str); 9] = [
            (0x2e66, "0.1"),
            (0x3555, "0.3333"),
            (0xbe00, "-1.5"),
            (0x67ff, "2047.0"),
            (0x7bff, "65500.0"),
            (0x0001, "6e-8"),
            (0x0000, "0.0"),
            (0x7c00, "inf"),
            (0x7e00, "NaN"),
        ];
        for (bits, shown) in cases {
            let bytes = ByteArray::from(bits.to_le_bytes().to_vec()).into();
            let file = of_one_row::<FixedLenByteArrayType>("fixed_len_byte_array(2) value (FLOAT16)", bytes);
            let value = read(&file, &Columns::default()).remove(0).unwrap().value;
            assert_eq!(String::from_utf8(value).unwrap(), shown, "{bits:#x}");
        }
    }

    /// A file of one row: a key, and a field of another type.
    fn of_one_row<T: parquet::data_type::DataType>(kind: &str, field: T::T) -> Vec<u8> {
        let schema = format!("message m {{ required binary key (UTF8); required {kind}; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let mut out = Vec::new();
        let mut file = SerializedFileWriter::new(&mut out, schema, Arc::default()).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&["a".into()], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(&[field], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        out
    }

    #[test]
    fn date_that_the_library_cannot_show_is_a_bad_record() {
        for file in [
            of_one_row::<Int32Type>("int32 value (DATE)", 100_000_000),
            of_one_row::<Int64Type>("int64 value (TIMESTAMP_MILLIS)", i64::MAX),
            of_one_row::<Int64Type>("int64 value (TIMESTAMP_MICROS)", i64::MIN),
        ] {
            let wanted = Err("row 1: column value is a date that cannot be shown".to_owned());
            assert_eq!(read(&file, &Columns::default()), [wanted]);
        }
        let day = of_one_row::<Int32Type>("int32 value (DATE)", 95_000_000);
        assert!(read(&day, &Columns::default())[0].is_ok());
    }

    #[test]
    fn column_of_intervals_is_refused_where_it_is_chosen() {
        let schema = "fixed_len_byte_array (12) value (INTERVAL)";
        let file = of_one_row::<FixedLenByteArrayType>(schema, ByteArray::from(vec![0; 12]).into());
        let input = crate::source::tests::Bytes(file.clone());
        let error = ParquetSource::open(&input, &Columns::default(), Position::default());
        assert!(error.err().unwrap().to_string().contains("column value is an INTERVAL"));
        let keys = Columns { value: Some("key".into()), ..Columns::default() };
        assert!(read(&file, &keys)[0].is_ok());
    }

    #[test]
    fn reading_goes_on_behind_any_row_of_any_group_and_codec() {
        let by_id = Columns { key: Some("id".into()), ..Columns::default() };
        for codec in [
            Compression::SNAPPY,
            Compression::ZSTD(parquet::basic::ZstdLevel::default()),
            Compression::GZIP(parquet::basic::GzipLevel::default()),
            Compression::LZ4_RAW,
        ] {
            goes_on_behind_each(&foreign(3, codec), FileFormat::Parquet, &by_id);
        }
    }

    #[test]
    fn file_that_is_no_parquet_is_refused() {
        let whole = written(&[(b"a", b"1")], None);
        for wrong in [&b""[..], b"key,value\n", &whole[..whole.len() - 1]] {
            let input = crate::source::tests::Bytes(wrong.to_vec());
            let error = ParquetSource::open(&input, &Columns::default(), Position::default());
            assert!(error.err().unwrap().to_string().contains("as Parquet"), "{wrong:?}");
        }
    }
}
