//! Random I/O commands of a queue pair, and whether their completions are right.

use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;

use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::vendor::{inline_result_bytes, set_inline_result_max_bytes};
use byway_spec::{Command, Completion, Direction, Status};

use crate::cells::Value;
use crate::memory::{GUARD, PAGE};
use crate::pair::{BUFFER_PAGES, Pair, SLOTS};

/// The namespace of keys, and that of blocks.
pub const KV: u32 = 1;
pub const NVM: u32 = 2;

/// Bytes of a block.
pub const LBA_BYTES: usize = 512;

/// Keys and blocks of one owner.
pub const KEYS: usize = 48;
pub const BLOCKS: usize = 96;

/// Longest value, and most blocks of a command. They fit a slot's buffer at any offset in its first page.
const VALUE_MAX_BYTES: usize = (BUFFER_PAGES - 1) * PAGE;
const BLOCKS_MAX: usize = VALUE_MAX_BYTES / LBA_BYTES;

/// A command under way.
#[derive(Debug)]
pub struct Pending {
    pub cid: u16,
    /// Which of its pair's submission queues it is in.
    pub submission: usize,
    what: What,
    /// Where its buffer is in the host's memory.
    buffer: Range<usize>,
}

/// What a command does, with the cells of its owner.
#[derive(Debug, Clone)]
pub enum What {
    Store(usize, Value),
    Delete(usize),
    Retrieve(usize),
    Exist(usize),
    /// List from a key on, issued at this moment of its owner's cells.
    List(usize, u64),
    /// Write of blocks, each with its value; `None` for zeroes.
    Write(usize, Vec<Option<Value>>),
    Read(Range<usize>),
    Flush(u32),
}

impl Pending {
    /// Bytes of its result behind its completion, if one stands there.
    pub fn result_bytes(&self, entry: &Completion) -> Option<usize> {
        let reads = matches!(self.what, What::Retrieve(_) | What::List(..));
        inline_result_bytes(entry, self.buffer.len() as u32).filter(|_| reads)
    }

    /// Where its buffer begins in the host's memory.
    pub fn buffer_at(&self) -> usize {
        self.buffer.start
    }
}

impl Pair {
    /// Writes a random command to a ring, if there is a slot, room in the ring, and no other command in its way.
    pub fn issue(&mut self) {
        let slot = self.owner.random.index(SLOTS);
        let submission = self.owner.random.index(self.submissions.len());
        if self.pending[slot].is_some() || !self.submissions[submission].has_room() {
            return;
        }
        if let Some(what) = self.choose() {
            self.issue_in(slot, submission, what);
        }
    }

    /// Reads of all that an owner may have stored.
    pub fn all_reads() -> impl Iterator<Item = What> {
        (0..KEYS).map(What::Retrieve).chain((0..BLOCKS).map(|block| What::Read(block..block + 1)))
    }

    /// Writes a read to the first queue's ring, if there is room.
    pub fn issue_read(&mut self, what: &What) -> bool {
        let Some(slot) = self.pending.iter().position(Option::is_none) else { return false };
        if !self.submissions[0].has_room() {
            return false;
        }
        let has_begun = match what {
            What::Retrieve(key) => self.owner.keys.begin_read(*key..key + 1),
            What::Read(blocks) => self.owner.blocks.begin_read(blocks.clone()),
            _ => false,
        };
        assert!(has_begun, "{what:?} is no read of what is at rest");
        self.issue_in(slot, 0, what.clone());
        true
    }

    fn issue_in(&mut self, slot: usize, submission: usize, what: What) {
        let cid = u16::from(self.life.number) << 8 | (self.owner.random.below(8) as u16) << 5 | slot as u16;
        let (mut command, len_bytes) = self.command(&what);
        command.cdw0.set_cid(cid);
        if matches!(what, What::Retrieve(_) | What::List(..)) && self.owner.random.one_in(2) {
            set_inline_result_max_bytes(&mut command, self.owner.random.below(300) as u16);
        }
        let from = Self::buffer(slot) + self.owner.random.index(PAGE / 4) * 4;
        let asked = Pending { cid, submission, what, buffer: from..from + len_bytes };
        self.point_prps(&mut command, slot, &asked);
        let Self { life, submissions, pending, .. } = self;
        submissions[submission].push(&life.region.memory, &command);
        pending[slot] = Some(asked);
    }

    /// What to do next, begun in the owner's cells; `None` if another command is in the way.
    fn choose(&mut self) -> Option<What> {
        let owner = &mut self.owner;
        let (key, first) = (owner.random.index(KEYS), owner.random.index(BLOCKS));
        let blocks = first..BLOCKS.min(first + 1 + owner.random.index(BLOCKS_MAX));
        let kind = owner.random.below(20);
        let begun = match kind {
            0..=5 | 10 => owner.keys.begin_write(key..key + 1),
            6..=9 | 11 => owner.keys.begin_read(key..key + 1),
            12..=14 => owner.blocks.begin_write(blocks.clone()),
            15..=17 => owner.blocks.begin_read(blocks.clone()),
            _ => true,
        };
        begun.then(|| match kind {
            0..=5 => What::Store(key, self.new_value()),
            6..=9 => What::Retrieve(key),
            10 => What::Delete(key),
            11 => What::Exist(key),
            12..=13 => What::Write(first, blocks.map(|_| Some(self.new_block())).collect()),
            14 => What::Write(first, vec![None; blocks.len()]),
            15..=17 => What::Read(blocks),
            18 => What::List(key, self.owner.keys.now()),
            _ => What::Flush(if key % 2 == 0 { KV } else { NVM }),
        })
    }

