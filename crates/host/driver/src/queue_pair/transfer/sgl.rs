//! `sgl`: one data block descriptor in the command, exact to the byte (Base 2.1, section 4.3.2).
//!
//! Memory is bus-contiguous here, so one descriptor is enough for any length.

use byway_core::Result;
use byway_dma::BusAddr;
use byway_link::HostStep;
use byway_spec::Command as Entry;
use byway_spec::base::sgl::SglDescriptor;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::Out;
use crate::table::OpIndex;

/// Sends a command with a payload.
#[inline]
pub(crate) fn send<B: Bus>(queue: &mut Queue<B>, op: OpIndex, mut entry: Entry, out: Out<'_>) -> Result<()> {
    if out.bytes.is_empty() {
        return queue.send_one(op, entry);
    }
    let at = queue.place_out(op, out)?;
    point(queue, &mut entry, at, out.bytes.len());
    queue.send_one(op, entry)
}

/// Points a command at `len` contiguous bytes.
#[inline]
pub(crate) fn point<B: Bus>(queue: &Queue<B>, entry: &mut Entry, at: BusAddr, len: usize) {
    queue.charge(HostStep::MapPage, len.div_ceil(byway_core::PAGE_BYTES) as u32);
    entry.set_sgl1(SglDescriptor::data_block(at.0, len as u32));
}
