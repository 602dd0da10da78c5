//! A namespace of key-value pairs (Key Value command set).
//!
//! A put is acknowledged once its record is in power-protected state. Whatever way a value came, by PRP, SGL,
//! inline, in pieces or through device memory, it ends in one call of the engine.

mod batch;
mod bulk;
mod command;
mod deleted_space;
mod lookups;
mod object;
mod read;
mod retrieve_many;
mod scan;
mod store;
mod window;

use std::fmt;

use byway_flash::{Flash, NamespaceRecord};
use byway_kv::{
    FILL_CLASSES, Key, KvEngine, KvError, KvFormat, KvOptions, KvStats, LeaseHandle, LeaseId, LookupHints,
    Placement, STATE_AREA, Selection, TryGet,
};
use byway_spec::kv::{KvConfiguration, KvOpcode};
use byway_spec::{Command, Status};

use self::deleted_space::{DeletedSpace, is_disk_full};
use self::window::Windows;
use super::media::timed;
use super::{Execution, Outcome};
use crate::error::CommandError;

pub use byway_kv::VALUE_MAX_BYTES;
pub use command::{KvCommand, StoreIf, key};
pub(crate) use lookups::Lookups;

/// A namespace of key-value pairs.
pub struct KvNamespace {
    record: NamespaceRecord,
    engine: KvEngine,
    configuration: KvConfiguration,
    windows: Windows,
    deleted: DeletedSpace,
    /// Room for the pairs of a scan.
    selection: Selection,
    /// Room for a Retrieve Many.
    lookups: Lookups,
}

/// The key that a command looks up. A store looks up none.
#[inline]
pub fn looked_up_key(command: &Command) -> Option<Key> {
    let opcode = KvOpcode(command.opcode());
    let looks_up = [KvOpcode::RETRIEVE, KvOpcode::EXIST, KvOpcode::DELETE].contains(&opcode);
    if looks_up { key(command).ok() } else { None }
}

impl KvNamespace {
    /// Opens the engine of a namespace, or makes one of `format` in a namespace that has none yet.
    ///
    /// # Errors
    /// When the engine's state cannot be used, or made.
    pub fn open(
        flash: &mut Flash,
        mut record: NamespaceRecord,
        options: KvOptions,
        format: &KvFormat,
    ) -> Result<Self, KvError> {
        let is_marked = is_made(&record);
        let engine = if is_marked || has_engine(flash, &record) {
            KvEngine::open(flash, &record, options)?.0
        } else {
            KvEngine::create(flash, &record, format, options)?
        };
        let deleted = DeletedSpace::of(&engine);
        if !is_marked && !flash.is_read_only() {
            flash.set_owner_state(record.nsid, &[HAS_ENGINE])?;
            record.owner_state[0] = HAS_ENGINE;
        }
        let windows = Windows::new(engine.window_count());
        Ok(Self {
            record,
            engine,
            configuration: KvConfiguration::new(),
            windows,
            deleted,
            selection: Selection::default(),
            lookups: Lookups::default(),
        })
    }

    /// Has the next command see what another process, which writes the image, has committed.
    ///
    /// # Errors
    /// As [`KvEngine::follow`].
    #[inline]
    pub fn follow(&mut self, flash: &mut Flash) -> Result<(), KvError> {
        self.engine.follow(flash)
    }

    /// Whether that process has committed something since.
    pub fn is_behind(&self, flash: &Flash) -> bool {
        self.engine.is_behind(flash)
    }

    /// What the image keeps of it.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Longest value that it takes.
    pub fn value_max_bytes(&self) -> u32 {
        self.engine.value_max_bytes()
    }

    /// Bytes that its records take.
    pub fn used_bytes(&self) -> u64 {
        self.engine.used_bytes()
    }

    /// Segments of its log by how much of them is alive, in tenths.
    pub fn segments_by_fill(&self) -> [u32; FILL_CLASSES] {
        self.engine.segments_by_fill()
    }

    /// What its engine counted.
    pub fn stats(&self) -> KvStats {
        self.engine.stats()
    }

    /// Bytes of its log that could not be read at the opening.
    pub fn lost_log_bytes(&self) -> u64 {
        self.engine.lost_log_bytes()
    }

