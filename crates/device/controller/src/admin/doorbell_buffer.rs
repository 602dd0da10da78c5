//! Doorbell Buffer Config (Base 2.1, section 5.2.5): doorbells in host memory.
//!
//! The host writes tails and heads to the shadow buffer; it writes the doorbell itself only when it passes the
//! index the device left in the event buffer. Before it goes to rest the device leaves the values it has seen
//! there, then looks once more: either it sees the host's newer value, or the host sees the index and rings. Both
//! sides put a full fence between their store and their load; without it both could miss the other's.
//! The admin queue always rings. A queue that is created later starts from zero in the buffer; one that is there
//! already, as Linux has it, goes on from what its doorbell holds.

use std::sync::atomic::{Ordering, fence};

use byway_dma::{BusAddr, DmaFault, HostMemory};
use byway_link::Class;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::Command;

use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::payload::PAGE_BYTES;
use crate::port::Port;
use crate::queue::{CompletionQueue, MAX_IO_QUEUES};

/// Entries of each buffer that are used: a tail and a head for each queue pair. Stride 0, as CAP.DSTRD.
const ENTRIES: usize = 2 * (MAX_IO_QUEUES as usize + 1);
const ENTRY_BYTES: u64 = 4;

/// No index was left yet; no queue has so many entries.
const NEVER: u32 = u32::MAX;

/// The two buffers and what was last read and written there.
#[derive(Debug)]
pub(crate) struct ShadowDoorbells {
    shadow: BusAddr,
    events: BusAddr,
    seen: [u32; ENTRIES],
    left: [u32; ENTRIES],
    /// How often another value was read.
    changes: u64,
}

impl ShadowDoorbells {
    fn new(shadow: BusAddr, events: BusAddr) -> Self {
        Self { shadow, events, seen: [0; ENTRIES], left: [NEVER; ENTRIES], changes: 0 }
    }

    /// The value of a doorbell if it is another than last time.
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
    fn start(&mut self, port: &mut Port<'_>, index: DoorbellIndex, value: u32) -> Result<(), DmaFault> {
        self.seen[index.place() as usize] = value;
        self.left[index.place() as usize] = NEVER;
        port.memory.store_u32(place(self.shadow, index), value)?;
        port.meter.device_write(Class::Shadow, ENTRY_BYTES);
        Ok(())
    }
}

/// The doorbells of one queue pair in the host's buffer, for who serves it on leave from its controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedPair {
    qid: u16,
    shadow: BusAddr,
    /// What was taken last: tail and head.
    seen: [u32; 2],
}

impl BufferedPair {
    /// What the host has in a doorbell of this pair.
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

/// Where a doorbell stands in a buffer.
fn place(buffer: BusAddr, index: DoorbellIndex) -> BusAddr {
    BusAddr(buffer.0 + u64::from(index.place()) * ENTRY_BYTES)
}

/// Whether no command that completes to this queue can be started, or one waits for more room than there is: fused commands
/// take two places.
fn holds_back(cq: &CompletionQueue) -> bool {
    cq.blocks || cq.ring.unread() + cq.ring.granted() >= cq.ring.size() - 1
}

impl Controller {
    pub(super) fn configure_doorbell_buffer(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let (shadow, events) = (command.prp1(), command.prp2());
        for (address, byte) in [(shadow, 24), (events, 32)] {
            let fits = address.checked_add(PAGE_BYTES as u64).is_some();
            if address == 0 || !address.is_multiple_of(PAGE_BYTES as u64) || !fits {
                return Err(CommandError::invalid_field("a doorbell buffer is one page").at_byte(byte));
            }
        }
        let mut buffers = Box::new(ShadowDoorbells::new(BusAddr(shadow), BusAddr(events)));
        self.move_doorbells(&mut buffers, port, doorbells)?;
        self.admin.shadow = Some(buffers);
        Ok(Outcome::OK)
    }

    /// Takes the doorbells of the I/O queues there are for the last time, and leaves their values in the buffer.
    fn move_doorbells(
        &mut self,
        buffers: &mut ShadowDoorbells,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
    ) -> Result<(), DmaFault> {
        for qid in 1..=MAX_IO_QUEUES {
            for index in [DoorbellIndex::submission(qid), DoorbellIndex::completion(qid)] {
                if self.has_doorbell(index) {
                    // Buffers that are replaced know more than the register does.
                    let seen = self.admin.shadow.as_ref().map(|old| old.seen[index.place() as usize]);
                    self.take_doorbell(doorbells, index);
                    buffers.start(port, index, seen.unwrap_or_else(|| doorbells.load(index)))?;
                }
            }
        }
        Ok(())
    }

