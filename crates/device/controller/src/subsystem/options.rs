//! Names and options of a subsystem, and errors of opening it.

use std::collections::BTreeMap;
use std::time::Duration;

use byway_flash::FlashError;
use byway_kv::{KvError, KvFormat, KvOptions};
use byway_programs::AllowList;

use crate::limits::{MAX_NAMESPACES, PROGRAM_STEPS_MAX, PROGRAM_TIME_MAX};

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

/// Options of a subsystem.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubsystemOptions {
    /// Options of every key-value namespace, however it was made.
    pub kv: KvOptions,
    /// Format of new key-value namespaces. A device has one format, as its windows are announced once.
    pub kv_format: KvFormat,
    /// Whether SGLs are announced and taken. Inline payloads do not depend on it: they are announced separately.
    pub sgls: bool,
    /// Whether doorbells in host memory are offered (Doorbell Buffer Config). Off where hosts write the doorbells
    /// themselves without a message: then the buffers only cost time.
    pub doorbell_buffers: bool,
    /// Whether hosts may make, remove and format namespaces. Off where the flash only carries exported namespaces.
    pub namespace_management: bool,
    /// Most steps of one program, about an instruction each. A program that makes more is stopped with Insufficient Program Resources.
    pub program_steps_max: u64,
    /// Longest time of one program, from its command on. One that takes longer, because others run beside it, is stopped with
    /// Insufficient Program Resources.
    pub program_time_max: Duration,
    /// Programs that hosts may run over values by Exec, by the identifier of the key-value namespace. No program runs over values of a
    /// namespace without a list, or with an empty one.
    pub exec_allowed: BTreeMap<u32, AllowList>,
}

impl Default for SubsystemOptions {
    fn default() -> Self {
        let (kv, kv_format) = (KvOptions::default(), KvFormat::default());
        Self {
            kv,
            kv_format,
            sgls: true,
            doorbell_buffers: true,
            namespace_management: true,
            program_steps_max: PROGRAM_STEPS_MAX,
            program_time_max: PROGRAM_TIME_MAX,
            exec_allowed: BTreeMap::new(),
        }
    }
}

impl SubsystemOptions {
    byway_sys::setters! {
        /// Options of every key-value namespace.
        kv: KvOptions;
        /// Format of new key-value namespaces.
        kv_format: KvFormat;
        /// Whether SGLs are announced and taken.
        sgls: bool;
        /// Whether doorbells in host memory are offered (Doorbell Buffer Config).
        doorbell_buffers: bool;
        /// Whether hosts may make, remove and format namespaces.
        namespace_management: bool;
        /// Most steps of one program, about an instruction each; 2^32 by default.
        program_steps_max: u64;
        /// Longest time of one program, from its command on; 20 s by default.
        program_time_max: Duration;
        /// Programs that hosts may run over values by Exec, by the identifier of the key-value namespace.
        exec_allowed: BTreeMap<u32, AllowList>;
    }
}

/// Why a subsystem could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubsystemError {
    /// The image holds a namespace identifier that no controller can address.
    #[error("namespace {0}: identifiers go from 1 to {MAX_NAMESPACES}")]
    Nsid(u32),
    /// The reservations of a namespace cannot be read from the image.
    #[error("namespace {0}: what the image keeps of its reservations makes no sense")]
    Reservations(u32),
    /// The flash failed.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// A key-value namespace could not be opened.
    #[error("namespace {nsid}: {source}")]
    Kv {
        /// The namespace.
        nsid: u32,
        /// The key-value engine's error.
        source: KvError,
    },
}
