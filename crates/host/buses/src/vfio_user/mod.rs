//! A PCIe device that another process serves at a Unix socket, by the vfio-user protocol.
//!
//! Registers are read and written by messages. Doorbells are stores into a page that the server shares, where it does, and
//! messages without a reply where it does not. The device's view of this process is memory that the bus has made and
//! shared, and nothing else: [`byway_driver::Bus::MAPS_ANY_MEMORY`] is false. Interrupts are eventfds, armed when a thread
//! sleeps on one and given back once the driver has found many completions by looking, so that a device whose hosts all poll
//! raises none.
//!
//! **Who is trusted.** Neither side. What the server says is checked before it is used; what it shares is mapped only if it
//! cannot be taken away again ([`byway_sys::memfd::stays`]); a server that does not answer for [`ANSWER`] is gone. It
//! can corrupt what it was given: that is what a device is. A server that is gone fails every later call, and wakes the thread that
//! sleeps.

mod bus;
mod connection;
mod function;
mod interrupts;
mod memory;
mod twin;

use std::time::Duration;

pub use bus::VfioUserBus;
pub use memory::{DeviceMemoryBar, MessageBar};

/// How long a server may take to answer a message.
pub const ANSWER: Duration = Duration::from_secs(5);
