//! The NVM subsystem: the flash, the namespaces on it, and who may see them.
//!
//! Several controllers attach to one subsystem. It has no thread and no lock: whoever runs a device owns it.

mod access;
mod changes;
mod controllers;
mod counting;
mod engines;
mod health;
mod namespaces;
mod options;
mod paths;
mod sanitize;
mod windows;

use byway_flash::{Durability, FinishedSync, Flash, FlashError, NamespaceRecord, PendingSync, SyncPoint};
use byway_link::Profile;
use byway_spec::Status;

use crate::counting::{CommandCounters, IoCounters};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;
use crate::namespace::Namespace;
use crate::namespace::nvm::Shape;
use crate::outlook::Outlooks;
use crate::reservation::{Hosts, Notices, Reservations};

pub use changes::Changes;
pub use controllers::MAX_CONTROLLERS;
pub(crate) use controllers::{ControllerSet, PerController};
pub use health::Health;
pub(crate) use health::{
    SPARE_THRESHOLD_PERCENT, WARN_READ_ONLY, WARN_RELIABILITY, WARN_SPARE, WARN_TEMPERATURE, WARNING_K,
};
pub use options::{Identity, SubsystemError, SubsystemOptions};
pub(crate) use paths::Paths;
pub use paths::PortId;
pub(crate) use sanitize::IN_PROGRESS;
pub use windows::WindowShape;

#[derive(Debug)]
struct Slot {
    namespace: Namespace,
    /// Controllers that have it, and would have it if they were there.
    attached: ControllerSet,
    /// Of these, those that are served: all, unless a sanitize operation is going on.
    served: ControllerSet,
    /// Of these, those whose commands need no look at the reservation: all, unless there is one.
    free: ControllerSet,
    reservations: Reservations,
}

