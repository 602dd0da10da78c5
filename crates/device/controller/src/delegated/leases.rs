//! Leases of a delegated queue, by which its stores are executed beside whatever other threads do (decision 0061).

use byway_flash::{BlockLease, Durability, Flash, ImageWatch, UNIT_BYTES};
use byway_kv::{Key, LeaseHandle, LeaseId};

use super::unlocked::permit;
use super::{DelegatedQueue, Gathering, What};
use crate::error::CommandError;
use crate::namespace::Namespace;
use crate::namespace::kv::{KvNamespace, StoreIf};
use crate::subsystem::{BlockAccess, BlockPermit, Subsystem};

/// Longest write that is executed by a lease. Longer ones fill pages, which are programmed without the buffer.
const LEASED_WRITE_MAX_BYTES: usize = 8 << 10;

/// Stores or writes under the run lock before a lease that was refused is asked for again.
const RETRY_AFTER_STORES: u32 = 256;

/// A lease of each key-value namespace that the queue has stored to, and one for all namespaces of blocks, where they were to be had.
#[derive(Debug, Default)]
pub(crate) struct QueueLeases {
    places: Vec<Place>,
    /// `None` before the first write.
    blocks: Option<BlockPlace>,
}

/// The queue has written blocks.
#[derive(Debug, Default)]
struct BlockPlace {
    lease: Option<BlockLease>,
    /// Writes before a lease is asked for again, where none was to be had.
    writes_until_retry: u32,
}

impl BlockPlace {
    /// Asks for a lease, unless one was refused a few writes ago. Not where slots wait for syncs: leased ones come round sooner (decision 0074).
    #[cold]
    fn ask(&mut self, flash: &mut Flash) {
        if flash.durability() != Durability::Process {
            return;
        }
        match self.writes_until_retry.checked_sub(1) {
            Some(left) => self.writes_until_retry = left,
            None => {
                self.lease = flash.open_block_lease();
                self.writes_until_retry = RETRY_AFTER_STORES;
            }
        }
    }
}

/// A namespace that the queue has stored to.
#[derive(Debug)]
struct Place {
    nsid: u32,
    lease: Option<QueueLease>,
    /// Stores until a lease is asked for again.
    stores_until_retry: u32,
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

impl Place {
    /// The lease, for a store under the run lock: opened at the first one, after it ended, and some stores after it was refused.
    fn open(&mut self, kv: &mut KvNamespace, flash: &mut Flash) -> Option<LeaseId> {
        let held = self.lease.as_ref().map(|lease| lease.handle.id()).filter(|id| kv.has_lease(*id));
        if held.is_some() {
            return held;
        }
        self.lease = None;
        if self.stores_until_retry > 0 {
            self.stores_until_retry -= 1;
            return None;
        }
        let Some(handle) = kv.open_lease(flash) else {
            self.stores_until_retry = RETRY_AFTER_STORES;
            return None;
        };
        let id = handle.id();
        self.lease = Some(QueueLease { handle, image: flash.image_watch() });
        Some(id)
    }
}

impl QueueLeases {
    /// The lease for blocks.
    #[inline]
    fn of_blocks(&self) -> Option<&BlockLease> {
        self.blocks.as_ref()?.lease.as_ref()
    }

    /// The lease for blocks, opened at the first write, or later, when another queue has given its lease back.
    pub(super) fn open_for_blocks(&mut self, flash: &mut Flash) -> Option<&BlockLease> {
        let place = self.blocks.get_or_insert_default();
        if place.lease.is_none() {
            place.ask(flash);
        }
        place.lease.as_ref()
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

    /// Stores a value under the run lock, by the lease of the namespace if there is one to be had: then those behind it need no lock.
    ///
    /// # Errors
    /// As a store without a lease.
    pub(crate) fn store(
        &mut self,
        nsid: u32,
        kv: &mut KvNamespace,
        flash: &mut Flash,
        key: &Key,
        value: &[u8],
    ) -> Result<(), CommandError> {
        match self.place(nsid).open(kv, flash) {
            Some(lease) => kv.put_leased_at(flash, lease, key, value),
            None => {
                kv.take_in(flash);
                kv.put_at(flash, key, value, StoreIf::Any, &mut 0)
            }
        }
    }

    fn place(&mut self, nsid: u32) -> &mut Place {
        let at = self.places.iter().position(|place| place.nsid == nsid).unwrap_or(self.places.len());
        if at == self.places.len() {
            self.places.push(Place { nsid, lease: None, stores_until_retry: 0 });
        }
        &mut self.places[at]
    }

    /// Whether the queue has a lease of any namespace.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.of_blocks().is_some() || self.places.iter().any(|place| place.lease.is_some())
    }

