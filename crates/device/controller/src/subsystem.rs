//! The NVM subsystem: the flash, the namespaces on it, and who may see them.
//!
//! Several controllers attach to one subsystem. It has no thread and no lock: whoever runs a device owns it.

use std::sync::Arc;

use byway_flash::{
    Durability, FinishedSync, Flash, FlashError, NamespaceKind, NamespaceRecord, NamespaceSpec, SyncPoint,
};
use byway_kv::{KvError, KvFormat, KvOptions, RECORD_HEADER_BYTES};
use byway_link::Profile;
use byway_spec::Status;
use byway_sys::Mapping;

use crate::admin::{Changes, IoCounters};
use crate::controller::ControllerId;
use crate::error::CommandError;
use crate::namespace::{Namespace, write_error};
use crate::outlook::Outlooks;
use crate::queue::BoundWindow;
use crate::sanitize::{self, IN_PROGRESS};

/// Highest namespace identifier, and so how many there may be (Identify Controller NN, MNAN).
pub const MAX_NAMESPACES: u32 = 64;

/// Controllers one subsystem may have.
pub const MAX_CONTROLLERS: u16 = 64;

/// Names of a subsystem as Identify reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// NVMe qualified name.
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    pub model: String,
}

/// How the subsystem's namespaces behave.
#[derive(Debug, Clone, Default)]
pub struct SubsystemOptions {
    /// Of every key-value namespace, however it was made.
    pub kv: KvOptions,
    /// Of key-value namespaces that are made. One format for a device: its windows are announced once for all.
    pub kv_format: KvFormat,
}

/// Why a subsystem could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SubsystemError {
    /// The image holds a namespace identifier that no controller can address.
    #[error("namespace {0}: identifiers go from 1 to {MAX_NAMESPACES}")]
    Nsid(u32),
    /// The flash failed.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A key-value namespace could not be opened.
    #[error("namespace {nsid}: {source}")]
    Kv {
        /// The namespace.
        nsid: u32,
        /// Why.
        source: KvError,
    },
}

#[derive(Debug)]
struct Slot {
    namespace: Namespace,
    /// Bit per controller identifier.
    attached: u64,
    /// Of these, those that are served: all, unless a sanitize operation is going on.
    served: u64,
}

impl Slot {
    const fn new(namespace: Namespace, attached: u64) -> Self {
        Self { namespace, attached, served: attached }
    }
}

/// The subsystem.
pub struct Subsystem {
    /// What it is called.
    pub identity: Identity,
    /// Parameters of its link, flash and firmware.
    pub profile: Profile,
    /// Where everything is kept.
    pub flash: Flash,
    /// Which namespaces changed, for controllers to tell their hosts.
    pub changes: Changes,
    /// Commands of hosts, as SMART counts them.
    pub io: IoCounters,
    pub(crate) options: SubsystemOptions,
    /// Whether a command that changes data completes only once the image is synced.
    pub(crate) synced_completions: bool,
    slots: Vec<Option<Slot>>,
    outlooks: Outlooks,
    /// Bit per controller that exists.
    controllers: u64,
    /// Windows bound so far.
    bindings: u64,
    /// Subsystem resets so far.
    pub(crate) resets: u64,
    /// The sanitize operation that is going on.
    pub(crate) sanitizing: Option<sanitize::Progress>,
}

/// Windows of device memory that each key-value namespace has, and the rule by which records stand in them
/// (`byway_queue::WindowCursor`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowShape {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub window_bytes: u64,
    /// No record spans a multiple of this.
    pub segment_bytes: u32,
    /// Room before each value, without the key.
    pub header_bytes: u32,
    /// Records begin at multiples of this.
    pub align_bytes: u32,
    /// What stands in a page of this size is needed until the write pointer has left it.
    pub page_bytes: u32,
}

impl std::fmt::Debug for Subsystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nsids: Vec<u32> = self.namespaces().map(|(nsid, _)| nsid).collect();
        f.debug_struct("Subsystem")
            .field("identity", &self.identity)
            .field("namespaces", &nsids)
            .finish_non_exhaustive()
    }
}