    /// Forgets every key. Windows that were bound take no more stores until they are bound anew.
    ///
    /// # Errors
    /// What the flash says.
    pub fn format(&mut self, flash: &mut Flash) -> Result<(), CommandError> {
        flash.with_reserve(|flash| self.engine.format(flash, &mut 0))?;
        self.windows.release_all();
        self.deleted = DeletedSpace::default();
        Ok(())
    }

    /// Writes what its engine has in RAM only to flash, so that the next opening is fast: part of a shutdown.
    ///
    /// # Errors
    /// What the flash says.
    pub fn settle(&mut self, flash: &mut Flash) -> Result<(), KvError> {
        self.engine.end_leases(flash);
        self.engine.flush(flash, &mut 0)
    }

    /// Refuses stores from now on: the flash is read-only.
    pub fn freeze(&mut self) {
        self.engine.freeze();
    }

    /// Has the engine publish the addresses of its tables in `lookup_hints` from now on.
    pub fn publish_hints(&mut self, lookup_hints: LookupHints) {
        self.engine.publish_hints(lookup_hints);
    }

    /// Prefetches memory for lookups of these keys.
    #[inline]
    pub fn prefetch(&self, flash: &Flash, keys: impl Iterator<Item = Key>) {
        self.engine.prefetch(flash, keys);
    }

    /// Executes one standard command.
    #[inline]
    pub fn execute(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        // The key goes from the command's fields to registers: one that was put into a command of another kind, in memory,
        // would be waited for.
        if command.opcode() == KvOpcode::RETRIEVE.0 {
            return self.retrieve(execution, command, &key(command)?, command.cdw10 as usize);
        }
        match KvCommand::parse(command)? {
            KvCommand::Store { key, value_bytes, when } => {
                self.store_payload(execution, command, key, value_bytes, when)
            }
            KvCommand::Retrieve { key, buffer_bytes } => {
                self.retrieve(execution, command, &key, buffer_bytes)
            }
            KvCommand::List { start, buffer_bytes } => self.list(execution, command, start, buffer_bytes),
            KvCommand::Delete(key) => {
                let Execution { flash, port, .. } = execution;
                timed(port, |now_ps| self.delete_at(flash, &key, now_ps)).map(|()| Outcome::OK)
            }
            KvCommand::Exist(key) => {
                let Execution { flash, port, .. } = execution;
                timed(port, |now_ps| self.exist_at(flash, &key, now_ps)).map(|()| Outcome::OK)
            }
            KvCommand::Flush => Ok(Outcome::OnceSynced),
        }
    }

    /// Current value of feature 20h.
    pub fn configuration(&self) -> KvConfiguration {
        self.configuration
    }

    /// Sets feature 20h; it holds until the subsystem is opened anew.
    pub fn set_configuration(&mut self, configuration: KvConfiguration) {
        self.configuration = configuration;
    }

    /// Stores a value that is at hand, at modelled time `at_ps`, which moves on.
    ///
    /// # Errors
    /// As any store.
    // One body for the controller and delegated queues, with the engine's put inlined. Of two bodies the compiler would share
    // parts, and each put would wait for arguments passed to them in memory.
    #[inline(never)]
    pub fn put_at(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        value: &[u8],
        when: StoreIf,
        at_ps: &mut u64,
    ) -> Result<(), CommandError> {
        let how = store::how(when, Placement::Packed);
        match self.engine.put(flash, key, value, how, at_ps) {
            Err(error) if self.reclaims(flash, &error) => {
                Ok(self.engine.put(flash, key, value, how, at_ps)?)
            }
            put => Ok(put?),
        }
    }

    /// As [`put_at`](Self::put_at), in the stream of a lease, which goes on behind it.
    ///
    /// # Errors
    /// As any store.
    pub(crate) fn put_leased_at(
        &mut self,
        flash: &mut Flash,
        lease: LeaseId,
        key: &Key,
        value: &[u8],
    ) -> Result<(), CommandError> {
        match self.engine.put_leased(flash, lease, key, value, &mut 0) {
            Err(error) if self.reclaims(flash, &error) => {
                Ok(self.engine.put_leased(flash, lease, key, value, &mut 0)?)
            }
            put => Ok(put?),
        }
    }

    /// Opens a lease, if there is one to be had.
    pub(crate) fn open_lease(&mut self, flash: &mut Flash) -> Option<LeaseHandle> {
        let lease = self.engine.open_lease(flash)?;
        self.engine.lease_handle(lease)
    }

