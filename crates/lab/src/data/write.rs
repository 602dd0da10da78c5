//! A set into a Parquet file, which appears whole or not at all.

use std::io::Write;

use anyhow::{Context, Result};
use arrow_array::RecordBatch;
use byway_console::files::Replacement;
use byway_console::terminal::{Interrupt, Progress};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::ParquetMetaData;
use serde::Serialize;

use super::table::{Predicate, Table};

/// What is left of an interrupted file.
const LEFT: &str = "no file was made";

/// A file that was written.
#[derive(Debug, Serialize)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Row groups.
    pub row_groups: usize,
    /// The columns, in their order.
    pub columns: Vec<Column>,
    /// Predicates of the set, and how many rows they take.
    pub predicates: Vec<Predicate>,
}

/// A column of a file.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Bytes in the file, compressed.
    pub bytes: u64,
    /// Bytes before compression.
    pub uncompressed_bytes: u64,
}

/// Generates a set into a file.
///
/// # Errors
/// A file that cannot be written, what the generator says, or an interruption. Then an earlier file of that name is as it was.
pub fn write(
    table: &mut dyn Table,
    mut file: Replacement,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Written> {
    let layout = table.layout()?;
    let path = file.path().display().to_string();
    let failed = || format!("write {path}");
    let mut writer = ArrowWriter::try_new_with_options(&mut file, layout.schema.clone(), layout.options)
        .with_context(failed)?;
    while let Some(columns) = table.columns()? {
        interrupt.checked(LEFT)?;
        let batch = RecordBatch::try_new(layout.schema.clone(), columns)?;
        writer.write(&batch).with_context(failed)?;
        progress.advance(batch.num_rows() as u64);
    }
    let about = writer.close().with_context(failed)?;
    file.flush().with_context(failed)?;
    interrupt.checked(LEFT)?;
    let bytes = file.finish()?;
    Ok(Written {
        rows: about.file_metadata().num_rows() as u64,
        bytes,
        row_groups: about.num_row_groups(),
        columns: columns(&about),
        predicates: table.predicates(),
    })
}

fn columns(about: &ParquetMetaData) -> Vec<Column> {
    let sum = |index: usize, of: fn(&parquet::file::metadata::ColumnChunkMetaData) -> i64| {
        about.row_groups().iter().map(|group| of(group.column(index)) as u64).sum()
    };
    let descriptions = about.file_metadata().schema_descr().columns().iter().enumerate();
    descriptions
        .map(|(index, column)| Column {
            name: column.name().to_owned(),
            bytes: sum(index, |chunk| chunk.compressed_size()),
            uncompressed_bytes: sum(index, |chunk| chunk.uncompressed_size()),
        })
        .collect()
}
