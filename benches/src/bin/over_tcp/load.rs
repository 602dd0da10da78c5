//! What is asked of a device: reads, puts and large values, one at a time or many.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use byway::{
    Backend, BackendQueue, Buffer, Command, Device, Key, KvCommand, NamespaceKind, Nsid, NvmCommand, Payload,
    Queue, SmallBytes, StoreOptions,
};
use byway_benches::rounds::{Case, each};

/// Devices. Large values are stored where nothing was before: what the system takes to give memory is not measured, as it is not of
/// peers that take theirs when they begin.
pub const RAM: &str = "ram:1G?flash=off&ledger=off";
pub const NULL: &str = "null:1G?flash=off&ledger=off";
pub const RAM_OF_LARGE: &str = "ram:1536M?flash=off&ledger=off&prefault=on";
pub const RAM_TO_FILL: &str = "ram:256M?flash=off&ledger=off";

/// Bytes of a piece that is read, and how many there are.
const PIECE_BYTES: usize = 4096;
const PIECES: u64 = 4096;
/// Bytes of a logical block.
const LBA_BYTES: usize = 512;
/// Bytes of a small value, and keys that puts go round over, so that the device stays in one state.
const VALUE_BYTES: usize = 64;
const KEYS: u64 = 50_000;
/// Bytes of a large value, and keys of those.
const LARGE_BYTES: usize = 1 << 20;
const LARGE_KEYS: u64 = 16;

/// A command that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Read4k,
    Read512,
    Put64,
    Store1m,
    Retrieve1m,
}

impl Work {
    /// One at a time beside a ping-pong.
    pub const SMALL: [Self; 3] = [Self::Read4k, Self::Read512, Self::Put64];
    /// A few at a time.
    pub const LARGE: [Self; 2] = [Self::Store1m, Self::Retrieve1m];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read4k => "read-4k",
            Self::Read512 => "read-512",
            Self::Put64 => "put-64",
            Self::Store1m => "store-1m",
            Self::Retrieve1m => "retrieve-1m",
        }
    }

    pub fn name_of_many(self) -> &'static str {
        match self {
            Self::Read4k => "reads-4k",
            Self::Read512 => "reads-512",
            Self::Put64 => "puts-64",
            large => large.name(),
        }
    }

    /// Bytes of the PDUs of one command: the host's capsule, and the controller's data or response.
    pub fn wire_bytes(self) -> (usize, usize) {
        const CAPSULE: usize = 72;
        const HEAD: usize = 24;
        match self {
            Self::Read4k => (CAPSULE, HEAD + PIECE_BYTES),
            Self::Read512 => (CAPSULE, HEAD + LBA_BYTES),
            Self::Put64 => (CAPSULE + VALUE_BYTES, HEAD),
            Self::Store1m => (CAPSULE + LARGE_BYTES, HEAD),
            Self::Retrieve1m => (CAPSULE, HEAD + LARGE_BYTES),
        }
    }

    /// Bytes of the buffer that a command brings.
    fn buffer_bytes(self) -> Option<usize> {
        match self {
            Self::Read4k => Some(PIECE_BYTES),
            Self::Read512 => Some(LBA_BYTES),
            Self::Put64 => None,
            Self::Store1m | Self::Retrieve1m => Some(LARGE_BYTES),
        }
    }

    fn is_of_keys(self) -> bool {
        !matches!(self, Self::Read4k | Self::Read512)
    }
}

/// A load on a queue of its own.
pub struct Load {
    name: String,
    work: Work,
    queue: Queue,
    nsid: Nsid,
    depth: u32,
    at: u64,
    /// What is read is what was written: not so on media that keep nothing.
    keeps: bool,
    free: Vec<Option<Buffer>>,
    device: Device,
}

impl Load {
    /// Opens the device.
    pub fn open(name: &str, uri: &str, work: Work, depth: u32) -> Result<Self> {
        let device = byway::open(uri)?;
        let namespace = match work.is_of_keys() {
            true => device.kv_namespace(None)?,
            false => device.nvm_namespace(None)?,
        };
        let queue = Backend::queue(&device, device.queue_options().depth(depth))?;
        let buffer = || work.buffer_bytes().map(|bytes| device.buffer(bytes)).transpose();
        let free = (0..depth).map(|_| buffer()).collect::<byway::Result<Vec<_>>>()?;
        let keeps = !name.ends_with("-null");
        let (name, nsid) = (name.to_owned(), namespace.nsid);
        Ok(Self { name, work, queue, nsid, depth, at: 0, keeps, free, device })
    }

    /// Writes what is read later: blocks that were never written are not looked for on flash.
    pub fn filled(mut self) -> Result<Self> {
        match self.work {
            Work::Read4k | Work::Read512 => self.fill(PIECES, PIECE_BYTES)?,
            Work::Retrieve1m => self.fill(LARGE_KEYS, LARGE_BYTES)?,
            Work::Put64 | Work::Store1m => {}
        }
        Ok(self)
    }

    /// Writes all blocks of the namespace; how many bytes that is. The kernel gives a medium in memory two mebibytes at a time.
    pub fn fill_all(&mut self) -> Result<u64> {
        let NamespaceKind::Nvm { lba_bytes, blocks } = self.device.namespace(self.nsid)?.kind else {
            bail!("blocks are filled");
        };
        let pieces = blocks * u64::from(lba_bytes) / PIECE_BYTES as u64;
        self.fill(pieces, PIECE_BYTES)?;
        Ok(pieces * PIECE_BYTES as u64)
    }

