//! Memory that stands nowhere in this process: whoever has it is asked for its bytes, and takes them.

use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::base::prp::PAGE_BYTES;

use crate::{BusAddr, DmaFault, DmaSpace, Why};

/// Bytes of a completion before the dword with its phase tag.
const BEFORE_PHASE: usize = COMPLETION_BYTES - 4;

/// Memory that a [`crate::DmaSpace`] turns to for addresses at which nothing is mapped.
///
/// An implementer answers within a time that it states, whatever whoever has the memory does, and may be asked by several
/// threads at once. Bytes of a write are there for whoever sees those of a later one. Each question is put within
/// [`crate::DmaSpace::while_visible`], so that none follows once memory is taken away.
pub trait MessageDma: Send + Sync + std::fmt::Debug {
    /// Copies from it.
    ///
    /// # Errors
    /// Some byte is not there, may not be read, or did not come.
    fn read(&self, space: &DmaSpace, at: BusAddr, into: &mut [u8]) -> Result<(), Why>;

    /// Copies to it.
    ///
    /// # Errors
    /// Some byte is not there, may not be written, or was not taken.
    fn write(&self, space: &DmaSpace, at: BusAddr, from: &[u8]) -> Result<(), Why>;
}

/// Writes a completion: the dword with the phase tag last, by a write of its own.
pub(crate) fn complete(
    client: &dyn MessageDma,
    space: &DmaSpace,
    at: BusAddr,
    entry: &[u8; COMPLETION_BYTES],
) -> Result<(), Why> {
    let (body, phase) = entry.split_at(BEFORE_PHASE);
    client.write(space, at, body)?;
    client.write(space, at.checked_add(BEFORE_PHASE as u64).ok_or(Why::Unmapped)?, phase)
}

/// Goes through an access that is partly or wholly elsewhere, in pieces that are all here or all elsewhere. `is_mapped` tells of
/// a page; `act` is told where a piece is, which bytes of the access it has, and whether it is here.
pub(crate) fn split_by_mapping(
    at: BusAddr,
    len: usize,
    is_mapped: impl Fn(BusAddr) -> bool,
    mut act: impl FnMut(BusAddr, std::ops::Range<usize>, bool) -> Result<(), Why>,
) -> Result<(), DmaFault> {
    let fault = |why| DmaFault { at, len, why };
    let mut done = 0;
    while done < len {
        let from = at.checked_add(done as u64).ok_or(fault(Why::Unmapped))?;
        let here = is_mapped(from);
        let mut end = done + left_in_page(from);
        while end < len && at.checked_add(end as u64).is_some_and(|next| is_mapped(next) == here) {
            end += PAGE_BYTES;
        }
        let end = end.min(len);
        act(from, done..end, here).map_err(fault)?;
        done = end;
    }
    Ok(())
}

fn left_in_page(at: BusAddr) -> usize {
    PAGE_BYTES - (at.0 % PAGE_BYTES as u64) as usize
}
