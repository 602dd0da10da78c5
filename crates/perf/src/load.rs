//! Which command comes next, and the memory that it moves.

use anyhow::Result;
use byway::{
    Backend, Buffer, Buffers, Command, KvCommand, LbaRange, LbaRanges, NvmCommand, Outcome, Payload,
    SmallBytes, StoreOptions,
};
use byway_measure::distribution::Places;
use byway_measure::random::Random;

use super::pattern::Pattern;
use super::plan::{Blocks, Pairs, Plan, What};
use super::settings::{Load, MemoryOf};

/// Memory of one command, while it is not on its way.
#[derive(Debug, Default)]
pub struct Memory {
    buffer: Option<Buffer>,
    parts: Buffers,
}

impl Memory {
    /// Memory for a command of the plan, cut into as many parts as it says.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(plan: &Plan) -> Result<Self> {
        let bytes = plan.op_bytes() as usize;
        if !plan.load.has_data() {
            return Ok(Self::default());
        }
        let mut buffer = own(plan, bytes.max(1))?;
        Random::new(plan.seed).fill(buffer.as_mut_slice());
        if plan.parts == 1 {
            return Ok(Self { buffer: Some(buffer), parts: Buffers::NONE });
        }
        let part_bytes = bytes / plan.parts as usize;
        let mut parts = Vec::with_capacity(plan.parts as usize);
        for _ in 1..plan.parts {
            let rest = buffer.split_off(part_bytes);
            parts.push(std::mem::replace(&mut buffer, rest));
        }
        // The memory may be longer than its bytes.
        buffer.set_len(part_bytes);
        parts.push(buffer);
        Ok(Self { buffer: None, parts: parts.into() })
    }

    /// Takes back what a completion brings.
    #[inline]
    pub fn take_back(&mut self, outcome: Outcome) {
        if outcome.buffer.is_some() {
            self.buffer = outcome.buffer;
        }
        if !outcome.vector.is_empty() {
            self.parts = outcome.vector;
        }
    }

    /// Takes back what a command brings that was not taken.
    #[cold]
    pub fn restore(&mut self, command: Command) {
        let (buffer, vector) = command.into_payload().into_buffers();
        self.take_back(Outcome { buffer, vector, ..Outcome::default() });
    }

    fn fill(&mut self, pattern: Pattern, at: u64) {
        let mut at = at;
        for part in self.buffer.iter_mut().chain(self.parts.iter_mut()) {
            pattern.fill(at, part.as_mut_slice());
            at += part.len() as u64;
        }
    }

    /// Offset of the first eight bytes of the buffers that differ from the pattern.
    pub fn difference(&self, pattern: Pattern, at: u64) -> Option<u64> {
        let mut at = at;
        for part in self.buffer.iter().chain(&self.parts) {
            if let Some(wrong) = pattern.difference(at, part.as_slice()) {
                return Some(wrong);
            }
            at += part.len() as u64;
        }
        None
    }
}

/// A buffer of `bytes` bytes, allocated as the plan says.
fn own(plan: &Plan, bytes: usize) -> byway::Result<Buffer> {
    match plan.memory {
        MemoryOf::Device => plan.device.buffer(bytes),
        MemoryOf::Prepared => Ok(plan.device.prepare(Buffer::zeroed(bytes)?)?),
        MemoryOf::Brought => Buffer::zeroed(bytes),
    }
}

/// What a command is of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Op {
    pub is_read: bool,
    /// Its piece or its key.
    pub place: u64,
}

/// The commands of one thread, in their order.
#[derive(Debug)]
pub struct Ops {
    load: Load,
    what: What,
    reads_percent: u64,
    random: Random,
    places: Places,
    /// Of a sequential load: this thread's part, and where it is.
    part: std::ops::Range<u64>,
    next: u64,
    pattern: Option<Pattern>,
    value: Vec<u8>,
}

