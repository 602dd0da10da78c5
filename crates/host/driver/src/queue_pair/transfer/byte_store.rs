//! Byte stores, a comparator (as 2B-SSD does): the value is stored into the controller memory buffer, and a command
//! points at it there. The device has the bytes already when it takes the command.

use std::sync::Arc;

use byway_core::{Answer, Error, ErrorKind, Key, Nsid, PAGE_BYTES, Result, StoreOptions, encode};
use byway_dma::BusAddr;
use byway_spec::base::sgl::SglDescriptor;

use crate::bus::{Bus, DeviceMemory};
use crate::mapped::from_bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::prp;
use crate::shared::Shared;
use crate::table::OpIndex;

/// Bytes of one queue's area, at most: a whole 64 KiB value.
const AREA_BYTES_MAX: u64 = 64 << 10;
/// Areas that the buffer is shared out in, at least.
const AREAS_MIN: u64 = 4;

/// One queue's part of the controller memory buffer.
pub(crate) struct ByteArea<B: Bus> {
    memory: B::Memory,
    device: Arc<Shared<B>>,
    offset: u64,
    bytes: u64,
    at: BusAddr,
    /// A store that was given up may still be on its way to the device from here.
    in_use: Option<OpIndex>,
}

impl<B: Bus> Queue<B> {
    /// Stores a value by way of the controller memory buffer.
    ///
    /// # Errors
    /// When the device has none, the value is longer than the queue's part of it, or the device refuses the store.
    pub fn execute_byte_store(
        &mut self,
        nsid: Nsid,
        key: &Key,
        value: &[u8],
        options: StoreOptions,
    ) -> Result<Answer> {
        let at = self.fill_area(value)?;
        let op = self.start_call()?;
        self.note_placement(op, nsid.get());
        let mut entry = encode::store(nsid, key, value.len() as u32, options);
        let mut sent = Ok(());
        if !value.is_empty() {
            match self.limits().methods.contains(byway_link::Method::Sgl) {
                true => entry.set_sgl1(SglDescriptor::data_block(at.0, value.len() as u32)),
                false => sent = prp::point(self, op, &mut entry, at, value.len()),
            }
        }
        let sent = sent.and_then(|()| self.send_one(op, entry));
        if let Some(area) = &mut self.byte_area {
            area.in_use = Some(op);
        }
        let answer = self.finish_sent_call(op, sent);
        // A call that was given up leaves its operation behind, and its bytes in the area.
        let gave_up = matches!(&answer, Err(error) if error.nvme_status().is_none());
        if let Some(area) = self.byte_area.as_mut().filter(|_| !gave_up) {
            area.in_use = None;
        }
        answer
    }

    /// Stores a value into the queue's area; returns where the device finds it.
    fn fill_area(&mut self, value: &[u8]) -> Result<BusAddr> {
        if self.byte_area.is_none() {
            self.byte_area = Some(ByteArea::take(&self.device)?);
        }
        let Some(area) = &self.byte_area else { return Err(no_byte_memory()) };
        if area.in_use.is_some() {
            return Err(Error::host(
                ErrorKind::Busy,
                "a byte store that was given up may still be on its way",
            ));
        }
        if value.len() as u64 > area.bytes {
            let said = format!(
                "value of {} bytes is over the limit of {} bytes for byte stores",
                value.len(),
                area.bytes
            );
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        if !value.is_empty() {
            area.memory.store(area.offset, value).map_err(from_bus)?;
            area.memory.settle(area.offset + value.len() as u64 - 1).map_err(from_bus)?;
        }
        Ok(area.at)
    }
}

impl<B: Bus> ByteArea<B> {
    /// A part of the controller memory buffer that no other queue has.
    fn take(device: &Arc<Shared<B>>) -> Result<Self> {
        let memory = device.bus().byte_memory().ok_or_else(no_byte_memory)?;
        let at = memory.bus_addr().ok_or_else(no_byte_memory)?;
        let region_bytes = device.announced().byte_region_bytes.min(memory.len_bytes());
        let page = PAGE_BYTES as u64;
        let bytes = (region_bytes / AREAS_MIN).min(AREA_BYTES_MAX) / page * page;
        if bytes == 0 {
            return Err(no_byte_memory());
        }
        let full = || {
            Error::host(ErrorKind::Busy, "every part of the controller memory buffer is in use by a queue")
        };
        let offset = device.take_byte_area(region_bytes / bytes, bytes).ok_or_else(full)?;
        let device = Arc::clone(device);
        Ok(Self { memory, device, offset, bytes, at: BusAddr(at.0 + offset), in_use: None })
    }
}

impl<B: Bus> Drop for ByteArea<B> {
    fn drop(&mut self) {
        if self.in_use.is_none() && self.device.owner().is_current() {
            self.device.give_back_byte_area(self.offset);
        }
    }
}

#[cold]
fn no_byte_memory() -> Error {
    Error::host(
        ErrorKind::Unsupported,
        "the device did not announce a controller memory buffer for byte stores",
    )
}
