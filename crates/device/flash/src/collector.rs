//! Which block is emptied next, which have been begun, and which of them for their own sake.
//!
//! A half-collected block is an ordinary full block with less live data: nothing about it is kept in the image, and after a
//! kill it may be chosen again.

use crate::blocks::BlockTable;
use crate::counters::Cause;
use crate::event::{FlashEvent, Reporter};
use crate::geometry::BlockId;
use crate::retention::RetentionLimits;
use crate::victims::GcPolicy;

/// A block that is being emptied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Victim {
    block: BlockId,
    next_page: u32,
    /// Units that were live when it was chosen, and units that were not.
    live: u64,
    gain: u64,
    cause: Cause,
}

impl Victim {
    fn of(block: BlockId, cause: Cause, blocks: &BlockTable) -> Self {
        let live = u64::from(blocks.get(block).live);
        let gain = u64::from(blocks.units_per_block()) - live;
        Self { block, next_page: 0, live, gain, cause }
    }

    pub(crate) const fn block(&self) -> BlockId {
        self.block
    }

    /// The cause that its moves and its erase are charged to.
    pub(crate) const fn cause(&self) -> Cause {
        self.cause
    }

    /// Units that were live when it was chosen.
    pub(crate) const fn live_units(&self) -> u64 {
        self.live
    }

    /// Units that erasing it gives, as of when it was chosen.
    pub(crate) const fn gain_units(&self) -> u64 {
        self.gain
    }

    /// The page that is moved next, counted within the block.
    pub(crate) const fn next_page(&self) -> u32 {
        self.next_page
    }

    /// Notes that the next page was moved.
    pub(crate) const fn pass_page(&mut self) {
        self.next_page += 1;
    }

    fn is(&self, block: BlockId) -> bool {
        self.block == block
    }
}

/// What garbage collection is at, between slices.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    policy: GcPolicy,
    victim: Option<Victim>,
    /// The block that is emptied for its own sake: it failed, is near a limit of retention, or is too young.
    side_job: Option<Victim>,
    reporter: Reporter,
}

impl Collector {
    pub(crate) const fn set_policy(&mut self, policy: GcPolicy) {
        self.policy = policy;
    }

    pub(crate) const fn set_reporter(&mut self, reporter: Reporter) {
        self.reporter = reporter;
    }

    pub(crate) fn report(&self, event: FlashEvent) {
        (self.reporter.0)(event);
    }

    fn begin(&self, block: BlockId, cause: Cause, blocks: &BlockTable) -> Victim {
        let victim = Victim::of(block, cause, blocks);
        self.report(FlashEvent::VictimChosen { block: block.0, live_units: victim.live, cause });
        victim
    }

    /// The block to go on with, or the next one by the policy; none where emptying any gains nothing.
    pub(crate) fn take_victim(&mut self, blocks: &BlockTable) -> Option<Victim> {
        if let Some(victim) = self.victim.take() {
            return Some(victim);
        }
        let block = blocks.victim(self.policy)?;
        if let Some(young) = self.side_job.take_if(|job| job.is(block)) {
            return Some(young);
        }
        Some(self.begin(block, Cause::Gc, blocks))
    }

    /// This block, as far as it was emptied already.
    pub(crate) fn take_block(&mut self, block: BlockId, blocks: &BlockTable) -> Victim {
        let begun = self.victim.take_if(|victim| victim.is(block));
        begun.unwrap_or_else(|| self.begin(block, Cause::Gc, blocks))
    }

    /// Keeps a block that is not empty yet for the next slice.
    pub(crate) const fn put_back(&mut self, victim: Victim) {
        self.victim = Some(victim);
    }

    #[inline]
    pub(crate) const fn has_side_job(&self) -> bool {
        self.side_job.is_some()
    }

    /// Whether the side job refreshes data.
    pub(crate) fn is_refreshing(&self) -> bool {
        self.side_job.is_some_and(|job| job.cause == Cause::Refresh)
    }

    pub(crate) const fn take_side_job(&mut self) -> Option<Victim> {
        self.side_job.take()
    }

    pub(crate) const fn put_side_job_back(&mut self, job: Victim) {
        self.side_job = Some(job);
    }

    /// Looks for a block to empty for its own sake: one that failed, is near a limit of retention, or is too young.
    pub(crate) fn choose_side_job(&mut self, blocks: &BlockTable, retention: &RetentionLimits) {
        if self.is_refreshing() {
            return;
        }
        if let Some(failing) = blocks.failing() {
            self.side_job = Some(self.begin(failing, Cause::Refresh, blocks));
        } else if self.side_job.is_none() {
            let is_free = |block: &BlockId| !self.victim.is_some_and(|victim| victim.is(*block));
            let aging =
                retention.block_to_refresh(blocks).filter(is_free).map(|block| (block, Cause::Refresh));
            let young = || blocks.too_young().filter(is_free).map(|block| (block, Cause::WearLevelling));
            self.side_job = aging.or_else(young).map(|(block, cause)| self.begin(block, cause, blocks));
        }
    }

    /// Ends the work on a block that is no longer full.
    pub(crate) fn leave(&mut self, block: BlockId) {
        self.victim.take_if(|victim| victim.is(block));
        self.side_job.take_if(|job| job.is(block));
    }
}
