//! `prp+tail` (BandSlim, conference version): whole pages by PRP, the tail in transfer commands of 56 bytes.
//!
//! A value without a whole page is a plain piggyback, one without a tail a plain PRP.

use byway_core::{PAGE_BYTES, Result};
use byway_link::Method;
use byway_spec::vendor::VendorOpcode;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{Out, Put, piggyback, prp, within};
use crate::table::OpIndex;

/// Sends a store.
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    let tail_bytes = put.len() % PAGE_BYTES;
    if tail_bytes == 0 {
        return prp::send(queue, op, put.standard(), put.value);
    }
    if put.len() < PAGE_BYTES {
        return piggyback::store(queue, op, put);
    }
    put.without_options(Method::PrpTail)?;
    within(tail_bytes, queue.limits().piggyback_max_bytes, Method::PrpTail)?;
    let (whole, tail) = put.split(put.len() - tail_bytes);
    let mut entry = put.vendor(VendorOpcode::KV_STORE_PRP_TAIL);
    let at = queue.place_out(op, Out { bytes: whole, buffer: put.value.buffer })?;
    prp::point(queue, op, &mut entry, at, whole.len())?;
    queue.send_first(op, entry)?;
    piggyback::send_transfers(queue, op, put.nsid.get(), tail)
}
