//! What a controller sees of host memory.

use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;

use crate::{BusAddr, DmaFault};

/// Host memory by bus address, as a device reaches it.
///
/// An implementer refuses every access that is not mapped for it and never panics, whatever the address and length.
/// A refused access may have moved the bytes before the one refused. A caller may rely on `store_*` being seen after
/// everything it wrote before, and on everything written before a value that `load_u32` returns being there to read;
/// `read` and `write` themselves carry no order.
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

    /// Copies one 64-byte ring slot, word by word straight to `into`: who takes it apart finds each word at once.
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
