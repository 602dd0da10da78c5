//! Creating, deleting, formatting and attaching namespaces while the device is in use.

use byway_flash::{FlashError, NamespaceKind, NamespaceRecord, NamespaceSpec};
use byway_spec::Status;
use tracing::info;

use super::{ControllerSet, NO_IDENTIFIER, NO_NAMESPACE, Slot, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;
use crate::namespace::{Namespace, OF_ITS_OWNER, write_error};
use crate::reservation::Reservations;

impl Subsystem {
    /// Whether `nsid` is attached to controller `id`.
    pub fn is_attached(&self, nsid: u32, id: ControllerId) -> bool {
        self.slot(nsid).is_some_and(|slot| slot.attached.contains(id))
    }

    /// Attaches a namespace to a controller.
    ///
    /// # Errors
    /// Invalid Namespace, or Namespace Already Attached.
    pub fn attach(&mut self, nsid: u32, id: ControllerId) -> Result<(), CommandError> {
        let slot = self.slot_mut(nsid).and_then(Option::as_mut).ok_or(NO_NAMESPACE)?;
        if slot.attached.contains(id) {
            return Err(CommandError::new(
                Status::NAMESPACE_ALREADY_ATTACHED,
                "attached to that controller already",
            ));
        }
        slot.attached.insert(id);
        self.serve_attached(nsid);
        self.changes.note(nsid, |other| other == id);
        Ok(())
    }

    /// Detaches a namespace from a controller.
    ///
    /// # Errors
    /// Invalid Namespace, or Namespace Not Attached.
    pub fn detach(&mut self, nsid: u32, id: ControllerId) -> Result<(), CommandError> {
        let slot = self.slot_mut(nsid).and_then(Option::as_mut).ok_or(NO_NAMESPACE)?;
        if !slot.attached.remove(id) {
            return Err(CommandError::new(Status::NAMESPACE_NOT_ATTACHED, "not attached to that controller"));
        }
        self.serve_attached(nsid);
        self.changes.note(nsid, |other| other == id);
        Ok(())
    }

    /// Serves a namespace to the controllers that it is attached to.
    pub(super) fn serve_attached(&mut self, nsid: u32) {
        let Self { slots, hosts, paths, .. } = self;
        paths.note_members(nsid);
        if let Some(Some(slot)) = slots.get_mut(nsid.wrapping_sub(1) as usize) {
            slot.served = slot.attached.clone();
            slot.note_access(hosts, paths);
        }
    }

    /// Makes a namespace, attached to no controller. Returns its identifier.
    ///
    /// # Errors
    /// Namespace Identifier Unavailable, Namespace Insufficient Capacity, and what the flash or the engine say.
    pub fn create_namespace(&mut self, kind: NamespaceKind, size_bytes: u64) -> Result<u32, CommandError> {
        let nsid = (1..=MAX_NAMESPACES).find(|nsid| self.slot(*nsid).is_none()).ok_or(NO_IDENTIFIER)?;
        let spec = NamespaceSpec { nsid: Some(nsid), kind, size_bytes };
        let record = self.flash.add_namespace(spec).map_err(creation_error)?;
        match Namespace::open(&mut self.flash, record, &self.options) {
            Ok(namespace) => {
                self.place_namespace(nsid, namespace, ControllerSet::NONE, Reservations::default());
                info!(nsid, ?kind, size_bytes, "namespace created");
                Ok(nsid)
            }
            Err(_) => {
                // The error of opening is reported, not one of removing.
                let _ = self.flash.remove_namespace(nsid);
                Err(CommandError::new(Status::INTERNAL_ERROR, "the new namespace could not be opened"))
            }
        }
    }

    /// Removes a namespace with everything in it. Hosts lose it at once.
    ///
    /// # Errors
    /// Invalid Namespace, and what the flash says.
    pub fn delete_namespace(&mut self, nsid: u32) -> Result<(), CommandError> {
        if self.is_exported(nsid) {
            return Err(OF_ITS_OWNER);
        }
        self.clear_reservations(nsid).map_err(write_error)?;
        let Slot { namespace, attached, .. } =
            self.slot_mut(nsid).and_then(Option::take).ok_or(NO_NAMESPACE)?;
        let record = namespace.record().clone();
        // The engine releases device memory that it shares with the users of its windows.
        drop(namespace);
        if self.is_volatile(nsid) {
            self.forget_volatile(nsid);
        } else if let Err(error) = self.flash.remove_namespace(nsid) {
            self.keep_namespace(record, attached);
            return Err(deletion_error(error));
        }
        self.fail_queries_in(Some(nsid));
        self.fail_programs_in(nsid);
        info!(nsid, "namespace deleted");
        self.stalls.forget_namespace(nsid);
        self.changes.note(nsid, |id| attached.contains(id));
        self.paths.note_members(nsid);
        Ok(())
    }

    /// Reopens a namespace that could not be removed, if the flash still has all of it.
    fn keep_namespace(&mut self, record: NamespaceRecord, attached: ControllerSet) {
        let nsid = record.nsid;
        if let Ok(namespace) = Namespace::open(&mut self.flash, record, &self.options) {
            self.place_namespace(nsid, namespace, attached, Reservations::default());
        }
    }

    /// Forgets everything in a namespace and gives it format `index` of its kind. With `erase` no byte of what it held
    /// is left in the image.
    ///
    /// # Errors
    /// Invalid Namespace, Invalid Format, and what the flash says.
    pub fn format_namespace(&mut self, nsid: u32, index: u8, erase: bool) -> Result<(), CommandError> {
        let (namespace, flash) = self.namespace_mut(nsid).ok_or(NO_NAMESPACE)?;
        namespace.format(flash, index)?;
        if erase {
            self.erase_namespace(nsid)?;
        }
        self.fail_queries_in(Some(nsid));
        self.fail_programs_in(nsid);
        info!(nsid, format = index, erase, "namespace formatted");
        self.note_change(nsid);
        Ok(())
    }

    /// Serves no namespace from here on.
    pub(crate) fn stop_serving(&mut self) {
        self.slots.iter_mut().flatten().for_each(|slot| {
            slot.version.change();
            (slot.served, slot.free) = (ControllerSet::NONE, ControllerSet::NONE);
        });
    }

    /// Serves a namespace that was opened anew, as it was attached; to every controller if it was not there.
    pub(crate) fn serve_again(&mut self, nsid: u32, namespace: Namespace) {
        let before = self.slot_mut(nsid).and_then(Option::take);
        let (attached, reservations) = before.map_or_else(
            || (ControllerSet::ALL, Reservations::default()),
            |slot| (slot.attached, slot.reservations),
        );
        self.place_namespace(nsid, namespace, attached, reservations);
        self.note_change(nsid);
    }

    /// A namespace changed for every controller that has it.
    pub(super) fn note_change(&mut self, nsid: u32) {
        let Self { slots, changes, .. } = self;
        if let Some(Some(slot)) = slots.get(nsid.wrapping_sub(1) as usize) {
            changes.note(nsid, |id| slot.attached.contains(id));
        }
    }
}

fn creation_error(error: FlashError) -> CommandError {
    match error {
        FlashError::NoCapacity { .. } => {
            CommandError::new(Status::NAMESPACE_INSUFFICIENT_CAPACITY, "the device has not that much left")
        }
        other => write_error(other),
    }
}

fn deletion_error(error: FlashError) -> CommandError {
    match error {
        FlashError::Misuse(_) => CommandError::new(
            Status::COMMAND_SEQUENCE_ERROR,
            "device memory of the namespace is still mapped",
        ),
        other => write_error(other),
    }
}