impl Ops {
    pub fn new(plan: &Plan, thread: u32) -> Self {
        let places = plan.what.places();
        let at = |thread: u32| (u128::from(places) * u128::from(thread) / u128::from(plan.threads)) as u64;
        let part = at(thread)..at(thread + 1);
        let value = match plan.what {
            What::Pairs(pairs) => pairs.value(plan.seed),
            What::Blocks(_) => Vec::new(),
        };
        Self {
            load: plan.load,
            what: plan.what,
            reads_percent: plan.reads_percent.into(),
            random: Random::new(plan.seed ^ u64::from(thread) << 48),
            places: plan.places.clone(),
            next: part.start,
            part,
            pattern: plan.verify.then_some(Pattern(plan.seed)),
            value,
        }
    }

    /// What comes next.
    #[inline]
    pub fn next(&mut self) -> Op {
        let is_read = match self.reads_percent {
            0 => false,
            100 => true,
            percent => self.random.below(100) < percent,
        };
        if !self.load.is_sequential() {
            return Op { is_read, place: self.places.draw(&mut self.random) };
        }
        let place = self.next;
        self.next = if place + 1 >= self.part.end { self.part.start } else { place + 1 };
        Op { is_read, place }
    }

    /// The command for it, with the memory that it moves.
    ///
    /// # Errors
    /// When there is no memory for its ranges.
    #[inline]
    pub fn command(&self, op: Op, memory: &mut Memory) -> Result<Command> {
        match self.what {
            What::Blocks(blocks) => self.of_blocks(blocks, op, memory),
            What::Pairs(pairs) => self.of_pairs(pairs, op, memory),
        }
    }

    #[inline]
    fn of_blocks(&self, of: Blocks, op: Op, memory: &mut Memory) -> Result<Command> {
        let at = of.offset + op.place * of.piece_bytes;
        let (nsid, slba, blocks) = (of.nsid, at / of.lba_bytes, (of.piece_bytes / of.lba_bytes) as u32);
        if let Some(pattern) = self.pattern.filter(|_| !op.is_read) {
            memory.fill(pattern, at);
        }
        let command = match (self.load, memory.buffer.take()) {
            (Load::Trim, _) => {
                let ranges = LbaRanges::new(&[LbaRange { slba, blocks }])?;
                NvmCommand::Deallocate { nsid, ranges }
            }
            (Load::Zeroes, _) => NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate: true },
            (_, Some(into)) if op.is_read => NvmCommand::Read { nsid, slba, blocks, into },
            (_, Some(data)) => NvmCommand::Write { nsid, slba, blocks, data: data.into() },
            (_, None) if op.is_read => {
                NvmCommand::ReadVectored { nsid, slba, blocks, into: std::mem::take(&mut memory.parts) }
            }
            (_, None) => NvmCommand::Write {
                nsid,
                slba,
                blocks,
                data: Payload::Vectored(std::mem::take(&mut memory.parts)),
            },
        };
        Ok(command.into())
    }

    #[inline]
    fn of_pairs(&self, of: Pairs, op: Op, memory: &mut Memory) -> Result<Command> {
        let (nsid, key) = (of.nsid, of.key(op.place)?);
        if op.is_read {
            let mut into = memory.buffer.take().map_or_else(|| Buffer::zeroed(self.value.len()), Ok)?;
            into.set_len(self.value.len());
            return Ok(KvCommand::Retrieve { nsid, key, into }.into());
        }
        let value = match (SmallBytes::new(&self.value), memory.buffer.take()) {
            // What fits the command needs no memory of its own.
            (Some(small), buffer) => {
                memory.buffer = buffer;
                Payload::from(small)
            }
            (None, Some(mut buffer)) => {
                buffer.set_len(self.value.len());
                buffer.into()
            }
            (None, None) => Payload::copy_of(&self.value)?,
        };
        Ok(KvCommand::Store { nsid, key, value, options: StoreOptions::NONE }.into())
    }
}
