//! The memory of a queue's rings, and the host's halves over it.

use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};
use byway_dma::{BusAddr, DmaMemory};
use byway_queue::{CompletionConsumer, ENTRY_BYTES, EntryMemory, SLOT_BYTES, SlotMemory, SubmissionProducer};
use byway_spec::{Command, Completion};

use crate::bus::Bus;
use crate::mapped::Mapped;

/// Slots of a submission queue in DMA memory.
#[derive(Debug)]
struct Slots(Arc<DmaMemory>);

impl SlotMemory for Slots {
    #[inline]
    fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]) {
        // The memory was sized for the ring, and the ring bounds the index.
        let _ = self.0.write_slot64(usize::from(index) * SLOT_BYTES, bytes);
    }

    #[inline]
    fn write_slots(&self, first: u16, slots: &[[u8; SLOT_BYTES]]) {
        // As above.
        let _ = self.0.write_at(usize::from(first) * SLOT_BYTES, slots.as_flattened());
    }
}

/// Entries of a completion queue in DMA memory.
#[derive(Debug)]
struct Entries(Arc<DmaMemory>);

impl EntryMemory for Entries {
    #[inline]
    fn load_phase_word(&self, index: u16) -> u32 {
        // The memory was sized for the ring, and the ring bounds the index.
        self.0.load_u32(usize::from(index) * ENTRY_BYTES + 12).unwrap_or_default()
    }

    #[inline]
    fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES] {
        self.0.load_completion(usize::from(index) * ENTRY_BYTES).unwrap_or_default()
    }
}

/// A submission queue and the completion queue of its own.
pub(crate) struct Rings<B: Bus> {
    submission: SubmissionProducer<Slots>,
    completion: CompletionConsumer<Entries>,
    entries: u32,
    /// The memory of both; until the device must be believed to have it for ever.
    memory: Option<RingMemory<B>>,
    bus_addrs: (BusAddr, BusAddr),
}

/// The memory of the two rings of a queue, mapped until it is dropped.
pub(crate) struct RingMemory<B: Bus> {
    _submission: Mapped<B>,
    _completion: Mapped<B>,
}

impl<B: Bus> Rings<B> {
    /// Two empty rings of `entries` entries each, mapped.
    ///
    /// # Errors
    /// When there is no memory for them, or `entries` is not 2 to 65536.
    pub(crate) fn new(bus: &Arc<B>, entries: u32) -> Result<Self> {
        let refused =
            |cause: byway_queue::BadSize| Error::host(ErrorKind::InvalidArgument, cause.to_string());
        let submission_memory = Mapped::zeroed(bus, entries as usize * SLOT_BYTES)?;
        let completion_memory = Mapped::zeroed(bus, entries as usize * ENTRY_BYTES)?;
        let slots = Slots(Arc::clone(submission_memory.memory()));
        let places = Entries(Arc::clone(completion_memory.memory()));
        let bus_addrs = (submission_memory.bus_addr(), completion_memory.bus_addr());
        let memory = RingMemory { _submission: submission_memory, _completion: completion_memory };
        Ok(Self {
            submission: SubmissionProducer::new(entries, slots).map_err(refused)?,
            completion: CompletionConsumer::new(entries, places).map_err(refused)?,
            entries,
            memory: Some(memory),
            bus_addrs,
        })
    }

    /// Takes the memory out, for a device that may still write it: it is neither unmapped nor lent again before the holder that
    /// takes it lets it go.
    pub(crate) fn take_memory(&mut self) -> Option<RingMemory<B>> {
        self.memory.take()
    }

    /// Entries of each ring.
    #[inline]
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Where the device sees the submission queue and the completion queue.
    pub(crate) fn bus_addrs(&self) -> (BusAddr, BusAddr) {
        self.bus_addrs
    }

    /// Slots that are free.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.submission.free()
    }

    /// Places a command and the chunks behind it; all or, if there is no room, none.
    #[inline(always)]
    pub(crate) fn place(&mut self, entry: &Command, payload: &[u8], chunks: u32) -> bool {
        let Some(mut permit) = self.submission.reserve(1 + chunks) else { return false };
        permit.write(&entry.to_bytes());
        permit.write_chunks(payload);
        permit.commit();
        true
    }

    /// The value for the tail doorbell.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        u32::from(self.submission.tail())
    }

    /// The value for the head doorbell.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        u32::from(self.completion.head())
    }

    /// Takes the next completion, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] when it frees slots that were never filled.
    pub(crate) fn take(&mut self) -> Result<Option<Completion>> {
        let Some(completion) = self.peek() else { return Ok(None) };
        self.pass(&completion, 0).map(|()| Some(completion))
    }

    /// The next completion, if there is one. It stays the next.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<Completion> {
        self.completion.peek().map(|bytes| Completion::from_bytes(&bytes))
    }

    /// The entry of a result at `distance` from the next completion, if it is there.
    pub(crate) fn peek_behind(&self, distance: u32) -> Option<[u8; ENTRY_BYTES]> {
        self.completion.peek_behind(distance)
    }

    /// Goes past the next completion and the entries of a result behind it.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    #[inline(always)]
    pub(crate) fn pass(&mut self, completion: &Completion, behind: u32) -> Result<()> {
        self.completion.advance(1 + behind);
        match self.submission.freed_to(completion.sqhd) {
            Ok(_) => Ok(()),
            Err(cause) => Err(bad_head(&cause)),
        }
    }
}

#[cold]
fn bad_head(cause: &byway_queue::BadDoorbell) -> Error {
    Error::device(ErrorKind::Protocol, format!("a completion reports a wrong submission queue head: {cause}"))
}
