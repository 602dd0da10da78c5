//! Memory a device may touch: host memory, the bus addresses it stands at, and the PRP and SGL lists that name it.
//!
//! * [`DmaMemory`] is memory of the host that a device may read and write at any time. It hands out no references:
//!   bytes are copied in and out, so a race gives old or new bytes and nothing worse.
//! * [`DmaSpace`] says which bus addresses stand for which memory; [`DmaView`] is a device's own fast way into it,
//!   and [`HostMemory`] is all a controller sees of either.
//! * [`prp::walk`] and [`sgl::walk`] turn a command's data pointer into a [`SegmentList`]. They are pure: lists are
//!   fetched by a closure of the caller, who can so account for each fetch, and no list can make them loop, allocate
//!   without bound or panic.
//!
//! UNSAFETY: this crate turns checked bus addresses into pointers and copies through them. Everything it hands out
//! is safe.
#![expect(unsafe_code, reason = "copies through pointers into memory that a device shares")]

mod addr;
mod copy;
pub mod fuzz;
mod host;
mod mark;
mod memory;
mod message_dma;
pub mod prp;
mod record;
mod segment;
pub mod sgl;
mod space;
mod table;
#[cfg(test)]
mod testing;
mod tree;
mod view;

pub use addr::{Access, BusAddr, DmaFault, Why};
pub use host::HostMemory;
pub use memory::DmaMemory;
pub use message_dma::MessageDma;
#[cfg(feature = "record")]
pub use record::{Direction, RecordedAccess};
pub use segment::{Cursor, Segment, SegmentList};
pub use space::DmaSpace;
pub use table::MapRefusal;
pub use view::DmaView;