    fn new_value(&mut self) -> Value {
        let random = &mut self.owner.random;
        // Most values are packed and stored by a lease; some are stored by the controller.
        let most = if random.one_in(8) { VALUE_MAX_BYTES } else { 200 };
        Value { seed: random.next(), len_bytes: random.index(most + 1) }
    }

    fn new_block(&mut self) -> Value {
        Value { seed: self.owner.random.next(), len_bytes: LBA_BYTES }
    }

    /// The command without its data pointer and identifier, and the length of its buffer.
    fn command(&mut self, what: &What) -> (Command, usize) {
        let key = |opcode: KvOpcode, cell: usize| self.keyed(opcode, cell);
        match what {
            What::Store(cell, value) => sized(key(KvOpcode::STORE, *cell), value.len_bytes),
            What::Delete(cell) => (key(KvOpcode::DELETE, *cell), 0),
            What::Exist(cell) => (key(KvOpcode::EXIST, *cell), 0),
            What::Retrieve(cell) => {
                let command = key(KvOpcode::RETRIEVE, *cell);
                let most = if self.owner.random.one_in(2) { VALUE_MAX_BYTES } else { 256 };
                sized(command, 4 * self.owner.random.index(most / 4 + 1))
            }
            What::List(cell, _) => {
                let command = key(KvOpcode::LIST, *cell);
                sized(command, 4 * (1 + self.owner.random.index(PAGE / 4)))
            }
            What::Write(first, values) => {
                let is_zeroes = values.iter().all(Option::is_none);
                let opcode = if is_zeroes { NvmOpcode::WRITE_ZEROES } else { NvmOpcode::WRITE };
                let bytes = if is_zeroes { 0 } else { values.len() * LBA_BYTES };
                (self.blocks(opcode, *first, values.len()), bytes)
            }
            What::Read(blocks) => {
                (self.blocks(NvmOpcode::READ, blocks.start, blocks.len()), blocks.len() * LBA_BYTES)
            }
            What::Flush(nsid) => (Command::new(NvmOpcode::FLUSH.0, 0, *nsid), 0),
        }
    }

    fn keyed(&self, opcode: KvOpcode, cell: usize) -> Command {
        let key = key_of(self.owner.number, cell);
        let mut command = Command::new(opcode.0, 0, KV);
        command.set_key(&key);
        command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
        command
    }

    fn blocks(&self, opcode: NvmOpcode, first: usize, count: usize) -> Command {
        let mut command = Command::new(opcode.0, 0, NVM);
        command.set_cdw10_11((usize::from(self.owner.number) * BLOCKS + first) as u64);
        command.cdw12 = NvmCdw12::new().with_nlb_z(count as u16 - 1).into_bits();
        command
    }

    /// Fills the command's buffer, and points the command at it.
    fn point_prps(&self, command: &mut Command, slot: usize, asked: &Pending) {
        let memory = &self.life.region.memory;
        let pages = asked.buffer.start / PAGE..asked.buffer.end.div_ceil(PAGE);
        if command.direction() == Direction::DeviceToHost {
            memory.fill(pages.start * PAGE, pages.len() * PAGE, GUARD);
        }
        match &asked.what {
            What::Store(_, value) => memory.write(asked.buffer.start, &value.bytes()),
            What::Write(_, values) if !asked.buffer.is_empty() => {
                let bytes: Vec<u8> = values.iter().flatten().flat_map(|value| value.bytes()).collect();
                memory.write(asked.buffer.start, &bytes);
            }
            _ => {}
        }
        let others: Vec<u64> = pages.skip(1).map(|page| memory.bus(page * PAGE)).collect();
        let list = Self::buffer(slot) + BUFFER_PAGES * PAGE;
        let second = match others[..] {
            [] => 0,
            [second] => second,
            _ => memory.bus(list),
        };
        let entries: Vec<u8> = others.iter().flat_map(|page| page.to_le_bytes()).collect();
        memory.write(list, &entries);
        command.set_prps(memory.bus(asked.buffer.start), second);
    }