impl Subsystem {
    /// Opens every namespace that `flash` holds, attached to every controller.
    ///
    /// # Errors
    /// When a namespace cannot be opened: nothing is guessed at.
    pub fn new(
        identity: Identity,
        profile: Profile,
        flash: Flash,
        options: SubsystemOptions,
    ) -> Result<Self, SubsystemError> {
        let slots = (0..MAX_NAMESPACES).map(|_| None).collect();
        let (changes, io) = (Changes::default(), IoCounters::default());
        let outlooks = Outlooks::new(MAX_NAMESPACES);
        let synced_completions = flash.durability() == Durability::Media;
        let mut subsystem = Self {
            identity,
            profile,
            flash,
            changes,
            io,
            options,
            synced_completions,
            slots,
            outlooks,
            controllers: 0,
            bindings: 0,
            resets: 0,
            sanitizing: None,
        };
        subsystem.resume_sanitize()?;
        let records: Vec<NamespaceRecord> = subsystem.flash.namespaces().cloned().collect();
        for record in records {
            let nsid = record.nsid;
            let namespace = Namespace::open(&mut subsystem.flash, record, &subsystem.options)?;
            subsystem.seat(nsid, namespace, !0).ok_or(SubsystemError::Nsid(nsid))?;
        }
        Ok(subsystem)
    }

    /// Puts a namespace where `nsid` finds it; `None` where that is no identifier.
    fn seat(&mut self, nsid: u32, mut namespace: Namespace, attached: u64) -> Option<()> {
        if let Namespace::Kv(kv) = &mut namespace {
            kv.tell(self.outlooks.of(nsid)?);
        }
        *self.slot_mut(nsid)? = Some(Slot::new(namespace, attached));
        Some(())
    }

    /// Where the namespaces look first for a key.
    #[must_use]
    pub fn outlooks(&self) -> Outlooks {
        self.outlooks.clone()
    }

    fn slot_mut(&mut self, nsid: u32) -> Option<&mut Option<Slot>> {
        self.slots.get_mut((nsid as usize).checked_sub(1)?)
    }

    fn slot(&self, nsid: u32) -> Option<&Slot> {
        self.slots.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    /// The namespace that `nsid` names, if it is attached to controller `id`, with the flash it lies on.
    ///
    /// # Errors
    /// Invalid Namespace or Format for a namespace that is inactive or none.
    #[inline]
    pub fn attached(
        &mut self,
        nsid: u32,
        id: ControllerId,
    ) -> Result<(&mut Namespace, &mut Flash), CommandError> {
        let index = (nsid as usize).wrapping_sub(1);
        match self.slots.get_mut(index) {
            Some(Some(slot)) if slot.served & bit(id) != 0 => Ok((&mut slot.namespace, &mut self.flash)),
            _ if self.sanitizing.is_some() => Err(IN_PROGRESS),
            _ => Err(NO_NAMESPACE),
        }
    }

    /// The namespace that `nsid` names, attached or not.
    pub fn namespace(&self, nsid: u32) -> Option<&Namespace> {
        self.slot(nsid).map(|slot| &slot.namespace)
    }

    /// The same, to change it, with the flash it lies on.
    pub fn namespace_mut(&mut self, nsid: u32) -> Option<(&mut Namespace, &mut Flash)> {
        let slot = self.slots.get_mut((nsid as usize).checked_sub(1)?)?.as_mut()?;
        Some((&mut slot.namespace, &mut self.flash))
    }

    /// Every namespace there is, in order of its identifier.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        (1..).zip(&self.slots).filter_map(|(nsid, slot)| Some((nsid, &slot.as_ref()?.namespace)))
    }

    /// Whether a namespace has lost stores to errors of the medium: what it answers may be older than what was last stored.
    pub(crate) fn has_lost_stores(&self) -> bool {
        self.namespaces()
            .any(|(_, namespace)| matches!(namespace, Namespace::Kv(kv) if kv.lost_log_bytes() > 0))
    }

    /// Bit `n` − 1 for each key-value namespace `n` that is attached to controller `id`.
    pub(crate) fn key_value_namespaces(&self, id: ControllerId) -> u64 {
        let mine = self.slots.iter().enumerate().filter(|(_, slot)| {
            matches!(slot, Some(Slot { namespace: Namespace::Kv(_), served, .. }) if served & bit(id) != 0)
        });
        mine.fold(0, |bits, (index, _)| bits | 1 << index)
    }

