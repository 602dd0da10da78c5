//! `inline` (ByteExpress): the payload follows its command in the same ring, one doorbell for both.
//!
//! The command's SGL1 is a data block with the *offset* subtype: a command with its inline payload is a capsule, as
//! fabrics have it. The length stands in that descriptor alone. Slots, not commands, bound the ring.

use byway_core::{Error, ErrorKind, Result};
use byway_link::{HostStep, Method};
use byway_spec::Command as Entry;
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::vendor::inline_chunks;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::within;
use crate::table::OpIndex;

/// Sends a command with a payload.
#[inline(always)]
pub(crate) fn send<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    mut entry: Entry,
    payload: &[u8],
) -> Result<()> {
    if payload.is_empty() {
        return queue.send_one(op, entry);
    }
    within(payload.len(), queue.limits().inline_max_bytes, Method::Inline)?;
    let chunks = inline_chunks(payload.len()) as u32;
    if chunks + 2 > queue.ring_entries() {
        return Err(over_ring(payload.len(), chunks, queue.ring_entries()));
    }
    entry.set_sgl1(SglDescriptor::inline(payload.len() as u32));
    queue.charge(HostStep::Chunk, chunks);
    if queue.habits().inline_maps_pages {
        queue.charge(HostStep::MapPage, payload.len().div_ceil(byway_core::PAGE_BYTES) as u32);
    }
    queue.send_with_chunks(op, entry, payload, chunks)
}

#[cold]
fn over_ring(len: usize, chunks: u32, entries: u32) -> Error {
    let said = format!(
        "an inline payload of {len} bytes takes {} slots, a ring of {entries} has {}",
        chunks + 1,
        entries - 1
    );
    Error::host(ErrorKind::TooLarge, said)
}