    /// Whether the queue is known to have stored to no namespace.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.blocks.is_none()
    }

    /// Ends them.
    pub(crate) fn close(&mut self, subsystem: &mut Subsystem) {
        if let Some(BlockPlace { lease: Some(lease), .. }) = self.blocks.take() {
            subsystem.flash_mut().close_block_lease(&lease);
        }
        for Place { nsid, lease, .. } in self.places.drain(..) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_flash::{BlockLease, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
    use byway_link::Profile;

    use super::*;
    use crate::subsystem::{Identity, SubsystemOptions};

    const NSID: u32 = 1;

    fn subsystem() -> Subsystem {
        let profile = Profile::by_name("gen4x4").unwrap();
        let options = FlashOptions::new(128 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]);
        let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: 64 << 20 };
        let flash = Flash::create(options, &[spec]).unwrap();
        let identity = Identity { nqn: "nqn.2026-01.t:x".into(), serial: "1".into(), model: "m".into() };
        Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap()
    }

    fn store(subsystem: &mut Subsystem, leases: &mut QueueLeases, n: u64) {
        let Some((Namespace::Kv(kv), flash)) = subsystem.parts_of(NSID) else { panic!("it holds keys") };
        leases.store(NSID, kv, flash, &Key::new(&n.to_be_bytes()).unwrap(), b"value").unwrap();
    }

    /// Stores until a lease is held; how many that took.
    fn stores_until_held(subsystem: &mut Subsystem, leases: &mut QueueLeases) -> u64 {
        let until = (0..10_000).find(|n| {
            store(subsystem, leases, *n);
            leases.has(NSID)
        });
        until.unwrap()
    }

    #[test]
    fn a_lease_that_ended_is_replaced_at_the_next_store() {
        let (mut subsystem, mut leases) = (subsystem(), QueueLeases::default());
        store(&mut subsystem, &mut leases, 1);
        let first = leases.get(NSID).unwrap().handle.id();
        let Some((Namespace::Kv(kv), flash)) = subsystem.parts_of(NSID) else { panic!("it holds keys") };
        kv.close_lease(flash, first);
        store(&mut subsystem, &mut leases, 2);
        assert!(leases.get(NSID).is_some_and(|lease| lease.handle.id() != first));
    }

    #[test]
    fn a_lease_that_was_refused_is_asked_for_again_some_stores_later() {
        let mut subsystem = subsystem();
        let mut all: Vec<QueueLeases> = Vec::new();
        while all.last().is_none_or(|leases| leases.has(NSID)) {
            all.push(QueueLeases::default());
            store(&mut subsystem, all.last_mut().unwrap(), 1);
        }
        let mut refused = all.pop().unwrap();
        store(&mut subsystem, &mut refused, 2);
        assert!(!refused.has(NSID), "every window is leased");
        all.pop().unwrap().close(&mut subsystem);
        let stores = stores_until_held(&mut subsystem, &mut refused);
        assert!(stores <= u64::from(RETRY_AFTER_STORES), "after {stores} stores");
    }

    #[test]
    fn lease_that_was_refused_is_asked_for_again_after_some_writes() {
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let options = FlashOptions::new(4 << 20, profile, MediaKind::Ram).timing(false);
        let mut flash = Flash::create(options, &[]).unwrap();
        let others: Vec<BlockLease> = std::iter::from_fn(|| flash.open_block_lease()).collect();
        let mut leases = QueueLeases::default();
        assert!(leases.open_for_blocks(&mut flash).is_none());
        flash.close_block_lease(&others[0]);
        let mut tries = 0..2 * RETRY_AFTER_STORES;
        assert!(tries.any(|_| leases.open_for_blocks(&mut flash).is_some()));
    }
}
