//! What a controller needs of the link it hangs on: host memory, interrupts, and a meter that is told of every
//! transaction.
//!
//! Each access here is one read or one write on the link, and the same call that moves the bytes tells the meter
//! how many: the ledger cannot disagree with what was done. (Where a profile moves whole pages, it is told of the page,
//! and the bytes that would be thrown away are left alone.) Addresses inside the controller memory buffer are the
//! device's own memory, so they cross nothing and are not metered.

use byway_dma::{BusAddr, DmaFault, DmaView, HostMemory};
use byway_link::{Class, Meter};
use byway_spec::Command;
use byway_spec::base::command::COMMAND_BYTES;
use byway_sys::Mapping;

use crate::payload::PAGE_BYTES;

/// Raises a message-signalled interrupt towards the host.
pub trait Interrupts {
    /// Raises `vector`. Called with the device running, so it must not call back into it.
    fn raise(&self, vector: u16);
}

/// Interrupts for a host that only polls.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoInterrupts;

impl Interrupts for NoInterrupts {
    fn raise(&self, _vector: u16) {}
}

/// The device's end of the link for the length of one run.
pub struct Port<'a> {
    /// What the host mapped for this device.
    pub memory: &'a DmaView,
    /// Told of each transaction; keeps the ledger and modelled time.
    pub meter: &'a mut Meter,
    /// Where interrupts go.
    pub interrupts: &'a dyn Interrupts,
    /// Bus addresses of the device's own memory (controller memory buffer), reached without the link.
    pub own_memory: std::ops::Range<u64>,
    /// Where hosts store values that a command then says are there.
    pub device_memory: DeviceMemory<'a>,
}

/// Where hosts store into windows of device memory.
#[derive(Debug, Clone, Copy)]
pub enum DeviceMemory<'a> {
    /// Into the windows themselves.
    Windows,
    /// Into memory laid out as the windows of all namespaces are, as hosts in other processes do. Nothing of it is the
    /// device's before a command says so. The device does not see the stores: they are counted where it takes what they
    /// brought, once, as they must have been made, whichever way they came.
    Copy(&'a Mapping),
    /// Nowhere: no memory is shared with the host.
    Nowhere,
}

impl Port<'_> {
    /// Reads host memory as one read of `into.len()` bytes.
    #[inline]
    pub fn read(&mut self, class: Class, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        self.memory.read(at, into)?;
        if !self.is_own(at) {
            self.meter.device_read(class, into.len() as u64);
        }
        Ok(())
    }

    /// Reads what a command needs of one page of host memory, as one read of the whole page. What else the page holds is
    /// not touched: it may be another command's, or the program's.
    #[inline]
    pub fn read_page(&mut self, class: Class, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        self.memory.read_part(at, into, PAGE_BYTES)?;
        if !self.is_own(at) {
            self.meter.device_read(class, PAGE_BYTES as u64);
        }
        Ok(())
    }

    /// Reads the command in one ring slot of host memory.
    #[inline]
    pub fn read_command(&mut self, at: BusAddr, into: &mut Command) -> Result<(), DmaFault> {
        self.memory.read_slot64(at, into.as_mut_bytes())?;
        self.meter.device_read(Class::CommandFetch, COMMAND_BYTES as u64);
        Ok(())
    }

    /// Writes host memory as one write of `from.len()` bytes.
    #[inline]
    pub fn write(&mut self, class: Class, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        self.memory.write(at, from)?;
        if !self.is_own(at) {
            self.meter.device_write(class, from.len() as u64);
        }
        Ok(())
    }

    #[inline]
    fn is_own(&self, at: BusAddr) -> bool {
        self.own_memory.contains(&at.0)
    }
}
