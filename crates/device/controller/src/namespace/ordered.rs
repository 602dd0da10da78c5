//! An engine that executes two fused commands as one: no other command touches their blocks between the Compare and the
//! Write.
//!
//! Engines execute commands in any order and in parallel. So a pair waits until the commands that overlap it are done, and
//! commands that overlap it wait until the pair is. Overlapping commands begin in the order in which they came, so a
//! stream of pairs for one block does not starve other writes of it. Without pairs nothing waits.

use std::collections::VecDeque;

use super::engine::{BlockEngine, BlockRun, EngineShape, Finished, Place, Request};
use crate::error::CommandError;
use crate::fused::OTHER_FAILED;

/// Blocks that a command touches: all from the first to the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
}

impl Extent {
    const fn of(run: BlockRun) -> Self {
        Self { start: run.slba, end: run.slba + run.blocks as u64 }
    }

    fn of_request(request: &Request<'_>) -> Self {
        match *request {
            Request::Read { run, .. }
            | Request::Write { run, .. }
            | Request::Compare(run)
            | Request::Verify(run)
            | Request::WriteZeroes { run, .. } => Self::of(run),
            Request::Deallocate(runs) => Self::around(runs),
            Request::Copy { to_lba, from } => {
                let blocks = from.iter().map(|run| run.blocks).sum();
                Self::around(from).and(Self::of(BlockRun { slba: to_lba, blocks }))
            }
            Request::Flush => Self::default(),
        }
    }

    fn around(runs: &[BlockRun]) -> Self {
        runs.iter().fold(Self::default(), |all, run| all.and(Self::of(*run)))
    }

    fn and(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Two fused commands: the places of the Compare and of the Write.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Whose memory holds what is expected.
    pub compare: Place,
    /// Whose memory holds what is written then.
    pub write: Place,
    /// The blocks of both.
    pub run: BlockRun,
    /// Force unit access of the Write.
    pub fua: bool,
}

impl Pair {
    fn has(&self, place: Place) -> bool {
        self.compare == place || self.write == place
    }
}

/// A command that waits for others, or two of them.
#[derive(Debug)]
struct Waiting {
    extent: Extent,
    what: Queued,
}

#[derive(Debug)]
enum Queued {
    /// A command, with its runs beside it.
    One(Place, Request<'static>, Vec<BlockRun>),
    Pair(Pair),
}

impl Waiting {
    fn has(&self, place: Place) -> bool {
        match &self.what {
            Queued::One(of, ..) => *of == place,
            Queued::Pair(pair) => pair.has(place),
        }
    }

    fn is_pair(&self) -> bool {
        matches!(self.what, Queued::Pair(_))
    }

