//! `piggyback` (BandSlim): 35 value bytes in the write command, 56 in each transfer command after it.
//!
//! Transfer commands are bound to their write by queue order, so nothing else may be placed on the queue between
//! them; a queue belongs to one thread, and a store is sent in one go.

use byway_core::Result;
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::vendor::{TRANSFER_BYTES, VendorOpcode, WRITE_BYTES, pack_transfer, pack_write};

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{Put, within};
use crate::table::OpIndex;

/// Sends a store.
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    put.without_options(Method::Piggyback)?;
    within(put.len(), queue.limits().piggyback_max_bytes, Method::Piggyback)?;
    let (first, rest) = put.split(WRITE_BYTES);
    let mut entry = put.vendor(VendorOpcode::KV_WRITE_PIGGYBACK);
    pack_write(&mut entry, first);
    if rest.is_empty() {
        return queue.send_one(op, entry);
    }
    queue.send_first(op, entry)?;
    send_transfers(queue, op, put.nsid.get(), rest)
}

/// Sends the transfer commands after a write that was placed, and rings for all that was not rung yet.
///
/// Where fragments go one by one, each waits for the last; a failure then ends the sending, and is found in the
/// operation.
pub(crate) fn send_transfers<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    nsid: u32,
    rest: &[u8],
) -> Result<()> {
    for fragment in rest.chunks(TRANSFER_BYTES) {
        if queue.habits().fragments_one_by_one && !queue.finish_sent(op)? {
            break;
        }
        let mut entry = Entry::new(VendorOpcode::KV_TRANSFER.0, 0, nsid);
        pack_transfer(&mut entry, fragment);
        queue.send_next(op, entry)?;
    }
    queue.end_sending(op);
    Ok(())
}
