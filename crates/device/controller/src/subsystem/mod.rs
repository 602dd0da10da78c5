//! The NVM subsystem: the flash, the namespaces on it, and their access.
//!
//! Several controllers attach to one subsystem. It has no thread and no lock: the holder of the device's run lock owns it.

mod access;
mod changes;
mod controllers;
mod counting;
mod engines;
mod exec;
mod flash_events;
mod following;
mod health;
mod namespaces;
mod options;
mod paths;
mod permit;
mod programs;
mod queries;
mod sanitize;
mod space;
mod upkeep;
mod volatile;
mod windows;

use byway_flash::{Durability, FinishedSync, Flash, FlashError, PendingSync, SyncPoint};
use byway_link::Profile;
use byway_spec::Status;
use tracing::{debug, error};

use crate::counting::{CommandCounters, Counted, IoCounters, StallCounters};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;
use crate::lookup_hints::NamespaceHints;
use crate::namespace::Namespace;
use crate::program_runs::ProgramRuns;
use crate::query::QueryTable;
use crate::reservation::{Hosts, Notices, Reservations};

pub use crate::limits::MAX_CONTROLLERS;
pub use changes::Changes;
pub(crate) use controllers::{ControllerSet, PerController};
pub(crate) use exec::Begun;
pub(crate) use following::{Attempts, OVERTAKEN, READS};
pub use health::Health;
pub(crate) use health::{
    SPARE_THRESHOLD_PERCENT, WARN_READ_ONLY, WARN_RELIABILITY, WARN_SPARE, WARN_TEMPERATURE, WARNING_K,
};
pub use options::{Identity, SubsystemError, SubsystemOptions};
pub(crate) use paths::Paths;
pub use paths::PortId;
pub(crate) use permit::{BlockAccess, BlockPermit};
pub(crate) use sanitize::IN_PROGRESS;
pub use space::NamespaceSpace;
pub use windows::WindowShape;

#[derive(Debug)]
struct Slot {
    namespace: Namespace,
    /// Controllers that it is attached to, also those that do not exist yet.
    attached: ControllerSet,
    /// Attached controllers that are served: all, unless a sanitize operation is going on.
    served: ControllerSet,
    /// Served controllers whose commands need no check of reservation and path: all, unless there is a reservation.
    free: ControllerSet,
    reservations: Reservations,
    version: permit::AccessVersion,
}

impl Slot {
    fn new(namespace: Namespace, attached: ControllerSet, reservations: Reservations) -> Self {
        let (served, free) = (attached.clone(), attached.clone());
        Self { namespace, attached, served, free, reservations, version: permit::AccessVersion::default() }
    }
}

