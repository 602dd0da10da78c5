//! This library's initiator and target over NVMe/TCP on the loopback, each on a processor of its own, beside a bare ping-pong of
//! the same bytes over a socket, beside the same device in this process, and each waiting by polling or by sleeping.
//!
//! The other side is this program once more. Rounds take turns over the cases, so that a busy moment of the machine
//! falls on all of them.
#![forbid(unsafe_code)]

mod load;
mod ping;
mod show;
mod side;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use byway_benches::results;
use byway_benches::rounds::{Case, Row, Taken, by_turns};
use byway_sys::affinity;
use clap::Parser;
use serde::Serialize;

use load::{Load, Work};
use ping::PingPong;
use side::{Served, Waits};

/// Commands outstanding where many are, and where the values are large.
const MANY: u32 = 32;
const FEW: u32 = 4;

#[derive(Parser)]
#[command(
    about = "Times reads, puts and large values over NVMe/TCP beside a bare ping-pong of the same bytes",
    after_help = "\
Examples:
  over_tcp
  over_tcp --rounds 5 --only read-4k
  over_tcp --only ping-pong,reads-512 --cpus 1,0
  over_tcp --json benches/results/tcp.json

Cases: ping-pong, read-4k, read-512, put-64 (one at a time), reads-4k, reads-512, puts-64 (32 at a time), the same on media
that keep nothing (-null), with header and data digests (-digests) and in this process (-local), store-1m, retrieve-1m
(4 at a time), wait (how each side waits), resident (the server's memory)."
)]
struct Arguments {
    /// Rounds over all cases.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Calls of one case in a round, one at a time; ten times as many where many are outstanding.
    #[arg(long, default_value_t = 2000)]
    calls: u32,
    /// Processors of the two sides: the initiator's, the target's.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpus: Vec<usize>,
    /// Only cases whose name has one of these in it.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    other: side::Other,
}

/// A result.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Kept {
    Speed(Row),
    Memory(Resident),
}

/// Resident memory of the server.
#[derive(Debug, Serialize)]
struct Resident {
    case: &'static str,
    /// Of which so much is what its namespaces were given.
    data_mib: f64,
    resident_mib: f64,
    beyond_mib: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cpu = |side: usize| arguments.cpus.get(side).copied().context("--cpus takes two processors");
    if arguments.other.is_asked_for() {
        affinity::pin(cpu(1)?)?;
        return arguments.other.run();
    }
    let target_cpu = cpu(1)?;
    affinity::pin(cpu(0)?)?;
    Bench { arguments, target_cpu }.measure()
}

