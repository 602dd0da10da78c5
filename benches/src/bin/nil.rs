//! What a command costs where there is no device: made, submitted, taken back, in a loop with nothing else in it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use byway::backends::Nil;
use byway::{Backend, BackendQueue, Buffer, Command, Nsid, NvmCommand, QueueOptions};
use byway_benches::paired::quantile;
use byway_benches::results;
use clap::Parser;
use serde::Serialize;

/// Bytes of a command.
const BLOCK_BYTES: usize = 4096;

#[derive(Parser)]
#[command(about = "Measures what a 4 KiB read costs on a queue without a device")]
struct Arguments {
    /// Slices of each row.
    #[arg(long, default_value_t = 101)]
    slices: usize,
    /// Commands in a slice.
    #[arg(long, default_value_t = 200_000)]
    calls: u32,
    /// Commands outstanding.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128")]
    depths: Vec<u32>,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    /// `static`: the backend's own queue type; `any`: the queue of a device opened by URI.
    queue: &'static str,
    depth: u32,
    slices: usize,
    /// Nanoseconds of a command: best slice and median.
    best_ns: f64,
    median_ns: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for depth in &arguments.depths {
        let nil = Nil::new(1 << 30)?;
        rows.push(measure("static", &nil, *depth, &arguments)?);
        rows.push(measure("any", &byway::open("nil:1G")?, *depth, &arguments)?);
    }
    for row in &rows {
        let Row { queue, depth, median_ns, best_ns, .. } = row;
        println!("{queue:6} depth {depth:4}: {median_ns:5.1} ns a command (best {best_ns:.1})");
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn measure<B: Backend>(
    queue_name: &'static str,
    backend: &B,
    depth: u32,
    arguments: &Arguments,
) -> Result<Row> {
    let mut queue = backend.queue(QueueOptions::default().depth(depth))?;
    let buffers: byway::Result<Vec<_>> = (0..depth).map(|_| backend.buffer(BLOCK_BYTES)).collect();
    let mut free = buffers?;
    let mut times = Vec::new();
    for _ in 0..arguments.slices {
        let start = Instant::now();
        slice(&mut queue, &mut free, arguments.calls)?;
        times.push(start.elapsed().as_nanos() as f64 / f64::from(arguments.calls));
    }
    let slices = times.len();
    let (best_ns, median_ns) = (quantile(&times, 0.0), quantile(&times, 0.5));
    Ok(Row { queue: queue_name, depth, slices, best_ns, median_ns })
}

/// As many commands as there are buffers, all of them taken back, and again.
fn slice<Q: BackendQueue>(queue: &mut Q, free: &mut Vec<Buffer>, calls: u32) -> Result<()> {
    let mut left = calls;
    let mut slba = 0;
    while left > 0 {
        while left > 0
            && let Some(into) = free.pop()
        {
            slba = (slba + 8) & 0xf_ffff;
            let read = NvmCommand::Read { nsid: Nsid::FIRST, slba, blocks: 8, into };
            queue.submit(Command::Nvm(read), 0).map_err(|refused| refused.error)?;
            left -= 1;
        }
        while let Some(finished) = queue.next_finished()? {
            let outcome = finished.result.map_err(|failed| failed.error)?;
            free.push(outcome.buffer.ok_or_else(|| anyhow!("a buffer was lost"))?);
        }
    }
    Ok(())
}