impl Slot {
    fn new(namespace: Namespace, attached: ControllerSet, reservations: Reservations) -> Self {
        let (served, free) = (attached.clone(), attached.clone());
        Self { namespace, attached, served, free, reservations }
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
    options: SubsystemOptions,
    /// Whether a command that changes data completes only once the image is synced.
    synced_completions: bool,
    slots: Vec<Option<Slot>>,
    hosts: Hosts,
    /// What controllers have to tell of reservations.
    pub(crate) notices: Notices,
    /// How well each controller reaches each namespace.
    pub(crate) paths: Paths,
    outlooks: Outlooks,
    /// Controllers that exist.
    controllers: ControllerSet,
    /// Of these, those that nobody is connected to any more, and that other engines still have commands of.
    leaving: ControllerSet,
    /// Windows bound so far.
    bindings: u64,
    /// Subsystem resets so far.
    resets: u64,
    /// Namespaces that other engines keep, in order.
    engines: Vec<u32>,
    /// Commands by type, where somebody wants to know.
    counting: Option<Box<CommandCounters>>,
    /// The sanitize operation that is going on.
    sanitizing: Option<sanitize::Progress>,
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
            hosts: Hosts::default(),
            notices: Notices::default(),
            paths: Paths::default(),
            outlooks,
            controllers: ControllerSet::NONE,
            leaving: ControllerSet::NONE,
            bindings: 0,
            resets: 0,
            engines: Vec::new(),
            counting: None,
            sanitizing: None,
        };
        subsystem.resume_sanitize()?;
        let records: Vec<NamespaceRecord> = subsystem.flash.namespaces().cloned().collect();
        for record in records {
            let nsid = record.nsid;
            let reservations =
                Reservations::from_stored(&record.access_state).ok_or(SubsystemError::Reservations(nsid))?;
            let namespace = Namespace::open(&mut subsystem.flash, record, &subsystem.options)?;
            subsystem
                .seat(nsid, namespace, ControllerSet::ALL, reservations)
                .ok_or(SubsystemError::Nsid(nsid))?;
        }
        Ok(subsystem)
    }

    /// Puts a namespace where `nsid` finds it; `None` where that is no identifier.
    fn seat(
        &mut self,
        nsid: u32,
        mut namespace: Namespace,
        attached: ControllerSet,
        reservations: Reservations,
    ) -> Option<()> {
        if let Namespace::Kv(kv) = &mut namespace {
            kv.tell(self.outlooks.of(nsid)?);
        }
        self.counting.iter_mut().for_each(|counting| counting.forget_types_of(nsid));
        let mut slot = Slot::new(namespace, attached, reservations);
        slot.note_access(&self.hosts, &self.paths);
        *self.slot_mut(nsid)? = Some(slot);
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
            Some(Some(slot)) if slot.served.contains(id) => Ok((&mut slot.namespace, &mut self.flash)),
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
            matches!(slot, Some(Slot { namespace: Namespace::Kv(_), served, .. }) if served.contains(id))
        });
        mine.fold(0, |bits, (index, _)| bits | 1 << index)
    }

    /// The namespaces of blocks that are attached to controller `id`, each in the place that its identifier gives it.
    pub(crate) fn block_shapes(&self, id: ControllerId) -> Vec<Option<Shape>> {
        let shape = |slot: &Option<Slot>| match slot {
            Some(Slot { namespace: Namespace::Nvm(nvm), served, .. }) if served.contains(id) => {
                Some(nvm.shape())
            }
            _ => None,
        };
        self.slots.iter().map(shape).collect()
    }

    /// The controllers there are, in order of their identifiers: one whose host has gone until nothing of it is under way
    /// any more. So a host that does not find it in the list knows that no command of it can be executed any more.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerId> {
        self.controllers.iter()
    }

    /// Whether a controller is there, as in that list.
    #[must_use]
    pub fn has_controller(&self, id: ControllerId) -> bool {
        self.controllers.contains(id)
    }

    /// How namespaces behave.
    pub(crate) fn options(&self) -> &SubsystemOptions {
        &self.options
    }

    /// Subsystem resets so far.
    #[inline]
    pub(crate) fn resets(&self) -> u64 {
        self.resets
    }

    /// The subsystem is reset: every controller follows before it does anything else.
    pub(crate) fn count_reset(&mut self) {
        self.resets += 1;
    }

    /// Whether every command that changes data waits for a sync of the image.
    #[inline]
    #[must_use]
    pub fn syncs_completions(&self) -> bool {
        self.synced_completions
    }

    /// A controller was made.
    pub(crate) fn add_controller(&mut self, id: ControllerId) {
        self.controllers.insert(id);
        self.changes.begin(id);
    }

    /// Syncs the image before a host hears that its controller is shut down, with the device in hand.
    ///
    /// # Errors
    /// Write Fault; from then on the subsystem can only be read.
    pub(crate) fn shut_down(&mut self) -> Result<(), CommandError> {
        let sync = self.flash.begin_sync(SyncPoint::Shutdown).wait();
        self.end_sync(sync)
    }

    /// A controller is gone for good, once nothing of it is under way.
    pub(crate) fn remove_controller(&mut self, id: ControllerId) {
        self.forget_host(id);
        self.place(id, None);
        self.leaving.insert(id);
        self.see_off(id);
    }

    /// Forgets a controller that leaves, if nothing of it is under way.
    fn see_off(&mut self, id: ControllerId) {
        if self.leaving.contains(id) && !self.has_commands_of(id) {
            self.controllers.remove(id);
            self.leaving.remove(id);
        }
    }

    /// Begins a sync of the image for commands that wait for one. One at a time.
    pub fn begin_sync(&mut self) -> PendingSync {
        self.counting.iter_mut().for_each(|counting| counting.cover());
        self.flash.begin_sync(SyncPoint::Completion)
    }

    /// Ends a sync of the image.
    ///
    /// # Errors
    /// Write Fault; from then on the subsystem can only be read.
    pub fn end_sync(&mut self, sync: FinishedSync) -> Result<(), CommandError> {
        let synced = self.flash.end_sync(sync).map_err(|_| {
            self.freeze();
            SYNC_FAILED
        });
        self.counting.iter_mut().for_each(|counting| counting.end_cover(&synced));
        synced
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
}

const SYNC_FAILED: CommandError = CommandError::new(
    Status::WRITE_FAULT,
    "a sync of the image failed: what was stored since the last one may be lost, and nothing more is taken",
);
const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace is attached");
