//! Properties of devices as plain values: identity, capabilities, namespaces.

use byway::{Backend, NamespaceKind, NvmCommands};
use pyo3::prelude::*;

use crate::errors::Fault;

/// A class of read-only attributes that shows and compares itself by them.
macro_rules! facts {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[pyclass(frozen, get_all, eq, module = "byway")]
        #[derive(Clone, PartialEq)]
        pub struct $name { $($(#[$what])* pub $field: $type,)* }

        #[pymethods]
        impl $name {
            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let fields = [$(format!("{}={}", stringify!($field), slf.getattr(stringify!($field))?.repr()?)),*];
                Ok(format!("{}({})", stringify!($name), fields.join(", ")))
            }
        }
    };
}
pub(crate) use facts;

facts! {
    /// Identity of a device.
    Identity {
        /// Model.
        model: String,
        /// Serial number.
        serial: String,
        /// Firmware revision.
        firmware: String,
        /// Subsystem's qualified name.
        subsystem: String,
        /// The controller's number in its subsystem.
        controller: u16,
        /// PCI vendor.
        vendor: u16,
        /// Specification version: major, minor, tertiary.
        version: (u16, u8, u8),
        /// Whether it is a Byway device.
        byway: bool,
    }
}

facts! {
    /// One namespace of a device.
    Namespace {
        /// Its identifier, from 1.
        nsid: u32,
        /// What commands it takes: `nvm`, `kv` or `other`.
        kind: &'static str,
        /// Size in bytes.
        size_bytes: u64,
        /// Bytes in use, where the device reports them.
        used_bytes: u64,
        /// Globally unique identifier (NGUID), zero if it has none.
        nguid: [u8; 16],
        /// Bytes of a block, of a namespace of blocks.
        lba_bytes: Option<u32>,
        /// Number of blocks, of a namespace of blocks.
        blocks: Option<u64>,
        /// Longest key in bytes, of a key-value namespace.
        key_max_bytes: Option<u16>,
        /// Longest value in bytes, of a key-value namespace.
        value_max_bytes: Option<u32>,
    }
}

facts! {
    /// Limits of a device, as it announced them.
    Limits {
        /// Most bytes of one command's data; None if the device sets no limit.
        transfer_bytes: Option<u64>,
        /// Most queues that can be open at once.
        queues: u16,
        /// Most entries of one queue's ring.
        ring_entries: u32,
        /// Longest payload of transfer method `inline`, in bytes.
        inline_bytes: u32,
        /// Longest payload of `piggyback`, in bytes.
        piggyback_bytes: u32,
        /// Most unfinished payloads of `piggyback-pt`.
        piggyback_pt_unfinished: u16,
        /// Longest payload of a bulk store, in bytes.
        bulk_bytes: u32,
        /// Bytes of one queue's window in device memory, for `cxl`.
        window_bytes: u32,
        /// Bytes of device memory that can be stored into as a byte interface.
        byte_memory_bytes: u64,
    }
}

facts! {
    /// What a backend and its device can do.
    Capabilities {
        /// Transfer methods.
        methods: Vec<&'static str>,
        /// Commands of blocks beside reads and writes.
        nvm_commands: Vec<&'static str>,
        /// Limits of the device.
        limits: Limits,
        /// Whether raw I/O commands can be passed through.
        raw_commands: bool,
        /// Whether admin commands can be sent.
        admin_commands: bool,
        /// Whether many pairs can be stored by one command.
        bulk_store: bool,
        /// Whether a command that was sent can be cancelled.
        cancel: bool,
        /// What a command's memory must begin and end on, in bytes.
        memory_align_bytes: u32,
        /// Whether a queue has a descriptor that becomes readable when completions arrive.
        event: bool,
        /// Whether commands go on while the program does something else.
        overlaps: bool,
    }
}

facts! {
    /// The backend that serves a device, and why that one.
    Chosen {
        /// Its name.
        backend: &'static str,
        /// Why it.
        why: String,
        /// Faster ones that could not serve the device, each with the reason.
        passed_over: Vec<(&'static str, String)>,
    }
}

facts! {
    /// A device that the kernel knows.
    Found {
        /// What `open` takes.
        uri: String,
        /// `block`, `partition`, `generic` or `controller`.
        kind: &'static str,
        /// Its size, where the kernel reports one.
        size_bytes: Option<u64>,
        /// Its model, where the kernel reports one.
        model: Option<String>,
        /// Whether it can only be read.
        read_only: bool,
    }
}

facts! {
    /// Counts of the engine of an embedded device's key-value namespace.
    KvStats {
        /// Keys, of which `unsettled_entries` at most may be counted twice.
        keys: u64,
        /// Entries of which it is not known yet whether they replace older ones.
        unsettled_entries: u64,
        /// Bytes of records and index entries that the namespace can hold.
        capacity_bytes: u64,
        /// RAM of entries that are not on flash yet and of cached index pages, in bytes.
        ram_bytes: u64,
    }
}

/// Lists the devices that the kernel knows, without opening any.
#[pyfunction]
pub fn scan(py: Python<'_>) -> PyResult<Vec<Found>> {
    let found = py.detach(byway::scan).map_err(Fault::from)?;
    Ok(found.into_iter().map(Found::from).collect())
}

impl From<byway::Found> for Found {
    fn from(found: byway::Found) -> Self {
        let byway::Found { uri, kind, size_bytes, model, read_only, missing: _ } = found;
        Self { uri, kind: kind.name(), size_bytes, model, read_only }
    }
}

impl From<&byway::Identity> for Identity {
    fn from(identity: &byway::Identity) -> Self {
        Self {
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            firmware: identity.firmware.clone(),
            subsystem: identity.subsystem.clone(),
            controller: identity.controller,
            vendor: identity.vendor,
            version: identity.version,
            byway: identity.byway,
        }
    }
}

impl From<byway::Namespace> for Namespace {
    fn from(namespace: byway::Namespace) -> Self {
        let plain = Self {
            nsid: namespace.nsid.get(),
            kind: namespace.kind.name(),
            size_bytes: namespace.size_bytes,
            used_bytes: namespace.used_bytes,
            nguid: namespace.nguid,
            lba_bytes: None,
            blocks: None,
            key_max_bytes: None,
            value_max_bytes: None,
        };
        match namespace.kind {
            NamespaceKind::Nvm { lba_bytes, blocks } => {
                Self { lba_bytes: Some(lba_bytes), blocks: Some(blocks), ..plain }
            }
            NamespaceKind::Kv { key_max_bytes, value_max_bytes, .. } => {
                Self { key_max_bytes: Some(key_max_bytes), value_max_bytes: Some(value_max_bytes), ..plain }
            }
            _ => plain,
        }
    }
}

impl From<&byway::Limits> for Limits {
    fn from(limits: &byway::Limits) -> Self {
        Self {
            transfer_bytes: Some(limits.transfer_bytes).filter(|bytes| *bytes != u64::MAX),
            queues: limits.queues,
            ring_entries: limits.ring_entries,
            inline_bytes: limits.inline_bytes,
            piggyback_bytes: limits.piggyback_bytes,
            piggyback_pt_unfinished: limits.piggyback_pt_unfinished,
            bulk_bytes: limits.bulk_bytes,
            window_bytes: limits.window_bytes,
            byte_memory_bytes: limits.byte_memory_bytes,
        }
    }
}

impl From<&byway::Capabilities> for Capabilities {
    fn from(can: &byway::Capabilities) -> Self {
        Self {
            methods: can.methods.iter().map(byway::Method::name).collect(),
            nvm_commands: names_of(can.nvm),
            limits: Limits::from(&can.limits),
            raw_commands: can.raw_commands,
            admin_commands: can.admin_commands,
            bulk_store: can.bulk_store,
            cancel: can.cancel,
            memory_align_bytes: can.memory_align_bytes,
            event: can.event,
            overlaps: can.overlaps,
        }
    }
}

fn names_of(commands: NvmCommands) -> Vec<&'static str> {
    let NvmCommands { flush, write_zeroes, deallocate, compare, verify, copy, compare_and_write } = commands;
    let named = [
        ("flush", flush),
        ("write_zeroes", write_zeroes),
        ("deallocate", deallocate),
        ("compare", compare),
        ("verify", verify),
        ("copy", copy),
        ("compare_and_write", compare_and_write),
    ];
    named.into_iter().filter(|(_, can)| *can).map(|(name, _)| name).collect()
}

impl From<&byway::Device> for Chosen {
    fn from(device: &byway::Device) -> Self {
        let chosen = device.chosen();
        let passed_over = chosen.passed_over.iter().map(|one| (one.backend, one.why.clone())).collect();
        Self { backend: device.name(), why: chosen.why.clone(), passed_over }
    }
}

impl From<byway::KvStats> for KvStats {
    fn from(stats: byway::KvStats) -> Self {
        let byway::KvStats { keys, unsettled_entries, capacity_bytes, ram_bytes, .. } = stats;
        Self { keys, unsettled_entries, capacity_bytes, ram_bytes }
    }
}
