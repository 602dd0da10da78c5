//! `prp`: two entries in the command, and lists of entries for more than two pages (Base 2.1, section 4.3.1).
//!
//! Memory is bus-contiguous here, so entries count up by a page. Whether the controller moves whole pages or only the
//! bytes that the command needs is the profile's business.

use byway_core::Result;
use byway_dma::BusAddr;
use byway_link::HostStep;
use byway_spec::Command as Entry;

use crate::bus::Bus;
use crate::prps::{Prps, pages};
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
    point(queue, op, &mut entry, at, out.bytes.len())?;
    queue.send_one(op, entry)
}

/// Points a command at `len` contiguous bytes, from 1 on.
///
/// # Errors
/// Where the device would move more than these bytes; when there is no memory for lists.
#[inline]
pub(crate) fn point<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    entry: &mut Entry,
    at: BusAddr,
    len: usize,
) -> Result<()> {
    let pages = pages(at, len);
    queue.charge(HostStep::MapPage, pages as u32);
    let (first, second) = match pages {
        0 | 1 => (at.0, 0),
        // By value: an entry whose address is known stands in memory for all.
        _ => point_at_pages(queue, op, *entry, at, len)?,
    };
    entry.set_prps(first, second);
    Ok(())
}

/// A second entry is sent only with a command whose data is as long as the device will take it for: whatever follows the
/// last page would be taken for an address.
#[inline(never)]
fn point_at_pages<B: Bus>(
    queue: &mut Queue<B>,
    op: OpIndex,
    entry: Entry,
    at: BusAddr,
    len: usize,
) -> Result<(u64, u64)> {
    queue.check_pages(&entry, len)?;
    let prps = Prps::new(at, len, queue.pool())?;
    if let Some(lists) = prps.lists {
        queue.hold_lists(op, lists);
    }
    Ok((prps.first, prps.second))
}
