//! Values that stand in the completion queue behind their completions (decision 0095).

use byway_dma::DmaFault;
use byway_queue::{CompletionPermit, ResultPermit};
use byway_spec::Completion;
use byway_spec::vendor::{INLINE_RESULT, inline_result_max_bytes, result_entries};

use super::{DelegatedQueue, Place, What, Work};
use crate::error::CommandError;
use crate::port::Port;

/// A value that was read, and its entries behind the completion.
pub(super) struct ResultBehind {
    permit: ResultPermit,
    place: Place,
}

impl DelegatedQueue {
    /// Where the value is that the command gathered at `at` has read, if it is to stand behind the completion and there is room.
    #[inline]
    pub(super) fn result_behind(
        &mut self,
        at: usize,
        work: &Work,
        result: &Result<u32, CommandError>,
    ) -> Option<ResultBehind> {
        if self.habits.result_max_bytes == 0 || work.what != What::Get {
            return None;
        }
        let value_bytes = *result.as_ref().ok()? as usize;
        self.reserve(at, Place { len: value_bytes.min(work.value.len), ..work.value })
    }

    fn reserve(&mut self, at: usize, place: Place) -> Option<ResultBehind> {
        let max_bytes = inline_result_max_bytes(self.commands.get(at)?).min(self.habits.result_max_bytes);
        if !(1..=max_bytes).contains(&place.len) {
            return None;
        }
        let waiting = self.sq.ring.available();
        let permit = self.cq.ring.permit_result(result_entries(place.len) as u32, waiting)?;
        Some(ResultBehind { permit, place })
    }

    /// Writes a completion with the value behind it.
    pub(super) fn post_with_result(
        &mut self,
        port: &mut Port<'_>,
        permit: CompletionPermit,
        entry: Completion,
        ResultBehind { permit: behind, place }: ResultBehind,
    ) -> Result<(), DmaFault> {
        let Self { cq, payloads, .. } = self;
        let value = payloads.get(place.at..place.at + place.len).unwrap_or_default();
        cq.meter_with_result(port, 0, place.len, behind.entries());
        let result = u64::from(INLINE_RESULT) << 32 | entry.result();
        cq.post_with_result(port, (permit, behind), entry.with_result(result), value)
    }
}
