//! Host memory as a controller accesses it.

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;

use crate::{BusAddr, DmaFault};

/// Host memory by bus address, as a device reaches it.
///
/// Implementers refuse every access that is not mapped for the device, and never panic, whatever the address and
/// length. A refused access may have moved the bytes before the refused one.
///
/// Memory order: `store_*` is a Release, `load_u32` an Acquire; `read` and `write` carry none.
pub trait HostMemory {
    /// Copies from host memory.
    ///
    /// # Errors
    /// Some byte is not mapped for the device to read.
    fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault>;

    /// Copies to host memory.
    ///
    /// # Errors
    /// Some byte is not mapped for the device to write.
    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault>;

    /// Stores a completion queue entry: its first 12 bytes, then the dword with the phase tag with release order.
    ///
    /// # Errors
    /// Not mapped for the device to write, or not aligned to 16 bytes.
    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault>;

    /// Loads an aligned little-endian dword, such as a shadow doorbell, with acquire order.
    ///
    /// # Errors
    /// Not mapped for the device to read, or not aligned.
    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault>;

    /// Stores an aligned little-endian dword, such as an event index, with release order.
    ///
    /// # Errors
    /// Not mapped for the device to write, or not aligned.
    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault>;

    /// Copies one 64-byte ring slot in words, so that the caller's parsing of each field forwards from a store of its
    /// size.
    ///
    /// # Errors
    /// As [`Self::read`].
    #[inline]
    fn read_slot64(&self, at: BusAddr, into: &mut [u8; COMMAND_BYTES]) -> Result<(), DmaFault> {
        self.read(at, into)
    }
}

impl<T: HostMemory + ?Sized> HostMemory for &T {
    #[inline]
    fn read(&self, at: BusAddr, into: &mut [u8]) -> Result<(), DmaFault> {
        (**self).read(at, into)
    }

    #[inline]
    fn write(&self, at: BusAddr, from: &[u8]) -> Result<(), DmaFault> {
        (**self).write(at, from)
    }

    #[inline]
    fn store_completion(&self, at: BusAddr, entry: &[u8; COMPLETION_BYTES]) -> Result<(), DmaFault> {
        (**self).store_completion(at, entry)
    }

    #[inline]
    fn load_u32(&self, at: BusAddr) -> Result<u32, DmaFault> {
        (**self).load_u32(at)
    }

    #[inline]
    fn store_u32(&self, at: BusAddr, value: u32) -> Result<(), DmaFault> {
        (**self).store_u32(at, value)
    }
}
