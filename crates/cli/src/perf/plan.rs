//! What is to be measured: the load, its range, its threads, and whether the device can do it.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use byway::{
    Backend, BackendQueue, Capabilities, Device, Key, KvCommand, NamespaceKind, Nsid, Payload, Queue,
    QueueOptions,
};
use byway_console::size;
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::random::Random;

use super::cache::{self, Cache};
use crate::args::{self, Load, MemoryOf, Wait};
use crate::opened;

/// Most blocks of one command.
const BLOCKS_MAX: u64 = 1 << 16;
/// Time of a measurement by default.
const TIME: Duration = Duration::from_secs(10);

/// A load that can be run.
#[derive(Debug)]
pub struct Plan {
    pub uri: String,
    pub device: Device,
    pub load: Load,
    pub what: What,
    /// Percent of commands that read.
    pub reads_percent: u8,
    pub depth: u32,
    pub batch: u32,
    pub threads: u32,
    pub cpus: Option<Cpus>,
    pub time: Option<Duration>,
    /// Commands of each thread.
    pub count: Option<u64>,
    pub warmup: Duration,
    pub seed: u64,
    pub verify: bool,
    pub parts: u32,
    pub memory: MemoryOf,
    pub wait: Wait,
    pub timeout: Option<Duration>,
    pub latency: bool,
    /// The cache of this host that reads and writes go through.
    pub cache: Cache,
    /// What the page cache holds is dropped before.
    pub invalidate: bool,
}

/// What a load is on.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Pieces of whole blocks, one behind the other.
    Blocks(Blocks),
    /// Keys and values.
    Pairs(Pairs),
}

/// Pieces of a namespace of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    pub nsid: Nsid,
    pub lba_bytes: u64,
    /// First byte of the range.
    pub offset: u64,
    pub piece_bytes: u64,
    /// Pieces in the range.
    pub pieces: u64,
}

/// Keys of one length with values of one length.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    pub nsid: Nsid,
    pub keys: u64,
    pub key_bytes: u8,
    pub value_bytes: u32,
    pub fill: bool,
}

impl Load {
    /// Whether keys and values are meant.
    pub fn is_pairs(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Putget)
    }

    /// Whether anything changes what the device holds.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread | Self::Get)
    }

    /// Whether places follow each other.
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether commands move data.
    pub fn has_data(self) -> bool {
        !matches!(self, Self::Trim | Self::Zeroes)
    }
}

impl Plan {
    /// Opens the device and looks whether it can do what is asked for.
    ///
    /// # Errors
    /// One sentence that says what cannot be, and why.
    pub fn of(args: &args::Perf) -> Result<Self> {
        let depth = args.depth.or_else(|| opened::depth_of(&args.device.uri));
        check_words(args, depth.unwrap_or(1))?;
        let uri = if args.direct { cache::direct(&args.device.uri)? } else { args.device.uri.clone() };
        let device = match args.rw.changes() || args.fill {
            true => opened::open(&uri)?,
            false => opened::open_to_read(&uri)?,
        };
        let cache = Cache::of(&uri, &device)?;
        ensure!(
            !args.invalidate || cache != Cache::None,
            "--invalidate drops what the page cache holds of a file, and {uri} is read through none"
        );
        check_device(args, device.capabilities())?;
        let depth = depth.unwrap_or(1).min(device.capabilities().limits.depth_max());
        let what = match args.rw.is_pairs() {
            true => What::Pairs(pairs_of(args, &device)?),
            false => What::Blocks(blocks_of(args, &device)?),
        };
        let reads_percent = match args.rw {
            Load::Read | Load::Randread | Load::Get => 100,
            Load::Randrw | Load::Putget => args.mix.unwrap_or(50),
            _ => 0,
        };
        Ok(Self {
            uri,
            device,
            load: args.rw,
            what,
            reads_percent,
            depth,
            batch: args.batch.min(depth),
            threads: args.threads,
            cpus: args.cpus.clone(),
            time: args.time.or(args.count.is_none().then_some(TIME)),
            count: args.count,
            warmup: args.warmup,
            seed: args.seed,
            verify: args.verify,
            parts: args.parts,
            memory: args.memory,
            wait: args.wait,
            timeout: args.timeout.map(Duration::from_millis),
            latency: !args.no_latency,
            cache,
            invalidate: args.invalidate,
        })
    }

    /// A queue for one thread.
    ///
    /// # Errors
    /// When the device gives none.
    pub fn queue(&self) -> Result<Queue> {
        Ok(Backend::queue(
            &self.device,
            QueueOptions { depth: self.depth.into(), ..self.device.queue_options() },
        )?)
    }

