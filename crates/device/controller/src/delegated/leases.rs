//! Leases of a delegated queue, by which its stores are executed beside whatever other threads do (decision 0061).

use byway_flash::{BlockLease, Flash, ImageWatch, UNIT_BYTES};
use byway_kv::{Key, LeaseHandle, LeaseId};

use super::unlocked::permit;
use super::{DelegatedQueue, Gathering, What};
use crate::namespace::Namespace;
use crate::namespace::kv::{KvNamespace, StoreIf};
use crate::subsystem::{BlockAccess, BlockPermit, Subsystem};

/// Longest write that is executed by a lease. Longer ones fill pages, which are programmed without the buffer.
const LEASED_WRITE_MAX_BYTES: usize = 8 << 10;

/// A lease of each key-value namespace that the queue has stored to, and one for all namespaces of blocks, where they were to be had.
#[derive(Debug, Default)]
pub(crate) struct QueueLeases {
    places: Vec<Place>,
    /// `None` before the first write.
    blocks: Option<BlockPlace>,
}

/// The queue has written blocks.
#[derive(Debug)]
struct BlockPlace(Option<BlockLease>);

/// A namespace that the queue has stored to.
#[derive(Debug)]
struct Place {
    nsid: u32,
    lease: Option<QueueLease>,
}

/// A lease, and what says whether the image takes stores.
#[derive(Debug)]
struct QueueLease {
    handle: LeaseHandle,
    image: ImageWatch,
}

impl QueueLease {
    /// Stores a value, if the lease has room and the image takes it. Leases are recalled before an access changes that they rest on.
    #[inline]
    fn put(&self, key: &Key, value: &[u8]) -> bool {
        self.image.takes_writes() && self.handle.put(key, value) && self.image.takes_writes()
    }
}

impl QueueLeases {
    /// The lease for blocks.
    #[inline]
    fn of_blocks(&self) -> Option<&BlockLease> {
        self.blocks.as_ref()?.0.as_ref()
    }

    /// The lease for blocks, opened at the first write to a device in memory. An image file outlives the boot of its machine, and what
    /// waits in a killed process's leases would not (decision 0074).
    pub(super) fn open_for_blocks(&mut self, flash: &mut Flash) -> Option<&BlockLease> {
        let open = || BlockPlace(if flash.is_in_memory() { flash.open_block_lease() } else { None });
        self.blocks.get_or_insert_with(open).0.as_ref()
    }

    #[inline]
    fn get(&self, nsid: u32) -> Option<&QueueLease> {
        self.places.iter().find(|place| place.nsid == nsid)?.lease.as_ref()
    }

    /// Stores a value by the lease of a namespace; false where that takes the run lock.
    #[inline]
    pub(crate) fn put(&self, nsid: u32, key: &Key, value: &[u8]) -> bool {
        self.get(nsid).is_some_and(|lease| lease.put(key, value))
    }

    /// Whether there is a lease of a namespace.
    #[inline]
    pub(crate) fn has(&self, nsid: u32) -> bool {
        self.get(nsid).is_some()
    }

    /// Whether there is a lease of a namespace, or was none asked for yet.
    #[inline]
    pub(crate) fn may_have(&self, nsid: u32) -> bool {
        self.places.iter().find(|place| place.nsid == nsid).is_none_or(|place| place.lease.is_some())
    }

    /// The lease of a namespace, opened at its first store.
    pub(crate) fn open(&mut self, nsid: u32, kv: &mut KvNamespace, flash: &mut Flash) -> Option<LeaseId> {
        if !self.places.iter().any(|place| place.nsid == nsid) {
            let lease = kv.open_lease(flash);
            let lease = lease.map(|handle| QueueLease { handle, image: flash.image_watch() });
            self.places.push(Place { nsid, lease });
        }
        Some(self.get(nsid)?.handle.id())
    }

    /// Whether the queue has a lease of any namespace.
    #[inline]
    fn has_any(&self) -> bool {
        self.of_blocks().is_some() || self.places.iter().any(|place| place.lease.is_some())
    }

