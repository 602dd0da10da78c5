//! Doorbell Buffer Config (Base 2.1, section 5.2.5): doorbells in host memory.
//!
//! The host writes tails and heads to the shadow buffer; it writes the doorbell itself only when it passes the
//! index the device left in the event buffer. Before it becomes idle the device leaves the values it has seen there, then
//! reads the shadow buffer once more: either it sees the host's newer value, or the host sees the index and writes the
//! doorbell. Both sides put a full fence between their store and their load; without it both could miss the other's.
//! The admin queue always uses its doorbell. A queue that is created later starts from zero in the buffer; one that
//! exists already, as with Linux, goes on from what its doorbell holds.

use std::sync::atomic::{Ordering, fence};

use byway_dma::{BusAddr, DmaFault, HostMemory};
use byway_link::Class;
use byway_queue::DoorbellIndex;
use byway_spec::Command;

use crate::error::CommandError;
use crate::limits::{MAX_IO_QUEUES, PAGE_BYTES};
use crate::port::Port;
use crate::queue::{CompletionQueue, Queues};

/// Entries of each buffer that are used: a tail and a head for each queue pair. Stride 0, as CAP.DSTRD.
const ENTRIES: usize = 2 * (MAX_IO_QUEUES as usize + 1);
const ENTRY_BYTES: u64 = 4;

/// No event index yet. Larger than any queue.
const NEVER: u32 = u32::MAX;

/// The two buffers, and the values last read and written there.
#[derive(Debug)]
pub(crate) struct ShadowDoorbells {
    shadow: BusAddr,
    events: BusAddr,
    seen: [u32; ENTRIES],
    left: [u32; ENTRIES],
    /// Reads that gave a new value.
    changes: u64,
}

impl ShadowDoorbells {
    /// The buffers at two addresses, before any value was read.
    pub fn new(shadow: BusAddr, events: BusAddr) -> Self {
        Self { shadow, events, seen: [0; ENTRIES], left: [NEVER; ENTRIES], changes: 0 }
    }

    /// The value of a doorbell, if it has changed.
    fn read(&mut self, port: &mut Port<'_>, index: DoorbellIndex) -> Result<Option<u32>, DmaFault> {
        let value = port.memory.load_u32(place(self.shadow, index))?;
        port.meter.device_read(Class::Shadow, ENTRY_BYTES);
        let old = std::mem::replace(&mut self.seen[index.place() as usize], value);
        self.changes += u64::from(old != value);
        Ok((old != value).then_some(value))
    }

    /// Leaves the last seen value of a doorbell as its event index. Returns whether one was written.
    fn leave(&mut self, port: &mut Port<'_>, index: DoorbellIndex) -> Result<bool, DmaFault> {
        let value = self.seen[index.place() as usize];
        if std::mem::replace(&mut self.left[index.place() as usize], value) == value {
            return Ok(false);
        }
        port.memory.store_u32(place(self.events, index), value)?;
        port.meter.device_write(Class::Shadow, ENTRY_BYTES);
        Ok(true)
    }

    /// A doorbell begins in the buffer with `value`.
    pub fn start(&mut self, port: &mut Port<'_>, index: DoorbellIndex, value: u32) -> Result<(), DmaFault> {
        self.seen[index.place() as usize] = value;
        self.left[index.place() as usize] = NEVER;
        port.memory.store_u32(place(self.shadow, index), value)?;
        port.meter.device_write(Class::Shadow, ENTRY_BYTES);
        Ok(())
    }

    /// The last value of a doorbell that was read.
    pub fn seen(&self, index: DoorbellIndex) -> u32 {
        self.seen[index.place() as usize]
    }

