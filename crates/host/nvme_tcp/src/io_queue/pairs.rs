//! Two fused commands of a queue as one of the program's: sent one behind the other, and ended together.
//!
//! Each has an identifier and data of its own, cut from what the program gave; what came of both is put together here. An
//! answer that decides (the comparison failed, the write was done) holds whatever became of the other.

use byway_core::encode::fused_with;
use byway_core::{Buffer, Memory, Payload, Result};
use byway_spec::{Completion, Status};

use crate::connection::{Ended, Lost, Order};

/// The number of the first half of a pair: above those of all calls, which share the numbers.
const FIRST_HALF: u64 = 1 << 63;

/// Pairs of one queue whose commands have not both ended.
#[derive(Debug)]
pub(super) struct Pairs {
    all: Vec<Pair>,
    /// Their commands that have not ended.
    halves: u32,
    /// The number of the next of their commands.
    next_half: u64,
}

#[derive(Debug)]
struct Pair {
    /// As the caller gave it.
    order: Order,
    memory: Memory,
    /// The numbers of its two commands among the queue's calls.
    calls: [u64; 2],
    /// What came of them.
    ends: [Option<End>; 2],
}

#[derive(Debug)]
struct End {
    result: Result<Completion>,
    lost: Option<Lost>,
}

/// Two commands that go one behind the other.
pub(super) type Halves = [(Order, Payload); 2];

impl Default for Pairs {
    fn default() -> Self {
        Self { all: Vec::new(), halves: 0, next_half: FIRST_HALF }
    }
}

impl Pairs {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Commands beyond one for each pair that have not ended.
    pub fn extra(&self) -> u32 {
        self.halves - self.all.len() as u32
    }

    /// Splits a pair into two commands with numbers of their own.
    pub fn take(&mut self, order: Order, payload: Payload) -> Halves {
        let calls = [self.next_half, self.next_half + 1];
        self.next_half += 2;
        let [expected, new] = halves(&payload);
        let of = |call, entry| Order { tag: call, is_call: true, is_pair: false, entry, ..order };
        let first = of(calls[0], order.entry);
        let second = of(calls[1], fused_with(&order.entry));
        self.all.push(Pair { order, memory: payload.into(), calls, ends: [None, None] });
        self.halves += 2;
        [(first, expected), (second, new)]
    }

    /// The commands of the pair that has this tag.
    pub fn find(&self, tag: u64, is_call: bool) -> Option<[u64; 2]> {
        let is = |pair: &&Pair| pair.order.tag == tag && pair.order.is_call == is_call;
        self.all.iter().find(is).map(|pair| pair.calls)
    }

    /// What has ended, unless it is one of two and the other has not.
    #[cold]
    pub fn join(&mut self, ended: Ended) -> Option<Ended> {
        let half = self.all.iter().enumerate().find_map(|(at, pair)| {
            let half = pair.calls.iter().position(|call| ended.is_call && *call == ended.tag)?;
            Some((at, half))
        });
        let Some((at, half)) = half else { return Some(ended) };
        self.halves -= 1;
        let pair = self.all.get_mut(at)?;
        *pair.ends.get_mut(half)? = Some(End { result: ended.result, lost: ended.lost });
        if pair.ends.iter().any(Option::is_none) {
            return None;
        }
        let Pair { order, memory, ends, .. } = self.all.swap_remove(at);
        let [Some(compared), Some(written)] = ends else { return None };
        let End { result, lost } = together(compared, written);
        Some(Ended { tag: order.tag, is_call: order.is_call, memory, result, lost, commands: 2 })
    }
}

/// The two halves of what a pair sends.
fn halves(payload: &Payload) -> [Payload; 2] {
    let mut whole = Vec::with_capacity(payload.len());
    payload.parts().for_each(|part| whole.extend_from_slice(part));
    let (expected, new) = whole.split_at(whole.len() / 2);
    [expected, new].map(|half| Payload::Buffer(Buffer::from_bytes(half.into())))
}

/// What came of both, by what came of each.
fn together(compared: End, written: End) -> End {
    let status = |end: &End| end.result.as_ref().ok().map(|completion| completion.status());
    let is_verdict = |end: &End| status(end).is_some_and(|status| !status.is(Status::ABORTED_FAILED_FUSED));
    let is_done = status(&written).is_some_and(Status::is_success);
    let is_refused = is_verdict(&compared) && !status(&compared).is_some_and(Status::is_success);
    match (&compared.result, &written.result) {
        _ if is_done => written,
        _ if is_refused => compared,
        _ if is_verdict(&written) => written,
        // The fate of one that may have been carried out is the pair's.
        (Err(_), Err(_)) if written.lost == Some(Lost::Unanswered) => written,
        (Err(_), _) => compared,
        (_, Err(_)) => written,
        _ => compared,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_core::{Error, ErrorKind};

    use super::*;

    fn answered(status: Status) -> End {
        End { result: Ok(Completion::new(0, 0, 0, status)), lost: None }
    }

    fn lost(how: Lost) -> End {
        End { result: Err(Error::device(ErrorKind::DeviceLost, "lost")), lost: Some(how) }
    }

    fn outcome(compared: End, written: End) -> (Option<Status>, Option<Lost>) {
        let End { result, lost } = together(compared, written);
        (result.ok().map(|completion| completion.status()), lost)
    }

    #[test]
    fn fused_pair_takes_the_deciding_status() {
        let (done, unlike, other) = (Status::SUCCESS, Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED);
        let conflict = Status::RESERVATION_CONFLICT;
        assert_eq!(outcome(answered(done), answered(done)), (Some(done), None));
        assert_eq!(outcome(answered(unlike), answered(other)), (Some(unlike), None));
        assert_eq!(outcome(answered(other), answered(conflict)), (Some(conflict), None));
        assert_eq!(outcome(lost(Lost::Unanswered), answered(done)), (Some(done), None));
        assert_eq!(outcome(answered(unlike), lost(Lost::Unsent)), (Some(unlike), None));
    }

    #[test]
    fn undecided_fused_pair_is_lost_as_sent_if_either_half_was() {
        use Lost::{Unanswered, Unsent};
        for (compared, written, lost) in
            [(Unsent, Unsent, Unsent), (Unanswered, Unsent, Unanswered), (Unanswered, Unanswered, Unanswered)]
        {
            assert_eq!(outcome(self::lost(compared), self::lost(written)), (None, Some(lost)));
        }
        assert_eq!(outcome(answered(Status::SUCCESS), lost(Unanswered)), (None, Some(Unanswered)));
        assert_eq!(
            outcome(lost(Unanswered), answered(Status::ABORTED_FAILED_FUSED)),
            (None, Some(Unanswered))
        );
    }
}