    /// Bytes that a command moves.
    pub fn op_bytes(&self) -> u64 {
        match self.what {
            What::Blocks(blocks) => blocks.piece_bytes,
            What::Pairs(pairs) => pairs.value_bytes.into(),
        }
    }

    /// The load in a few words.
    pub fn named(&self) -> String {
        let bytes = size::human(self.op_bytes());
        let threads = size::counted(self.threads.into(), "thread");
        format!("{} {bytes}, depth {}, {threads}", self.load.name(), self.depth)
    }

    /// Stores every key once, if that is asked for.
    ///
    /// # Errors
    /// What the device says.
    pub fn fill(&self, interrupt: &Interrupt) -> Result<()> {
        let What::Pairs(pairs) = self.what else { return Ok(()) };
        if !pairs.fill {
            return Ok(());
        }
        let value = pairs.value(self.seed);
        let progress = Progress::new("fill", pairs.keys);
        let mut queue = self.queue()?;
        let mut failed = Ok(());
        let mut on = |finished: byway::Finished| {
            if let Err(why) = finished.result {
                failed = Err(why.error);
            }
        };
        for index in 0..pairs.keys {
            interrupt.check()?;
            while queue.outstanding() >= queue.depth() {
                queue.wait(1, Duration::from_secs(1), &mut on)?;
            }
            progress.advance(1);
            let value = Payload::copy_of(&value)?;
            let (nsid, key, options) = (pairs.nsid, pairs.key(index)?, byway::StoreOptions::NONE);
            queue
                .submit(KvCommand::Store { nsid, key, value, options }.into(), index)
                .map_err(byway::Error::from)?;
        }
        queue.drain(&mut on)?;
        Ok(failed?)
    }
}

impl Pairs {
    /// The key of an index: the index times an odd constant, padded with dots.
    ///
    /// # Errors
    /// None that happens: a key has 8 to 16 bytes.
    pub fn key(&self, index: u64) -> Result<Key> {
        let mut bytes = [b'.'; 16];
        bytes[..8].copy_from_slice(&index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Ok(Key::new(bytes.get(..usize::from(self.key_bytes)).unwrap_or(&bytes))?)
    }

    /// The value of every key.
    pub fn value(&self, seed: u64) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes as usize];
        Random::new(seed).fill(&mut value);
        value
    }
}

/// Refuses options that mean nothing to the load, or nothing at all.
fn check_words(args: &args::Perf, depth: u32) -> Result<()> {
    let load = args.rw;
    let is_mixed = matches!(load, Load::Randrw | Load::Putget);
    let of_blocks = !load.is_pairs();
    let unread = [
        ("--mix", args.mix.is_some() && !is_mixed),
        ("--bs", args.bs.is_some() && !of_blocks),
        ("--offset", args.offset.is_some() && !of_blocks),
        ("--length", args.length.is_some() && !of_blocks),
        ("--keys", args.keys.is_some() && of_blocks),
        ("--key-bytes", args.key_bytes.is_some() && of_blocks),
        ("--value-bytes", args.value_bytes.is_some() && of_blocks),
        ("--fill", args.fill && of_blocks),
        (
            "--verify",
            args.verify
                && !matches!(
                    load,
                    Load::Read | Load::Randread | Load::Write | Load::Randwrite | Load::Randrw
                ),
        ),
        ("--parts", args.parts > 1 && !(of_blocks && load.has_data())),
        ("--memory", args.memory != MemoryOf::Device && !load.has_data()),
    ];
    if let Some((name, _)) = unread.into_iter().find(|(_, is_unread)| *is_unread) {
        bail!("{name} means nothing to a load of {}", load.name());
    }
    ensure!(depth > 0, "a depth of 0 measures nothing");
    ensure!(args.wait != Wait::Call || depth == 1, "--wait call is one command at a time: --depth 1");
    ensure!(
        (1..=depth).contains(&args.batch),
        "--batch of {} commands is not within 1 to the depth of {depth}",
        args.batch
    );
    ensure!(args.time != Some(Duration::ZERO), "a time of 0 measures nothing");
    Ok(())
}

fn check_device(args: &args::Perf, can: &Capabilities) -> Result<()> {
    let uri = &args.device.uri;
    let most = can.limits.depth_max();
    if let Some(depth) = args.depth {
        ensure!(depth <= most, "--depth of {depth} is over the {most} that a queue of {uri} holds");
    }
    ensure!(can.event || args.wait != Wait::Event, "queues of {uri} have no descriptor for --wait event");
    ensure!(can.nvm.deallocate || args.rw != Load::Trim, "{uri} has no command that trims");
    ensure!(can.nvm.write_zeroes || args.rw != Load::Zeroes, "{uri} has no command that writes zeroes");
    let queues = can.limits.queues;
    ensure!(
        queues == 0 || args.threads <= queues.into(),
        "--threads of {} is over the {queues} queues of {uri}",
        args.threads
    );
    Ok(())
}

