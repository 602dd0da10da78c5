//! Cache lines that two queues share, counted for each command: every store is traced, whether it is atomic or not.
//!
//! `shared_lines` runs itself under `valgrind --tool=lackey --trace-mem=yes`. One thread plays two hosts by turns, each with a queue
//! pair of its own, so that each access belongs to one of them. A line outside of the stack that one of them writes in a command, and
//! the other reads or writes in any of its commands, is shared.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use byway::embedded::EmbeddedDevice;
use byway_benches::{callgrind, results};
use clap::Parser;
use serde::Serialize;

/// Commands of each host that are counted.
const COMMANDS: usize = 128;

/// Commands of each host before.
const WARM_UP: usize = 96;

/// Stores by turns to two marks, by which they are found.
const SIGHTINGS_MIN: usize = 100;

/// Bytes of the stack, more than a command uses.
const STACK_BYTES: u64 = 1 << 20;

const CASES: [&str; 5] = ["get", "put", "overwrite", "block-read", "block-write"];

/// Stored into where a host's command begins and ends, two words for each host, on a line that nothing else is on.
#[repr(align(128))]
struct Marks([AtomicU64; 4]);

static MARKS: Marks = Marks([const { AtomicU64::new(0) }; 4]);

#[derive(Parser)]
#[command(about = "Counts the cache lines that two queues share for each command")]
struct Arguments {
    /// Only this case: get, put, overwrite, block-read, block-write.
    only: Option<String>,
    /// Also prints where lines are written that the other host's commands touch (needs `binutils`).
    #[arg(long)]
    places: bool,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Makes the calls: to run under valgrind.
    #[arg(long, requires = "only")]
    run: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let (true, Some(case)) = (arguments.run, &arguments.only) {
        return run(case);
    }
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| arguments.only.as_ref().is_none_or(|only| only == *case)) {
        let trace = trace(case)?;
        let row = trace.row(case);
        println!(
            "{:12} {:>4} lines shared of the median command, {:>7.2} of the mean",
            row.case, row.median, row.mean
        );
        if arguments.places {
            trace.print_places()?;
        }
        rows.push(row);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

/// What is kept of a case.
#[derive(Debug, Serialize)]
struct Row {
    case: String,
    commands: usize,
    /// Lines that a command writes and the other host's commands touch.
    median: usize,
    mean: f64,
    most: usize,
}

/// Where the marks are: what is accessed by turns with the word three behind it, more often than by chance.
#[derive(Debug, Default)]
struct Sought {
    marks: Option<u64>,
    last: [u64; 2],
    sightings: usize,
}

impl Sought {
    fn look_at(&mut self, address: u64) {
        let [before, last] = self.last;
        self.sightings =
            if address == before && address.abs_diff(last) == 24 { self.sightings + 1 } else { 0 };
        self.last = [last, address];
        self.marks = (self.sightings == SIGHTINGS_MIN).then_some(address.min(last));
    }

    /// The number of the mark at `address`.
    fn mark(&self, address: u64) -> Option<usize> {
        let at = address.checked_sub(self.marks?)?;
        (at < 32).then_some(at as usize / 8)
    }
}

/// What the hosts' commands touched.
#[derive(Debug, Default)]
struct Trace {
    /// By line: which of the hosts read or wrote it.
    touched: HashMap<u64, [bool; 2]>,
    /// By command: its host, and each line that it wrote with the address of the instruction that wrote it first.
    commands: Vec<(usize, HashMap<u64, u64>)>,
    /// Where the program was loaded.
    loaded_at: u64,
    /// An address of the stack.
    stack: u64,
}

impl Trace {
    /// Reads a trace, from where its marks are first seen.
    fn read(from: impl BufRead) -> anyhow::Result<Self> {
        let (mut trace, mut running, mut instruction) = (Self::default(), None, 0);
        let mut sought = Sought::default();
        for line in from.lines() {
            let line = line?;
            let Some((kind, rest)) = line.split_at_checked(3) else { continue };
            let Some((address, size)) = rest.split_once(',') else { continue };
            let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
            let Ok(size) = size.trim().parse::<u64>() else { continue };
            let is_store = matches!(kind, " S " | " M ");
            match kind {
                "I  " => instruction = address,
                _ if sought.marks.is_none() => sought.look_at(address),
                _ if is_store && let Some(mark) = sought.mark(address) => {
                    running = trace.take_mark(mark);
                }
                " L " | " S " | " M " => {
                    let Some(host) = running else { continue };
                    for line in address / 64..=(address + size.max(1) - 1) / 64 {
                        trace.touched.entry(line).or_default()[host] = true;
                        if is_store && let Some((_, written)) = trace.commands.last_mut() {
                            written.entry(line).or_insert(instruction);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(trace)
    }

    /// A command of a host begins, or ends; the host whose command runs now.
    fn take_mark(&mut self, mark: usize) -> Option<usize> {
        let host = mark / 2;
        let begins = mark.is_multiple_of(2);
        begins.then(|| self.commands.push((host, HashMap::new())));
        begins.then_some(host)
    }

    /// Lines that a command wrote and the other host touches, with who wrote them.
    fn shared<'a>(
        &'a self,
        command: &'a (usize, HashMap<u64, u64>),
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        let (host, written) = command;
        let is_shared = move |line: &u64| {
            !self.is_stack(*line) && self.touched.get(line).is_some_and(|touched| touched[1 - *host])
        };
        written.iter().filter(move |(line, _)| is_shared(line)).map(|(line, writer)| (*line, *writer))
    }

    /// Whether a line is of the stack, which both hosts' commands use.
    fn is_stack(&self, line: u64) -> bool {
        self.stack.abs_diff(line * 64) < STACK_BYTES
    }

    fn row(&self, case: &str) -> Row {
        let mut counts: Vec<_> = self.commands.iter().map(|command| self.shared(command).count()).collect();
        counts.sort_unstable();
        let commands = counts.len();
        Row {
            case: case.to_owned(),
            commands,
            median: counts.get(commands / 2).copied().unwrap_or(0),
            mean: counts.iter().sum::<usize>() as f64 / commands.max(1) as f64,
            most: counts.last().copied().unwrap_or(0),
        }
    }

    /// Prints the instructions that write shared lines, those of most commands first.
    fn print_places(&self) -> anyhow::Result<()> {
        let mut writers: HashMap<u64, usize> = HashMap::new();
        for (_, writer) in self.commands.iter().flat_map(|command| self.shared(command)) {
            *writers.entry(writer).or_default() += 1;
        }
        let mut writers: Vec<_> = writers.into_iter().collect();
        writers.sort_unstable_by_key(|(_, times)| std::cmp::Reverse(*times));
        writers.truncate(24);
        let in_program = |writer: u64| writer.wrapping_sub(self.loaded_at);
        let addresses = writers.iter().map(|(writer, _)| in_program(*writer)).collect();
        let chains = callgrind::chains(&std::env::current_exe()?, addresses)?;
        for (writer, times) in writers {
            let frames = chains.get(&in_program(writer)).map_or(&[][..], Vec::as_slice);
            let names = frames.iter().take(4).map(|frame| frame.function.as_str());
            println!("{times:8} {}", names.collect::<Vec<_>>().join(" < "));
        }
        Ok(())
    }
}

/// Runs a case under valgrind and reads its trace.
fn trace(case: &str) -> anyhow::Result<Trace> {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])
        .arg(std::env::current_exe()?)
        .args([case, "--run"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| anyhow::anyhow!("valgrind cannot be run ({e}); install the package `valgrind`"))?;
    let trace = child.stderr.take().context("valgrind has no output")?;
    let mut read = Trace::read(BufReader::with_capacity(1 << 20, trace))?;
    let ended = child.wait_with_output()?;
    anyhow::ensure!(ended.status.success(), "{case} did not run under valgrind");
    let said = String::from_utf8_lossy(&ended.stdout);
    let (loaded_at, stack) = said.trim().split_once(' ').context("the program did not say where it is")?;
    (read.loaded_at, read.stack) = (loaded_at.parse()?, stack.parse()?);
    read.commands.retain(|(_, written)| !written.is_empty());
    Ok(read)
}

/// Makes the calls of a case: two threads by turns.
fn run(case: &str) -> anyhow::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let first = maps.split_once('-').map_or("0", |(first, _)| first);
    println!("{} {}", u64::from_str_radix(first, 16)?, std::ptr::from_ref(&maps).addr());
    let device = byway::embedded::open("embedded-ram:64M")?;
    // Else the compiler leaves out stores without loads.
    std::hint::black_box(&MARKS);
    for _ in 0..SIGHTINGS_MIN * 2 {
        MARKS.0[0].store(0, Relaxed);
        MARKS.0[3].store(0, Relaxed);
    }
    let mut hosts = [Caller::new(&device, case, 0)?, Caller::new(&device, case, 1)?];
    for n in 0..WARM_UP + COMMANDS {
        for (host, caller) in hosts.iter_mut().enumerate() {
            let marks = if n < WARM_UP { None } else { MARKS.0.get(2 * host..) };
            caller.call(n, marks.unwrap_or_default())?;
        }
    }
    // Closing writes what is in RAM to the media, which is no part of a command.
    std::process::exit(0)
}

/// A host.
struct Caller {
    kv: byway::Kv,
    blocks: byway::Nvm,
    call: fn(&mut Self, usize) -> byway::Result<()>,
    host: usize,
    block: Vec<u8>,
}

impl Caller {
    fn new(device: &EmbeddedDevice, case: &str, host: usize) -> anyhow::Result<Self> {
        let call: fn(&mut Self, usize) -> byway::Result<()> = match case {
            "get" => |caller, n| caller.kv.get_into(&caller.key(n % WARM_UP), &mut caller.block).map(drop),
            "put" => |caller, n| caller.kv.put(&caller.key(1000 + n), &[n as u8; 32]),
            "overwrite" => |caller, n| caller.kv.put(&caller.key(n % WARM_UP), &[n as u8; 32]),
            "block-read" => |caller, n| caller.blocks.read(caller.lba(n % WARM_UP), &mut caller.block),
            _ => |caller, n| caller.blocks.write(caller.lba(n % WARM_UP), &caller.block),
        };
        let (kv, blocks) = (device.kv(None)?, device.nvm(None)?);
        let mut caller = Self { kv, blocks, call, host, block: vec![7; 4096] };
        for n in 0..WARM_UP {
            caller.kv.put(&caller.key(n), &[n as u8; 32])?;
            caller.blocks.write(caller.lba(n), &caller.block)?;
        }
        Ok(caller)
    }

    fn key(&self, n: usize) -> [u8; 16] {
        (((self.host as u128) << 64) + n as u128).to_be_bytes()
    }

    /// The first block of the host's page `n`.
    fn lba(&self, n: usize) -> u64 {
        (self.host * WARM_UP + n) as u64 * 4096 / u64::from(self.blocks.lba_bytes())
    }

    /// Makes call `n`, between its marks.
    fn call(&mut self, n: usize, marks: &[AtomicU64]) -> byway::Result<()> {
        if let [begin, end, ..] = marks {
            begin.store(1, Relaxed);
            let made = (self.call)(self, n);
            end.store(1, Relaxed);
            return made;
        }
        (self.call)(self, n)
    }
}
