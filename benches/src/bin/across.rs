//! This library's driver on a device in another process, over vfio-user, both sides polling on a processor of their own,
//! beside a round trip of one cache line between the two processors.
//!
//! The device's process is this program once more. Rounds take turns over the cases, so that a busy moment of the machine
//! falls on all of them.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use byway::serve::{Idle, ServeOptions};
use byway::{
    Backend, BackendQueue, Buffer, Command, Key, Method, NamespaceKind, Nsid, NvmCommand, QueueOptions,
    StoreOptions,
};
use byway_benches::peer::{Folder, Peer, serve_for_peer};
use byway_benches::results;
use byway_benches::rounds::{Case, Row, by_turns, each};
use byway_buses::VfioUserBus;
use byway_driver::{AttachOptions, Driver, Queue};
use byway_sys::map::{Mapping, PAGE_BYTES, Sharing};
use byway_sys::{affinity, memfd};
use clap::Parser;

/// Bytes of a read.
const BLOCK_BYTES: usize = 512;
/// Blocks that reads go over.
const BLOCKS: u64 = 4096;
/// Bytes of a value, and keys that puts go round over, so that the device stays in one state.
const VALUE_BYTES: usize = 64;
const KEYS: u32 = 50_000;
/// Where a processor writes and where it reads: on lines that are not fetched together.
const PING: usize = 0;
const PONG: usize = 64;
/// Value of the ping that ends the other side.
const END: u32 = u32::MAX;

#[derive(Parser)]
#[command(about = "Times reads, puts and many reads at once on a device in another process, by vfio-user")]
struct Arguments {
    /// Rounds over all cases.
    #[arg(long, default_value_t = 101)]
    rounds: usize,
    /// Calls of one case in a round.
    #[arg(long, default_value_t = 5000)]
    calls: u32,
    /// Commands outstanding where many are.
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Processors of the two sides: the driver's, the device's.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpus: Vec<usize>,
    /// Only cases whose name has this in it.
    #[arg(long)]
    only: Option<String>,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The other side: what it serves at, or shares.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    #[arg(long, hide = true)]
    pong: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match (&arguments.serve, &arguments.pong) {
        (Some(socket), _) => serve_device(socket, cpu(&arguments, 1)?),
        (_, Some(shared)) => answer_pings(shared, cpu(&arguments, 1)?),
        _ => measure(&arguments),
    }
}

fn cpu(arguments: &Arguments, side: usize) -> Result<usize> {
    arguments.cpus.get(side).copied().context("--cpus takes two processors")
}

/// The device's side.
fn serve_device(socket: &Path, cpu: usize) -> Result<()> {
    affinity::pin(cpu)?;
    let options = ServeOptions::at(socket).idle(Idle::Poll);
    serve_for_peer("ram:1G?flash=off&ledger=off", &options, |_| Ok(()))
}

fn shared_page(file: &File) -> Result<Mapping> {
    Ok(Mapping::file(file, 0, PAGE_BYTES, Sharing::Shared)?)
}

/// The other side of the ping-pong: what is written comes back.
fn answer_pings(shared: &Path, cpu: usize) -> Result<()> {
    affinity::pin(cpu)?;
    let file = OpenOptions::new().read(true).write(true).open(shared)?;
    let page = shared_page(&file)?;
    let (ping, pong) = words(&page)?;
    let mut last = 0;
    while last != END {
        let round = ping.load(Acquire);
        if round != last {
            pong.store(round, Release);
            last = round;
        }
        std::hint::spin_loop();
    }
    Ok(())
}

fn words(page: &Mapping) -> Result<(&AtomicU32, &AtomicU32)> {
    let words = page.words();
    Ok((words.get(PING).context("a page")?, words.get(PONG).context("a page")?))
}

/// Starts the other side, to do `what` at `path`.
fn start_other(arguments: &Arguments, what: &str, path: &Path) -> Result<Peer> {
    let cpus: Vec<String> = arguments.cpus.iter().map(usize::to_string).collect();
    Peer::start([OsStr::new(what), path.as_os_str(), OsStr::new("--cpus"), OsStr::new(&cpus.join(","))])
}

