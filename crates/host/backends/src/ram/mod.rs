//! Blocks in the process's own memory, gone with it.
//!
//! For tests and for programs that are measured: the least that a backend that keeps its data can cost. Every command of
//! the NVM command set is done in the thread that submits it, under no lock; memory is copied by words, each whole, so
//! that queues on several threads may write what others read, as on a device.

mod device;
mod disk;
mod queue;

pub use device::Ram;
pub use disk::RamDisk;
pub use queue::RamQueue;
