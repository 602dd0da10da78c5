//! What Byway asks of Linux: mapped memory, files that know their limits, cache-line write-back, pinning and time.
//!
//! UNSAFETY: this crate is one of the few rooms where `unsafe` is allowed, because it wraps system calls and
//! processor instructions. What it hands out is safe: memory that others may touch at the same time is copied by
//! atomic words, memory that is exclusive is a slice.
#![expect(unsafe_code, reason = "wraps mmap and cache-control instructions behind safe types")]

mod access;
pub mod affinity;
pub mod aio;
pub mod alarm;
pub mod barrier;
pub mod boot;
pub mod cacheline;
pub mod checksum;
pub mod copy;
pub mod dax;
mod deadline;
mod eager;
pub mod events;
mod exclusive;
pub mod file;
mod file_error;
mod file_id;
mod generation;
pub mod guard;
pub mod handover;
mod headroom;
pub mod huge;
pub mod idle;
pub mod inflight;
mod inherited;
pub mod lease;
pub mod lent;
pub mod map;
pub mod memfd;
pub mod names;
pub mod nvme;
mod owner;
pub mod plain;
pub mod posix_aio;
pub mod robust;
mod sharing;
pub mod signal;
pub mod signal_stack;
pub mod text;
pub mod thread;
pub mod time;
pub mod transfer;
mod trouble;
mod unnamed;
pub mod uring;
pub mod vfio;
pub mod view;
pub mod wakeup;
mod watch;
mod wiped;

pub use access::Access;
pub use aio::{Aio, AioCompleted};
pub use alarm::Alarm;
pub use copy::CopyFile;
pub use deadline::Deadline;
pub use events::{FileEvents, FolderEvents, watching};
pub use exclusive::ExclusiveMapping;
pub use file::{ImageFile, Successor};
pub use file_error::FileError;
pub use file_id::FileId;
pub use headroom::{Shortage, check_headroom, check_machine};
pub use idle::{Idle, SpinBudget};
pub use inflight::{Extent, Inflight};
pub use inherited::NotInherited;
pub use lent::KernelMemory;
pub use map::{MapError, Mapping};
pub use names::{NamePoint, NameStep};
pub use nvme::{NodeKind, NvmeAnswer, NvmeCommand, NvmeNode, NvmeQueue};
pub use owner::{OwnerProcess, ProcessLocal};
pub use plain::{PlainFile, PlainKind, PlainOptions, RangeChange};
pub use posix_aio::{PosixAio, PosixAioCompleted};
pub use robust::RobustLock;
pub use signal::EventSignal;
pub use transfer::Transfer;
pub use trouble::Trouble;
pub use unnamed::UnnamedFile;
pub use view::ReadMapping;
pub use wakeup::{Wakeup, wait_readable};
pub use watch::Watch;
pub use wiped::WipedWord;
