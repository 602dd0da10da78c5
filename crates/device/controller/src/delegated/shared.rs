//! Gathered Retrieves that are executed by shared reference, beside other threads that do (decision 0065), and stores between them.

use byway_flash::FlashReads;
use byway_kv::{PREFETCH_GROUP, TryGet};

use super::{DelegatedQueue, What};
use crate::namespace::kv::NO_SUCH_KEY;
use crate::namespace::media::check_whole;
use crate::reservation::Access;
use crate::subsystem::Subsystem;

impl DelegatedQueue {
    /// Whether the first command that is not executed is one that [`execute_shared`](Self::execute_shared) may execute.
    #[inline]
    pub fn begins_with_get(&self) -> bool {
        let first = self.gathered.iter().find(|gathering| !gathering.is_done);
        first.is_some_and(|first| matches!(first.work.what, What::Get | What::GetMany))
            && !self.uncounted.is_full()
    }

    /// Executes the gathered Retrieves, and stores by leases, up to the first command that needs the subsystem for itself;
    /// [`execute`](Self::execute) executes the rest. True if none is left.
    pub fn execute_shared(&mut self, subsystem: &Subsystem) -> bool {
        if subsystem.counts_commands() || self.uncounted.is_full() {
            return false;
        }
        let was_prefetched = self.gathered.len() > 1;
        for at in 0..self.gathered.len() {
            if at % PREFETCH_GROUP == 0 {
                self.prefetch_group(subsystem, at);
            }
            let done = match self.gathered[at].work.what {
                What::GetMany => self.get_many_shared(subsystem, at),
                _ => self.get_shared(subsystem, at, was_prefetched).or_else(|| self.put_by_lease(at)),
            };
            if done.is_none() {
                return false;
            }
        }
        true
    }

    /// Executes the Retrieve gathered at `at`, unless it was executed; `None` where that takes the run lock.
    #[inline]
    fn get_shared(&mut self, subsystem: &Subsystem, at: usize, was_prefetched: bool) -> Option<()> {
        let Self { gathered, payloads, habits, uncounted, .. } = self;
        let gathering = gathered.get_mut(at)?;
        if gathering.is_done {
            return Some(());
        }
        let work = &gathering.work;
        if work.what != What::Get {
            return None;
        }
        let (namespace, flash) = subsystem.admit_to_read(gathering.nsid, habits.id)?;
        let into = payloads.get_mut(work.value.at..work.value.at + work.value.len)?;
        let found = namespace.as_kv()?.try_get_at(flash, &work.key()?, was_prefetched, into);
        let (result, moved, reads) = match found {
            TryGet::Found { len_bytes, reads } => {
                (Ok(len_bytes), work.value.len.min(len_bytes as usize), reads)
            }
            TryGet::Absent => (Err(NO_SUCH_KEY), 0, FlashReads::default()),
            TryGet::Unknown => return None,
        };
        // After the copy: a part of the image that another program cut off reads as zeroes.
        check_whole(flash, Access::Read).ok()?;
        uncounted.add(gathering.counted, moved as u64, reads);
        (gathering.result, gathering.is_done) = (result, true);
        Some(())
    }

    /// Executes the Retrieve Many gathered at `at`, unless it was executed; `None` where what is left of it takes the run lock.
    fn get_many_shared(&mut self, subsystem: &Subsystem, at: usize) -> Option<()> {
        let Self { gathered, many, habits, uncounted, .. } = self;
        let gathering = gathered.get_mut(at).filter(|gathering| !gathering.is_done);
        let Some(gathering) = gathering else { return Some(()) };
        let (namespace, flash) = subsystem.admit_to_read(gathering.nsid, habits.id)?;
        let mut reads = FlashReads::default();
        let is_all = namespace.as_kv()?.try_look_up(flash, &mut many.lookups, &mut reads);
        if !is_all || check_whole(flash, Access::Read).is_err() {
            uncounted.add_reads(reads);
            return None;
        }
        gathering.work.value.len = many.lookups.result_bytes();
        uncounted.add(gathering.counted, gathering.work.value.len as u64, reads);
        (gathering.result, gathering.is_done) = (Ok(many.lookups.values()), true);
        Some(())
    }
}
