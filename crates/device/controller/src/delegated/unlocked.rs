//! Gathered commands that are executed without the run lock (decisions 0064 and 0061).

use byway_flash::FlashReads;
use byway_kv::PREFETCH_GROUP;

use super::{DelegatedQueue, Gathering, What};
use crate::counting::Counted;
use crate::subsystem::{BlockAccess, BlockPermit, Subsystem};

/// Commands executed without the run lock before they are counted under it: what a kill loses of the counters at most.
const UNCOUNTED_MAX: u64 = 1 << 16;

/// Batches under the run lock before permits that were refused or have ended are asked for again: the reason may be gone.
pub(super) const RETRY_AFTER_BATCHES: u32 = 256;

/// Commands of a queue that were executed without the run lock and are not counted yet: so they write no line that others share.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    /// Commands and the bytes that they moved, by opcode and kind of data pointer.
    commands: Vec<(Counted, u64, u64)>,
    total: u64,
    flash: FlashReads,
}

impl Uncounted {
    #[inline]
    pub(super) fn add(&mut self, counted: Counted, bytes: u64, reads: FlashReads) {
        self.total += 1;
        self.add_reads(reads);
        match self.commands.iter_mut().find(|(other, ..)| *other == counted) {
            Some((_, commands, moved)) => (*commands, *moved) = (*commands + 1, *moved + bytes),
            None => self.commands.push((counted, 1, bytes)),
        }
    }

    /// Counts reads of a command that is not done.
    #[inline]
    pub(super) fn add_reads(&mut self, reads: FlashReads) {
        self.flash += reads;
    }

    /// Adds a store of so many bytes.
    #[inline]
    pub(super) fn add_store(&mut self, counted: Counted, bytes: u64) {
        self.add(counted, bytes, FlashReads::default());
    }

    /// Whether so many wait that they are to be counted now.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.total >= UNCOUNTED_MAX
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0 && self.flash == FlashReads::default()
    }

    /// Counts them.
    pub(super) fn settle(&mut self, subsystem: &mut Subsystem) {
        if self.is_empty() {
            return;
        }
        for (counted, commands, bytes) in self.commands.drain(..) {
            subsystem.count_unlocked(counted, commands, bytes);
        }
        subsystem.flash_mut().count_reads(std::mem::take(&mut self.flash));
        self.total = 0;
    }
}

impl DelegatedQueue {
    /// Counts a batch under the run lock. Once in [`RETRY_AFTER_BATCHES`] asks again for permits of blocks, if one is missing.
    #[inline]
    pub(super) fn note_batch(&mut self, subsystem: &Subsystem) {
        match self.batches_until_retry.checked_sub(1) {
            Some(left) => self.batches_until_retry = left,
            None => self.renew_permits(subsystem),
        }
    }

    /// What is attached is what it was when the queue was delegated: only permits change meanwhile.
    #[cold]
    fn renew_permits(&mut self, subsystem: &Subsystem) {
        self.batches_until_retry = RETRY_AFTER_BATCHES;
        if self.blocks.iter().flatten().any(BlockAccess::lacks_permit) {
            self.blocks = subsystem.block_access(self.habits.id);
        }
    }

    /// Executes gathered commands that need no subsystem. Whether no other remains: those are left to [`Self::execute`], and with them
    /// reads of blocks that one of them writes first.
    pub fn execute_unlocked(&mut self) -> bool {
        let mut is_all = true;
        for at in 0..self.gathered.len() {
            if at % PREFETCH_GROUP == 0 && self.gathered.len() > 1 {
                self.prefetch_reads(at);
            }
            is_all &= self.execute_one_unlocked(at, is_all);
        }
        is_all && !self.uncounted.is_full()
    }

    /// Prefetches memory for the reads of the group that begins at `at`: the map's entries, and by them what each begins with.
    fn prefetch_reads(&self, at: usize) {
        let group = self.gathered.iter().skip(at).take(PREFETCH_GROUP);
        let reads = group.filter(|gathering| gathering.work.what == What::Read).filter_map(|gathering| {
            Some((permit(&self.blocks, gathering.nsid)?.reader(), gathering.work.at))
        });
        reads.clone().for_each(|(reader, at)| reader.prefetch_entry(at));
        reads.for_each(|(reader, at)| reader.prefetch_unit(at));
    }

    /// Executes the command gathered at `at`; whether it is done. Stores of values wait for earlier commands.
    #[inline]
    fn execute_one_unlocked(&mut self, at: usize, is_next: bool) -> bool {
        if is_next && self.put_by_lease(at).is_some() {
            return true;
        }
        let Self { gathered, payloads, blocks, uncounted, .. } = self;
        let (earlier, rest) = gathered.split_at_mut(at);
        let Some(gathering) = rest.first_mut().filter(|gathering| !gathering.is_done) else { return true };
        let Gathering { counted, nsid, work, .. } = &*gathering;
        let Some(permit) = permit(blocks, *nsid) else { return false };
        let is_written_first = || earlier.iter().any(|other| other.writes_what_is_read(gathering));
        if work.what != What::Read || gathering.result.is_err() || is_written_first() {
            return false;
        }
        let Some(reads) = permit.read(work.at, &mut payloads[work.value.at..][..work.value.len]) else {
            return false;
        };
        uncounted.add(*counted, work.value.len as u64, reads);
        gathering.is_done = true;
        true
    }
}

/// The permit to read and write blocks of a namespace, if there is one.
#[inline]
pub(super) fn permit(blocks: &[Option<BlockAccess>], nsid: u32) -> Option<&BlockPermit> {
    blocks.get(nsid.wrapping_sub(1) as usize)?.as_ref()?.permit.as_ref()
}

impl Gathering {
    /// Whether it is a write, not yet executed, of blocks that `read` reads.
    fn writes_what_is_read(&self, read: &Self) -> bool {
        let (written, wanted) = (&self.work, &read.work);
        !self.is_done
            && written.what == What::Write
            && self.nsid == read.nsid
            && written.at < wanted.at + wanted.value.len as u64
            && wanted.at < written.at + written.value.len as u64
    }
}
