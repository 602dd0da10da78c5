//! Memory of payloads: buffers, bounce pages and staging copies that the device is pointed at.

use byway_core::{Buffer, Error, ErrorKind, PAGE_BYTES, Result};
use byway_dma::BusAddr;

use crate::bus::Bus;
use crate::mapped::{from_bus, pages_of, prepared_at};
use crate::queue_pair::transfer::Out;
use crate::queue_pair::{Queue, full};
use crate::table::{OpIndex, Waiter};

impl<B: Bus> Queue<B> {
    /// Where the device finds a payload: in its buffer, or in memory that goes with the operation.
    ///
    /// # Errors
    /// When there is no memory for it, or it cannot be mapped.
    #[inline]
    pub(crate) fn place_out(&mut self, op: OpIndex, out: Out<'_>) -> Result<BusAddr> {
        if let Some(buffer) = out.buffer {
            return self.place_buffer(op, buffer);
        }
        if out.bytes.len() <= PAGE_BYTES {
            let page = self.take_bounce(op)?;
            self.bounce.fill(page, out.bytes);
            return Ok(self.bounce.bus_addr(page));
        }
        let mut staging = self.take_buffer(out.bytes.len())?;
        staging.as_mut_slice().copy_from_slice(out.bytes);
        self.hold_staging(op, staging)
    }

    /// Where the device finds a buffer; maps it for this operation if it is not of the device's pool.
    ///
    /// # Errors
    /// When it cannot be mapped.
    #[inline]
    pub(crate) fn place_buffer(&mut self, op: OpIndex, buffer: &Buffer) -> Result<BusAddr> {
        if let Some(at) = prepared_at(buffer, self.pool()) {
            return Ok(at);
        }
        let at = self.bus.map(pages_of(buffer)?).map_err(from_bus)?;
        self.table.op(op).mapped_at(at);
        Ok(at)
    }

    /// Where the device finds a buffer of the device's own pool.
    ///
    /// # Errors
    /// When it is of another pool.
    pub(crate) fn place_buffer_of_pool(&self, buffer: &Buffer) -> Result<BusAddr> {
        prepared_at(buffer, self.pool())
            .ok_or_else(|| Error::host(ErrorKind::InvalidArgument, "a buffer of another device's pool"))
    }

    /// Lets an operation hold a buffer of the pool until it ends; returns where the device finds it.
    ///
    /// # Errors
    /// When it is of another pool.
    pub(crate) fn hold_staging(&mut self, op: OpIndex, staging: Buffer) -> Result<BusAddr> {
        let at = self.place_buffer_of_pool(&staging)?;
        self.table.op(op).hold(Some(staging), false);
        Ok(at)
    }

    /// Lets an operation hold the memory of PRP lists until it ends.
    pub(crate) fn hold_lists(&mut self, op: OpIndex, lists: Buffer) {
        self.table.op(op).hold_lists(lists);
    }

    /// A buffer of the device's pool.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn take_buffer(&self, len: usize) -> Result<Buffer> {
        self.pool().take(len)
    }

    /// A bounce page that goes with the operation.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] if there is none left, for an operation without a waiting call.
    #[inline]
    pub(crate) fn take_bounce(&mut self, op: OpIndex) -> Result<u16> {
        loop {
            if let Some(page) = self.bounce.take() {
                self.table.op(op).set_bounce(page);
                return Ok(page);
            }
            if self.table.op(op).waiter != Waiter::Call {
                return Err(full("as many small payloads are on their way as the queue has pages for"));
            }
            self.wait_for_any()?;
        }
    }
}
