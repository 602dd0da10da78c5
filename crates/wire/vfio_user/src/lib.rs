//! The vfio-user protocol: bytes of a socket to typed messages and back, for a server and for a client.
//!
//! The protocol is QEMU's (`docs/interop/vfio-user.rst`, version 0.0): VFIO's structures in messages over a Unix
//! socket, each with a 16-byte header, in host byte order. Descriptors travel as ancillary data. This crate is
//! sans-I/O.
//!
//! **A server** pushes received bytes into a [`Reader`], takes each [`Message`] out, parses it with
//! [`Request::parse`], and appends the answer with [`Reply::encode`] or [`encode_error`]:
//!
//! ```
//! use byway_vfio_user_wire::{Incoming, Kind, Limits, Reader, Reply, Request, encode_error};
//!
//! fn serve(reader: &mut Reader<std::os::fd::OwnedFd>, received: &[u8], out: &mut Vec<u8>) -> Result<(), byway_vfio_user_wire::Broken> {
//!     reader.push(received, []);
//!     while let Some(incoming) = reader.next()? {
//!         match incoming {
//!             Incoming::Message(message) if message.header.kind == Kind::Command => {
//!                 match Request::parse(message.header.command, message.payload) {
//!                     Ok(Request::DeviceReset) => Reply::Done.encode(&message.header, out),
//!                     Ok(_) => encode_error(&message.header, byway_vfio_user_wire::Errno::ENOTSUP, out),
//!                     Err(refused) => encode_error(&message.header, refused.errno(), out),
//!                 }
//!             }
//!             Incoming::Message(_) => {} // a reply to a DMA message
//!             Incoming::Refused { header, why } => encode_error(&header, why.errno(), out),
//!         }
//!     }
//!     Ok(())
//! }
//! # let mut out = Vec::new();
//! # let mut asked = Vec::new();
//! # Request::DeviceReset.encode(byway_vfio_user_wire::MessageId(7), false, &mut asked);
//! # serve(&mut Reader::new(Limits::default()), &asked, &mut out).unwrap();
//! # assert_eq!(out.len(), 16);
//! ```
//!
//! **A client** sends what [`Request::encode`] appends, and parses replies with [`Reply::parse`].
//!
//! Peer input is checked while it is parsed: no bytes cause a panic, nor an allocation of more than [`Limits`] allow.
//! What the values mean (which region, vectors, addresses) is checked by the caller.
#![forbid(unsafe_code)]

#[macro_use]
mod open_enum;
mod access;
mod device;
mod dma;
mod error;
mod header;
mod io_fds;
mod irq;
mod layout;
mod reader;
mod region;
mod reply;
mod request;
mod version;

pub use access::{Access, MAX_MULTI_WRITES, MULTI_DATA_BYTES, SmallWrite, WriteMulti};
pub use device::DeviceInfo;
pub use dma::{DmaMap, DmaRange, DmaUnmap};
pub use error::{Broken, Errno, WireError};
pub use header::{Command, HEADER_BYTES, Header, Kind, MessageId};
pub use io_fds::{IoFd, IoFdKind, RegionIoFds};
pub use irq::{IrqAction, IrqData, IrqFlags, IrqIndex, IrqInfo, SetIrqs};
pub use reader::{Incoming, Limits, Message, Reader};
pub use region::{Area, RegionFlags, RegionIndex, RegionInfo};
pub use reply::{Reply, encode_error};
pub use request::Request;
pub use version::{Capabilities, TwinSocket, Version};
