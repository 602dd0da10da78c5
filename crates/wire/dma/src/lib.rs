//! Memory that a device may access: host memory, its bus addresses, and the PRP and SGL lists that describe a
//! transfer.
//!
//! * [`DmaMemory`] is host memory that a device may read and write at any time. Bytes are copied in and out, without
//!   references, so a race yields old or new bytes and no undefined behaviour.
//! * [`DmaSpace`] maps bus addresses to memory. [`DmaView`] is a device's cached access to it; [`HostMemory`] is the
//!   trait that a controller uses for either.
//! * [`MessageDma`] is host memory that is accessed by messages instead (vfio-user DMA_READ and DMA_WRITE).
//! * [`prp::walk`] and [`sgl::walk`] turn a command's data pointer into a [`SegmentList`]. They are pure: the
//!   caller's closure fetches lists, and can account for each fetch. No list makes them loop, panic or allocate
//!   without bound.
//!
//! UNSAFETY: this crate turns checked bus addresses into pointers and copies through them. Everything it hands out
//! is safe.
#![expect(unsafe_code, reason = "copies through pointers into memory that a device shares")]

mod addr;
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
