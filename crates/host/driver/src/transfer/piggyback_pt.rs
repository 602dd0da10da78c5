//! `piggyback-pt`, the pass-through form: 11 value bytes in the write command, 28 in each transfer command.
//!
//! A stock kernel carries only a part of the command to the device, and may move its caller to another queue. So the
//! write's completion names the payload, and each transfer says its payload and place: any queue, any order.

use byway_core::Result;
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::vendor::{
    TRANSFER_PT_BYTES, TransferPt, VendorOpcode, WRITE_PT_BYTES, pack_transfer_pt, pack_write_pt,
};

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::OpIndex;
use crate::transfer::{Put, within};

/// Sends a store. If the value does not fit the write command, that command is waited for.
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    put.without_options(Method::PiggybackPt)?;
    within(put.len(), queue.limits().piggyback_max_bytes, Method::PiggybackPt)?;
    let (first, rest) = put.split(WRITE_PT_BYTES);
    let mut entry = put.vendor(VendorOpcode::KV_WRITE_PT);
    pack_write_pt(&mut entry, first);
    if rest.is_empty() {
        return queue.send_one(op, entry);
    }
    queue.send_first(op, entry)?;
    if queue.finish_sent(op)? {
        let payload = queue.answer_so_far(op).dw0 as u16;
        send_transfers(queue, op, put.nsid.get(), payload, rest)?;
    }
    queue.end_sending(op);
    Ok(())
}

fn send_transfers<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    nsid: u32,
    payload: u16,
    rest: &[u8],
) -> Result<()> {
    for (fragment, bytes) in rest.chunks(TRANSFER_PT_BYTES).enumerate() {
        if queue.habits().fragments_one_by_one && !queue.finish_sent(op)? {
            break;
        }
        let place = TransferPt::new().with_payload(payload).with_fragment(fragment as u16);
        let mut entry = Entry::new(VendorOpcode::KV_TRANSFER_PT.0, 0, nsid);
        pack_transfer_pt(&mut entry, place, bytes);
        queue.send_next(op, entry)?;
    }
    Ok(())
}