    fn fill(&mut self, places: u64, bytes: usize) -> Result<()> {
        let mut data = self.device.buffer(bytes)?;
        for place in 0..places {
            data.as_mut_slice().fill(place as u8);
            let command = match self.work.is_of_keys() {
                true => store(self.nsid, place, Payload::Buffer(data))?,
                false => write(self.nsid, place, data),
            };
            let outcome = self.queue.alone(command).map_err(|failed| failed.error)?;
            data = outcome.buffer.context("a buffer was lost")?;
        }
        Ok(())
    }
}

/// The next place, by steps that no cache foresees from the last few.
fn next(at: &mut u64, places: u64) -> u64 {
    *at = (*at + 1237) % places;
    *at
}

fn read(nsid: Nsid, piece: u64, into: Buffer) -> Command {
    let blocks = (into.as_slice().len() / LBA_BYTES) as u32;
    Command::Nvm(NvmCommand::Read { nsid, slba: piece * (PIECE_BYTES / LBA_BYTES) as u64, blocks, into })
}

fn write(nsid: Nsid, piece: u64, data: Buffer) -> Command {
    let (slba, blocks) = (piece * (PIECE_BYTES / LBA_BYTES) as u64, (PIECE_BYTES / LBA_BYTES) as u32);
    Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(data) })
}

fn store(nsid: Nsid, key: u64, value: Payload) -> Result<Command> {
    let key = Key::new(&(key as u32).to_be_bytes())?;
    Ok(Command::Kv(KvCommand::Store { nsid, key, value, options: StoreOptions::NONE }))
}

/// Makes the next command of a load.
fn command(work: Work, nsid: Nsid, at: &mut u64, buffer: Option<Buffer>) -> Result<(Command, u64)> {
    let need = || anyhow!("a command without a buffer");
    match work {
        Work::Read4k | Work::Read512 => {
            let piece = next(at, PIECES);
            Ok((read(nsid, piece, buffer.ok_or_else(need)?), piece))
        }
        Work::Put64 => {
            let (key, value) =
                (next(at, KEYS), SmallBytes::new(&[0x5a; VALUE_BYTES]).context("64 bytes are few")?);
            Ok((store(nsid, key, Payload::Small(value))?, key))
        }
        Work::Store1m => {
            // Not those that are retrieved.
            let key = LARGE_KEYS + next(at, LARGE_KEYS);
            Ok((store(nsid, key, Payload::Buffer(buffer.ok_or_else(need)?))?, key))
        }
        Work::Retrieve1m => {
            let key = next(at, LARGE_KEYS);
            let name = Key::new(&(key as u32).to_be_bytes())?;
            Ok((Command::Kv(KvCommand::Retrieve { nsid, key: name, into: buffer.ok_or_else(need)? }), key))
        }
    }
}

impl Case for Load {
    fn name(&self) -> &str {
        &self.name
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        match self.depth {
            1 => self.one_at_a_time(calls, singles),
            _ => self.many_at_a_time(calls),
        }
    }
}

impl Load {
    fn one_at_a_time(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        each(calls, singles, || {
            let (command, place) = command(self.work, self.nsid, &mut self.at, self.free.pop().flatten())?;
            let outcome = self.queue.alone(command).map_err(|failed| failed.error)?;
            self.check(outcome.buffer.as_ref(), place)?;
            self.free.push(outcome.buffer);
            Ok(())
        })
    }

    fn many_at_a_time(&mut self, calls: u32) -> Result<u64> {
        let begun = Instant::now();
        let mut left = calls;
        while left > 0 || self.queue.outstanding() > 0 {
            self.submit(&mut left)?;
            self.take()?;
        }
        Ok(begun.elapsed().as_nanos() as u64)
    }

    /// As many as are free, together.
    fn submit(&mut self, left: &mut u32) -> Result<()> {
        let Self { work, queue, nsid, at, free, .. } = self;
        let mut failed = None;
        let mut commands = std::iter::from_fn(|| {
            let buffer = if *left > 0 { free.pop() } else { None }?;
            *left -= 1;
            command(*work, *nsid, at, buffer).map_err(|error| failed = Some(error)).ok()
        });
        queue.submit_all(&mut commands).map_err(|refused| refused.error)?;
        failed.map_or(Ok(()), Err)
    }

    fn take(&mut self) -> Result<()> {
        while let Some(finished) = self.queue.next_finished()? {
            let outcome = finished.result.map_err(|failed| failed.error)?;
            self.check(outcome.buffer.as_ref(), finished.tag)?;
            self.free.push(outcome.buffer);
        }
        Ok(())
    }

    fn check(&self, buffer: Option<&Buffer>, place: u64) -> Result<()> {
        let first = || buffer.and_then(|buffer| buffer.as_slice().first());
        match self.work {
            Work::Put64 | Work::Store1m => Ok(()),
            _ if !self.keeps => Ok(()),
            _ if first() == Some(&(place as u8)) => Ok(()),
            _ => bail!("place {place} is not what was written"),
        }
    }
}
