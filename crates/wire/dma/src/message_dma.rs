//! Host memory that is not mapped in this process, accessed by messages to the client (vfio-user DMA_READ and
//! DMA_WRITE).

use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::base::prp::PAGE_BYTES;

use crate::{BusAddr, DmaFault, DmaSpace, Why};

/// Bytes of a completion before the dword with its phase tag.
const BEFORE_PHASE: usize = COMPLETION_BYTES - 4;

/// Memory that a [`crate::DmaSpace`] reads and writes by messages, at addresses where nothing is mapped.
///
/// Each call returns within a bounded time that the implementer documents, even if the client does not answer. Calls
/// may come from several threads. A reader that sees the bytes of one write also sees those of earlier writes.
/// Implementers send each message within [`crate::DmaSpace::while_visible`], so that none follows an unmap or a
/// reset.
pub trait MessageDma: Send + Sync + std::fmt::Debug {
    /// Reads client memory from `at`.
    ///
    /// # Errors
    /// A byte is not mapped or not readable, or the client did not answer.
    fn read(&self, space: &DmaSpace, at: BusAddr, into: &mut [u8]) -> Result<(), Why>;

    /// Writes client memory from `at`.
    ///
    /// # Errors
    /// A byte is not mapped or not writable, or the client did not answer.
    fn write(&self, space: &DmaSpace, at: BusAddr, from: &[u8]) -> Result<(), Why>;
}

/// Writes a completion in two messages: first the body, then the dword with the phase tag.
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

/// Splits an access into pieces that are wholly mapped here or wholly the client's. `is_mapped` says which, page by
/// page; `act` receives a piece's address, its range within the access, and whether it is mapped.
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