    /// Whether the queue is known to have stored to no namespace.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.blocks.is_none()
    }

    /// Ends them.
    pub(crate) fn close(&mut self, subsystem: &mut Subsystem) {
        if let Some(BlockPlace(Some(lease))) = self.blocks.take() {
            subsystem.flash_mut().close_block_lease(&lease);
        }
        for Place { nsid, lease } in self.places.drain(..) {
            if let (Some(lease), Some((Namespace::Kv(kv), flash))) = (lease, subsystem.parts_of(nsid)) {
                kv.close_lease(flash, lease.handle.id());
            }
        }
    }
}

impl DelegatedQueue {
    /// Whether no gathered command is left but stores by leases, to be executed while other leases are active.
    pub fn has_leased_stores_alone(&self) -> bool {
        let mut left = self.gathered.iter().filter(|gathering| !gathering.is_done);
        left.all(|left| self.is_leased_store(left))
    }

    /// Ends what it has of the namespaces for itself, before it is reclaimed.
    pub fn close_leases(&mut self, subsystem: &mut Subsystem) {
        self.leases.close(subsystem);
    }

    /// Whether it may store by leases.
    #[inline]
    pub fn has_leases(&self) -> bool {
        self.leases.has_any()
    }

    #[inline]
    fn is_leased_store(&self, gathering: &Gathering) -> bool {
        let work = &gathering.work;
        match work.what {
            What::Put => work.when == StoreIf::Any && self.leases.get(gathering.nsid).is_some(),
            What::Write => self.leases.of_blocks().is_some() && is_leasable(&self.blocks, gathering),
            _ => false,
        }
    }

    /// Writes blocks as gathered at `at` by a lease; `None` where that takes the run lock.
    #[inline]
    fn write_by_lease(&mut self, at: usize) -> Option<()> {
        let Self { gathered, payloads, uncounted, leases, blocks, .. } = self;
        let gathering = gathered.get_mut(at).filter(|gathering| gathering.result.is_ok())?;
        let work = &gathering.work;
        let data = payloads.get(work.value.at..work.value.at + work.value.len)?;
        permit(blocks, gathering.nsid)?.write(leases.of_blocks()?, work.at, data).then_some(())?;
        uncounted.add_store(gathering.counted, data.len() as u64);
        gathering.is_done = true;
        Some(())
    }

    /// Executes the Store or Write gathered at `at` by a lease; `None` where that takes the run lock.
    #[inline]
    pub(super) fn put_by_lease(&mut self, at: usize) -> Option<()> {
        match self.gathered.get(at)? {
            Gathering { is_done: true, .. } => return Some(()),
            Gathering { work, .. } if work.what == What::Write => return self.write_by_lease(at),
            _ => {}
        }
        let Self { gathered, payloads, uncounted, leases, .. } = self;
        let gathering = gathered.get_mut(at)?;
        let work = &gathering.work;
        if work.what != What::Put || work.when != StoreIf::Any || gathering.result.is_err() {
            return None;
        }
        let value = payloads.get(work.value.at..work.value.at + work.value.len)?;
        leases.get(gathering.nsid)?.put(&work.key()?, value).then_some(())?;
        uncounted.add_store(gathering.counted, value.len() as u64);
        gathering.is_done = true;
        Some(())
    }
}

/// Whether a gathered Write may be executed by a lease: whole units, and few.
#[inline]
pub(super) fn is_leasable(blocks: &[Option<BlockAccess>], gathering: &Gathering) -> bool {
    let work = &gathering.work;
    let is_whole = work.at.is_multiple_of(UNIT_BYTES as u64) && work.value.len.is_multiple_of(UNIT_BYTES);
    let is_short = work.value.len <= LEASED_WRITE_MAX_BYTES;
    is_whole && is_short && permit(blocks, gathering.nsid).is_some_and(BlockPermit::is_granted)
}
