//! Computation in a device by the standard command sets: data in local memory of the device (Subsystem Local Memory, CSI 3), and programs
//! that run over it (Computational Programs, CSI 4). Programs over values of keys are calls of [`Kv::exec`](crate::Kv::exec), queries by
//! SQL those of [`Kv::query`](crate::Kv::query) and [`Nvm::query`](crate::Nvm::query).
//!
//! A device has neither namespace at first: [`Device::create_memory`](crate::Device::create_memory) and
//! [`Device::create_programs`](crate::Device::create_programs) make them, by Namespace Management. In Byway's device they are gone when it is
//! closed.
//!
//! ```
//! use byway::compute::MemoryRange;
//! use byway::spec::programs::ProgramType;
//!
//! # fn main() -> byway::Result<()> {
//! let device = byway::open("embedded-ram:64M")?;
//! let memory = device.create_memory(1 << 20)?;
//! let mut local = device.memory(memory)?;
//! local.write(0, b"twelve bytes")?;
//!
//! // r0 = *(u8 *)(ranges[0].base + first); exit
//! let program = [
//!     0x79, 0x11, 0, 0, 0, 0, 0, 0, // r1 = *(u64 *)(r1 + 0)
//!     0x0f, 0x31, 0, 0, 0, 0, 0, 0, // r1 += r3
//!     0x71, 0x10, 0, 0, 0, 0, 0, 0, // r0 = *(u8 *)(r1 + 0)
//!     0x95, 0x00, 0, 0, 0, 0, 0, 0, // exit
//! ];
//! let mut programs = device.programs(device.create_programs()?)?;
//! programs.load(8, ProgramType::EBPF, None, &program)?;
//! programs.activate(8)?;
//! let ranges = [MemoryRange { nsid: memory, start: 0, len_bytes: 12 }];
//! assert_eq!(programs.execute(8, &ranges, [2, 0])?, u64::from(b'e'));
//! # Ok(())
//! # }
//! ```

mod local_memory;
mod namespaces;
mod programs;

#[cfg(feature = "embedded")]
pub use byway_controller::{AllowList, Allowed};
pub use local_memory::{CopySource, LocalMemory};
pub use programs::{MemoryRange, ProgramRanges, Programs};
