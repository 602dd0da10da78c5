//! What a query would read in the device and move to the host, and whether that is less than moving the object.

use std::fmt;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::error::QueryError;
use crate::limits::{Cancellation, Limits, Watch};
use crate::object::Object;
use crate::plan::Plan;
use crate::run::without_panic;
use crate::scan::Table;
use crate::sql::Query;

/// Groups that a query with keys is assumed to have, as a part of its rows.
const GROUPS_PER_ROW: f64 = 0.1;

/// What a query reads and moves, estimated from the footer of its object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Columns that are read, and their compressed bytes in the row groups that are read.
    pub columns: Vec<(String, u64)>,
    /// Row groups of the object.
    pub row_groups: usize,
    /// Row groups that may hold rows of the result.
    pub row_groups_read: usize,
    /// Rows in those.
    pub rows_read: u64,
    /// Rows that fulfil the conditions, estimated.
    pub rows_selected: u64,
    /// Rows of the result, estimated.
    pub rows_result: u64,
    /// Bytes that the device reads: the columns.
    pub device_reads_bytes: u64,
    /// Bytes that cross the link with push-down: the query's text and its result, estimated.
    pub push_down_moves_bytes: u64,
    /// Bytes that cross the link where the host reads the columns itself.
    pub host_reads_bytes: u64,
    /// What is cheaper on the link.
    pub advice: Advice,
}

/// What is cheaper on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Run the query in the device.
    PushDown,
    /// Read the columns and run the query in the host: the result is no smaller.
    ReadColumns,
}

impl Query {
    /// What the query would read and move. Reads the footer of `object` alone.
    ///
    /// # Errors
    /// As [`Query::run`], for what concerns the footer.
    pub fn explain(&self, object: &Arc<dyn Object>, limits: &Limits) -> Result<Explanation, QueryError> {
        let watch = Arc::new(Watch::new(*limits, Cancellation::default()));
        without_panic(|| {
            let table = Table::open(Arc::clone(object), watch)?;
            let plan = Plan::bind(self, table.columns())?;
            Ok(explanation(&table, &plan, self.text_bytes() as u64))
        })
    }
}

fn explanation(table: &Table, plan: &Plan, text_bytes: u64) -> Explanation {
    let read = table.row_groups(plan);
    let column = |index: &usize| {
        let bytes = read.iter().map(|group| table.column_bytes(*group, *index)).sum();
        (table.columns().name(*index).to_owned(), bytes)
    };
    let columns: Vec<(String, u64)> = plan.columns.iter().map(column).collect();
    let rows = |group: &usize| u64::try_from(table.metadata().row_group(*group).num_rows()).unwrap_or(0);
    let rows_read: u64 = read.iter().map(rows).sum();
    let selectivity = table.selectivity(plan);
    let rows_selected = (rows_read as f64 * selectivity).ceil() as u64;
    let rows_result = rows_of_result(plan, rows_selected);
    let row_bytes: u64 = plan.items[..plan.width()].iter().map(|item| width_bytes(&item.data_type())).sum();
    let host_reads_bytes = columns.iter().map(|(_, bytes)| bytes).sum();
    let push_down_moves_bytes = text_bytes.saturating_add(rows_result.saturating_mul(row_bytes));
    Explanation {
        columns,
        row_groups: table.metadata().num_row_groups(),
        row_groups_read: read.len(),
        rows_read,
        rows_selected,
        rows_result,
        device_reads_bytes: host_reads_bytes,
        push_down_moves_bytes,
        host_reads_bytes,
        advice: if push_down_moves_bytes < host_reads_bytes { Advice::PushDown } else { Advice::ReadColumns },
    }
}

fn rows_of_result(plan: &Plan, selected: u64) -> u64 {
    let rows = match &plan.grouping {
        None => selected,
        Some(grouping) if grouping.keys.is_empty() => 1,
        Some(_) => (selected as f64 * GROUPS_PER_ROW).ceil() as u64,
    };
    rows.saturating_sub(plan.offset).min(plan.limit.unwrap_or(u64::MAX))
}

/// Bytes of a value as text, about.
fn width_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 5,
        DataType::Int32 | DataType::Date32 => 8,
        DataType::Utf8 | DataType::Binary => 24,
        _ => 16,
    }
}

impl Explanation {
    /// The explanation as one object of JSON, with a line feed behind it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let column =
            |(name, bytes): &(String, u64)| format!("{{\"name\":{},\"bytes\":{bytes}}}", quoted(name));
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let advice = match self.advice {
            Advice::PushDown => "push_down",
            Advice::ReadColumns => "read_columns",
        };
        format!(
            concat!(
                "{{\"columns\":[{}],\"row_groups\":{},\"row_groups_read\":{},\"rows_read\":{},\"rows_selected\":{},",
                "\"rows_result\":{},\"device_reads_bytes\":{},\"push_down_moves_bytes\":{},",
                "\"host_reads_bytes\":{},\"advice\":\"{}\"}}\n"
            ),
            columns.join(","),
            self.row_groups,
            self.row_groups_read,
            self.rows_read,
            self.rows_selected,
            self.rows_result,
            self.device_reads_bytes,
            self.push_down_moves_bytes,
            self.host_reads_bytes,
            advice
        )
    }
}

/// A text as JSON has it (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|character| match character {
        '"' | '\\' => vec!['\\', character],
        control if control < ' ' => format!("\\u{:04x}", u32::from(control)).chars().collect(),
        other => vec![other],
    });
    format!("\"{}\"", escaped.collect::<String>())
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PushDown => "push down: the query and its result are smaller than the columns",
            Self::ReadColumns => "read the columns: the result is no smaller than they are",
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, bytes) in &self.columns {
            writeln!(f, "column           {name}: {bytes} bytes")?;
        }
        writeln!(
            f,
            "row groups       {} of {} read, {} rows",
            self.row_groups_read, self.row_groups, self.rows_read
        )?;
        writeln!(f, "rows selected    about {}", self.rows_selected)?;
        writeln!(f, "rows of result   about {}", self.rows_result)?;
        writeln!(f, "device reads     {} bytes", self.device_reads_bytes)?;
        writeln!(f, "pushed down      about {} bytes cross the link", self.push_down_moves_bytes)?;
        writeln!(f, "columns read     {} bytes cross the link", self.host_reads_bytes)?;
        writeln!(f, "advice           {}", self.advice)
    }
}
