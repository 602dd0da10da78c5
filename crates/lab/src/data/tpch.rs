//! The table `lineitem` of TPC-H, row by row that of dbgen, by the crates `tpchgen` and `tpchgen-arrow`.
//!
//! Types are those of tpchgen-cli: keys of 64 bits, decimals of 15 digits with 2 behind the point, dates, strings. A row group has
//! 1,048,576 rows, columns have dictionaries where that is shorter, and pages have statistics: what a writer of today makes.

use anyhow::{Context, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type};
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::LineItemArrow;

use super::table::{Layout, Predicate, Table};

/// Scale factors that are made: 6,000 to 600 million rows.
pub const SCALES: std::ops::RangeInclusive<f64> = 0.001..=100.0;

/// Rows of a row group.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Rows that are made at a time.
const BATCH_ROWS: usize = 1 << 15;
/// Lines of an order on average: 1 to 7.
const LINES_OF_AN_ORDER: u64 = 4;

/// The set as it is generated.
pub struct LineItem {
    scale: f64,
    batches: LineItemArrow,
    queries: [(Predicate, Takes); 4],
}

/// Whether a query takes a row.
type Takes = fn(&Line) -> bool;

/// What the queries look at. Decimals are in hundredths, dates in days since 1970.
struct Line<'a> {
    quantity: i128,
    discount: i128,
    shipped: i32,
    instruction: &'a str,
    mode: &'a str,
}

/// Days since 1970 of 1994-01-01, 1995-01-01, 1995-09-01, 1995-10-01 and 1998-09-02.
const YEAR_1994: i32 = 8766;
const YEAR_1995: i32 = 9131;
const SEPTEMBER_1995: i32 = 9374;
const OCTOBER_1995: i32 = 9404;
const LAST_OF_Q1: i32 = 10_471;

/// Condition of TPC-H Q1 on this table.
pub const Q1: &str = "l_shipdate <= DATE '1998-09-02'";
/// Condition of TPC-H Q6 on this table.
pub const Q6: &str = "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 \
AND l_quantity < 24";
/// Condition of TPC-H Q14 on this table.
pub const Q14: &str = "l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'";
/// Condition of TPC-H Q19 on this table.
pub const Q19: &str = "l_quantity >= 1 AND l_quantity <= 30 AND l_shipmode IN ('AIR', 'AIR REG') \
AND l_shipinstruct = 'DELIVER IN PERSON'";

impl LineItem {
    /// The table of a scale factor.
    pub fn new(scale: f64) -> Self {
        let batches = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS);
        let queries: [(Predicate, Takes); 4] = [
            (Predicate::new("Q1", Q1), |line| line.shipped <= LAST_OF_Q1),
            (Predicate::new("Q6", Q6), |line| {
                (YEAR_1994..YEAR_1995).contains(&line.shipped)
                    && (5..=7).contains(&line.discount)
                    && line.quantity < 2400
            }),
            (Predicate::new("Q14", Q14), |line| (SEPTEMBER_1995..OCTOBER_1995).contains(&line.shipped)),
            (Predicate::new("Q19", Q19), |line| {
                (100..=3000).contains(&line.quantity)
                    && matches!(line.mode, "AIR" | "AIR REG")
                    && line.instruction == "DELIVER IN PERSON"
            }),
        ];
        Self { scale, batches, queries }
    }
}

impl Table for LineItem {
    fn layout(&self) -> Result<Layout> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        Ok(Layout { schema: LineItemArrow::schema_ref(), options })
    }

    fn expected_rows(&self) -> u64 {
        OrderGenerator::calculate_row_count(self.scale, 1, 1) as u64 * LINES_OF_AN_ORDER
    }

    fn columns(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some(batch) = self.batches.next().transpose()? else {
            return Ok(None);
        };
        let lines = lines(&batch).context("a column of lineitem has another type")?;
        for (predicate, takes) in &mut self.queries {
            predicate.count(&lines, *takes);
        }
        Ok(Some(batch.columns().to_vec()))
    }

    fn predicates(&self) -> Vec<Predicate> {
        self.queries.iter().map(|(predicate, _)| predicate.clone()).collect()
    }
}

/// The rows of a batch, as far as the queries look at them; `None` where a column is not what it is known to be.
fn lines(batch: &RecordBatch) -> Option<Vec<Line<'_>>> {
    let column = |name| batch.column_by_name(name);
    let quantities = column("l_quantity")?.as_primitive_opt::<Decimal128Type>()?;
    let discounts = column("l_discount")?.as_primitive_opt::<Decimal128Type>()?;
    let dates = column("l_shipdate")?.as_primitive_opt::<Date32Type>()?;
    let instructions = column("l_shipinstruct")?.as_string_view_opt()?;
    let modes = column("l_shipmode")?.as_string_view_opt()?;
    let line = |row| Line {
        quantity: quantities.value(row),
        discount: discounts.value(row),
        shipped: dates.value(row),
        instruction: instructions.value(row),
        mode: modes.value(row),
    };
    Some((0..batch.num_rows()).map(line).collect())
}
