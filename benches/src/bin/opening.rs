//! What it takes to open a device and a queue: time, and the memory of a queue that has been used.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use byway::{Backend, BackendQueue, Buffer, Command, Device, NamespaceKind, Nsid, NvmCommand, QueueOptions};
use byway_benches::paired::quantile;
use byway_benches::results;
use byway_benches::scratch::Scratch;
use clap::Parser;
use serde::Serialize;

/// Queues that memory is measured over.
const QUEUES: usize = 64;

#[derive(Parser)]
#[command(about = "Measures opening a device, opening a queue, and the memory that a queue takes")]
struct Arguments {
    /// A block device to open beside a file in /dev/shm. What it holds is overwritten.
    #[arg(long)]
    device: Option<PathBuf>,
    /// How often each is opened.
    #[arg(long, default_value_t = 101)]
    times: usize,
    /// Commands that a queue can have outstanding.
    #[arg(long, default_value_t = 128)]
    depth: u32,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    uri: String,
    /// Opening and closing a device, without a queue, in microseconds.
    open_us: f64,
    /// Opening and closing a queue of the depth asked for.
    queue_us: f64,
    /// Memory of the process for each queue after every place of it was used, in KiB; buffers are not counted.
    queue_kib: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let file = Scratch::file(Path::new("/dev/shm"), 0)?;
    let device = arguments.device.as_deref().map(Scratch::device).transpose()?;
    let mut rows = Vec::new();
    for uri in uris(&file, device.as_ref()) {
        let row = measure(&uri, &arguments).with_context(|| uri.clone())?;
        let Row { open_us, queue_us, queue_kib, .. } = &row;
        println!("{uri:50} device {open_us:8.1} µs, queue {queue_us:7.1} µs and {queue_kib:6.1} KiB");
        rows.push(row);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn uris(file: &Scratch, device: Option<&Scratch>) -> Vec<String> {
    let interfaces = ["io_uring", "libaio", "posix_aio", "threads", "psync"];
    let of_files = [Some(file), device]
        .into_iter()
        .flatten()
        .flat_map(|scratch| interfaces.map(|name| format!("file:{}?backend={name}", scratch.path.display())));
    ["nil:1G", "blocks:64M", "ram:64M"].map(str::to_owned).into_iter().chain(of_files).collect()
}

fn measure(uri: &str, arguments: &Arguments) -> Result<Row> {
    let open_us = median_us(arguments.times, || byway::open(uri).map(drop))?;
    let device = byway::open(uri)?;
    let options = QueueOptions::default().depth(arguments.depth);
    let queue_us = median_us(arguments.times, || device.queue(options).map(drop))?;
    Ok(Row { uri: uri.to_owned(), open_us, queue_us, queue_kib: queue_kib(&device, &options)? })
}

fn median_us(times: usize, mut what: impl FnMut() -> byway::Result<()>) -> Result<f64> {
    let mut taken = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        what()?;
        taken.push(begun.elapsed().as_nanos() as f64 / 1e3);
    }
    Ok(quantile(&taken, 0.5))
}

/// The first queue is opened and used before: what the device makes once is not a queue's.
fn queue_kib(device: &Device, options: &QueueOptions) -> Result<f64> {
    let namespace = device.nvm_namespace(None)?;
    let NamespaceKind::Nvm { lba_bytes, .. } = namespace.kind else { bail!("no blocks") };
    let buffers: byway::Result<Vec<_>> =
        (0..options.depth.commands()).map(|_| device.buffer(lba_bytes as usize)).collect();
    let mut buffers = buffers?;
    let mut queues = vec![used_queue(device, options, namespace.nsid, &mut buffers)?];
    let before = resident_kib()?;
    for _ in 0..QUEUES.min(usize::from(device.capabilities().limits.queues) - 1) {
        queues.push(used_queue(device, options, namespace.nsid, &mut buffers)?);
    }
    Ok((resident_kib()? - before) / (queues.len() - 1) as f64)
}

/// A queue whose every place was used once.
fn used_queue(
    device: &Device,
    options: &QueueOptions,
    nsid: Nsid,
    buffers: &mut Vec<Buffer>,
) -> Result<<Device as Backend>::Queue> {
    let mut queue = device.queue(*options)?;
    let many = buffers.len();
    for into in buffers.drain(..) {
        let read = NvmCommand::Read { nsid, slba: 0, blocks: 1, into };
        queue.submit(Command::Nvm(read), 0).map_err(|refused| refused.error)?;
    }
    while buffers.len() < many {
        let mut results = Vec::new();
        queue.wait(1, Duration::MAX, &mut |finished| results.push(finished.result))?;
        for result in results {
            buffers.extend(result.map_err(|failed| failed.error)?.buffer);
        }
    }
    Ok(queue)
}

/// Memory of the process that is there, shared with others or not.
fn resident_kib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.ok_or_else(|| anyhow!("no VmRSS in /proc/self/status"))
}
