//! Namespaces of memory and of programs: making and forgetting them.

use byway_spec::Status;
use tracing::info;

use super::{ControllerSet, NO_IDENTIFIER, Subsystem};
use crate::error::CommandError;
use crate::limits::{MAX_NAMESPACES, MEMORY_TOTAL_BYTES};
use crate::namespace::{Namespace, Origin, VolatileKind};
use crate::reservation::Reservations;

impl Subsystem {
    /// Makes a namespace of memory or of programs, attached to no controller. Returns its identifier.
    ///
    /// # Errors
    /// Namespace Identifier Unavailable, Namespace Insufficient Capacity, and statuses of sizes that no memory has.
    pub(crate) fn create_volatile(&mut self, kind: VolatileKind) -> Result<u32, CommandError> {
        let nsid = (1..=MAX_NAMESPACES).find(|nsid| self.slot(*nsid).is_none()).ok_or(NO_IDENTIFIER)?;
        if let VolatileKind::Memory { size_bytes } = kind
            && self.memory_bytes().saturating_add(size_bytes) > MEMORY_TOTAL_BYTES
        {
            return Err(NO_MEMORY);
        }
        let origin = Origin { device: self.flash.uuid(), number: self.volatile_made };
        let namespace = Namespace::new_volatile(nsid, kind, origin)?;
        self.place_namespace(nsid, namespace, ControllerSet::NONE, Reservations::default())
            .ok_or(NO_IDENTIFIER)?;
        self.volatile.push(nsid);
        self.volatile_made = self.volatile_made.wrapping_add(1);
        info!(nsid, ?kind, "volatile namespace created");
        Ok(nsid)
    }

    /// Whether namespace `nsid` is not in the image: of memory or of programs.
    #[inline]
    pub(crate) fn is_volatile(&self, nsid: u32) -> bool {
        !self.volatile.is_empty() && self.volatile.contains(&nsid)
    }

    /// Forgets a namespace that was deleted, and the sets with ranges of it.
    pub(super) fn forget_volatile(&mut self, nsid: u32) {
        self.volatile.retain(|other| *other != nsid);
        for other in self.volatile.clone() {
            if let Some((Namespace::Programs(programs), _)) = self.parts_of(other) {
                programs.sets().forget(nsid);
            }
        }
    }

    /// Clears memories and removes programs: a sanitize operation ends.
    pub(super) fn clear_volatile(&mut self) {
        for nsid in self.volatile.clone() {
            match self.parts_of(nsid) {
                Some((Namespace::Memory(memory), _)) => memory.memory().clear(),
                Some((Namespace::Programs(programs), _)) => programs.clear(),
                _ => {}
            }
            self.serve_attached(nsid);
        }
    }

    /// Bytes of all memories.
    fn memory_bytes(&self) -> u64 {
        let sizes = self.namespaces().filter_map(|(_, namespace)| match namespace {
            Namespace::Memory(memory) => Some(memory.record().size_bytes),
            _ => None,
        });
        sizes.sum()
    }
}

const NO_MEMORY: CommandError =
    CommandError::new(Status::NAMESPACE_INSUFFICIENT_CAPACITY, "the device has not that much memory left");
