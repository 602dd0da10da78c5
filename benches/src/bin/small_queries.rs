//! Short queries on objects of 4 KiB: bytes on the wire by each way of moving them, and queries a second on one core.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use byway::{Kv, SqlOptions};
use byway_benches::results;
use clap::Parser;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::Serialize;

/// 64 bytes.
const SQL: &str = "SELECT count(*), max(x) FROM objects WHERE x > 0.25 AND y < 0.50";

/// Rows of an object: three columns of eight bytes each.
const ROWS: u64 = 140;

/// Objects that are queried one after the other.
const OBJECTS: u32 = 1000;

#[derive(Parser)]
#[command(about = "Queries of 64 bytes on objects of 4 KiB: wire bytes, and queries a second on one core")]
struct Arguments {
    /// Queries of a round.
    #[arg(long, default_value_t = 1_000_000)]
    queries: u32,
    /// Rounds, each way by turns. The median is given.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One way of moving texts and results.
#[derive(Serialize)]
struct Row {
    way: &'static str,
    link: &'static str,
    object_bytes: usize,
    text_bytes: usize,
    result_bytes: f64,
    wire_bytes: f64,
    queries: u32,
    /// Median of the rounds; `None` where nothing was timed.
    queries_per_s: Option<f64>,
    rounds: Vec<f64>,
}

const WAYS: [(&str, &str); 4] = [
    ("prp", "transfer=prp"),
    ("sgl", "transfer=sgl"),
    ("piggyback, inline-read", "transfer=piggyback&inline-read=on"),
    ("inline, inline-read", "transfer=inline&inline-read=on"),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for link in ["gen4x4", "cosmos", "cosmos-fitted"] {
        for (way, options) in WAYS {
            rows.push(bytes(way, link, options)?);
        }
    }
    let mut timed =
        WAYS.map(|(way, options)| Timed::new(way, options)).into_iter().collect::<Result<Vec<_>>>()?;
    for _ in 0..arguments.rounds {
        for way in &mut timed {
            way.round(arguments.queries)?;
        }
    }
    rows.extend(timed.into_iter().map(|way| way.row(arguments.queries)));
    for row in &rows {
        println!("{}", serde_json::to_string(row)?);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

/// The wire bytes of a query, by the device's ledger.
fn bytes(way: &'static str, link: &'static str, options: &str) -> Result<Row> {
    let device = byway::embedded::open(&format!("embedded-ram:256M?profile={link}&{options}"))?;
    let mut kv = device.kv(None)?;
    let object_bytes = store_objects(&mut kv)?;
    query(&mut kv, 0)?;
    let (before, mut result_bytes) = (device.ledger(), 0);
    for number in 0..OBJECTS {
        result_bytes += query(&mut kv, number)?;
    }
    let wire_bytes = device.ledger().since(&before).wire_bytes();
    let mean = |bytes: u64| bytes as f64 / f64::from(OBJECTS);
    Ok(Row {
        way,
        link,
        object_bytes,
        text_bytes: SQL.len(),
        result_bytes: mean(result_bytes as u64),
        wire_bytes: mean(wire_bytes),
        queries: OBJECTS,
        queries_per_s: None,
        rounds: Vec::new(),
    })
}

/// A device whose queries are timed: without clock and ledger, run by the thread that asks.
struct Timed {
    way: &'static str,
    kv: Kv,
    object_bytes: usize,
    rounds: Vec<f64>,
}

impl Timed {
    fn new(way: &'static str, options: &str) -> Result<Self> {
        let device = byway::open(&format!("embedded-ram:256M?ledger=off&flash=off&{options}"))?;
        let mut kv = device.kv(None)?;
        let object_bytes = store_objects(&mut kv)?;
        query(&mut kv, 0)?;
        Ok(Self { way, kv, object_bytes, rounds: Vec::new() })
    }

    fn round(&mut self, queries: u32) -> Result<()> {
        let began = Instant::now();
        for number in 0..queries {
            query(&mut self.kv, number % OBJECTS)?;
        }
        self.rounds.push(f64::from(queries) / began.elapsed().as_secs_f64());
        Ok(())
    }

    fn row(mut self, queries: u32) -> Row {
        self.rounds.sort_by(f64::total_cmp);
        Row {
            way: self.way,
            link: "none",
            object_bytes: self.object_bytes,
            text_bytes: SQL.len(),
            result_bytes: 0.0,
            wire_bytes: 0.0,
            queries,
            queries_per_s: self.rounds.get(self.rounds.len() / 2).copied(),
            rounds: self.rounds,
        }
    }
}

/// Queries an object, and gives how long the result is.
fn query(kv: &mut Kv, number: u32) -> Result<usize> {
    let mut result = kv.query(&number.to_be_bytes(), SQL, SqlOptions::default())?;
    let mut result_bytes = 0;
    while let Some(part) = result.next_part()? {
        result_bytes += part.len();
    }
    ensure!(result_bytes > 0, "an empty result");
    Ok(result_bytes)
}

/// Stores the objects, and gives the length of one.
fn store_objects(kv: &mut Kv) -> Result<usize> {
    let mut object_bytes = 0;
    for number in 0..OBJECTS {
        let object = object(number.into())?;
        kv.put(&number.to_be_bytes(), &object)?;
        object_bytes = object.len();
    }
    Ok(object_bytes)
}

/// A Parquet file of about 4 KiB, whose footer is the same for each `seed`.
fn object(seed: u64) -> Result<Vec<u8>> {
    let ids: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (seed * ROWS + row) as i64)));
    let fractions = |salt: u64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| fraction((seed << 20 | row) ^ salt))))
    };
    let batch = RecordBatch::try_from_iter([("id", ids), ("x", fractions(0)), ("y", fractions(1 << 50))])?;
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

/// A number from 0 to 1 (the finisher of SplitMix64).
fn fraction(of: u64) -> f64 {
    let mut bits = of.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
