//! Transparent mappings' shared parts: what programs under the library, the mount and the daemon do with files together.
//!
//! * [`log`]: redo records of absorbed files in device memory.
//! * [`resident`]: DAX-resident files, whose bytes and size device memory holds.
//! * [`table`]: the shared file table, which the programs of one user and the daemon map.
//! * [`control`]: messages between programs and the daemon.
//! * [`client`]: a program's side: write, sync and truncate a file at its level.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub mod client;
#[cfg(not(loom))]
pub mod control;
pub mod log;
pub mod resident;
pub mod table;
