//! The kernel's interfaces to storage as backends: files, block devices and NVMe nodes behind the traits of
//! [`byway_core`].
//!
//! A file or a block device is a controller with one namespace of blocks, number 1 ([`Target`]), which takes the NVM
//! command set. A program that wants the least cost names a backend's types; one that opens by URI uses `byway`.

#![forbid(unsafe_code)]
// What the kernel's interfaces share is unused in part without them.
#![cfg_attr(not(feature = "kernel"), allow(dead_code, unused_imports))]

mod admin_calls;
#[cfg(feature = "kernel")]
pub mod io_uring;
#[cfg(feature = "kernel")]
pub mod io_uring_cmd;
mod io_uring_options;
#[cfg(feature = "kernel")]
pub mod libaio;
pub mod nil;
#[cfg(feature = "kernel")]
pub mod nvme;
#[cfg(feature = "kernel")]
pub mod nvme_ioctl;
mod over;
#[cfg(feature = "kernel")]
pub mod posix_aio;
pub mod psync;
pub mod ram;
mod ready;
mod request;
#[cfg(feature = "kernel")]
pub mod ring;
mod synchronous;
mod target;
#[cfg(feature = "kernel")]
pub mod threads;
mod ticket;
mod work;

pub use admin_calls::AdminCalls;
pub use io_uring_options::IoUringOptions;
pub use nil::Nil;
pub use over::{Interface, Over};
pub use psync::Psync;
pub use ram::{Ram, RamDisk};
pub use synchronous::Synchronous;
pub use target::{Target, TargetOptions};
#[cfg(feature = "kernel")]
pub use {
    io_uring::IoUring,
    io_uring_cmd::IoUringCmd,
    libaio::Libaio,
    nvme::NvmeTarget,
    nvme_ioctl::NvmeIoctl,
    posix_aio::PosixAio,
    threads::{Threads, ThreadsOptions},
};
