//! Leases of a delegated queue, by which its stores are executed beside whatever other threads do (decision 0061).

use byway_flash::{Flash, ImageWatch};
use byway_kv::{Key, LeaseHandle, LeaseId};

use super::{DelegatedQueue, Gathering, What};
use crate::namespace::Namespace;
use crate::namespace::kv::{KvNamespace, StoreIf};
use crate::subsystem::Subsystem;

/// A lease of each namespace that the queue has stored to, where one was to be had.
#[derive(Debug, Default)]
pub(crate) struct QueueLeases(Vec<Place>);

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
    #[inline]
    fn get(&self, nsid: u32) -> Option<&QueueLease> {
        self.0.iter().find(|place| place.nsid == nsid)?.lease.as_ref()
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
        self.0.iter().find(|place| place.nsid == nsid).is_none_or(|place| place.lease.is_some())
    }

    /// The lease of a namespace, opened at its first store.
    pub(crate) fn open(&mut self, nsid: u32, kv: &mut KvNamespace, flash: &mut Flash) -> Option<LeaseId> {
        if !self.0.iter().any(|place| place.nsid == nsid) {
            let lease = kv.open_lease(flash);
            let lease = lease.map(|handle| QueueLease { handle, image: flash.image_watch() });
            self.0.push(Place { nsid, lease });
        }
        Some(self.get(nsid)?.handle.id())
    }

    /// Whether the queue has a lease of any namespace.
    #[inline]
    fn has_any(&self) -> bool {
        self.0.iter().any(|place| place.lease.is_some())
    }

    /// Whether the queue is known to have stored to no namespace.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends them.
    pub(crate) fn close(&mut self, subsystem: &mut Subsystem) {
        for Place { nsid, lease } in self.0.drain(..) {
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
        work.what == What::Put && work.when == StoreIf::Any && self.leases.get(gathering.nsid).is_some()
    }

    /// Executes the Store gathered at `at` by a lease; `None` where that takes the run lock.
    #[inline]
    pub(super) fn put_by_lease(&mut self, at: usize) -> Option<()> {
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
