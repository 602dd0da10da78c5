//! Permits to read and write blocks of a namespace without the subsystem, until anything changes that the permission rests on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway_flash::{BlockLease, BlockReader, FlashReads};
use byway_queue::validated;

use super::Subsystem;
use crate::id::ControllerId;
use crate::namespace::Namespace;
use crate::namespace::nvm::Shape;

/// Changes with who may do what with a namespace, and with what it is. It changes for the last time when the namespace goes.
#[derive(Debug, Default)]
pub(super) struct AccessVersion(Arc<AtomicU64>);

impl AccessVersion {
    /// Ends every permit. Called before what it rests on changes.
    pub(super) fn change(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A permit until the next change; none without a reader.
    pub(super) fn permit(&self, reader: Option<BlockReader>) -> Option<BlockPermit> {
        let version = Arc::clone(&self.0);
        let granted = version.load(Ordering::Acquire);
        reader.map(|reader| BlockPermit { reader, version, granted })
    }
}

impl Drop for AccessVersion {
    fn drop(&mut self) {
        self.change();
    }
}

/// The right of one controller to read the blocks of a namespace on any thread, and to write them by a lease.
#[derive(Debug)]
pub(crate) struct BlockPermit {
    reader: BlockReader,
    version: Arc<AtomicU64>,
    granted: u64,
}

impl BlockPermit {
    /// The reader, to prefetch for reads.
    #[inline]
    pub(crate) fn reader(&self) -> &BlockReader {
        &self.reader
    }

    /// Whether the permit has ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.is_granted()
    }

    #[inline]
    pub(crate) fn is_granted(&self) -> bool {
        self.version.load(Ordering::Acquire) == self.granted
    }

    /// Writes whole units at byte `at` of the namespace by a lease. False where that takes the run lock: the permit has ended, or the lease
    /// takes no more. Leases are recalled before a permit ends.
    #[inline]
    pub(crate) fn write(&self, lease: &BlockLease, at: u64, data: &[u8]) -> bool {
        self.reader.write_by(lease, at, data, || self.is_granted())
    }

    /// Fills `into` from byte `at` of the namespace. `None` where only the subsystem can say what the command's result is: the permit has
    /// ended, or the reader cannot vouch for the bytes.
    #[inline]
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Option<FlashReads> {
        validated(1, || self.is_granted(), |granted| if *granted { self.reader.read(at, into) } else { None })
            .flatten()
    }
}

/// A namespace of blocks as one controller may use it.
#[derive(Debug)]
pub(crate) struct BlockAccess {
    pub shape: Shape,
    /// `None` where each command is checked, or counted with its time.
    pub permit: Option<BlockPermit>,
}

impl BlockAccess {
    /// Whether the permit was refused or has ended.
    pub(crate) fn lacks_permit(&self) -> bool {
        self.permit.as_ref().is_none_or(BlockPermit::has_ended)
    }
}

impl Subsystem {
    /// The namespaces of blocks that are attached to controller `id`, each in the place that its identifier gives it.
    pub(crate) fn block_access(&self, id: ControllerId) -> Vec<Option<BlockAccess>> {
        let is_counted = self.counts_commands();
        let access = |slot: &super::Slot| {
            let Namespace::Nvm(nvm) = &slot.namespace else { return None };
            // Commands that change blocks which a query reads are executed under the run lock, where the query's watch is.
            let is_free = slot.free.contains(id) && !is_counted && !nvm.is_watched();
            let permit = || slot.version.permit(self.flash.block_reader(nvm.record().extent));
            slot.served
                .contains(id)
                .then(|| BlockAccess { shape: nvm.shape(), permit: if is_free { permit() } else { None } })
        };
        self.slots.iter().map(|slot| access(slot.as_ref()?)).collect()
    }
}