    /// Whether a lease has not ended.
    pub(crate) fn has_lease(&self, lease: LeaseId) -> bool {
        self.engine.has_lease(lease)
    }

    /// Ends a lease.
    pub(crate) fn close_lease(&mut self, flash: &mut Flash, lease: LeaseId) {
        self.engine.close_lease(flash, lease);
    }

    /// Whether a step of upkeep is worth doing.
    pub(crate) fn owes_upkeep(&self) -> bool {
        self.engine.owes_upkeep()
    }

    /// Does a step of upkeep; whether there was anything to do.
    pub(crate) fn keep_up(&mut self, flash: &mut Flash) -> bool {
        self.engine.keep_up(flash, &mut 0)
    }

    /// Recalls leases, and takes in what was stored by them.
    #[inline]
    pub(crate) fn take_in(&mut self, flash: &mut Flash) {
        self.engine.take_in(flash);
    }

    /// After a put failed on a full host disk: reclaims deleted data. Whether to retry the put.
    #[cold]
    fn reclaims(&mut self, flash: &mut Flash, error: &KvError) -> bool {
        self.deleted.reclaims(&mut self.engine, flash, error)
    }

    /// Reads as much of a value as `into` takes; the length of all of it.
    ///
    /// # Errors
    /// Key Does Not Exist; what the flash says.
    #[inline]
    pub fn get_at(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        was_prefetched: bool,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<u32, CommandError> {
        let found = self.engine.find(flash, key, was_prefetched, at_ps)?.ok_or(NO_SUCH_KEY)?;
        let limit_bytes = u64::from(found.len()).min(into.len() as u64);
        let mut rest = into;
        let put = |piece: &[u8], _: &mut u64| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
            Ok::<(), CommandError>(())
        };
        self.engine.read(flash, key, &found, 0..limit_bytes, put, at_ps)?;
        Ok(found.len())
    }

    /// As [`get_at`](Self::get_at), by shared reference.
    #[inline]
    pub(crate) fn try_get_at(
        &self,
        flash: &Flash,
        key: &Key,
        was_prefetched: bool,
        into: &mut [u8],
    ) -> TryGet {
        self.engine.try_get(flash, key, was_prefetched, into)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// Key Does Not Exist, where the host enabled that error; errors of the flash.
    pub fn delete_at(&mut self, flash: &mut Flash, key: &Key, at_ps: &mut u64) -> Result<(), CommandError> {
        self.deleted.note_used(&self.engine);
        let was_there = match self.engine.delete(flash, key, at_ps) {
            Err(error) if is_disk_full(&error) => {
                flash.with_reserve(|flash| self.engine.delete(flash, key, at_ps))?
            }
            deleted => deleted?,
        };
        if !was_there && self.configuration.ednek() {
            return Err(NO_SUCH_KEY);
        }
        Ok(())
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// Key Does Not Exist; what the flash says.
    pub fn exist_at(&mut self, flash: &mut Flash, key: &Key, at_ps: &mut u64) -> Result<(), CommandError> {
        self.engine.len_of(flash, key, at_ps)?.ok_or(NO_SUCH_KEY).map(drop)
    }
}

/// Whether the engine of a namespace was made.
pub(crate) fn is_made(record: &NamespaceRecord) -> bool {
    record.owner_state[0] == HAS_ENGINE
}

/// First byte of a namespace's owner state, set once its engine is made: from then on an engine whose header is gone
/// is damaged, and never made anew over what it held.
const HAS_ENGINE: u8 = 1;

/// Whether the making of an engine was finished, though perhaps not marked: its header, written last, is there.
fn has_engine(flash: &Flash, record: &NamespaceRecord) -> bool {
    let area = flash.find_area(record.nsid, STATE_AREA);
    area.is_some_and(|area| flash.area(area).iter().take(HEADER_START_BYTES).any(|byte| *byte != 0))
}

/// Bytes at the start of an engine's state that are not all zero once it has a header.
const HEADER_START_BYTES: usize = 8;

impl fmt::Debug for KvNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvNamespace").field("record", &self.record).finish_non_exhaustive()
    }
}

pub(crate) const NO_SUCH_KEY: CommandError =
    CommandError::new(Status::KEY_DOES_NOT_EXIST, "the key does not exist");