fn measure(arguments: &Arguments) -> Result<()> {
    affinity::pin(cpu(arguments, 0)?)?;
    let mut rows = Vec::new();
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    // Not on the device's processor: both of the other processes would poll on it.
    if wanted("ping-pong") {
        rows.extend(by_turns(arguments.rounds, arguments.calls, &mut [&mut PingPong::start(arguments)?])?);
    }
    let folder = Folder::of("across")?;
    rows.extend(measure_device(arguments, &folder.path().join("socket"), &wanted)?);
    if wanted("ping-pong") {
        rows.extend(by_turns(arguments.rounds, arguments.calls, &mut [&mut PingPong::start(arguments)?])?);
    }
    for row in &rows {
        let Row { case, depth, ns_p50, ns_p99, per_second_median, per_second_best, .. } = row;
        println!(
            "{case:18} depth {depth:2}: p50 {ns_p50:7.1} ns, p99 {ns_p99:7.1} ns, {:.3} M a second (best {:.3} M)",
            per_second_median / 1e6,
            per_second_best / 1e6
        );
    }
    arguments.json.as_ref().map_or(Ok(()), |path| results::keep(path, &rows))
}

fn measure_device(arguments: &Arguments, socket: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Row>> {
    let _other = start_other(arguments, "--serve", socket)?;
    let device = Driver::attach(Arc::new(connect(socket)?), AttachOptions::default())?;
    let (keys, blocks) = namespaces(&device)?;
    let queue = |transfer, depth: u32| {
        device.queue(QueueOptions::default().transfer(transfer).depth(depth)).map_err(anyhow::Error::from)
    };
    let mut one = Reads { queue: queue(Method::Adaptive, 1)?, nsid: blocks, at: 0 };
    let mut put = Puts { queue: queue(Method::Inline, 1)?, nsid: keys, at: 0 };
    let buffers: byway::Result<Vec<Buffer>> =
        (0..arguments.depth).map(|_| Backend::buffer(&device, BLOCK_BYTES)).collect();
    let depth = arguments.depth;
    let (queue, free) = (queue(Method::Adaptive, depth)?, buffers?);
    let mut many = ManyReads { queue, nsid: blocks, at: 0, depth, free };
    fill(&mut one)?;
    let cases: [&mut dyn Case; 3] = [&mut one, &mut put, &mut many];
    let mut cases: Vec<&mut dyn Case> = cases.into_iter().filter(|case| wanted(case.name())).collect();
    by_turns(arguments.rounds, arguments.calls, &mut cases)
}

/// Connects once the other process listens.
fn connect(socket: &Path) -> Result<VfioUserBus> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match VfioUserBus::open(socket) {
            Ok(bus) if bus.has_mapped_doorbells() => return Ok(bus),
            Ok(_) => bail!("the server does not share its doorbells"),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// A namespace of keys, and one of blocks.
fn namespaces(device: &Driver<VfioUserBus>) -> Result<(Nsid, Nsid)> {
    let all = device.namespaces()?;
    let of = |wanted: fn(&NamespaceKind) -> bool| {
        let found = all.iter().find(|namespace| wanted(&namespace.kind));
        found.map(|namespace| namespace.nsid).context("the device has not both kinds of namespaces")
    };
    let is_of_blocks = |kind: &NamespaceKind| matches!(kind, NamespaceKind::Nvm { lba_bytes, .. } if *lba_bytes as usize == BLOCK_BYTES);
    Ok((of(|kind| matches!(kind, NamespaceKind::Kv { .. }))?, of(is_of_blocks)?))
}

/// Writes what is read later: blocks that were never written are not looked for on flash.
fn fill(reads: &mut Reads) -> Result<()> {
    for slba in 0..BLOCKS {
        reads.queue.execute_write(reads.nsid, slba, BLOCK_BYTES as u32, &[slba as u8; BLOCK_BYTES])?;
    }
    Ok(())
}

/// A cache line to the other processor and back.
struct PingPong {
    page: Mapping,
    round: u32,
    _other: Peer,
}

impl PingPong {
    fn start(arguments: &Arguments) -> Result<Self> {
        let file = memfd::sealed("ping-pong", PAGE_BYTES as u64)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let other = start_other(arguments, "--pong", Path::new(&path))?;
        let page = shared_page(&file)?;
        let mut begun = Self { page, round: 0, _other: other };
        // The file is open there as well, once it has answered.
        begun.round(1, &mut Vec::new())?;
        Ok(begun)
    }
}

impl Case for PingPong {
    fn name(&self) -> &str {
        "ping-pong"
    }

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        let (ping, pong) = words(&self.page)?;
        let round = &mut self.round;
        each(calls, singles, || {
            *round = (*round + 1) % END;
            ping.store(*round, Release);
            while pong.load(Acquire) != *round {
                std::hint::spin_loop();
            }
            Ok(())
        })
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        if let Ok((ping, _)) = words(&self.page) {
            ping.store(END, Release);
        }
    }
}

/// Reads of 512 bytes, one after the other.
struct Reads {
    queue: Queue<VfioUserBus>,
    nsid: Nsid,
    at: u64,
}

/// The next block, by steps that no cache foresees from the last few.
fn next_block(at: &mut u64) -> u64 {
    *at = (*at + 1237) % BLOCKS;
    *at
}

impl Case for Reads {
    fn name(&self) -> &str {
        "read-512"
    }

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        let mut into = [0; BLOCK_BYTES];
        let Self { queue, nsid, at } = self;
        each(calls, singles, || {
            let slba = next_block(at);
            queue.execute_read(*nsid, slba, BLOCK_BYTES as u32, &mut into)?;
            if into.first() != Some(&(slba as u8)) {
                bail!("block {slba} is not what was written");
            }
            Ok(())
        })
    }
}

