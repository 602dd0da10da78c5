//! The kernel's interfaces to storage as backends: files, block devices and NVMe nodes behind the traits of
//! [`byway_core`].
//!
//! A file or a block device is a controller with one namespace of blocks, number 1 ([`Target`]), which takes the NVM
//! command set. A program that wants the least cost names a backend's types; one that opens by URI uses `byway`.

#![forbid(unsafe_code)]

mod admin_calls;
pub mod io_uring;
pub mod io_uring_cmd;
pub mod libaio;
pub mod nil;
pub mod nvme;
pub mod nvme_ioctl;
mod over;
pub mod posix_aio;
pub mod psync;
pub mod ram;
mod ready;
mod request;
pub mod ring;
mod synchronous;
mod target;
pub mod threads;
mod ticket;
mod work;

pub use admin_calls::AdminCalls;
pub use io_uring::{IoUring, IoUringOptions};
pub use io_uring_cmd::IoUringCmd;
pub use libaio::Libaio;
pub use nil::Nil;
pub use nvme::NvmeTarget;
pub use nvme_ioctl::NvmeIoctl;
pub use over::{Interface, Over};
pub use posix_aio::PosixAio;
pub use psync::Psync;
pub use ram::{Ram, RamDisk};
pub use synchronous::Synchronous;
pub use target::{Target, TargetOptions};
pub use threads::{Threads, ThreadsOptions};
