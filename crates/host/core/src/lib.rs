//! What every interface to a device has in common: errors, buffers, typed commands, and the [`Backend`] traits.
//!
//! A program talks to [`Backend`]s and [`BackendQueue`]s; this crate names none of them. Commands own their memory
//! ([`Buffer`], [`Payload`]), so that submitting one is safe whatever becomes of the program that waits for it.

mod admin;
mod admin_queue;
mod backend;
mod bounce;
mod buffer;
mod buffers;
mod capability;
mod command;
mod effect;
pub mod encode;
mod error;
pub mod future;
pub mod identify;
mod identity;
pub mod layouts;
mod memory;
pub mod moves;
mod payload;
pub mod piggyback_pt;
mod pool;
mod prepared;
mod reservation;
pub mod results;

pub use byway_link::Method;
pub use byway_spec::Key;
pub use byway_sys::Deadline;

pub use admin::{AdminCommand, RefusedAdmin, check_admin, encode_admin};
pub use admin_queue::AdminQueue;
pub use backend::{
    AdaptivePolicy, Backend, BackendQueue, Depth, Failed, Finished, QueueOptions, Refused,
    others_are_outstanding,
};
pub use bounce::{Bounced, Carried, gather, scatter};
pub use buffer::{Buffer, PAGE_BYTES, PreparedRange};
pub use buffers::Buffers;
pub use byway_spec::base::reservation::ReservationType;
pub use capability::{
    AdminOptions, Capabilities, DEPTH_MAX, KvCommands, Limits, Methods, NvmCommands, NvmLimits,
    PLAIN_LOG_BYTES_MAX,
};
pub use command::{
    Answer, Command, CopyRanges, KvCommand, LbaRange, LbaRanges, ManyKeys, NvmCommand, Outcome, RawCommand,
    RawData, StoreOptions, blocks_z,
};
pub use effect::{Effect, Extent};
pub use error::{Error, ErrorKind, Origin, Result, Retry, check_owner};
pub use identity::{Identity, Namespace, NamespaceKind, Nsid};
pub use memory::Memory;
pub use payload::{Payload, SmallBytes};
pub use pool::{BufferPool, Registrar};
pub use prepared::Unprepared;
pub use reservation::{Persist, Registrant, ReservationCommand, ReservationReport};
