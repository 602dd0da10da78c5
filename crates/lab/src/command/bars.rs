//! `byway-lab kv --bars`: goals of speed, what was measured for each, and whether it is reached.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use byway::Device;
use byway_console::table::Table;
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_perf::Settings;
use clap::Parser;
use serde::Serialize;

use crate::contest::{Contest, Engine, KvRow, Letter, Op, Plan};

/// What Byway's rate is divided by.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// The best configuration of an engine whose name begins so.
    Named(&'static str),
    /// The fastest of all peers.
    Best,
}

/// A goal beside other stores.
#[derive(Clone, Copy, Debug)]
struct Beside {
    op: Op,
    value_bytes: u32,
    peer: Peer,
    threads: u32,
    bar: f64,
}

const LMDB: Peer = Peer::Named("lmdb");
const FJALL: Peer = Peer::Named("fjall");

const fn beside(op: Op, value_bytes: u32, peer: Peer, bar: f64) -> Beside {
    Beside { op, value_bytes, peer, threads: 1, bar }
}

/// The same by two threads.
const fn by_two(op: Op, value_bytes: u32, peer: Peer, bar: f64) -> Beside {
    Beside { op, value_bytes, peer, threads: 2, bar }
}

const BESIDE: [Beside; 23] = [
    beside(Op::Get, 32, LMDB, 1.9),
    beside(Op::Get, 128, LMDB, 1.9),
    beside(Op::Get, 1024, LMDB, 1.2),
    by_two(Op::Get, 32, LMDB, 1.9),
    by_two(Op::Get, 128, LMDB, 1.9),
    by_two(Op::Get, 1024, LMDB, 1.2),
    beside(Op::GetQd32, 32, LMDB, 3.0),
    beside(Op::GetQd32, 128, LMDB, 3.0),
    beside(Op::GetQd32, 1024, LMDB, 1.5),
    beside(Op::Scan, 32, LMDB, 1.0),
    beside(Op::ListGet, 32, LMDB, 0.8),
    beside(Op::Put, 32, FJALL, 5.0),
    beside(Op::Put, 128, FJALL, 5.0),
    beside(Op::Put, 1024, FJALL, 5.0),
    beside(Op::PutBatch32, 32, FJALL, 8.0),
    beside(Op::PutBatch32, 128, FJALL, 8.0),
    beside(Op::Mixgraph, 128, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::A), 1024, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::B), 1024, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::C), 1024, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::D), 1024, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::E), 1024, Peer::Best, 1.0),
    beside(Op::Ycsb(Letter::F), 1024, Peer::Best, 1.0),
];

/// A goal for two threads beside one, on a device in memory.
#[derive(Clone, Copy, Debug)]
struct Threads {
    name: &'static str,
    load: &'static str,
    depth: u32,
    bar: f64,
}

const THREADS: [Threads; 6] = [
    Threads { name: "get", load: "get", depth: 1, bar: 1.9 },
    Threads { name: "get", load: "get", depth: 32, bar: 1.9 },
    Threads { name: "put", load: "put", depth: 1, bar: 1.6 },
    Threads { name: "put", load: "put", depth: 32, bar: 1.8 },
    Threads { name: "block read", load: "randread", depth: 1, bar: 1.9 },
    Threads { name: "block write", load: "randwrite", depth: 1, bar: 1.5 },
];

/// Rounds of a goal for threads, each of one thread and then of two.
const ROUNDS: usize = 5;
const DEVICE: &str = "embedded-ram:1G";
const VALUE_BYTES: u32 = 32;
/// Bytes of the blocks that are written before any is read.
const BLOCKS: &str = "256M";

/// A goal, and what was measured for it.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// What is divided by what.
    goal: String,
    /// The ratio of the rates.
    value: f64,
    /// The ratio to reach.
    bar: f64,
    /// Whether it is reached.
    reached: bool,
}

impl Row {
    fn new(goal: String, value: f64, bar: f64) -> Self {
        Self { goal, value, bar, reached: value >= bar }
    }
}

/// Measures every goal whose peers are there, and prints one row each.
///
/// # Errors
/// What an engine or a device says; an interruption.
pub fn run(plan: &Plan, as_json: bool, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let mut rows = Vec::new();
    for goal in THREADS {
        rows.push(goal.row(plan.count, interrupt)?);
    }
    rows.extend(beside_others(plan, interrupt)?);
    if as_json {
        return Ok(rows.iter().try_for_each(|row| print_json(out, row))?);
    }
    let mut table = Table::new(&["goal", "measured", "bar", "reached"]);
    for row in &rows {
        let reached = if row.reached { "yes" } else { "no" };
        table.push(vec![
            row.goal.clone(),
            format!("{:.2}", row.value),
            format!("{:.1}", row.bar),
            reached.into(),
        ]);
    }
    Ok(write!(out, "{table}")?)
}

/// The rows of all goals beside other stores.
fn beside_others(plan: &Plan, interrupt: &Interrupt) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (threads, value_bytes) in
        [1, 2].into_iter().flat_map(|threads| [32, 128, 1024].map(|bytes| (threads, bytes)))
    {
        let goals: Vec<&Beside> =
            BESIDE.iter().filter(|goal| goal.value_bytes == value_bytes && goal.threads == threads).collect();
        let plan = of_goals(plan, &goals, threads);
        let progress = Progress::new("kv", plan.operations_of_all(value_bytes));
        let measured = Contest::new(&plan, value_bytes, interrupt, &progress).run()?;
        rows.extend(goals.into_iter().filter_map(|goal| goal.row(&measured)));
    }
    Ok(rows)
}

