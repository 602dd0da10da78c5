//! A namespace of key-value pairs (Key Value command set).
//!
//! A put is acknowledged once its record is in power-protected state. Whatever way a value came, by PRP, SGL,
//! inline, in pieces or through device memory, it ends in one call of the engine.

mod bulk;
mod command;
mod read;
mod store;
mod window;

use std::fmt;

use byway_flash::{Flash, NamespaceRecord};
use byway_kv::{Expect, Key, KvEngine, KvError, KvFormat, KvOptions, KvStats, STATE_AREA};
use byway_spec::kv::{KvConfiguration, KvOpcode};
use byway_spec::{Command, Status};

use self::command::KvCommand;
use self::window::Windows;
use super::media::timed;
use super::{Execution, Outcome};
use crate::error::CommandError;
use crate::port::Port;

pub use byway_kv::VALUE_MAX_BYTES;
pub use command::key;
pub use store::BULK_MAX_BYTES;

/// A namespace of key-value pairs.
pub struct KvNamespace {
    record: NamespaceRecord,
    engine: KvEngine,
    configuration: KvConfiguration,
    windows: Windows,
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
        let is_marked = record.owner_state[0] == HAS_ENGINE;
        let engine = if is_marked || has_engine(flash, &record) {
            KvEngine::open(flash, &record, options)?.0
        } else {
            KvEngine::create(flash, &record, format, options)?
        };
        if !is_marked && !flash.is_read_only() {
            flash.set_owner_state(record.nsid, &[HAS_ENGINE])?;
            record.owner_state[0] = HAS_ENGINE;
        }
        let windows = Windows::new(engine.window_count());
        Ok(Self { record, engine, configuration: KvConfiguration::new(), windows })
    }

    /// What the image keeps of it.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Bytes that its records take.
    pub fn used_bytes(&self) -> u64 {
        self.engine.used_bytes()
    }

    /// What its engine counted.
    pub fn stats(&self) -> KvStats {
        self.engine.stats()
    }

    /// Forgets every key. Windows that were bound take no more stores until they are bound anew.
    ///
    /// # Errors
    /// What the flash says.
    pub fn format(&mut self, flash: &mut Flash) -> Result<(), CommandError> {
        self.engine.format(flash, &mut 0)?;
        self.windows.release_all();
        Ok(())
    }

    /// Writes what its engine has in RAM only to flash, so that the next opening is fast: part of a shutdown.
    ///
    /// # Errors
    /// What the flash says.
    pub fn settle(&mut self, flash: &mut Flash) -> Result<(), KvError> {
        self.engine.flush(flash, &mut 0)
    }

    /// Takes no more stores: the flash can only be read from now on.
    pub fn freeze(&mut self) {
        self.engine.freeze();
    }

    /// Says that a value of this key is on its way.
    #[inline]
    pub fn expect(&self, flash: &Flash, key: &Key, stage: Expect) {
        self.engine.expect(flash, key, stage);
    }

    /// Says that a command will come; of those that name one key, the engine is told which.
    #[inline]
    pub fn expect_command(&self, flash: &Flash, command: &Command, stage: Expect) {
        let opcode = KvOpcode(command.opcode());
        let names_one =
            [KvOpcode::RETRIEVE, KvOpcode::STORE, KvOpcode::EXIST, KvOpcode::DELETE].contains(&opcode);
        if names_one && let Ok(key) = key(command) {
            self.expect(flash, &key, stage);
        }
    }

    /// Executes one standard command.
    #[inline]
    pub fn execute(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match KvCommand::parse(command)? {
            KvCommand::Store { key, value_bytes, when } => {
                self.store_payload(execution, command, key, value_bytes, when)
            }
            KvCommand::Retrieve { key, buffer_bytes } => self.retrieve(execution, command, key, buffer_bytes),
            KvCommand::List { start, buffer_bytes } => self.list(execution, command, start, buffer_bytes),
            KvCommand::Delete(key) => self.delete(execution, key),
            KvCommand::Exist(key) => self.exist(execution, key),
            KvCommand::Flush => Ok(Outcome::OnceSynced),
        }
    }

    /// Feature 20h as it stands.
    pub fn configuration(&self) -> KvConfiguration {
        self.configuration
    }

    /// Sets feature 20h; it holds until the subsystem is opened anew.
    pub fn set_configuration(&mut self, configuration: KvConfiguration) {
        self.configuration = configuration;
    }

    fn delete(&mut self, execution: &mut Execution<'_, '_>, key: Key) -> Result<Outcome, CommandError> {
        let Execution { flash, port, .. } = execution;
        let was_there = timed(port, |now_ps| self.engine.delete(*flash, &key, now_ps))?;
        if !was_there && self.configuration.ednek() {
            return Err(NO_SUCH_KEY);
        }
        Ok(Outcome::OK)
    }

    fn exist(&mut self, execution: &mut Execution<'_, '_>, key: Key) -> Result<Outcome, CommandError> {
        match self.value_bytes(execution.flash, execution.port, key)? {
            Some(_) => Ok(Outcome::OK),
            None => Err(NO_SUCH_KEY),
        }
    }

    fn value_bytes(
        &mut self,
        flash: &mut Flash,
        port: &mut Port<'_>,
        key: Key,
    ) -> Result<Option<usize>, CommandError> {
        let len = timed(port, |now_ps| self.engine.len_of(flash, &key, now_ps))?;
        Ok(len.map(|bytes| bytes as usize))
    }
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

const NO_SUCH_KEY: CommandError = CommandError::new(Status::KEY_DOES_NOT_EXIST, "the key does not exist");
