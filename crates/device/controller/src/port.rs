//! The controller's side of its link: host memory, interrupts, and a meter for every transaction.
//!
//! Each access here is one read or one write on the link, and the call that moves the bytes also meters them, so the
//! ledger matches what was done. (Where a profile moves whole pages, the whole page is metered, and only the needed bytes
//! move.) Addresses inside the controller memory buffer are the
//! device's own memory, so they cross nothing and are not metered.

use byway_dma::{BusAddr, DmaFault, DmaView, HostMemory, Why};
use byway_link::{Class, Meter};
use byway_queue::Grants;
use byway_spec::Command;
use byway_spec::base::command::COMMAND_BYTES;
use byway_sys::Mapping;

use crate::limits::PAGE_BYTES;

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
    /// Host memory that is mapped for this device.
    pub memory: &'a DmaView,
    /// Meters each transaction: keeps the ledger and modelled time.
    pub meter: &'a mut Meter,
    /// Raises interrupts.
    pub interrupts: &'a dyn Interrupts,
    /// Bus addresses of the device's own memory (controller memory buffer), reached without the link.
    pub own_memory: std::ops::Range<u64>,
    /// Where hosts store values that a command then says are there.
    pub device_memory: DeviceMemory<'a>,
    /// The data of a command that came in a capsule, whose host has no memory that could be reached.
    pub capsule: Option<CapsuleData<'a>>,
    /// Rights of threads to execute commands without the run lock. An admin command ends them before it changes anything.
    pub grants: Option<&'a Grants>,
}

/// The data of one command whose host sends and receives it.
#[derive(Debug)]
pub struct CapsuleData<'a> {
    carried: Option<&'a [u8]>,
    reply: &'a mut [u8],
    filled: usize,
    /// The host gets a CRC-32C of read data.
    wants_crc: bool,
    crc: Option<u32>,
}

impl<'a> CapsuleData<'a> {
    /// Data that came with a command or was asked for behind it, and room for as much as its host takes.
    pub fn new(carried: Option<&'a [u8]>, reply: &'a mut [u8]) -> Self {
        Self { carried, reply, filled: 0, wants_crc: false, crc: None }
    }

    /// Sets whether the host gets a CRC-32C of read data.
    #[must_use]
    pub fn with_crc(self, wants_crc: bool) -> Self {
        Self { wants_crc, ..self }
    }

    /// Ends it: what was not written of the room for the host is zeroes. The CRC-32C of all the room, if it is wanted, and was kept with
    /// what was read.
    #[inline]
    pub fn finish(self) -> Option<u32> {
        let rest = &mut self.reply[self.filled..];
        rest.fill(0);
        self.crc.filter(|_| rest.is_empty())
    }

    /// Bytes that are written so far, or, of a command that reads none, that came.
    #[inline]
    pub(crate) fn moved_bytes(&self) -> usize {
        if self.filled > 0 { self.filled } else { self.carried.map_or(0, <[u8]>::len) }
    }

    #[inline]
    fn write(&mut self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        let start = at.0 as usize;
        let outside = DmaFault { at, len: from.len(), why: Why::Outside };
        let end = start.checked_add(from.len()).ok_or(outside)?;
        let into = self.reply.get_mut(start..end).ok_or(outside)?;
        into.copy_from_slice(from);
        if start > self.filled {
            self.reply[self.filled..start].fill(0);
        }
        self.filled = self.filled.max(end);
        Ok(())
    }
}

/// Where hosts store into windows of device memory.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum DeviceMemory<'a> {
    /// Into the windows themselves.
    Windows,
    /// Into memory laid out as the windows of all namespaces are, as hosts in other processes do. Nothing of it is the
    /// device's before a command says so. The device does not see the stores: they are counted where it takes what they
    /// brought, once, as they must have been made, whichever way they came.
    Copy(&'a Mapping),
    /// There is none: no memory is shared with the host.
    Nowhere,
}

impl<'a> Port<'a> {
    /// Ends the rights of other threads, before anything changes that they rest on.
    pub(crate) fn end_grants(&self) {
        if let Some(grants) = self.grants {
            grants.end();
        }
    }

    /// Data that came with a command in its capsule, or was asked for behind it.
    #[inline]
    pub(crate) fn carried(&self) -> Option<&'a [u8]> {
        self.capsule.as_ref()?.carried
    }

    /// Lends the room for what a command of a capsule reads, for `bytes` that are made there instead of being written: it is
    /// to be [given back](Self::return_reply).
    #[inline]
    pub(crate) fn lend_reply(&mut self, bytes: usize) -> Option<&'a mut [u8]> {
        let capsule = self.capsule.as_mut()?;
        (capsule.filled == 0 && bytes <= capsule.reply.len()).then(|| std::mem::take(&mut capsule.reply))
    }

    /// Takes lent room back, of which the first `filled` bytes were made.
    #[inline]
    pub(crate) fn return_reply(&mut self, reply: &'a mut [u8], filled: usize) {
        if let Some(capsule) = &mut self.capsule {
            (capsule.reply, capsule.filled) = (reply, filled);
        }
    }

    /// Notes the CRC-32C of all that was made in lent room, if it is wanted.
    #[inline]
    pub(crate) fn note_crc(&mut self, kept: impl FnOnce() -> Option<u32>) {
        if let Some(capsule) = self.capsule.as_mut().filter(|capsule| capsule.wants_crc) {
            capsule.crc = kept();
        }
    }

    /// Size of the reply buffer of a command that came in a capsule.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.capsule.as_ref().map_or(0, |capsule| capsule.reply.len())
    }

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
        if let Some(capsule) = &mut self.capsule {
            return capsule.write(at, from);
        }
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
