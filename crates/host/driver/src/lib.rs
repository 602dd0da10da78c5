//! An NVMe driver in user space, over a [`Bus`].

#![forbid(unsafe_code)]

mod bus;

pub use bus::{Bus, BusError, DeviceMemory, NoMemory};