/// The plan with the work of some goals alone, and Byway beside their peers alone.
fn of_goals(plan: &Plan, goals: &[&Beside], threads: u32) -> Plan {
    let mut ops: Vec<Op> = goals.iter().map(|goal| goal.op).collect();
    ops.sort_unstable();
    ops.dedup();
    let is_peer = |engine: &Engine| goals.iter().any(|goal| goal.peer.is(engine.name()));
    let takes_part = |engine: &Engine| *engine == Engine::Byway || is_peer(engine);
    let engines = plan.engines.iter().copied().filter(takes_part).collect();
    Plan { ops, engines, threads, ..plan.clone() }
}

impl Peer {
    /// Whether an engine of this name is one.
    fn is(self, engine: &str) -> bool {
        match self {
            Self::Named(name) => engine.starts_with(name),
            Self::Best => true,
        }
    }
}

impl Beside {
    fn row(&self, measured: &[KvRow]) -> Option<Row> {
        let of_op = || measured.iter().filter(|row| row.op == self.op.name());
        let ours = of_op().find(|row| row.engine == Engine::Byway.name())?.ops_per_s;
        // Its puts are acknowledged by thousands.
        let peers = of_op().filter(|row| row.engine != Engine::Byway.name() && row.engine != "lmdb-1000");
        let of_peer = peers.filter(|row| self.peer.is(&row.engine));
        let best = of_peer.max_by(|one, other| one.ops_per_s.total_cmp(&other.ops_per_s))?;
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        let goal = format!("{} of {} B{threads} / {}", self.op.name(), self.value_bytes, best.engine);
        Some(Row::new(goal, ours / best.ops_per_s, self.bar))
    }
}

/// The arguments of `byway perf`.
#[derive(Parser)]
struct PerfArguments {
    #[command(flatten)]
    settings: Settings,
}

impl Threads {
    fn row(&self, keys: u64, interrupt: &Interrupt) -> Result<Row> {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let [one, two] = [1, 2].map(|threads| self.rate(threads, keys, interrupt));
            ratios.push(two? / one?);
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let goal = format!("{} at depth {}, 2 threads / 1", self.name, self.depth);
        Ok(Row::new(goal, ratios.get(ROUNDS / 2).copied().unwrap_or_default(), self.bar))
    }

    /// Commands a second by so many threads, on a new device that holds what they read.
    fn rate(&self, threads: u32, keys: u64, interrupt: &Interrupt) -> Result<f64> {
        let of_keys = matches!(self.load, "get" | "put");
        let mut device = byway::open(DEVICE)?;
        if !of_keys {
            let write = ["--rw", "write", "--bs", "4K", "--length", BLOCKS, "--count", "65536"];
            device = measure(&write, device, interrupt)?.1;
        }
        let (depth, threads) = (self.depth.to_string(), threads.to_string());
        let mut arguments =
            vec!["--rw", self.load, "--depth", &depth, "--threads", &threads, "--time", "1", "--no-latency"];
        let (keys, value_bytes) = (keys.to_string(), VALUE_BYTES.to_string());
        if of_keys {
            arguments.extend(["--keys", &keys, "--value-bytes", &value_bytes]);
        } else {
            arguments.extend(["--bs", "4K", "--length", BLOCKS]);
        }
        if self.load == "get" {
            arguments.push("--fill");
        }
        Ok(measure(&arguments, device, interrupt)?.0)
    }
}

/// Runs a load of `byway perf` on a device: commands a second, and the device.
fn measure(arguments: &[&str], device: Device, interrupt: &Interrupt) -> Result<(f64, Device)> {
    let arguments = ["perf"].iter().chain(arguments);
    let PerfArguments { settings } = PerfArguments::try_parse_from(arguments)?;
    let plan = byway_perf::Plan::of(&settings, DEVICE, None, |_| Ok(device))?;
    let measured = byway_perf::run(&plan, interrupt)?;
    interrupt.check()?;
    let total = measured.total();
    let device = Arc::into_inner(plan.device).context("a load has ended and holds its device")?;
    Ok((total.commands() as f64 / total.wall.as_secs_f64().max(1e-9), device))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn measured(engine: &str, op: Op, ops_per_s: f64) -> KvRow {
        KvRow {
            engine: engine.to_owned(),
            op: op.name().to_owned(),
            value_size: 32,
            count: 1,
            ops_per_s,
            cpu_us_per_op: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            p999_us: 1.0,
            guarantee: "process".to_owned(),
            acknowledged_together: 1,
            threads: 1,
            passes: 1,
            rounds_per_s: Vec::new(),
        }
    }

    #[test]
    fn a_goal_is_measured_against_the_best_of_its_peers() {
        let rows = [
            measured("byway", Op::Put, 30.0),
            measured("fjall", Op::Put, 5.0),
            measured("fjall-blob", Op::Put, 10.0),
            measured("lmdb", Op::Put, 20.0),
            measured("lmdb-1000", Op::Put, 90.0),
        ];
        let row = beside(Op::Put, 32, FJALL, 3.0).row(&rows).unwrap();
        assert_eq!((row.goal.as_str(), row.value, row.reached), ("put of 32 B / fjall-blob", 3.0, true));
        let row = beside(Op::Put, 32, Peer::Best, 1.6).row(&rows).unwrap();
        assert_eq!((row.value, row.reached), (1.5, false));
    }

    #[test]
    fn a_goal_whose_peer_is_not_there_has_no_row() {
        let rows = [measured("byway", Op::Get, 30.0)];
        assert!(beside(Op::Get, 32, LMDB, 1.9).row(&rows).is_none());
    }
}