/// Puts of 64 bytes, inline, one after the other.
struct Puts {
    queue: Queue<VfioUserBus>,
    nsid: Nsid,
    at: u32,
}

impl Case for Puts {
    fn name(&self) -> &str {
        "put-64-inline"
    }

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        let value = [0x5a; VALUE_BYTES];
        let Self { queue, nsid, at } = self;
        each(calls, singles, || {
            *at = (*at + 1) % KEYS;
            let key = Key::new(&at.to_be_bytes())?;
            queue.execute_store(*nsid, &key, &value, StoreOptions::NONE)?;
            Ok(())
        })
    }
}

/// Reads of 512 bytes, as many at once as the queue is deep.
struct ManyReads {
    queue: Queue<VfioUserBus>,
    nsid: Nsid,
    at: u64,
    depth: u32,
    free: Vec<Buffer>,
}

impl Case for ManyReads {
    fn name(&self) -> &str {
        "reads-512"
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn round(&mut self, calls: u32, _: &mut Vec<u32>) -> Result<u64> {
        let begun = Instant::now();
        let mut left = calls;
        while left > 0 || self.queue.outstanding() > 0 {
            self.submit(&mut left)?;
            self.take()?;
        }
        Ok(begun.elapsed().as_nanos() as u64)
    }
}

impl ManyReads {
    /// As many as are free, under one doorbell.
    fn submit(&mut self, left: &mut u32) -> Result<()> {
        let Self { queue, nsid, at, free, .. } = self;
        let mut reads = std::iter::from_fn(|| {
            let into = if *left > 0 { free.pop() } else { None }?;
            *left -= 1;
            let slba = next_block(at);
            Some((Command::Nvm(NvmCommand::Read { nsid: *nsid, slba, blocks: 1, into }), slba))
        });
        queue.submit_all(&mut reads).map_err(|refused| refused.error.into())
    }

    fn take(&mut self) -> Result<()> {
        while let Some(finished) = self.queue.next_finished()? {
            let outcome = finished.result.map_err(|failed| failed.error)?;
            let buffer = outcome.buffer.ok_or_else(|| anyhow!("a buffer was lost"))?;
            if buffer.as_slice().first() != Some(&(finished.tag as u8)) {
                bail!("block {} is not what was written", finished.tag);
            }
            self.free.push(buffer);
        }
        Ok(())
    }
}
