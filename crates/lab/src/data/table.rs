//! What a generated set is made of: a layout, columns in batches, predicates whose rows are counted.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use serde::Serialize;

use super::noise::Noise;

/// Rows that are made at a time.
const BATCH_ROWS: u64 = 1 << 16;

/// A set that is generated in the order of its rows.
pub trait Table {
    /// How the file is laid out.
    ///
    /// # Errors
    /// A schema that Parquet does not take.
    fn layout(&self) -> Result<Layout>;

    /// Rows in all; an estimate where only the end shows.
    fn expected_rows(&self) -> u64;

    /// The columns of the next rows, `None` after the last.
    ///
    /// # Errors
    /// Those of the generator.
    fn columns(&mut self) -> Result<Option<Vec<ArrayRef>>>;

    /// The predicates of the set, with the rows made so far that each takes.
    fn predicates(&self) -> Vec<Predicate>;
}

/// A predicate or query that goes with a set.
#[derive(Clone, Debug, Serialize)]
pub struct Predicate {
    /// What it asks for.
    pub name: &'static str,
    /// SQL: a whole query, or the words behind WHERE.
    pub sql: String,
    /// Rows of the file that it takes.
    pub rows: u64,
}

impl Predicate {
    /// A predicate that took no row yet.
    pub fn new(name: &'static str, sql: impl Into<String>) -> Self {
        Self { name, sql: sql.into(), rows: 0 }
    }

    /// Counts the rows that it takes.
    pub fn count<T>(&mut self, rows: &[T], takes: impl Fn(&T) -> bool) {
        self.rows += rows.iter().filter(|row| takes(row)).count() as u64;
    }
}

/// How a file is laid out.
pub struct Layout {
    /// The columns as Arrow has them.
    pub schema: SchemaRef,
    /// How they are written.
    pub options: ArrowWriterOptions,
}

impl Layout {
    /// Plain pages of 1 MiB with statistics of column chunks alone, as Arrow's writer in C++ makes them without dictionaries; the schema
    /// in Parquet's words.
    ///
    /// # Errors
    /// A schema that Parquet does not take.
    pub fn plain(message: &str, compression: Compression, row_group_rows: usize) -> Result<Self> {
        let message = parse_message_type(message).context("parse the schema of the set")?;
        let columns = SchemaDescriptor::new(Arc::new(message));
        let schema = Arc::new(parquet_to_arrow_schema(&columns, None)?);
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(usize::MAX)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(Some(row_group_rows))
            .build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(columns);
        Ok(Self { schema, options })
    }
}

/// Rows that are still to be made, as ranges of a batch each.
#[derive(Debug)]
pub struct Batches {
    left: Range<u64>,
}

impl Batches {
    /// All rows of a set.
    pub const fn of(rows: u64) -> Self {
        Self { left: 0..rows }
    }
}

impl Iterator for Batches {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.left.start;
        if start == self.left.end {
            return None;
        }
        self.left.start = self.left.end.min(start + BATCH_ROWS);
        Some(start..self.left.start)
    }
}

/// Which points of a grid are rows: all, or a random one of each of as many equal stretches, so that no axis is missed.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    rows: u64,
    points: u64,
    noise: Noise,
}

impl Sample {
    /// A sample of `rows` out of `points`, which are at most 2³¹.
    pub const fn new(rows: u64, points: u64, noise: Noise) -> Self {
        Self { rows, points, noise }
    }

    /// The point of a row; points rise with rows.
    pub fn point(&self, row: u64) -> u64 {
        let begin = |row: u64| row * self.points / self.rows;
        let (first, next) = (begin(row), begin(row + 1));
        first + self.noise.bits(row) % (next - first)
    }
}

/// A column of 32-bit integers.
pub fn integers(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

/// A column of single precision.
pub fn floats(values: impl Iterator<Item = f32>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(values))
}

/// A column of double precision.
pub fn doubles(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_of_all_points_is_all_points_and_a_smaller_one_misses_no_residue() {
        let noise = Noise::new(1, 1);
        let all = Sample::new(1000, 1000, noise);
        assert!((0..1000).all(|row| all.point(row) == row));
        let some = Sample::new(1000, 100_000, noise);
        assert!((1..1000).all(|row| some.point(row) > some.point(row - 1)));
        let residues: std::collections::HashSet<u64> = (0..1000).map(|row| some.point(row) % 100).collect();
        assert!(residues.len() > 95, "{}", residues.len());
    }

    #[test]
    fn batches_are_every_row_once() {
        let rows = 2 * BATCH_ROWS + 5;
        assert!(Batches::of(rows).flatten().eq(0..rows));
        assert_eq!(Batches::of(rows).count(), 3);
    }
}
