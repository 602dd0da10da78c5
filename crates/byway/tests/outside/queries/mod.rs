//! Queries from outside: SQL over values and blocks, in process and over TCP, and what ends them.

mod cancel;
mod ends;
mod plans;
mod results;
mod short;

use std::io::Read;
use std::path::PathBuf;

use byway::spec::vendor::QueryFormat;
use byway::{Kv, SqlOptions, SqlResult};

/// A query with groups and an order: four lines.
const LAGHOS: &str = "SELECT min(vertex_id) AS VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) AS E FROM s3object WHERE x > 0.01 \
                      AND y < 2.9 GROUP BY vertex_id ORDER BY E, VID LIMIT 4";

/// One of the Laghos files, 1 to 4.
fn laghos(number: u32) -> Vec<u8> {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../tests/data/laghos"].iter().collect();
    std::fs::read(root.join(format!("test{number}.parquet"))).unwrap()
}

/// The whole result.
fn all(mut result: SqlResult<'_>) -> std::io::Result<String> {
    let mut text = String::new();
    result.read_to_string(&mut text)?;
    Ok(text)
}

fn csv(kv: &mut Kv, key: &[u8], sql: &str) -> String {
    all(kv.query(key, sql, SqlOptions::default()).unwrap()).unwrap()
}

fn format(format: QueryFormat) -> SqlOptions {
    SqlOptions::default().format(format)
}
