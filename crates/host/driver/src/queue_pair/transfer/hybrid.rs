//! `hybrid`: up to 35 bytes in the command, else inline. Never more on the wire than either of both, where fragments
//! have their own doorbells and completions.

use byway_core::Result;
use byway_spec::vendor::WRITE_BYTES;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{Put, inline, piggyback};
use crate::table::OpIndex;

/// Sends a store. One with options goes inline, whatever its length: there they have room.
#[inline]
pub(crate) fn store<B: Bus>(queue: &mut Queue<B>, op: OpIndex, put: &Put<'_>) -> Result<()> {
    if put.len() <= WRITE_BYTES && !put.options.any() {
        return piggyback::store(queue, op, put);
    }
    inline::send(queue, op, put.standard(), put.value.bytes)
}
