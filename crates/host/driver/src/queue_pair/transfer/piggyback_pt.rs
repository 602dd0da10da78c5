//! `piggyback-pt`, the pass-through form: 11 value bytes in the write command, 28 in each transfer command.
//!
//! A stock kernel carries only a part of the command to the device, and may move its caller to another queue. So the
//! write's completion names the payload, and each transfer says its payload and place: any queue, any order. The commands
//! are those of [`byway_core::piggyback_pt`], which backends behind a kernel send too; here they go without being waited for.

use byway_core::Result;
use byway_core::piggyback_pt::{VALUE_MAX_BYTES, commands, place, transfer, write};
use byway_link::Method;
use byway_spec::vendor::WRITE_PT_BYTES;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{Put, within};
use crate::table::OpIndex;

/// Sends a store. If the value does not fit the write command, that command is waited for.
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    put.without_options(Method::PiggybackPt)?;
    let limit = queue.limits().piggyback_max_bytes.min(VALUE_MAX_BYTES);
    within(put.len(), limit, Method::PiggybackPt)?;
    let value = put.value.bytes;
    let entry = write(&put.standard(), value);
    if value.len() <= WRITE_PT_BYTES {
        return queue.send_one(op, entry);
    }
    queue.send_first(op, entry)?;
    if queue.finish_sent(op)? {
        let payload = queue.answer_so_far(op).dw0 as u16;
        send_transfers(queue, op, put.nsid.get(), payload, value)?;
    }
    queue.end_sending(op);
    Ok(())
}

fn send_transfers<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    nsid: u32,
    payload: u16,
    value: &[u8],
) -> Result<()> {
    for index in 1..commands(value.len()) {
        if queue.habits().fragments_one_by_one && !queue.finish_sent(op)? {
            break;
        }
        let bytes = value.get(place(value.len(), index)).unwrap_or_default();
        queue.send_next(op, transfer(nsid, payload, index as u16 - 1, bytes))?;
    }
    Ok(())
}