fn blocks_of(args: &args::Perf, device: &Device) -> Result<Blocks> {
    let namespace = device.nvm_namespace(None)?;
    let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
        bail!("{} has no namespace of blocks there", args.device.uri);
    };
    let (nsid, lba_bytes, there) = (namespace.nsid, u64::from(lba_bytes), blocks * u64::from(lba_bytes));
    let offset = args.offset.unwrap_or(0);
    ensure!(offset <= there, "--offset of {offset} bytes is beyond the end: {} has {there}", args.device.uri);
    let length = args.length.unwrap_or(there - offset);
    ensure!(
        length <= there - offset,
        "--length of {length} bytes goes beyond the end: {} has {} from byte {offset} on",
        args.device.uri,
        there - offset
    );
    let piece_bytes = args.bs.unwrap_or(4096.max(lba_bytes));
    ensure!(
        piece_bytes > 0 && piece_bytes.is_multiple_of(lba_bytes) && offset.is_multiple_of(lba_bytes),
        "--bs of {piece_bytes} and --offset of {offset} bytes are not both whole numbers of blocks of {lba_bytes} bytes"
    );
    let transfer = device.capabilities().limits.transfer_bytes;
    let limit = if transfer == 0 { u64::MAX } else { transfer }.min(BLOCKS_MAX * lba_bytes);
    ensure!(
        piece_bytes <= limit,
        "--bs of {} is over the {} that one command moves",
        size::human(piece_bytes),
        size::human(limit)
    );
    let pieces = length / piece_bytes;
    ensure!(pieces > 0, "a range of {length} bytes has no room for --bs of {piece_bytes}");
    ensure!(
        !args.rw.is_sequential() || pieces >= args.threads.into(),
        "{pieces} pieces of {piece_bytes} bytes are too few for {} threads",
        args.threads
    );
    ensure!(
        piece_bytes.is_multiple_of(u64::from(args.parts)),
        "--bs of {piece_bytes} bytes does not fall into {} equal --parts",
        args.parts
    );
    let align = u64::from(device.capabilities().memory_align_bytes.max(1));
    ensure!(
        (piece_bytes / u64::from(args.parts)).is_multiple_of(align),
        "--parts of {} bytes are off the {align} bytes that the device's memory has to be a multiple of",
        piece_bytes / u64::from(args.parts)
    );
    Ok(Blocks { nsid, lba_bytes, offset, piece_bytes, pieces })
}

fn pairs_of(args: &args::Perf, device: &Device) -> Result<Pairs> {
    let namespace = device.kv_namespace(None)?;
    let NamespaceKind::Kv { key_max_bytes, value_max_bytes, .. } = namespace.kind else {
        bail!("{} has no namespace of keys and values there", args.device.uri);
    };
    let nsid = namespace.nsid;
    let (key_bytes, value_bytes) = (args.key_bytes.unwrap_or(16), args.value_bytes.unwrap_or(100));
    ensure!(
        u16::from(key_bytes) <= key_max_bytes && value_bytes <= value_max_bytes,
        "the namespace takes keys of up to {key_max_bytes} and values of up to {value_max_bytes} bytes, not of {key_bytes} and {value_bytes}"
    );
    Ok(Pairs { nsid, keys: args.keys.unwrap_or(10_000), key_bytes, value_bytes, fill: args.fill })
}

/// Processors by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// The processor of a thread.
    pub fn of_thread(&self, thread: u32) -> usize {
        let index = thread as usize % self.0.len().max(1);
        self.0.get(index).copied().unwrap_or(0)
    }
}

/// Parses processors, such as `0,2-3`.
///
/// # Errors
/// Anything else.
pub fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let wrong = || format!("{text:?} names no processors: expected some such as 0,2-3");
    let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu < 1024).ok_or_else(wrong);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

/// Parses seconds, with a fraction or without.
///
/// # Errors
/// Anything else.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let seconds = seconds.ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("{text:?} is no time: expected seconds such as 10 or 0.5"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_given_one_by_one_or_from_to() {
        assert_eq!(parse_cpus("0,2-4").unwrap(), Cpus(vec![0, 2, 3, 4]));
        assert_eq!(parse_cpus("0,2").unwrap().of_thread(3), 2);
        for wrong in ["", "a", "3-1", "0,", "99999"] {
            assert!(parse_cpus(wrong).unwrap_err().contains("0,2-3"), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_fractions() {
        assert_eq!(parse_seconds("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_seconds("10s").unwrap(), Duration::from_secs(10));
        assert!(
            parse_seconds("-1").is_err() && parse_seconds("soon").is_err() && parse_seconds("1e99").is_err()
        );
    }
}
