//! Namespaces that external engines keep, their finished commands, and the limits that all of them share.

use tracing::info;

use super::{ControllerSet, NO_IDENTIFIER, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::{MAX_NAMESPACES, MAX_TRANSFER_BYTES};
use crate::namespace::engine::{EngineCommands, EngineShape};
use crate::namespace::{BlockEngine, ExportedNamespace, Namespace, Pair};
use crate::outcome::{Done, ExternalCommand, ExternalWork, Outcome, Reply};
use crate::reservation::Reservations;

impl Subsystem {
    /// Exports `engine` as the lowest free namespace, attached to every controller; its identifier.
    ///
    /// # Errors
    /// Namespace Identifier Unavailable where all are taken.
    pub fn export(&mut self, engine: Box<dyn BlockEngine>) -> Result<u32, CommandError> {
        let nsid = (1..=MAX_NAMESPACES).find(|nsid| self.slot(*nsid).is_none()).ok_or(NO_IDENTIFIER)?;
        let namespace = Namespace::Exported(ExportedNamespace::new(nsid, engine));
        self.place_namespace(nsid, namespace, ControllerSet::ALL, Reservations::default())
            .ok_or(NO_IDENTIFIER)?;
        self.engines.push(nsid);
        self.engines.sort_unstable();
        info!(nsid, "external namespace exported");
        self.note_change(nsid);
        self.paths.note_members(nsid);
        Ok(nsid)
    }

    /// Checks that an engine of this shape can be exported to hosts that have already read Identify.
    ///
    /// # Errors
    /// It takes shorter transfers than announced, or has a cache where none was announced.
    pub fn check_announced(&self, shape: &EngineShape) -> Result<(), CommandError> {
        let caches = self.volatile_cache() & 1 != 0;
        if shape.transfer_max_bytes < self.transfer_max_bytes() || (shape.has_volatile_cache && !caches) {
            return Err(NOT_AS_ANNOUNCED);
        }
        Ok(())
    }

    /// Stops exporting a namespace. The caller has its controllers fail its commands
    /// ([`crate::Controller::fail_external`]), and drops the namespace where it can wait for the commands under way.
    pub fn withdraw(&mut self, nsid: u32) -> Option<Namespace> {
        self.engines.iter().position(|engine| *engine == nsid).map(|at| self.engines.remove(at))?;
        let slot = self.slot_mut(nsid)?.take()?;
        info!(nsid, "external namespace withdrawn");
        self.changes.note(nsid, |id| slot.attached.contains(id));
        self.paths.note_members(nsid);
        self.leaving.clone().iter().for_each(|id| self.see_off(id));
        Some(slot.namespace)
    }

    /// Whether an external engine keeps any namespace.
    #[inline]
    pub fn has_engines(&self) -> bool {
        !self.engines.is_empty()
    }

    /// Whether an external engine keeps namespace `nsid`.
    pub(crate) fn is_exported(&self, nsid: u32) -> bool {
        self.engines.contains(&nsid)
    }

    fn exported(&self) -> impl Iterator<Item = &ExportedNamespace> {
        self.engines.iter().filter_map(|nsid| match self.namespace(*nsid) {
            Some(Namespace::Exported(exported)) => Some(exported),
            _ => None,
        })
    }

    fn exported_mut(&mut self, nsid: u32) -> Option<&mut ExportedNamespace> {
        match self.namespace_mut(nsid) {
            Some((Namespace::Exported(exported), _)) => Some(exported),
            _ => None,
        }
    }

    /// Whether an engine is full: no command is fetched until some have finished.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.has_engines() && self.exported().any(ExportedNamespace::is_full)
    }

    /// Commands that external engines execute.
    #[inline]
    pub fn outstanding_external(&self) -> u32 {
        if self.has_engines() { self.exported().map(ExportedNamespace::outstanding).sum() } else { 0 }
    }

    /// The next finished command of any engine. `None` leaves every command begun.
    pub fn next_done(&mut self) -> Option<Done> {
        if let Some(done) = self.next_answered_query().or_else(|| self.next_ended_program()) {
            return Some(done);
        }
        let done = (0..self.engines.len()).find_map(|at| {
            let nsid = *self.engines.get(at)?;
            self.exported_mut(nsid)?.next_done()
        })?;
        self.see_off(done.owner);
        Some(done)
    }

    /// Whether an external engine executes commands of controller `id`.
    pub(super) fn has_commands_of(&self, id: ControllerId) -> bool {
        self.exported().any(|exported| exported.has_commands_of(id))
    }

    /// Begins two fused commands of an exported namespace.
    pub(crate) fn begin_pair(&mut self, nsid: u32, pair: Pair) -> [Result<Outcome, CommandError>; 2] {
        match self.exported_mut(nsid) {
            Some(exported) => exported.begin_pair(pair).map(Ok),
            None => [Err(NO_NAMESPACE), Err(NO_NAMESPACE)],
        }
    }

    /// Whether every exported namespace supports Compare and Write.
    pub(crate) fn fuses(&self) -> bool {
        self.engine_commands().compare
    }

    /// Cancels a command of controller `owner` that its engine has not started, or that waits for a query or a program, which ends; whether that
    /// was possible.
    pub(crate) fn cancel_external(&mut self, owner: ControllerId, work: ExternalWork) -> bool {
        match work {
            ExternalWork::Engine { nsid, place } => {
                return self.exported_mut(nsid).is_some_and(|exported| exported.cancel(place));
            }
            ExternalWork::Query(id) => self.cancel_query(id),
            ExternalWork::Program(id) => self.cancel_program(owner, id),
        }
        true
    }

    /// The data of a command that is not under way.
    pub(crate) fn external_memory(&mut self, work: ExternalWork) -> Option<&[u8]> {
        match work {
            ExternalWork::Engine { nsid, place } => Some(self.exported_mut(nsid)?.memory(place)),
            ExternalWork::Program(id) => self.programs.output(id),
            ExternalWork::Query(_) => None,
        }
    }

    /// The data that goes to the host of a command which is done. How long an output is, is known at the end of its program.
    pub(crate) fn reply_of(&self, at: &ExternalCommand) -> Reply {
        match at.work {
            ExternalWork::Program(id) => {
                let data_bytes = self.programs.output(id).map_or(0, |output| output.len() as u32);
                Reply { data_bytes, ..at.reply }
            }
            ExternalWork::Engine { .. } | ExternalWork::Query(_) => at.reply,
        }
    }

    /// Releases what an engine keeps for a command that is over, or the output of its program.
    pub(crate) fn release_external(&mut self, work: ExternalWork) {
        self.counting.iter_mut().for_each(|counting| counting.forget_external(work));
        match work {
            ExternalWork::Engine { nsid, place } => {
                self.exported_mut(nsid).into_iter().for_each(|exported| exported.release(place));
            }
            ExternalWork::Program(id) => self.programs.forget_output(id),
            ExternalWork::Query(_) => {}
        }
    }

    /// Releases the slot of a command of controller `owner` whose queue is gone, or ends the query or the program that it waited for.
    pub(crate) fn abandon_external(&mut self, owner: ControllerId, work: ExternalWork) {
        self.release_external(work);
        match work {
            ExternalWork::Engine { .. } => {}
            ExternalWork::Query(id) => self.cancel_query(id),
            ExternalWork::Program(id) => self.cancel_program(owner, id),
        }
    }

    /// Releases the slot of a command whose controller is gone.
    pub fn release_done(&mut self, done: &Done) {
        self.abandon_external(done.owner, done.work);
    }

    /// Copies the data of a command to `into`, fills the rest with zeroes, and releases its slot. Only zeroes if the
    /// namespace is not exported any more.
    pub fn take_data(&mut self, at: &ExternalCommand, into: &mut [u8]) {
        let data = self.external_memory(at.work).unwrap_or_default();
        let data = data.get(..at.reply.data_bytes as usize).unwrap_or_default();
        let (filled, rest) = into.split_at_mut(data.len().min(into.len()));
        filled.copy_from_slice(&data[..filled.len()]);
        rest.fill(0);
        self.release_external(at.work);
    }

    /// Most bytes of one command, whichever namespace it is of.
    pub(crate) fn transfer_max_bytes(&self) -> usize {
        let bytes = self.exported().map(|exported| exported.shape().transfer_max_bytes);
        bytes.fold(MAX_TRANSFER_BYTES, usize::min)
    }

    /// Optional commands that every namespace supports.
    pub(crate) fn engine_commands(&self) -> EngineCommands {
        self.exported().fold(EngineCommands::ALL, |all, exported| all.and(exported.shape().commands))
    }

    /// Identify Controller VWC. Acknowledged data is in power-protected state, but the image lies in the operating
    /// system's cache until it is synced: saying so makes a guest's fsync reach the disk. Flush of all namespaces is
    /// supported (bits 2:1), unless external engines keep some.
    pub(crate) fn volatile_cache(&self) -> u8 {
        let is_volatile = |shape: &EngineShape| shape.has_volatile_cache;
        let cached = !self.synced_completions && self.has_flash_namespaces();
        let cached = cached || self.exported().any(|exported| is_volatile(exported.shape()));
        let flush_all = if self.has_engines() { 0b10 } else { 0b11 };
        u8::from(cached) | flush_all << 1
    }

    fn has_flash_namespaces(&self) -> bool {
        !self.has_engines() || self.namespaces().any(|(nsid, _)| !self.is_exported(nsid))
    }

    /// Total capacity and unallocated capacity, in bytes.
    pub(crate) fn capacity_bytes(&self) -> (u64, u64) {
        let exported: u64 = self.exported().map(|exported| exported.record().size_bytes).sum();
        match self.options.namespace_management {
            true => (self.flash.total_bytes().saturating_add(exported), self.flash.unallocated_bytes()),
            false => (exported, 0),
        }
    }
}

const NOT_AS_ANNOUNCED: CommandError = CommandError::invalid_field(
    "its transfers are shorter than was announced to hosts, or it has a cache and none was announced",
);