    /// Starts a new queue's doorbell from zero: the host may have left the value of a queue of the same identifier
    /// in the buffer, and the slots it tells of hold that queue's commands.
    pub(super) fn start_shadow(&mut self, port: &mut Port<'_>, index: DoorbellIndex) {
        let Some(shadow) = self.admin.shadow.as_mut() else { return };
        if shadow.start(port, index, 0).is_err() {
            self.fail();
        }
    }

    /// The doorbells of queue pair `qid`, where they are in the host's buffer, as the pair leaves.
    pub(crate) fn buffered_pair(&self, qid: u16) -> Option<BufferedPair> {
        let buffers = self.admin.shadow.as_ref()?;
        let seen = |index: DoorbellIndex| buffers.seen[index.place() as usize];
        let seen = [seen(DoorbellIndex::submission(qid)), seen(DoorbellIndex::completion(qid))];
        Some(BufferedPair { qid, shadow: buffers.shadow, seen })
    }

    /// A pair is back: what it did not take is read anew. The event indexes are those that it left with.
    pub(crate) fn take_buffered_pair(&mut self, pair: BufferedPair) {
        if let Some(buffers) = self.admin.shadow.as_mut() {
            let indexes = [DoorbellIndex::submission(pair.qid), DoorbellIndex::completion(pair.qid)];
            for (index, seen) in indexes.into_iter().zip(pair.seen) {
                buffers.seen[index.place() as usize] = seen;
            }
        }
    }

    /// Whether the doorbells of queue `qid` are read from host memory.
    #[inline]
    pub(crate) fn is_shadowed(&self, qid: u16) -> bool {
        qid != 0 && self.admin.has_shadow_doorbells()
    }

    /// Reads the shadow doorbells of every I/O queue.
    pub(crate) fn take_shadow_doorbells(&mut self, port: &mut Port<'_>) {
        let Some(mut shadow) = self.admin.shadow.take() else { return };
        // The host may have taken the buffers away: then its doorbells cannot be known any more.
        match self.read_shadow(&mut shadow, port) {
            Ok(()) => self.admin.shadow = Some(shadow),
            Err(_) => self.fail(),
        }
    }

    fn read_shadow(&mut self, shadow: &mut ShadowDoorbells, port: &mut Port<'_>) -> Result<(), DmaFault> {
        for qid in 1..=MAX_IO_QUEUES {
            let tail = DoorbellIndex::submission(qid);
            if self.submission[usize::from(qid)].is_some()
                && let Some(value) = shadow.read(port, tail)?
                && !self.take_tail(qid, value)
            {
                self.note_invalid_doorbell(tail, value);
            }
            let head = DoorbellIndex::completion(qid);
            if self.completion[usize::from(qid)].is_some()
                && let Some(value) = shadow.read(port, head)?
                && !self.take_head(qid, value)
            {
                self.note_invalid_doorbell(head, value);
            }
        }
        Ok(())
    }

    /// Whether the host has doorbells in its memory.
    pub fn has_doorbell_buffers(&self) -> bool {
        self.admin.has_shadow_doorbells()
    }

    /// Somebody runs the controller again soon whether or not the host rings, so that no event indexes are left; or nobody
    /// does any more.
    pub fn watch_doorbell_buffers(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    /// How many new values were read in the host's doorbell buffer.
    pub fn doorbells_seen(&self) -> u64 {
        self.admin.shadow.as_ref().map_or(0, |shadow| shadow.changes)
    }

    /// Before rest: leaves event indexes so that the host rings for what comes, and picks up what came meanwhile.
    #[inline]
    pub(crate) fn arm_shadow_doorbells(&mut self, port: &mut Port<'_>) {
        if self.admin.has_shadow_doorbells() && !self.is_watched {
            self.leave_shadow_doorbells(port);
        }
    }

    fn leave_shadow_doorbells(&mut self, port: &mut Port<'_>) {
        let Some(mut shadow) = self.admin.shadow.take() else { return };
        match self.leave_event_indexes(&mut shadow, port) {
            Ok(left_any) => {
                self.admin.shadow = Some(shadow);
                if left_any {
                    fence(Ordering::SeqCst);
                    self.take_shadow_doorbells(port);
                }
            }
            Err(_) => self.fail(),
        }
    }

    /// Every tail is waited for, but a head only where its queue holds commands back.
    fn leave_event_indexes(
        &self,
        shadow: &mut ShadowDoorbells,
        port: &mut Port<'_>,
    ) -> Result<bool, DmaFault> {
        let mut any = false;
        for qid in 1..=MAX_IO_QUEUES {
            if self.submission[usize::from(qid)].is_some() {
                any |= shadow.leave(port, DoorbellIndex::submission(qid))?;
            }
            if self.completion[usize::from(qid)].as_ref().is_some_and(holds_back) {
                any |= shadow.leave(port, DoorbellIndex::completion(qid))?;
            }
        }
        Ok(any)
    }
}
