//! The backend under test, with short words for what tests do.

use std::time::Duration;

use byway_core::{
    Backend, BackendQueue, Buffer, Command, ErrorKind, Finished, NamespaceKind, Nsid, NvmCommand, Outcome,
    QueueOptions,
};

use crate::scratch::Scratch;

/// A backend, and the file beneath it.
pub struct Subject<'a, B: Backend> {
    pub scratch: &'a Scratch,
    pub backend: &'a B,
    pub lba_bytes: u32,
    pub blocks: u64,
    /// Whether what is written can be read: not so without a device.
    pub keeps: bool,
    /// Whether commands can be given up after a time: not so where their completions are polled for.
    pub gives_up: bool,
}

impl<'a, B: Backend> Subject<'a, B> {
    pub fn new(scratch: &'a Scratch, backend: &'a B) -> Self {
        let namespace = backend.namespaces().unwrap().remove(0);
        let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else { panic!("{namespace:?}") };
        let keeps = backend.name() != "null-backend";
        Self { scratch, backend, lba_bytes, blocks, keeps, gives_up: gives_up(backend, lba_bytes) }
    }

    /// Whether deallocated blocks read as zeroes, as those of files and of Byway's devices do. Others may keep them.
    pub fn forgets(&self) -> bool {
        let identity = self.backend.identity();
        let is_other = self.backend.capabilities().admin_commands && !identity.byway;
        !is_other && identity.model != "Linux block device"
    }

    /// Whether the blocks are those of the file.
    pub fn in_a_file(&self) -> bool {
        self.backend.identity().model == "Linux file"
    }

    pub fn queue(&self, depth: u32) -> B::Queue {
        self.backend.queue(QueueOptions::default().depth(depth)).unwrap()
    }

    /// A buffer of `blocks` blocks, each byte of which depends on its offset and on `salt`.
    pub fn filled(&self, slba: u64, blocks: u32, salt: u8) -> Buffer {
        let mut buffer = self.empty(blocks);
        self.fill(&mut buffer, slba, salt);
        buffer
    }

    pub fn fill(&self, buffer: &mut Buffer, slba: u64, salt: u8) {
        for (index, chunk) in buffer.as_mut_slice().chunks_mut(self.lba_bytes as usize).enumerate() {
            chunk.fill((slba as u8).wrapping_add(index as u8).wrapping_mul(31) ^ salt);
        }
    }

    pub fn empty(&self, blocks: u32) -> Buffer {
        let mut buffer = self.backend.buffer((blocks * self.lba_bytes) as usize).unwrap();
        buffer.as_mut_slice().fill(0xee);
        buffer
    }

    pub fn write(&self, slba: u64, data: Buffer) -> Command {
        let blocks = data.len() as u32 / self.lba_bytes;
        NvmCommand::Write { nsid: Nsid::FIRST, slba, blocks, data: data.into() }.into()
    }

    pub fn read(&self, slba: u64, blocks: u32) -> Command {
        NvmCommand::Read { nsid: Nsid::FIRST, slba, blocks, into: self.empty(blocks) }.into()
    }

    /// Reads blocks by a synchronous call and compares them.
    #[track_caller]
    pub fn expect(&self, queue: &mut B::Queue, slba: u64, wanted: &[u8]) {
        let blocks = wanted.len() as u32 / self.lba_bytes;
        let outcome = queue.execute(self.read(slba, blocks)).unwrap();
        if self.keeps {
            assert_same(outcome.buffer.unwrap().as_slice(), wanted);
        }
    }
}

fn gives_up(backend: &impl Backend, lba_bytes: u32) -> bool {
    let mut queue = backend.queue(QueueOptions::default()).unwrap();
    let into = backend.buffer(lba_bytes as usize).unwrap();
    let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 1, into };
    match queue.submit_within(read.into(), 0, Some(Duration::from_secs(20))) {
        Ok(()) => queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap() == 1,
        Err(refused) => {
            assert_eq!(refused.error.kind(), ErrorKind::Unsupported, "{}", refused.error);
            false
        }
    }
}

/// The outcomes of everything that is outstanding, by tag.
#[track_caller]
pub fn drained(queue: &mut impl BackendQueue) -> Vec<(u64, Outcome)> {
    let mut outcomes = Vec::new();
    let mut on = |Finished { tag, result }: Finished| outcomes.push((tag, result.unwrap()));
    queue.drain(&mut on).unwrap();
    outcomes.sort_by_key(|(tag, _)| *tag);
    outcomes
}

/// As `assert_eq`, without pages of bytes when it fails.
#[track_caller]
pub fn assert_same(is: &[u8], wanted: &[u8]) {
    assert_eq!(is.len(), wanted.len(), "lengths");
    if let Some(at) = is.iter().zip(wanted).position(|(is, wanted)| is != wanted) {
        panic!("byte {at} of {} is {:#04x}, not {:#04x}", is.len(), is[at], wanted[at]);
    }
}