    /// Checks a completion against what is stored.
    pub fn check(&mut self, asked: &Pending, entry: &Completion) {
        let status = entry.status();
        let is_deleting = self.life.is_deleting.load(SeqCst);
        if status.is(Status::ABORTED_SQ_DELETION) && is_deleting {
            return self.give_up(asked);
        }
        let is_missing = status.is(Status::KEY_DOES_NOT_EXIST);
        let finds = matches!(asked.what, What::Retrieve(_) | What::Exist(_));
        assert!(status.is_success() || is_missing && finds, "{asked:?}: {status}");
        match &asked.what {
            What::Store(cell, value) => self.owner.keys.written(*cell, Some(*value)),
            What::Delete(cell) => self.owner.keys.written(*cell, None),
            What::Exist(cell) => self.owner.keys.seen(*cell, !is_missing),
            What::Retrieve(cell) if is_missing => self.owner.keys.read(*cell, |held| held.is_none()),
            What::Retrieve(cell) => self.check_value(asked, *cell, entry.dw0 as usize),
            What::List(cell, since) => self.check_list(asked, *cell, *since),
            What::Write(first, values) => {
                let blocks = &mut self.owner.blocks;
                (*first..).zip(values).for_each(|(block, value)| blocks.written(block, *value));
            }
            What::Read(blocks) => self.check_blocks(asked, blocks.clone()),
            What::Flush(_) => {}
        }
    }

    /// A command that is not answered any more: a change was made or not.
    pub fn give_up(&mut self, asked: &Pending) {
        let owner = &mut self.owner;
        match &asked.what {
            What::Store(cell, value) => owner.keys.maybe_written(*cell, Some(*value)),
            What::Delete(cell) => owner.keys.maybe_written(*cell, None),
            What::Retrieve(cell) | What::Exist(cell) => owner.keys.unread(*cell),
            What::Write(first, values) => {
                let each = (*first..).zip(values);
                each.for_each(|(block, value)| owner.blocks.maybe_written(block, *value));
            }
            What::Read(blocks) => blocks.clone().for_each(|block| owner.blocks.unread(block)),
            What::List(..) | What::Flush(_) => {}
        }
    }

    /// The first `moved` bytes of a command's buffer; nothing else of its pages was written.
    fn moved(&self, asked: &Pending, moved: usize) -> Vec<u8> {
        let memory = &self.life.region.memory;
        let end = asked.buffer.start + moved;
        let before = asked.buffer.start % PAGE;
        memory.check_filled(asked.buffer.start - before, before, GUARD, "memory before a buffer");
        let behind = asked.buffer.end.next_multiple_of(PAGE) - end;
        memory.check_filled(end, behind, GUARD, "memory behind what was read");
        memory.read(asked.buffer.start, moved)
    }

    fn check_value(&mut self, asked: &Pending, cell: usize, value_bytes: usize) {
        let bytes = self.moved(asked, value_bytes.min(asked.buffer.len()));
        let is_same = |value: Value| value.len_bytes == value_bytes && value.bytes().starts_with(&bytes);
        self.owner.keys.read(cell, |held| held.is_some_and(is_same));
    }

    fn check_blocks(&mut self, asked: &Pending, blocks: Range<usize>) {
        let bytes = self.moved(asked, asked.buffer.len());
        for (block, bytes) in blocks.zip(bytes.chunks(LBA_BYTES)) {
            let is_same = |held: Option<Value>| match held {
                Some(value) => value.bytes() == bytes,
                None => bytes.iter().all(|byte| *byte == 0),
            };
            self.owner.blocks.read(block, is_same);
        }
    }

    /// Keys in order, each of them once; of the owner's own those that are there, as far as the list goes.
    fn check_list(&mut self, asked: &Pending, first: usize, since: u64) {
        let memory = &self.life.region.memory;
        let buffer = memory.read(asked.buffer.start, asked.buffer.len());
        let keys = keys_in(&buffer);
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
        assert!(keys.first().is_none_or(|key| *key >= key_of(self.owner.number, first)));
        let mine: Vec<usize> =
            (first..KEYS).filter(|cell| keys.contains(&key_of(self.owner.number, *cell))).collect();
        let prefix = key_of(self.owner.number, 0)[0];
        assert_eq!(mine.len(), keys.iter().filter(|key| key[0] == prefix).count(), "{keys:?}");
        let used: usize =
            4 + keys.iter().map(|key| byway_spec::kv::list_entry_bytes(key.len())).sum::<usize>();
        let is_whole = keys.last().is_some_and(|key| key[0] > prefix) || used + 20 <= buffer.len();
        let end = if is_whole { KEYS } else { mine.last().map_or(first, |last| last + 1) };
        for cell in first..end {
            let Some(exists) = self.owner.keys.steady_since(cell, since) else { continue };
            assert_eq!(exists, mine.contains(&cell), "key {cell} of {asked:?}: {keys:?}");
        }
    }
}

/// The key of an owner's cell. Their order is that of owners and cells.
fn key_of(owner: u16, cell: usize) -> Vec<u8> {
    let mut key = vec![0x40 + owner as u8, cell as u8];
    key.resize(2 + cell % 15, b'k');
    key
}

fn sized(mut command: Command, len_bytes: usize) -> (Command, usize) {
    command.cdw10 = len_bytes as u32;
    (command, len_bytes)
}

/// The keys of a List buffer.
fn keys_in(buffer: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize, len: usize| {
        buffer[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let mut at = 4;
    let mut next = || {
        let len = number(at, 2);
        let key = buffer[at + 2..at + 2 + len].to_vec();
        at += byway_spec::kv::list_entry_bytes(len);
        key
    };
    (0..number(0, 4)).map(|_| next()).collect()
}