    /// The controllers there are, in order of their identifiers.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerId> {
        let present = self.controllers;
        (0..MAX_CONTROLLERS).map(ControllerId).filter(move |id| present & bit(*id) != 0)
    }

    /// A controller was made.
    pub(crate) fn add_controller(&mut self, id: ControllerId) {
        self.controllers |= bit(id);
    }

    /// Whether `nsid` is attached to controller `id`.
    pub fn is_attached(&self, nsid: u32, id: ControllerId) -> bool {
        self.slot(nsid).is_some_and(|slot| slot.attached & bit(id) != 0)
    }

    /// Attaches a namespace to a controller.
    ///
    /// # Errors
    /// Invalid Namespace, or Namespace Already Attached.
    pub fn attach(&mut self, nsid: u32, id: ControllerId) -> Result<(), CommandError> {
        let slot = self.slot_mut(nsid).and_then(Option::as_mut).ok_or(NO_NAMESPACE)?;
        if slot.attached & bit(id) != 0 {
            return Err(CommandError::new(
                Status::NAMESPACE_ALREADY_ATTACHED,
                "attached to that controller already",
            ));
        }
        slot.attached |= bit(id);
        slot.served = slot.attached;
        self.changes.note(nsid, bit(id));
        Ok(())
    }

    /// Detaches a namespace from a controller.
    ///
    /// # Errors
    /// Invalid Namespace, or Namespace Not Attached.
    pub fn detach(&mut self, nsid: u32, id: ControllerId) -> Result<(), CommandError> {
        let slot = self.slot_mut(nsid).and_then(Option::as_mut).ok_or(NO_NAMESPACE)?;
        if slot.attached & bit(id) == 0 {
            return Err(CommandError::new(Status::NAMESPACE_NOT_ATTACHED, "not attached to that controller"));
        }
        slot.attached &= !bit(id);
        slot.served = slot.attached;
        self.changes.note(nsid, bit(id));
        Ok(())
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
                self.seat(nsid, namespace, 0);
                Ok(nsid)
            }
            Err(_) => {
                // What could not be opened is not kept; why it could not be is the better error.
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
        let Slot { namespace, attached, .. } =
            self.slot_mut(nsid).and_then(Option::take).ok_or(NO_NAMESPACE)?;
        let record = namespace.record().clone();
        // The engine lets go of device memory that it shares with its windows' users.
        drop(namespace);
        if let Err(error) = self.flash.remove_namespace(nsid) {
            self.keep_namespace(record, attached);
            return Err(deletion_error(error));
        }
        self.changes.note(nsid, attached);
        Ok(())
    }

    /// Puts back a namespace that could not be removed, if the flash still has all of it.
    fn keep_namespace(&mut self, record: NamespaceRecord, attached: u64) {
        let nsid = record.nsid;
        if let Ok(namespace) = Namespace::open(&mut self.flash, record, &self.options) {
            self.seat(nsid, namespace, attached);
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
        let attached = self.slot(nsid).map_or(0, |slot| slot.attached);
        self.changes.note(nsid, attached);
        Ok(())
    }

    /// Serves no namespace from here on.
    pub(crate) fn stop_serving(&mut self) {
        self.slots.iter_mut().flatten().for_each(|slot| slot.served = 0);
    }

    /// Serves a namespace that was opened anew, as it was attached; to every controller if it was not there.
    pub(crate) fn serve_again(&mut self, nsid: u32, namespace: Namespace) {
        let attached = self.slot(nsid).map_or(!0, |slot| slot.attached);
        self.seat(nsid, namespace, attached);
        self.changes.note(nsid, attached);
    }

    /// Shape of the windows that every key-value namespace has.
    pub fn window_shape(&self) -> WindowShape {
        let format = self.options.kv_format;
        WindowShape {
            count: u32::from(format.windows),
            window_bytes: u64::from(format.window_bytes),
            segment_bytes: format.window_bytes / 2,
            header_bytes: RECORD_HEADER_BYTES as u32,
            align_bytes: 1,
            page_bytes: self.flash.geometry().page_bytes,
        }
    }

    /// Binds a free window of namespace `nsid`. Its place in device memory is its number over all namespaces, which
    /// [`Subsystem::window_place`] gives.
    ///
    /// # Errors
    /// Invalid Namespace; a namespace that is not key-value; no window is free.
    pub fn bind_window(&mut self, nsid: u32) -> Result<BoundWindow, CommandError> {
        let (announced, binding) = (self.window_shape(), self.bindings + 1);
        let (namespace, flash) = self.namespace_mut(nsid).ok_or(NO_NAMESPACE)?;
        let kv = namespace.kv()?;
        if kv.window_shape() != announced {
            return Err(OTHER_WINDOWS);
        }
        let window = kv.bind_window(flash, binding)?;
        self.bindings = binding;
        Ok(window)
    }

    /// Number of window `index` of namespace `nsid` over all namespaces: device memory holds them in this order.
    pub fn window_place(&self, nsid: u32, index: u16) -> u32 {
        (nsid - 1) * self.window_shape().count + u32::from(index)
    }

    /// Whether a window is still bound as it was: the namespace was neither formatted nor deleted since.
    pub fn is_bound(&self, window: BoundWindow) -> bool {
        matches!(self.namespace(window.nsid), Some(Namespace::Kv(kv)) if kv.is_bound(window))
    }

    /// Device memory of every key-value namespace: its first window's number over all, and the memory.
    pub fn window_memory(&mut self) -> Vec<(u32, Arc<Mapping>)> {
        let announced = self.window_shape();
        let mut areas = Vec::new();
        for nsid in 1..=MAX_NAMESPACES {
            let Some((Namespace::Kv(kv), _)) = self.namespace_mut(nsid) else { continue };
            // Windows of another shape are not where hosts are told to look for them.
            let memory = kv.window_memory().filter(|_| kv.window_shape() == announced);
            let first = self.window_place(nsid, 0);
            areas.extend(memory.map(|memory| (first, memory)));
        }
        areas
    }

    /// Syncs the image before a host hears that its controller is shut down, with the device in hand.
    ///
    /// # Errors
    /// Write Fault; from then on the subsystem can only be read.
    pub(crate) fn shut_down(&mut self) -> Result<(), CommandError> {
        let sync = self.flash.begin_sync(SyncPoint::Shutdown).wait();
        self.end_sync(sync)
    }

    /// Ends a sync of the image.
    ///
    /// # Errors
    /// As [`Subsystem::shut_down`].
    pub(crate) fn end_sync(&mut self, sync: FinishedSync) -> Result<(), CommandError> {
        self.flash.end_sync(sync).map_err(|_| {
            self.freeze();
            SYNC_FAILED
        })
    }

    /// Takes no more stores: what the system could not write it may have dropped, so nothing stored from now on could
    /// be promised. What can be read is still read.
    fn freeze(&mut self) {
        // What engines have in RAM is of no use to namespaces that are being emptied.
        let slots = self.slots.iter_mut().flatten().filter(|_| self.sanitizing.is_none());
        for slot in slots {
            if let Namespace::Kv(kv) = &mut slot.namespace {
                kv.freeze();
            }
        }
    }

    /// Writes down what makes the next opening quick, syncs the image and marks it as closed in order.
    ///
    /// # Errors
    /// What the flash says. Everything acknowledged is in protected state all the same.
    pub fn close(&mut self) -> Result<(), FlashError> {
        for slot in self.slots.iter_mut().flatten() {
            if let Namespace::Kv(kv) = &mut slot.namespace {
                // What an engine cannot write down now, the next opening replays from its log.
                let _ = kv.settle(&mut self.flash);
            }
        }
        self.flash.close()
    }

    /// Gives the flash back.
    pub fn into_flash(self) -> Flash {
        self.flash
    }

    /// Gives back a window of device memory, if it is still bound as it was.
    pub fn unbind_window(&mut self, window: BoundWindow) {
        if let Some((Namespace::Kv(kv), _)) = self.namespace_mut(window.nsid) {
            kv.unbind_window(window);
        }
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

fn bit(id: ControllerId) -> u64 {
    1 << (id.0 % MAX_CONTROLLERS)
}

fn creation_error(error: FlashError) -> CommandError {
    match error {
        FlashError::NoCapacity { .. } => {
            CommandError::new(Status::NAMESPACE_INSUFFICIENT_CAPACITY, "the device has not that much left")
        }
        other => write_error(other),
    }
}

const SYNC_FAILED: CommandError = CommandError::new(
    Status::WRITE_FAULT,
    "a sync of the image failed: what was stored since the last one may be lost, and nothing more is taken",
);
const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace is attached");
const OTHER_WINDOWS: CommandError =
    CommandError::new(Status::OPERATION_DENIED, "the namespace was made with windows of another shape");
const NO_IDENTIFIER: CommandError =
    CommandError::new(Status::NAMESPACE_ID_UNAVAILABLE, "every namespace identifier is taken");
