//! Byway moves bytes between programs and SSDs at the size the program has.
//!
//! [`open`] takes a URI and gives a [`Device`], whatever is there: a file, a block device, a device in this process.
//! [`Device::kv`] and [`Device::nvm`] give synchronous calls, [`Device::kv_queue`] and [`Device::nvm_queue`] the same
//! commands many at a time, and [`Device::default_queue`] gives queues of any typed command. [`create`] makes an image: a
//! whole SSD in one file; [`embedded::open`] opens it by its own type, which has a ledger and a clock.
//!
//! ```
//! # fn main() -> byway::Result<()> {
//! let device = byway::embedded::open("embedded-ram:64M?transfer=inline")?;
//! let mut kv = device.kv(None)?;
//! kv.put(b"0041", b"LATIN CAPITAL LETTER A")?;
//! assert_eq!(kv.get(b"0041")?.as_deref(), Some(&b"LATIN CAPITAL LETTER A"[..]));
//! println!("{} bytes crossed the link", device.ledger().payload_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `embedded` (the default) is a device in this process, `kernel` the kernel's interfaces to files, block devices and NVMe
//! nodes, `compute` the queries by SQL of a device in this process, `vfio` PCIe devices by this library's own driver, `tcp` NVMe over TCP, and `serve` serving a device to others.
//! A URI whose feature was left out is refused with [`ErrorKind::Unsupported`], which names the feature.
//!
//! # What an acknowledgement means
//!
//! A completed put is in the device's power-protected state: it survives the death of the process at any instruction
//! and a modelled power cut. Loss of the machine's own power or kernel may lose what was not flushed. With `flush=media`
//! nothing is acknowledged before it is on the image's disk; see [`FlushMode`].

#![forbid(unsafe_code)]
// What the features share is unused in part where one of them is left out.
#![cfg_attr(
    not(all(
        feature = "embedded",
        feature = "kernel",
        feature = "vfio",
        feature = "tcp",
        feature = "serve"
    )),
    allow(dead_code, unreachable_code, unreachable_patterns, unused_imports, unused_mut, unused_variables)
)]

mod calls;
mod cause;
pub mod compute;
mod device;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "serve")]
pub mod serve;
pub mod uri;

pub use byway_backends as backends;
#[cfg(feature = "embedded")]
pub use byway_controller::UpkeepTimes;
pub use byway_core::future;
pub use byway_core::{
    AdaptivePolicy, AdminCommand, AdminOptions, AdminQueue, Answer, Backend, BackendQueue, Buffer, Buffers,
    Capabilities, Command, CopyRanges, DEPTH_MAX, Deadline, Depth, Error, ErrorKind, Failed, Finished,
    Identity, Key, KvCommand, KvCommands, LbaRange, LbaRanges, Limits, ManyKeys, Memory, Methods, Namespace,
    NamespaceKind, Nsid, NvmCommand, NvmCommands, NvmLimits, Origin, Outcome, Payload, Persist, QueueOptions,
    RawCommand, RawData, Refused, RefusedAdmin, Registrant, ReservationCommand, ReservationReport,
    ReservationType, Result, Retry, SmallBytes, StoreOptions, Unprepared, check_owner,
    others_are_outstanding,
};
#[cfg(feature = "embedded")]
pub use byway_flash::{
    Cause, CauseCounters, DEFAULT_OVER_PROVISIONING_PERCENT, FileEvents, Finding, FlashCounters, FlashHealth,
    GcPolicy, Geometry, Hit, HostCounters, NamespaceKind as MediaNamespaceKind, Remedy, Stall, StallCause,
    Stalls, WearSummary,
};
#[cfg(feature = "embedded")]
pub use byway_kv::{KvStats, Packing, Work};
pub use byway_link::{Class, ClockMode, Cost, Ledger, Method, Profile, cost};
/// The structures of commands, logs and features as they stand on the wire: for [`RawCommand`]s, and for what they answer.
pub use byway_spec as spec;
pub use byway_sys::OwnerProcess;
#[cfg(feature = "tcp")]
pub use byway_tcp_initiator as tcp;
pub use calls::{
    Batch, Cursor, CursorState, KeyRange, Keys, Kv, KvQueue, Loader, Nvm, NvmQueue, PrefixKeys, Queue,
    QueueKind, Scan, ScanOptions, ScanState, SqlOptions, SqlResult, Unlisted,
};
#[cfg(feature = "vfio")]
pub use calls::{VfioQueue, VfioUserQueue};
pub use cause::SystemCause;
#[cfg(feature = "tcp")]
pub use device::discover;
pub use device::{
    Chosen, Device, Found, FoundKind, PassedOver, Wipe, is_image, open, open_address, open_to_read, scan,
    uri_of,
};
#[cfg(feature = "embedded")]
pub use embedded::{
    check::{Checked, check, repair},
    control_folder::ControlSocket,
    copying::SnapshotReport,
    create::{CreateOptions, DEFAULT_PROFILE, Media, NewNamespace, create},
    details::{Details, EngineDetails, NamespaceDetails},
    resize::resize,
    snapshot::{snapshot, snapshot_watched},
};
pub use uri::{Address, BLOCK_OPTIONS, BlockOptions, BlockPlace, BlockUri};
#[cfg(feature = "embedded")]
pub use uri::{FlushMode, Uri};
#[cfg(feature = "vfio")]
pub use uri::{PCIE_OPTIONS, PcieOptions, PciePlace, PcieUri};
#[cfg(feature = "tcp")]
pub use uri::{TCP_OPTIONS, TcpUri};

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/devices.md")]
struct GuideToDevices;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/backends.md")]
struct GuideToBackends;

/// The example of the guide to commands passed through.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/any-command.md")]
struct GuideToAnyCommand;
