//! `byway-lab data`: a data set of computational storage as a Parquet file.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use byway_console::files::Replacement;
use byway_console::size;
use byway_console::size::counted;
use byway_console::table::Table;
use byway_console::terminal::{Interrupt, Progress, print_json};
use serde::Serialize;

use crate::args::DataArgs;
use crate::data::{self, Extent, Set, Written};

/// What was made.
#[derive(Serialize)]
struct Made<'a> {
    set: Set,
    file: &'a Path,
    #[serde(flatten)]
    extent: Extent,
    #[serde(flatten)]
    written: Written,
}

/// Generates a set.
///
/// # Errors
/// Arguments that the set does not have, a file that cannot be written, or an interruption: then there is no new file.
pub fn run(args: &DataArgs, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let extent = args.set.extent(args.rows, args.scale, args.seed)?;
    let file = Replacement::of(&args.file)?;
    let progress = Progress::line("preparing");
    let mut table = args.set.table(extent);
    drop(progress);
    let progress = Progress::new("rows", table.expected_rows());
    let written = data::write(table.as_mut(), file, interrupt, &progress)?;
    drop(progress);
    if args.json {
        return Ok(print_json(out, &Made { set: args.set, file: &args.file, extent, written })?);
    }
    write!(out, "{}", columns(&written))?;
    writeln!(
        out,
        "{}: {} in {}, {}",
        args.file.display(),
        counted(written.rows, "row"),
        counted(written.row_groups as u64, "row group"),
        size::human(written.bytes)
    )?;
    for predicate in &written.predicates {
        writeln!(out, "{}: {}: {}", predicate.name, counted(predicate.rows, "row"), predicate.sql)?;
    }
    Ok(())
}

fn columns(written: &Written) -> Table {
    let mut table = Table::new(&["column", "bytes", "uncompressed bytes"]);
    for column in &written.columns {
        table.push(vec![
            column.name.clone(),
            column.bytes.to_string(),
            column.uncompressed_bytes.to_string(),
        ]);
    }
    table
}