    /// New values read so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Reads the doorbells of every I/O queue, and passes those with invalid values to `report_invalid`.
    pub fn read_all(
        &mut self,
        port: &mut Port<'_>,
        queues: &mut Queues,
        mut report_invalid: impl FnMut(DoorbellIndex, u32),
    ) -> Result<(), DmaFault> {
        for qid in 1..=MAX_IO_QUEUES {
            let tail = DoorbellIndex::submission(qid);
            if queues.submission(qid).is_some()
                && let Some(value) = self.read(port, tail)?
                && !queues.take_tail(qid, value)
            {
                report_invalid(tail, value);
            }
            let head = DoorbellIndex::completion(qid);
            if queues.completion(qid).is_some()
                && let Some(value) = self.read(port, head)?
                && !queues.take_head(qid, value)
            {
                report_invalid(head, value);
            }
        }
        Ok(())
    }

    /// Leaves the event index of every tail, and of a head where its queue holds commands back; whether any was written.
    pub fn leave_event_indexes(&mut self, port: &mut Port<'_>, queues: &Queues) -> Result<bool, DmaFault> {
        let mut any = false;
        for qid in 1..=MAX_IO_QUEUES {
            if queues.submission(qid).is_some() {
                any |= self.leave(port, DoorbellIndex::submission(qid))?;
            }
            if queues.completion(qid).is_some_and(holds_back) {
                any |= self.leave(port, DoorbellIndex::completion(qid))?;
            }
        }
        if any {
            fence(Ordering::SeqCst);
        }
        Ok(any)
    }

    /// The doorbells of queue pair `qid`, which is delegated.
    pub fn pair(&self, qid: u16) -> BufferedPair {
        let seen = [self.seen(DoorbellIndex::submission(qid)), self.seen(DoorbellIndex::completion(qid))];
        BufferedPair { qid, shadow: self.shadow, seen }
    }

    /// A pair is reclaimed: values that its thread did not take are read again. The event indexes are those from before.
    pub fn take_pair(&mut self, pair: BufferedPair) {
        let indexes = [DoorbellIndex::submission(pair.qid), DoorbellIndex::completion(pair.qid)];
        for (index, seen) in indexes.into_iter().zip(pair.seen) {
            self.seen[index.place() as usize] = seen;
        }
    }
}

/// The doorbells of a delegated queue pair in the host's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedPair {
    qid: u16,
    shadow: BusAddr,
    /// The last tail and head that were taken.
    seen: [u32; 2],
}

impl BufferedPair {
    /// The value of a doorbell of this pair in the host's buffer.
    pub fn load(&self, port: &mut Port<'_>, index: DoorbellIndex) -> Result<u32, DmaFault> {
        let value = port.memory.load_u32(place(self.shadow, index))?;
        port.meter.device_read(Class::Shadow, ENTRY_BYTES);
        Ok(value)
    }

    /// The value of a doorbell was taken.
    pub fn take(&mut self, index: DoorbellIndex, value: u32) {
        self.seen[usize::from(index.is_completion())] = value;
    }
}

/// The address of a doorbell in a buffer.
fn place(buffer: BusAddr, index: DoorbellIndex) -> BusAddr {
    BusAddr(buffer.0 + u64::from(index.place()) * ENTRY_BYTES)
}

/// Whether a command waits for a slot of this queue, or the next one would.
fn holds_back(cq: &CompletionQueue) -> bool {
    cq.blocked.is_set() || cq.ring.unread() + cq.ring.granted() >= cq.ring.size() - 1
}

/// The buffers that a Doorbell Buffer Config command names.
pub(crate) fn configured(command: &Command) -> Result<ShadowDoorbells, CommandError> {
    let (shadow, events) = (command.prp1(), command.prp2());
    for (address, byte) in [(shadow, 24), (events, 32)] {
        let fits = address.checked_add(PAGE_BYTES as u64).is_some();
        if address == 0 || !address.is_multiple_of(PAGE_BYTES as u64) || !fits {
            return Err(CommandError::invalid_field("a doorbell buffer is one page").at_byte(byte));
        }
    }
    Ok(ShadowDoorbells::new(BusAddr(shadow), BusAddr(events)))
}
