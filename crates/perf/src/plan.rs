//! What is to be measured: the load, its range, its threads, and whether the device can do it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result, bail, ensure};
use byway::{
    Backend, BackendQueue, Capabilities, Device, Key, KvCommand, NamespaceKind, Nsid, Payload, Queue,
};
use byway_console::size;
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::distribution::{Distribution, Places};
use byway_measure::random::Random;

use super::cache::{self, Cache};
use super::log::LogSettings;
use super::samples::Keep;
use super::settings::{Cpus, Load, MemoryOf, Settings, Wait};

/// Most blocks of one command.
const BLOCKS_MAX: u64 = 1 << 16;
/// Time of a measurement by default.
const TIME: Duration = Duration::from_secs(10);

/// Interval of charts, of a measurement without a time.
const INTERVAL: Duration = Duration::from_millis(100);

/// A load that can be run.
#[derive(Debug)]
pub struct Plan {
    /// The URI that the device was opened by.
    pub uri: String,
    /// The device, which other jobs may be on too.
    pub device: Arc<Device>,
    /// What commands do.
    pub load: Load,
    /// Range of blocks, or keys and values.
    pub what: What,
    /// How often each place comes, of a random load.
    pub distribution: Distribution,
    /// The same over the places of the range.
    pub places: Places,
    /// Percent of commands that read.
    pub reads_percent: u8,
    /// Commands outstanding of each thread.
    pub depth: u32,
    /// Commands that are submitted together, at least.
    pub batch: u32,
    /// Threads, each with a queue of its own.
    pub threads: u32,
    /// Processors that the threads are pinned to.
    pub cpus: Option<Cpus>,
    /// How long is measured, if the count does not end it before.
    pub time: Option<Duration>,
    /// Commands of each thread.
    pub count: Option<u64>,
    /// Time before the measurement.
    pub warmup: Duration,
    /// Decides places, keys and what is written.
    pub seed: u64,
    /// Whether what was written is read back, or what is read compared.
    pub verify: bool,
    /// Buffers of each command.
    pub parts: u32,
    /// Which memory holds the data.
    pub memory: MemoryOf,
    /// How a thread waits for completions.
    pub wait: Wait,
    /// Time limit of each command.
    pub timeout: Option<Duration>,
    /// Whether each command is timed.
    pub latency: bool,
    /// The cache of this host that reads and writes go through.
    pub cache: Cache,
    /// What the page cache holds is dropped before.
    pub invalidate: bool,
    /// Logs that are written.
    pub log: LogSettings,
    /// What is kept of intervals, where anything is.
    pub keep: Option<Keep>,
    /// Number of the first thread among those of all jobs.
    pub first_thread: u32,
}

/// What a load is on.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Pieces of whole blocks, one behind the other.
    Blocks(Blocks),
    /// Keys and values.
    Pairs(Pairs),
}

impl What {
    /// Pieces of the range, or keys.
    pub const fn places(&self) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks.pieces,
            Self::Pairs(pairs) => pairs.keys,
        }
    }
}

/// Pieces of a namespace of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// The namespace.
    pub nsid: Nsid,
    /// Bytes of a logical block.
    pub lba_bytes: u64,
    /// First byte of the range.
    pub offset: u64,
    /// Bytes of a piece: what one command moves.
    pub piece_bytes: u64,
    /// Pieces in the range.
    pub pieces: u64,
    /// Bytes of the range that were not allocated before the load, at least: its length less what the namespace uses.
    pub unallocated_bytes: u64,
}

/// Keys of one length with values of one length.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// The namespace.
    pub nsid: Nsid,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of a key.
    pub key_bytes: u8,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Whether every key is stored before the measurement.
    pub fill: bool,
}

impl Plan {
    /// Opens the device of a URI and looks whether it can do what is asked for. `depth` is the queue's where the settings have
    /// none.
    ///
    /// # Errors
    /// One sentence that says what cannot be, and why.
    pub fn of<D: Into<Arc<Device>>>(
        args: &Settings,
        named: &str,
        depth: Option<u32>,
        open: impl FnOnce(&str) -> byway::Result<D>,
    ) -> Result<Self> {
        let depth = args.depth().or(depth);
        args.check(depth.unwrap_or(1))?;
        let uri = match args.direct.then(|| cache::direct(named)) {
            Some(Err(_)) if args.direct_where_possible => named.to_owned(),
            Some(direct) => direct?,
            None => named.to_owned(),
        };
        let device: Arc<Device> = open(&uri)?.into();
        let cache = Cache::of(&uri, &device);
        ensure!(
            !args.invalidate || cache != Cache::None,
            "--invalidate drops what the page cache holds of a file, and {uri} is read through none"
        );
        check_device(args, named, device.capabilities())?;
        let depth = depth.unwrap_or(1).min(device.capabilities().limits.depth_max());
        let what = match args.load().is_pairs() {
            true => What::Pairs(pairs_of(args, named, &device)?),
            false => What::Blocks(blocks_of(args, named, &device)?),
        };
        let reads_percent = match args.load() {
            Load::Read | Load::Randread | Load::Get => 100,
            Load::Randrw | Load::Putget => args.mix.unwrap_or(50),
            _ => 0,
        };
        let count = commands_of(args, what);
        Ok(Self {
            uri,
            device,
            load: args.load(),
            places: Places::new(&args.random_distribution, what.places(), args.seed),
            distribution: args.random_distribution.clone(),
            what,
            reads_percent,
            depth,
            batch: args.batch.min(depth),
            threads: args.threads,
            cpus: args.cpus.clone(),
            time: args.time.or(count.is_none().then_some(TIME)),
            count,
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
            keep: args.log.is_on().then(|| Keep { interval: args.log.interval(), series: false }),
            log: args.log.clone(),
            first_thread: 0,
        })
    }