/// The subsystem.
pub struct Subsystem {
    /// NQN, serial number and model.
    identity: Identity,
    /// Parameters of its link, flash and firmware.
    profile: Profile,
    /// The flash that holds the namespaces.
    flash: Flash,
    /// Changed namespaces, which controllers report to their hosts.
    pub(crate) changes: Changes,
    /// Commands of hosts, as SMART counts them.
    io: IoCounters,
    options: SubsystemOptions,
    /// Whether a command that changes data completes only once the image is synced.
    synced_completions: bool,
    slots: Vec<Option<Slot>>,
    hosts: Hosts,
    /// Reservation notices, which controllers report to their hosts.
    pub(crate) notices: Notices,
    /// ANA state of each namespace by controller.
    pub(crate) paths: Paths,
    hints: NamespaceHints,
    /// Controllers that exist.
    controllers: ControllerSet,
    /// Controllers without a connection that external engines still execute commands of.
    leaving: ControllerSet,
    /// Windows bound so far.
    bindings: u64,
    /// Subsystem resets so far.
    resets: u64,
    /// Namespaces that external engines keep, in order.
    engines: Vec<u32>,
    /// Namespaces of memory and of programs.
    volatile: Vec<u32>,
    /// Those that were made since the device was opened.
    volatile_made: u32,
    /// Commands by type, if metrics are on.
    counting: Option<Box<CommandCounters>>,
    /// Waits of commands by namespace and queue.
    stalls: StallCounters,
    /// The sanitize operation that is going on.
    sanitizing: Option<sanitize::Progress>,
    /// Queries, if there is an engine for them.
    queries: Option<Box<QueryTable>>,
    /// Programs that did not end at once.
    programs: ProgramRuns,
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
    /// When a namespace cannot be opened.
    pub fn new(
        identity: Identity,
        profile: Profile,
        flash: Flash,
        options: SubsystemOptions,
    ) -> Result<Self, SubsystemError> {
        let slots = (0..MAX_NAMESPACES).map(|_| None).collect();
        let (changes, io) = (Changes::default(), IoCounters::default());
        let hints = NamespaceHints::new(MAX_NAMESPACES);
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
            hints,
            controllers: ControllerSet::NONE,
            leaving: ControllerSet::NONE,
            bindings: 0,
            resets: 0,
            engines: Vec::new(),
            volatile: Vec::new(),
            volatile_made: 0,
            counting: None,
            stalls: StallCounters::default(),
            sanitizing: None,
            queries: None,
            programs: ProgramRuns::default(),
        };
        subsystem.flash.report_to(flash_events::log);
        subsystem.resume_sanitize()?;
        for record in following::records_of(&subsystem.flash) {
            let nsid = record.nsid;
            let reservations =
                Reservations::from_stored(&record.access_state).ok_or(SubsystemError::Reservations(nsid))?;
            let namespace = match subsystem.flash.is_following() {
                true => Namespace::open_beside(&mut subsystem.flash, &record, &subsystem.options)?,
                false => Some(Namespace::open(&mut subsystem.flash, record, &subsystem.options)?),
            };
            let Some(namespace) = namespace else { continue };
            subsystem
                .place_namespace(nsid, namespace, ControllerSet::ALL, reservations)
                .ok_or(SubsystemError::Nsid(nsid))?;
        }
        Ok(subsystem)
    }

    /// NQN, serial number and model.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Gives the subsystem another NQN. Hosts that are connected keep the one that they know.
    pub fn set_nqn(&mut self, nqn: &str) {
        nqn.clone_into(&mut self.identity.nqn);
    }

    /// Parameters of its link, flash and firmware.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The flash that holds the namespaces.
    #[inline]
    pub fn flash(&self) -> &Flash {
        &self.flash
    }

    /// The same, to change its settings or to copy it.
    pub fn flash_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    /// Counts a command of a host for SMART.
    #[inline]
    pub(crate) fn note_command(&mut self, command: Counted) {
        self.io.note(command);
    }

    /// Commands of hosts by kind of data pointer.
    pub fn io(&self) -> &IoCounters {
        &self.io
    }

    /// Serves a namespace as `nsid`; `None` where that is no identifier.
    fn place_namespace(
        &mut self,
        nsid: u32,
        mut namespace: Namespace,
        attached: ControllerSet,
        reservations: Reservations,
    ) -> Option<()> {
        if let Namespace::Kv(kv) = &mut namespace {
            kv.publish_hints(self.hints.of(nsid)?);
        }
        self.counting.iter_mut().for_each(|counting| counting.forget_types_of(nsid));
        let mut slot = Slot::new(namespace, attached, reservations);
        slot.note_access(&self.hosts, &self.paths);
        *self.slot_mut(nsid)? = Some(slot);
        Some(())
    }

    /// Lookup hints of the namespaces.
    #[must_use]
    pub fn hints(&self) -> NamespaceHints {
        self.hints.clone()
    }

    fn slot_mut(&mut self, nsid: u32) -> Option<&mut Option<Slot>> {
        self.slots.get_mut((nsid as usize).checked_sub(1)?)
    }

    fn slot(&self, nsid: u32) -> Option<&Slot> {
        self.slots.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    /// Namespace `nsid`, if it is attached to controller `id`, with its flash.
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

    /// The same, to change it, with its flash.
    pub fn namespace_mut(&mut self, nsid: u32) -> Option<(&mut Namespace, &mut Flash)> {
        let slot = self.slots.get_mut((nsid as usize).checked_sub(1)?)?.as_mut()?;
        slot.version.change();
        Some((&mut slot.namespace, &mut self.flash))
    }

    /// A namespace and the flash, to execute commands by: its state for hosts does not change.
    pub(crate) fn parts_of(&mut self, nsid: u32) -> Option<(&mut Namespace, &mut Flash)> {
        let slot = self.slots.get_mut((nsid as usize).checked_sub(1)?)?.as_mut()?;
        Some((&mut slot.namespace, &mut self.flash))
    }

    /// Recalls leases and takes in what threads have stored by them, values and blocks: no store is executed from here on but by this
    /// reference.
    #[inline]
    pub fn take_in_stores(&mut self) {
        self.flash.take_in_writes();
        for slot in self.slots.iter_mut().flatten() {
            if let Namespace::Kv(kv) = &mut slot.namespace {
                kv.take_in(&mut self.flash);
            }
        }
    }

    /// Every namespace, in order of identifiers.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        (1..).zip(&self.slots).filter_map(|(nsid, slot)| Some((nsid, &slot.as_ref()?.namespace)))
    }

    /// Whether a namespace has lost stores to media errors: a retrieve may give an older value than was last stored.
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

    /// The controllers, in order of identifiers. One whose host has gone is listed until none of its commands is under way:
    /// a host that does not find it in the list knows that none of them will still be executed.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerId> {
        self.controllers.iter()
    }

    /// Whether a controller is there, as in that list.
    #[must_use]
    pub fn has_controller(&self, id: ControllerId) -> bool {
        self.controllers.contains(id)
    }

    /// Options of the subsystem.
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

    /// Syncs the image before a controller reports that its shutdown is complete.
    ///
    /// # Errors
    /// Write Fault; from then on the subsystem can only be read.
    pub(crate) fn shut_down(&mut self) -> Result<(), CommandError> {
        let sync = self.flash.begin_sync(SyncPoint::Shutdown).wait();
        self.end_sync(sync)
    }

    /// Removes a controller for good, once no command of it is under way.
    pub(crate) fn remove_controller(&mut self, id: ControllerId) {
        self.stalls.forget_controller(id);
        self.forget_host(id);
        self.cancel_queries_of(id);
        self.cancel_programs_of(id);
        self.place(id, None);
        self.leaving.insert(id);
        self.see_off(id);
    }

    /// Removes a controller without a connection, if no command of it is under way.
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
        let synced = self.flash.end_sync(sync).map_err(|error| {
            error!(%error, "sync of the image failed: no more stores are accepted");
            self.freeze();
            SYNC_FAILED
        });
        self.counting.iter_mut().for_each(|counting| counting.end_cover(&synced));
        self.stalls.skip(self.flash.stalls());
        synced
    }

    /// Refuses stores from now on. The kernel may have dropped pages that it could not write, so later stores could not be
    /// guaranteed. Reads continue.
    fn freeze(&mut self) {
        // Namespaces that are being sanitized have no engine to freeze.
        let slots = self.slots.iter_mut().flatten().filter(|_| self.sanitizing.is_none());
        for slot in slots {
            if let Namespace::Kv(kv) = &mut slot.namespace {
                kv.freeze();
            }
        }
    }

    /// Longest payload of an atomic Store Many that every key-value namespace takes, in bytes; 0 where there is none.
    pub fn store_many_max_bytes(&self) -> u32 {
        let limit = |namespace: &Namespace| match namespace {
            Namespace::Kv(kv) => Some(kv.store_many_max_bytes()),
            _ => None,
        };
        self.namespaces().filter_map(|(_, namespace)| limit(namespace)).min().unwrap_or(0)
    }

    /// Saves state that makes the next opening fast, syncs the image and marks it as cleanly closed.
    ///
    /// # Errors
    /// Errors of the flash. Acknowledged data is in protected state even then.
    pub fn close(&mut self) -> Result<(), FlashError> {
        for slot in self.slots.iter_mut().flatten() {
            if let Namespace::Kv(kv) = &mut slot.namespace {
                // State that an engine cannot save now is replayed from its log by the next opening.
                let _ = kv.settle(&mut self.flash);
            }
        }
        let closed = self.flash.close();
        debug!(error = ?closed.as_ref().err(), "image closed");
        closed
    }

    /// Gives the flash back.
    pub fn into_flash(self) -> Flash {
        self.flash
    }
}

const SYNC_FAILED: CommandError = CommandError::new(
    Status::WRITE_FAULT,
    "a sync of the image failed: stores since the last sync may be lost, and no more are accepted",
);
const NO_IDENTIFIER: CommandError =
    CommandError::new(Status::NAMESPACE_ID_UNAVAILABLE, "every namespace identifier is taken");
const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace is attached");
