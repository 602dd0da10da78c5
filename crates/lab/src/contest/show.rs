//! The rows as a table for people: each engine's rate, and how many times Byway's rate that is of it.

use byway_console::table::{self, Table};

use super::engine::Engine;
use super::score::KvRow;

const HEADINGS: [&str; 9] = ["op", "value", "engine", "ops", "byway is", "cpu", "p50", "p99", "p99.9"];

/// The table, in the order of the rows.
pub fn table(rows: &[KvRow]) -> Table {
    let mut table = Table::new(&HEADINGS);
    for row in rows {
        table.push(cells(row, rows));
    }
    table
}

fn cells(row: &KvRow, rows: &[KvRow]) -> Vec<String> {
    let is_ours = |other: &&KvRow| {
        other.engine == Engine::Byway.name() && other.op == row.op && other.value_size == row.value_size
    };
    let ours = rows.iter().find(is_ours).filter(|ours| ours.engine != row.engine);
    let us = |us: f64| table::time(Some(us * 1e3));
    vec![
        row.op.clone(),
        format!("{} B", row.value_size),
        row.engine.clone(),
        table::rate(row.ops_per_s),
        ours.map_or(String::new(), |ours| format!("{:.2}x", ours.ops_per_s / row.ops_per_s)),
        us(row.cpu_us_per_op),
        us(row.p50_us),
        us(row.p99_us),
        us(row.p999_us),
    ]
}