struct Bench {
    arguments: Arguments,
    target_cpu: usize,
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        let only = &self.arguments.only;
        only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
    }

    fn measure(&self) -> Result<()> {
        let mut rows = self.measure_speed()?;
        if self.wants("wait") {
            rows.extend(self.measure_waits()?);
        }
        let resident = if self.wants("resident") { Some(self.measure_resident()?) } else { None };
        show::show(&rows, resident.as_ref());
        let kept: Vec<Kept> = rows.into_iter().map(Kept::Speed).chain(resident.map(Kept::Memory)).collect();
        self.arguments.json.as_ref().map_or(Ok(()), |path| results::keep(path, &kept))
    }

    fn serve(&self, uri: &str, waits: Waits) -> Result<Served> {
        Served::start(uri, waits, self.target_cpu)
    }

    fn ping_pong(&self, work: Work, depth: u32) -> Result<Box<dyn Case>> {
        Ok(Box::new(PingPong::start(work, depth, self.target_cpu)?))
    }

    /// What is one at a time, what is many at a time, and large values: each by turns among themselves.
    fn measure_speed(&self) -> Result<Vec<Row>> {
        let (ram, null) = (self.serve(load::RAM, Waits::Adaptive)?, self.serve(load::NULL, Waits::Adaptive)?);
        let digests = format!("{}?digests=both", ram.uri());
        let of = |name: &str, uri: &str, work: Work, depth: u32| -> Result<Option<Box<dyn Case>>> {
            if !self.wants(name) {
                return Ok(None);
            }
            let load = Load::open(name, uri, work, depth).and_then(Load::filled);
            Ok(Some(Box::new(load.with_context(|| name.to_owned())?) as Box<dyn Case>))
        };
        let mut cases = Vec::new();
        if self.wants("ping-pong") {
            for work in Work::SMALL {
                cases.push(Some(self.ping_pong(work, 1)?));
            }
        }
        for work in Work::SMALL {
            cases.push(of(work.name(), ram.uri(), work, 1)?);
            cases.push(of(&format!("{}-local", work.name()), load::RAM, work, 1)?);
        }
        cases.push(of("read-4k-digests", &digests, Work::Read4k, 1)?);
        let calls = self.arguments.calls;
        let mut rows = self.by_turns(cases, calls)?;

        let mut cases = Vec::new();
        if self.wants("ping-pong") {
            for work in Work::SMALL {
                cases.push(Some(self.ping_pong(work, MANY)?));
            }
        }
        for work in Work::SMALL {
            cases.push(of(work.name_of_many(), ram.uri(), work, MANY)?);
        }
        cases.push(of("reads-4k-digests", &digests, Work::Read4k, MANY)?);
        cases.push(of("reads-4k-null", null.uri(), Work::Read4k, MANY)?);
        cases.push(of("reads-512-null", null.uri(), Work::Read512, MANY)?);
        rows.extend(self.by_turns(cases, calls * 10)?);
        drop((ram, null));

        let large = self.serve(load::RAM_OF_LARGE, Waits::Adaptive)?;
        let mut cases = Vec::new();
        for work in Work::LARGE {
            cases.push(of(work.name(), large.uri(), work, FEW)?);
        }
        rows.extend(self.by_turns(cases, (calls / 50).max(FEW))?);
        Ok(rows)
    }

    fn by_turns(&self, cases: Vec<Option<Box<dyn Case>>>, calls: u32) -> Result<Vec<Row>> {
        let mut cases: Vec<Box<dyn Case>> = cases.into_iter().flatten().collect();
        let mut cases: Vec<&mut dyn Case> =
            cases.iter_mut().map(|case| &mut **case as &mut dyn Case).collect();
        by_turns(self.arguments.rounds, calls, &mut cases)
    }

    /// Each side polling or sleeping. A connection for each round: a target polls for as long as a host is connected.
    fn measure_waits(&self) -> Result<Vec<Row>> {
        let targets: Vec<(Waits, Served)> = [Waits::Poll, Waits::Sleep]
            .into_iter()
            .map(|waits| Ok((waits, self.serve(load::RAM, waits)?)))
            .collect::<Result<_>>()?;
        let mut cases = Vec::new();
        for (waits, served) in &targets {
            for initiator in [Waits::Poll, Waits::Sleep] {
                for work in [Work::Read512, Work::Read4k] {
                    let name = format!("wait {} initiator={initiator} target={waits}", work.name());
                    let uri = format!("{}?idle={initiator}", served.uri());
                    cases.push((name, uri, work, Taken::default()));
                }
            }
        }
        for (_, uri, work, _) in &cases {
            Load::open("", uri, *work, 1)?.filled()?;
        }
        let calls = self.arguments.calls / 4;
        for _ in 0..self.arguments.rounds.div_ceil(2) {
            for (name, uri, work, taken) in &mut cases {
                let mut load = Load::open(name, uri, *work, 1)?;
                load.round(calls / 4, &mut Vec::new())?;
                taken.add(&mut load, calls)?;
            }
        }
        Ok(cases.iter().map(|(name, _, _, taken)| taken.row(name, 1)).collect())
    }

    /// A server whose namespace of blocks was filled, some of it read, and which serves one host.
    fn measure_resident(&self) -> Result<Resident> {
        const MIB: f64 = (1 << 20) as f64;
        let served = self.serve(load::RAM_TO_FILL, Waits::Adaptive)?;
        let mut reads = Load::open("resident", served.uri(), Work::Read4k, MANY)?;
        let data_bytes = reads.fill_all()?;
        reads.round(self.arguments.calls * 10, &mut Vec::new())?;
        let resident = served.resident_bytes()?.ok_or_else(|| anyhow!("the server has no memory"))?;
        let (data_mib, resident_mib) = (data_bytes as f64 / MIB, resident as f64 / MIB);
        Ok(Resident { case: "resident", data_mib, resident_mib, beyond_mib: resident_mib - data_mib })
    }
}
