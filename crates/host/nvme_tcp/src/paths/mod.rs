//! Several paths to one subsystem: a controller at each of its portals, and commands that go by the best of them.
//!
//! | file | noun |
//! |---|---|
//! | `live.rs` | `Paths`: live paths, their ANA states, and lost controllers that may not have ended |
//! | `fence.rs` | when a controller that was lost is known to have ended |
//! | `slots.rs` | the commands of one queue, wherever they are |
//! | `path_queues.rs` | the connections of one queue, and which is the best |
//! | `multipath.rs` | `Multipath`, the `Transport` of a queue: what goes by which path, and what is tried again |
//! | `set.rs` | what the device and its queues share; admin commands over the paths |
//! | `device.rs` | `NvmeTcpPaths`, the `Backend` |
//!
//! **What may be sent where.** A command that never left, and one that changes nothing, goes by another path at once. One
//! that changes something, and whose answer was lost, may be in a socket's memory, in the network, or in the hands of a
//! controller: it *waits* until that controller is known to have ended, so that it is done or never will be. Until it is
//! answered, what came later and changes the same waits behind it. `docs/decisions/0032-multipath-write-fencing.md` says why.

mod device;
mod fence;
mod live;
mod multipath;
mod path_queues;
mod set;
mod slots;

pub use device::{NvmeTcpPaths, TcpPathsQueue};
pub(crate) use live::PathPlace;
pub use live::PathStatus;