    /// Has the intervals of each thread kept, for charts: those of logs, else 200 of the time, of at least 10 ms, or 100 ms.
    ///
    /// # Errors
    /// Commands that are not timed.
    pub fn keep_series(&mut self) -> Result<()> {
        ensure!(self.latency, "a report is of commands that are timed: leave out --no-latency");
        let of_time = self.time.map_or(INTERVAL, |time| (time / 200).max(INTERVAL / 10));
        let interval = self.keep.map_or(of_time, |keep| keep.interval);
        self.keep = Some(Keep { interval, series: true });
        Ok(())
    }

    /// Keeps what the first run of several stored: [`fill`](Self::fill) does nothing from here on.
    pub const fn skip_fill(&mut self) {
        if let What::Pairs(pairs) = &mut self.what {
            pairs.fill = false;
        }
    }

    /// A queue for one thread.
    ///
    /// # Errors
    /// When the device gives none.
    pub fn queue(&self) -> Result<Queue> {
        Ok(Backend::queue(&*self.device, self.device.queue_options().depth(self.depth))?)
    }

    /// The first byte of a place, or the number of its key.
    pub(crate) const fn byte_of(&self, place: u64) -> u64 {
        match self.what {
            What::Blocks(blocks) => blocks.offset + place * blocks.piece_bytes,
            What::Pairs(_) => place,
        }
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

    /// Bytes of the range that the load reads and that are not allocated, at least. Such reads skip the flash, and take less time.
    pub fn unallocated_bytes(&self) -> u64 {
        match self.what {
            What::Blocks(blocks) if self.reads_percent > 0 => blocks.unallocated_bytes,
            _ => 0,
        }
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

/// Commands of each thread, where they end a load. Once over the range of blocks is all that a count may ask for, as in fio.
fn commands_of(args: &Settings, what: What) -> Option<u64> {
    let once = args.once.then_some(what.places());
    match (args.count, once, what) {
        (Some(count), Some(once), What::Blocks(_)) => Some(count.min(once)),
        (count, once, _) => count.or(once),
    }
}

fn check_device(args: &Settings, uri: &str, can: &Capabilities) -> Result<()> {
    let most = can.limits.depth_max();
    if let Some(depth) = args.depth() {
        ensure!(depth <= most, "--depth of {depth} is over the {most} that a queue of {uri} holds");
    }
    ensure!(can.event || args.wait != Wait::Event, "queues of {uri} have no descriptor for --wait event");
    ensure!(can.nvm.deallocate || args.load() != Load::Trim, "{uri} has no command that trims");
    ensure!(can.nvm.write_zeroes || args.load() != Load::Zeroes, "{uri} has no command that writes zeroes");
    let queues = can.limits.queues;
    ensure!(
        queues == 0 || args.threads <= queues.into(),
        "--threads of {} is over the {queues} queues of {uri}",
        args.threads
    );
    Ok(())
}

fn blocks_of(args: &Settings, uri: &str, device: &Device) -> Result<Blocks> {
    let namespace = device.nvm_namespace(None).map_err(|error| match device.kv_namespace(None) {
        Ok(_) => Error::from(error).context("keys and values are measured by --rw get, put or putget"),
        Err(_) => error.into(),
    })?;
    let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
        bail!("{uri} has no namespace of blocks there");
    };
    let (nsid, lba_bytes, there) = (namespace.nsid, u64::from(lba_bytes), blocks * u64::from(lba_bytes));
    let offset = args.offset.unwrap_or(0);
    ensure!(offset <= there, "--offset of {offset} bytes is beyond the end: {uri} has {there}");
    let length = args.length.unwrap_or(there - offset);
    ensure!(
        length <= there - offset,
        "--length of {length} bytes goes beyond the end: {uri} has {} from byte {offset} on",
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
        !args.load().is_sequential() || pieces >= args.threads.into(),
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
    let unallocated_bytes = length.saturating_sub(namespace.used_bytes);
    Ok(Blocks { nsid, lba_bytes, offset, piece_bytes, pieces, unallocated_bytes })
}

fn pairs_of(args: &Settings, uri: &str, device: &Device) -> Result<Pairs> {
    let namespace = device.kv_namespace(None).map_err(|error| match device.nvm_namespace(None) {
        Ok(_) => Error::from(error)
            .context("blocks are measured by --rw read, write, randread, randwrite or randrw"),
        Err(_) => error.into(),
    })?;
    let NamespaceKind::Kv { key_max_bytes, value_max_bytes, .. } = namespace.kind else {
        bail!("{uri} has no namespace of keys and values there");
    };
    let nsid = namespace.nsid;
    let (key_bytes, value_bytes) = (args.key_bytes.unwrap_or(16), args.value_bytes.unwrap_or(100));
    ensure!(
        u16::from(key_bytes) <= key_max_bytes && value_bytes <= value_max_bytes,
        "the namespace takes keys of up to {key_max_bytes} and values of up to {value_max_bytes} bytes, not of {key_bytes} and {value_bytes}"
    );
    Ok(Pairs { nsid, keys: args.keys.unwrap_or(10_000), key_bytes, value_bytes, fill: args.fill })
}
