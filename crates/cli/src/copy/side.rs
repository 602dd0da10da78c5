//! A queue of one side of a copy, for one thread; and waiting for two of them at once.

use std::time::Duration;

use anyhow::Result;
use byway::{BackendQueue, Buffer, Command, Finished, Nsid, NvmCommand, Queue};

use byway_console::event::wait_for_any;

/// How long to sleep on a queue without an event before polling the other.
const SHORT: Duration = Duration::from_millis(1);

/// One side of a copy: a queue to a namespace of blocks, for one thread.
pub struct CopySide {
    pub queue: Queue,
    pub blocks: Addresses,
    /// Whether the queue has a descriptor that signals completions.
    has_event: bool,
    /// Commands whose completion ended a wait.
    finished: Vec<Finished>,
}

/// Where bytes of a copy are in a namespace.
#[derive(Clone, Copy)]
pub struct Addresses {
    pub nsid: Nsid,
    pub lba_bytes: u64,
    /// Where in the namespace the copy begins.
    pub offset: u64,
}

impl Addresses {
    fn range(&self, at: u64, len: usize) -> (u64, u32) {
        ((self.offset + at) / self.lba_bytes, (len as u64 / self.lba_bytes) as u32)
    }

    /// Reads whole blocks.
    pub fn read(&self, at: u64, into: Buffer) -> Command {
        let (slba, blocks) = self.range(at, into.len());
        NvmCommand::Read { nsid: self.nsid, slba, blocks, into }.into()
    }

    /// Writes whole blocks.
    pub fn write(&self, at: u64, data: Buffer) -> Command {
        let (slba, blocks) = self.range(at, data.len());
        NvmCommand::Write { nsid: self.nsid, slba, blocks, data: data.into() }.into()
    }

    /// Has whole blocks read as zeroes, and gives their room back.
    pub fn zero(&self, at: u64, len: usize) -> Command {
        let (slba, blocks) = self.range(at, len);
        NvmCommand::WriteZeroes { nsid: self.nsid, slba, blocks, deallocate: true }.into()
    }
}

impl CopySide {
    pub fn new(queue: Queue, blocks: Addresses, has_event: bool) -> Self {
        Self { queue, blocks, has_event, finished: Vec::new() }
    }

    /// What has finished.
    ///
    /// # Errors
    /// When the queue fails.
    pub fn take(&mut self) -> Result<Vec<Finished>> {
        let mut finished = std::mem::take(&mut self.finished);
        self.queue.poll(usize::MAX, &mut |one| finished.push(one))?;
        Ok(finished)
    }

    /// Waits until there is something to [`take`](Self::take), at most `timeout`; says whether there is.
    ///
    /// # Errors
    /// When the queue fails.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        self.finished.extend(self.queue.next_within(timeout)?);
        Ok(!self.finished.is_empty())
    }

    fn is_idle(&self) -> bool {
        self.queue.outstanding() == 0
    }
}

/// Waits until one of two queues may have something, at most `timeout`.
///
/// # Errors
/// When a queue or the system fails.
pub fn wait_for_either(one: &mut CopySide, other: &mut CopySide, timeout: Duration) -> Result<()> {
    match (one.is_idle(), other.is_idle()) {
        (true, true) => {}
        (false, true) => {
            one.wait(timeout)?;
        }
        (true, false) => {
            other.wait(timeout)?;
        }
        (false, false) if one.has_event && other.has_event => {
            one.queue.start()?;
            other.queue.start()?;
            wait_for_any([one.queue.event()?, other.queue.event()?], timeout)?;
        }
        (false, false) => {
            if !one.wait(SHORT)? {
                other.wait(SHORT)?;
            }
        }
    }
    Ok(())
}