    fn is_in_the_way_of(&self, other: &Self) -> bool {
        self.extent.meets(other.extent) && (self.is_pair() || other.is_pair())
    }
}

/// An engine, and the order in which it is given commands that pairs are in the way of.
#[derive(Debug)]
pub struct Ordered {
    engine: Box<dyn BlockEngine>,
    /// By slot: the blocks of its command, while the engine executes it.
    touched: Vec<Extent>,
    /// Pairs that the engine has one command of.
    pairs: Vec<Pair>,
    waiting: VecDeque<Waiting>,
    /// Commands of pairs that are over.
    ended: VecDeque<Finished>,
}

impl Ordered {
    /// What `engine` keeps, in order.
    pub fn new(engine: Box<dyn BlockEngine>) -> Self {
        Self {
            engine,
            touched: Vec::new(),
            pairs: Vec::new(),
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }

    /// As [`BlockEngine::shape`].
    pub fn shape(&self) -> &EngineShape {
        self.engine.shape()
    }

    /// As [`BlockEngine::reserve`].
    ///
    /// # Errors
    /// As there.
    pub fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError> {
        self.engine.reserve(bytes)
    }

    /// As [`BlockEngine::memory`].
    pub fn memory(&mut self, place: Place) -> &mut [u8] {
        self.engine.memory(place)
    }

    /// As [`BlockEngine::release`].
    pub fn release(&mut self, place: Place) {
        self.engine.release(place);
    }

    /// As [`BlockEngine::is_full`].
    pub fn is_full(&self) -> bool {
        self.engine.is_full()
    }

    /// Commands that are not over.
    pub fn outstanding(&self) -> u32 {
        let queued = self.waiting.iter().map(|waiting| 1 + u32::from(waiting.is_pair()));
        self.engine.outstanding() + queued.sum::<u32>() + self.ended.len() as u32
    }

    /// As [`BlockEngine::begin`], unless a pair is in the way.
    #[inline]
    pub fn begin(&mut self, place: Place, request: Request<'_>) {
        let extent = Extent::of_request(&request);
        if self.pairs.is_empty() && self.waiting.is_empty() {
            return self.start(place, extent, request);
        }
        let (kept, runs) = request.without_runs();
        self.enqueue(extent, Queued::One(place, kept, runs.to_vec()));
    }

    /// Begins two fused commands. Both finish.
    pub fn begin_pair(&mut self, pair: Pair) {
        self.enqueue(Extent::of(pair.run), Queued::Pair(pair));
    }

    fn start(&mut self, place: Place, extent: Extent, request: Request<'_>) {
        let at = place.0 as usize;
        if at >= self.touched.len() {
            self.touched.resize(at + 1, Extent::default());
        }
        self.touched[at] = extent;
        self.engine.begin(place, request);
    }

    /// Begins a command or a pair, or queues it behind those that overlap it.
    fn enqueue(&mut self, extent: Extent, what: Queued) {
        self.waiting.push_back(Waiting { extent, what });
        self.go_on_from(self.waiting.len() - 1, extent);
    }

    /// Begins what waited from `at` on for a command that touched `extent`, as far as nothing else is in its way.
    fn go_on_from(&mut self, mut at: usize, extent: Extent) {
        while let Some(waiting) = self.waiting.get(at) {
            let waited = waiting.extent.meets(extent) || waiting.extent.is_empty();
            match waited && self.may_begin(at, waiting) {
                true => self.begin_waiting(at),
                false => at += 1,
            }
        }
    }

    fn may_begin(&self, at: usize, waiting: &Waiting) -> bool {
        let meets = |extent: &Extent| extent.meets(waiting.extent);
        let in_engine = match waiting.is_pair() {
            true => self.touched.iter().any(meets),
            false => self.pairs.iter().any(|pair| meets(&Extent::of(pair.run))),
        };
        !in_engine && !self.waiting.iter().take(at).any(|earlier| earlier.is_in_the_way_of(waiting))
    }

    fn begin_waiting(&mut self, at: usize) {
        match self.waiting.remove(at) {
            Some(Waiting { extent, what: Queued::One(place, request, runs) }) => {
                self.start(place, extent, request.with_runs(&runs));
            }
            Some(Waiting { extent, what: Queued::Pair(pair) }) => {
                self.pairs.push(pair);
                self.start(pair.compare, extent, Request::Compare(pair.run));
            }
            None => {}
        }
    }

    /// As [`BlockEngine::cancel`]. Of a pair that waits both are taken back: the other is aborted for that.
    pub fn cancel(&mut self, place: Place) -> bool {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.has(place)) else {
            let is_paired = self.pairs.iter().any(|pair| pair.has(place));
            return !is_paired && self.cancel_in_engine(place);
        };
        let Some(Waiting { extent, what }) = self.waiting.remove(at) else { return false };
        if let Queued::Pair(pair) = what {
            let other = if pair.compare == place { pair.write } else { pair.compare };
            self.ended.push_back(Finished { place: other, result: Err(OTHER_FAILED) });
        }
        self.go_on_from(at, extent);
        true
    }

    fn cancel_in_engine(&mut self, place: Place) -> bool {
        let is_cancelled = self.engine.cancel(place);
        if is_cancelled {
            self.leave(place);
        }
        is_cancelled
    }

    /// The engine has the command of a place no more.
    fn leave(&mut self, place: Place) {
        let touched = self.touched.get_mut(place.0 as usize).map(std::mem::take);
        if !self.waiting.is_empty() {
            self.go_on_from(0, touched.unwrap_or_default());
        }
    }

    /// As [`BlockEngine::next_finished`].
    pub fn next_finished(&mut self) -> Option<Finished> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            let finished = self.engine.next_finished()?;
            match self.pairs.iter().position(|pair| pair.has(finished.place)) {
                Some(at) => self.go_on_with(at, finished),
                None => {
                    self.leave(finished.place);
                    return Some(finished);
                }
            }
        }
    }

    /// A command of a pair is done: the other is begun, or both are over.
    fn go_on_with(&mut self, at: usize, finished: Finished) {
        let Some(Pair { compare, write, run, fua }) = self.pairs.get(at).copied() else { return };
        let is_first = finished.place == compare;
        if is_first && finished.result.is_ok() {
            self.touched[compare.0 as usize] = Extent::default();
            return self.start(write, Extent::of(run), Request::Write { run, fua });
        }
        let [compared, written] = match is_first {
            true => [finished.result, Err(OTHER_FAILED)],
            false => [Ok(()), finished.result],
        };
        self.ended.push_back(Finished { place: compare, result: compared });
        self.ended.push_back(Finished { place: write, result: written });
        self.pairs.remove(at);
        self.leave(finished.place);
    }
}
