//! Namespaces of memory and of programs: making them, and what concerns several of them.

use byway_programs::{Execution, Memory, Ranges};
use byway_spec::Status;
use byway_spec::programs::MemoryRangeDescriptor;
use tracing::info;

use super::{ControllerSet, NO_IDENTIFIER, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::{EXECUTE_STEPS_MAX, MAX_NAMESPACES, MEMORY_TOTAL_BYTES};
use crate::namespace::{
    Namespace, Origin, Prepared, ProgramsNamespace, VolatileKind, Wanted, refused, stopped,
};
use crate::outcome::Outcome;
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

    /// The bytes of a memory namespace that is attached to controller `id`.
    ///
    /// # Errors
    /// Invalid Namespace.
    pub(crate) fn memory(&mut self, nsid: u32, id: ControllerId) -> Result<&mut Memory, CommandError> {
        match self.attached(nsid, id)? {
            (Namespace::Memory(memory), _) => Ok(memory.memory()),
            _ => Err(NO_NAMESPACE),
        }
    }

    /// Checks ranges of a host against the memory namespaces that are attached to controller `id`.
    ///
    /// # Errors
    /// The statuses of ranges that no program may see.
    pub(crate) fn check_ranges(
        &self,
        descriptors: &[MemoryRangeDescriptor],
        id: ControllerId,
    ) -> Result<Ranges, CommandError> {
        let size_of = |nsid| match self.namespace(nsid) {
            Some(Namespace::Memory(memory)) if self.is_attached(nsid, id) => Some(memory.record().size_bytes),
            _ => None,
        };
        Ranges::check(descriptors, &ProgramsNamespace::range_limits(), size_of).map_err(refused)
    }

    /// Runs a program to its end, which comes after [`EXECUTE_STEPS_MAX`] steps.
    ///
    /// # Errors
    /// The statuses of invalid ranges, and of a program that was stopped.
    pub(crate) fn run_program(
        &mut self,
        id: ControllerId,
        prepared: Prepared,
    ) -> Result<Outcome, CommandError> {
        let Prepared { program, ranges, parameters } = prepared;
        let checked;
        let ranges = match &ranges {
            Wanted::Set(set)
                if set.as_slice().iter().all(|range| self.is_attached(range.namespace(), id)) =>
            {
                &**set
            }
            Wanted::Set(_) => return Err(MEMORY_IS_GONE),
            Wanted::Listed(listed) => {
                checked = self.check_ranges(listed, id)?;
                &checked
            }
        };
        let execution = Execution::new(program, ranges, parameters, EXECUTE_STEPS_MAX);
        let memories =
            (1..).zip(&mut self.slots).filter_map(|(nsid, slot)| match &mut slot.as_mut()?.namespace {
                Namespace::Memory(memory) => Some((nsid, memory.memory())),
                _ => None,
            });
        let mut slices = ranges.borrow(memories).ok_or(MEMORY_IS_GONE)?;
        let value = execution.finish(&mut slices).map_err(stopped)?;
        Ok(Outcome::Done { dw0: value as u32, dw1: (value >> 32) as u32 })
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
const MEMORY_IS_GONE: CommandError =
    CommandError::new(Status::INVALID_MEMORY_NAMESPACE, "a memory of the set was deleted or detached");
