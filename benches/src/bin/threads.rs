//! One thread on one queue against two threads on two queues of one device, in one namespace.
//!
//! Slices of a few milliseconds alternate, each kind on a device of its own in the same state, so that a busy moment of
//! the machine falls on all of them. `chrt -f 20` keeps others off both cores meanwhile.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use byway::embedded::{EmbeddedDevice, EmbeddedQueue};
use byway::{
    BackendQueue, Buffer, Command, CreateOptions, Finished, Key, KvCommand, Nsid, Payload, StoreOptions,
};
use byway_benches::paired::quantile;
use byway_benches::results;
use clap::Parser;
use serde::Serialize;

/// Keys of each thread.
const KEYS: u32 = 50_000;

/// Most commands in flight on a queue.
const DEPTH_MAX: usize = 128;

/// Bytes of a value.
const VALUE: usize = 32;

#[derive(Parser)]
#[command(about = "Compares one thread on one queue with two threads on two queues")]
struct Arguments {
    /// Pairs of slices, one thread and two.
    #[arg(long, default_value_t = 201)]
    pairs: usize,
    /// Commands of each thread in a slice.
    #[arg(long, default_value_t = 10_000)]
    calls: u32,
    /// Commands in flight on a queue.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    depths: Vec<usize>,
    /// Options of the device's URI.
    #[arg(long, default_value = "transfer=hybrid&ledger=off&flash=off")]
    options: String,
    /// Keeps the devices in images in this folder, not in memory: with `flush=media`, puts that wait for syncs.
    #[arg(long)]
    images: Option<PathBuf>,
    /// Only this: puts or gets.
    #[arg(long)]
    only: Option<Op>,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Op {
    Put,
    Get,
}

#[derive(Debug, Serialize)]
struct Row {
    op: &'static str,
    depth: usize,
    pairs: usize,
    /// Nanoseconds for each command, one thread: best slice and median.
    one_best_ns: f64,
    one_median_ns: f64,
    /// The same for two threads together.
    two_best_ns: f64,
    two_median_ns: f64,
    /// Commands in a second by two threads over those by one: of the best slices, and the median over pairs.
    ratio_best: f64,
    ratio_median: f64,
}

/// A thread's queue, and the keys it goes round.
struct Worker {
    queue: EmbeddedQueue,
    first: u32,
    at: u32,
    buffers: Vec<Buffer>,
}

impl Worker {
    fn new(device: &EmbeddedDevice, number: u32) -> anyhow::Result<Self> {
        let buffers: Result<Vec<_>, _> = (0..DEPTH_MAX).map(|_| device.driver().buffer(VALUE)).collect();
        Ok(Self { queue: device.queue()?, first: number * KEYS, at: 0, buffers: buffers? })
    }

    fn key(&mut self) -> anyhow::Result<Key> {
        self.at = (self.at + 1) % KEYS;
        Ok(Key::new(&(self.first + self.at).wrapping_mul(0x9e37_79b9).to_le_bytes())?)
    }

    fn work(&mut self, op: Op, depth: usize, calls: u32) -> anyhow::Result<()> {
        if depth == 1 { (0..calls).try_for_each(|_| self.call(op)) } else { self.stream(op, depth, calls) }
    }

    fn call(&mut self, op: Op) -> anyhow::Result<()> {
        let key = self.key()?;
        match op {
            Op::Put => self.queue.execute_store(Nsid::FIRST, &key, &[7; VALUE], StoreOptions::NONE)?,
            Op::Get => self.queue.execute_retrieve(Nsid::FIRST, &key, &mut [0; VALUE])?,
        };
        Ok(())
    }

    /// Keeps `depth` commands in flight: takes what has finished, submits as many again.
    fn stream(&mut self, op: Op, depth: usize, calls: u32) -> anyhow::Result<()> {
        let (mut sent, mut done) = (0, 0);
        while done < calls {
            while sent < calls && (sent - done) < depth as u32 {
                let command = self.command(op)?;
                self.queue.submit(command, 0).map_err(|refused| refused.error)?;
                sent += 1;
            }
            let Self { queue, buffers, .. } = self;
            let mut failed = None;
            let mut take = |finished: Finished| match finished.result {
                Ok(outcome) => buffers.extend(outcome.buffer),
                Err(error) => failed = Some(error.error),
            };
            done += queue.wait(1, Duration::from_secs(10), &mut take)? as u32;
            done += queue.poll(depth, &mut take)? as u32;
            failed.map_or(Ok(()), |error| Err(queue.explained(error)))?;
        }
        Ok(())
    }

