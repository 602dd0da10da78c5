//! What a device says it is: model, serial, command sets, namespaces.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// A namespace identifier, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nsid(u32);

impl Nsid {
    /// Stands for every namespace, where a command allows it.
    pub const ALL: Self = Self(0xffff_ffff);

    /// Namespace 1 of a device, of whatever kind it is: of a device without a controller the only one, of `embedded-ram:` and `embedded-null:` the one of
    /// keys and values. The first namespace of a kind is what `nvm_namespace(None)` and `kv_namespace(None)` of a device find.
    pub const FIRST: Self = Self(1);

    /// This identifier.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for 0, which names no namespace.
    #[inline]
    pub fn new(nsid: u32) -> Result<Self> {
        if nsid == 0 {
            return Err(Error::host(ErrorKind::InvalidArgument, "namespace identifiers begin at 1"));
        }
        Ok(Self(nsid))
    }

    /// The number.
    #[must_use]
    #[inline]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Nsid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}

/// Identity of a device (Identify Controller).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Model, without its padding.
    pub model: String,
    /// Serial number, without its padding.
    pub serial: String,
    /// Firmware revision, without its padding.
    pub firmware: String,
    /// Subsystem's qualified name.
    pub subsystem: String,
    /// The controller's number in its subsystem.
    pub controller: u16,
    /// PCI vendor.
    pub vendor: u16,
    /// Specification version as major, minor, tertiary.
    pub version: (u16, u8, u8),
    /// Whether it is a Byway device: one that has transfer methods of its own.
    pub byway: bool,
}

/// One namespace of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: Nsid,
    /// What commands it takes.
    pub kind: NamespaceKind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes in use, where the device reports them.
    pub used_bytes: u64,
    /// Globally unique identifier (NGUID), zero if it has none.
    pub nguid: [u8; 16],
}

/// The command set of a namespace, with its geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamespaceKind {
    /// Logical blocks.
    Nvm {
        /// Size of a block in bytes.
        lba_bytes: u32,
        /// Number of blocks.
        blocks: u64,
    },
    /// Keys and values.
    Kv {
        /// Longest key in bytes.
        key_max_bytes: u16,
        /// Longest value in bytes.
        value_max_bytes: u32,
        /// Most keys, 0 if only the size limits them.
        keys_max: u32,
    },
    /// A command set that this library has no typed commands for, by its number (CSI).
    Other(u8),
}

impl NamespaceKind {
    /// The word for it in options and reports: `nvm`, `kv` or `other`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nvm { .. } => "nvm",
            Self::Kv { .. } => "kv",
            Self::Other(_) => "other",
        }
    }
}
