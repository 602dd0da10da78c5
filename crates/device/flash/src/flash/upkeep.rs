//! Upkeep that no command waits for (decision 0077).

use crate::flash::Flash;
use crate::stall::Stalls;

impl Flash {
    /// Does work that no command waits for: what is noted meanwhile as a wait is counted as [upkeep](Self::upkeep).
    pub fn as_upkeep<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.swap_counts();
        let done = work(self);
        self.swap_counts();
        done
    }

    fn swap_counts(&mut self) {
        std::mem::swap(&mut self.ftl.stalls, &mut self.ftl.upkeep);
    }

    /// Time of upkeep that no command waited for, since the device was opened.
    #[must_use]
    #[inline]
    pub const fn upkeep(&self) -> &Stalls {
        &self.ftl.upkeep
    }

    /// Whether a step of garbage collection is worth doing before a write has to pay for it.
    #[must_use]
    pub fn owes_upkeep(&self) -> bool {
        !Self::is_read_only(self) && self.ftl.owes_room()
    }

    /// Does a step of garbage collection, as much as a page written pays for at most; whether there was anything to do. Leases stay active:
    /// no block holds a unit that waits in one, and its number, given later, is higher than those of what is moved here.
    pub fn keep_up(&mut self, at_ps: u64) -> bool {
        // As for any store: what is moved here has to be synced before its old block is erased.
        if !self.owes_upkeep() || self.writable().is_err() {
            return false;
        }
        self.ftl.collect_ahead(at_ps);
        true
    }
}