    fn command(&mut self, op: Op) -> anyhow::Result<Command> {
        let (nsid, key) = (Nsid::FIRST, self.key()?);
        let command = match op {
            Op::Put => {
                let value = Payload::copy_of(&[7; VALUE])?;
                KvCommand::Store { nsid, key, value, options: StoreOptions::NONE }
            }
            Op::Get => {
                let into = self.buffers.pop().ok_or_else(|| anyhow!("a buffer was lost"))?;
                KvCommand::Retrieve { nsid, key, into }
            }
        };
        Ok(command.into())
    }
}

/// A device with the queues of its threads.
struct Subject {
    _device: EmbeddedDevice,
    workers: Vec<Worker>,
}

impl Subject {
    fn open(threads: u32, arguments: &Arguments) -> anyhow::Result<Self> {
        let options = &arguments.options;
        let device = match &arguments.images {
            None => byway::embedded::open(&format!("ram:1G?{options}"))?,
            Some(folder) => {
                let path = folder.join(format!("threads-{threads}.img"));
                byway::create(&path, &CreateOptions::new(1 << 30))?;
                let device = byway::embedded::open(&format!("embedded:{}?{options}", path.display()))?;
                // The file stays open for the run; its name is not needed.
                std::fs::remove_file(path)?;
                device
            }
        };
        let workers: anyhow::Result<Vec<_>> = (0..threads).map(|n| Worker::new(&device, n)).collect();
        let mut subject = Self { _device: device, workers: workers? };
        subject.slice(Op::Put, DEPTH_MAX, KEYS)?;
        Ok(subject)
    }

    /// Nanoseconds for each command of a slice, all threads together.
    fn slice(&mut self, op: Op, depth: usize, calls: u32) -> anyhow::Result<f64> {
        let all = self.workers.len() as u32 * calls;
        let barrier = Barrier::new(self.workers.len());
        let barrier = &barrier;
        let work = |worker: &mut Worker| {
            barrier.wait();
            let start = Instant::now();
            worker.work(op, depth, calls)?;
            anyhow::Ok((start, Instant::now()))
        };
        let times: anyhow::Result<Vec<_>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(move || work(worker))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().map_err(|_| anyhow!("a thread panicked"))?
            };
            threads.into_iter().map(join).collect()
        });
        // From when the first begins: the barrier releases one some microseconds before the other.
        let times = times?;
        let start = times.iter().map(|(start, _)| *start).min();
        let end = times.iter().map(|(_, end)| *end).max();
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        Ok(elapsed.as_nanos() as f64 / f64::from(all))
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut one = Subject::open(1, &arguments)?;
    let mut two = Subject::open(2, &arguments)?;
    let mut rows = Vec::new();
    for op in [Op::Put, Op::Get].into_iter().filter(|op| arguments.only.is_none_or(|only| only == *op)) {
        for depth in &arguments.depths {
            let mut times = Vec::new();
            for _ in 0..arguments.pairs {
                // As many commands in both, so that the devices stay alike.
                let single = one.slice(op, *depth, arguments.calls)?;
                times.push((single, two.slice(op, *depth, arguments.calls)?));
            }
            let row = row(op, *depth, &times);
            println!(
                "{} depth {depth:3}: one {:6.1} ns (best {:.1}), two {:6.1} ns (best {:.1}): {:.2} times as many (best {:.2})",
                row.op,
                row.one_median_ns,
                row.one_best_ns,
                row.two_median_ns,
                row.two_best_ns,
                row.ratio_median,
                row.ratio_best
            );
            rows.push(row);
        }
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn row(op: Op, depth: usize, times: &[(f64, f64)]) -> Row {
    let (one, two): (Vec<f64>, Vec<f64>) = times.iter().copied().unzip();
    let ratios: Vec<f64> = times.iter().map(|(one, two)| one / two).collect();
    Row {
        op: if op == Op::Put { "put" } else { "get" },
        depth,
        pairs: times.len(),
        one_best_ns: quantile(&one, 0.0),
        one_median_ns: quantile(&one, 0.5),
        two_best_ns: quantile(&two, 0.0),
        two_median_ns: quantile(&two, 0.5),
        ratio_best: quantile(&one, 0.0) / quantile(&two, 0.0),
        ratio_median: quantile(&ratios, 0.5),
    }
}
