//! Two fused commands: one operation of two commands that stand one behind the other in the ring, under one doorbell. A device
//! that found the first alone would abort it (Base 2.1, section 3.4.2).

use byway_core::encode::fused_with;
use byway_core::{Error, ErrorKind, Result};
use byway_dma::BusAddr;
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::vendor::inline_chunks;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{Out, adaptive, inline, prp, sgl};
use crate::table::OpIndex;

/// Sends a Compare with the first half of `out`, and the Write that is fused with it with the second.
#[cold]
pub(crate) fn send<B: Bus>(queue: &mut Queue<B>, op: OpIndex, compare: Entry, out: Out<'_>) -> Result<()> {
    let (expected, new) = out.bytes.split_at(out.bytes.len() / 2);
    let method = match queue.method() {
        Method::Adaptive => adaptive::choose_for_any(queue, new.len()),
        Method::Hybrid if new.len() as u64 <= queue.limits().inline_max_bytes => Method::Inline,
        method => method,
    };
    let chunks = if method == Method::Inline { inline_chunks(new.len()) as u32 } else { 0 };
    check_ring(2 * (1 + chunks), queue.ring_entries())?;
    queue.room_for_two(op, 1 + chunks)?;
    if method == Method::Inline {
        return queue.under_one_doorbell(|queue| {
            inline::send(queue, op, compare, expected)?;
            inline::send(queue, op, fused_with(&compare), new)
        });
    }
    let at = queue.place_out(op, out)?;
    let compare = pointed(queue, op, compare, (at, expected.len()), method)?;
    let new_at = BusAddr(at.0 + expected.len() as u64);
    let write = pointed(queue, op, fused_with(&compare), (new_at, new.len()), method)?;
    queue.under_one_doorbell(|queue| {
        queue.send_one(op, compare)?;
        queue.send_one(op, write)
    })
}

/// The command with its data pointer.
fn pointed<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    mut entry: Entry,
    (at, len): (BusAddr, usize),
    method: Method,
) -> Result<Entry> {
    match method {
        Method::Sgl => sgl::point(queue, &mut entry, at, len),
        _ => prp::point(queue, op, &mut entry, at, len)?,
    }
    Ok(entry)
}

fn check_ring(slots: u32, entries: u32) -> Result<()> {
    if slots < entries {
        return Ok(());
    }
    let said = format!("two fused commands take {slots} slots, a ring of {entries} has {}", entries - 1);
    Err(Error::host(ErrorKind::TooLarge, said))
}
