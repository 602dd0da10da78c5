//! Memory for the tests of this crate.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use byway_spec::base::prp::PAGE_BYTES;

use crate::DmaMemory;

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// `count` pages of host memory.
pub(crate) fn pages(count: usize) -> Arc<DmaMemory> {
    Arc::new(DmaMemory::new(count * PAGE_BYTES).unwrap())
}
