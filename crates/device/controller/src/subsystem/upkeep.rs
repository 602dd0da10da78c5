//! Upkeep of flash and namespaces by threads that have nothing to execute (decision 0077).

use super::{Slot, Subsystem};
use crate::namespace::Namespace;
use crate::namespace::kv::KvNamespace;

impl Subsystem {
    /// Whether a step of upkeep is worth doing.
    #[must_use]
    pub fn owes_upkeep(&self) -> bool {
        let mut slots = self.slots.iter().flatten();
        !self.flash.is_following()
            && self.sanitizing.is_none()
            && self.flash.check_takes_writes().is_ok()
            && (self.flash.owes_upkeep()
                || slots.any(|slot| as_kv(slot).is_some_and(KvNamespace::owes_upkeep)))
    }

    /// Does steps of upkeep until `stops`, which is asked after each, or there is nothing to do. How many it did. Stores and writes by
    /// leases go on meanwhile; no command waits for it, so its time is counted as [upkeep](crate::StallSnapshot::upkeep).
    pub fn keep_up(&mut self, mut stops: impl FnMut() -> bool) -> u64 {
        let mut steps = 0;
        while self.owes_upkeep() && self.keep_up_once() {
            steps += 1;
            if stops() {
                break;
            }
        }
        steps
    }

    /// Counts a quantum of upkeep: steps that a thread did without a break.
    pub fn count_upkeep(&mut self, took_ns: u64) {
        self.stalls.note_quantum(took_ns);
    }

    fn keep_up_once(&mut self) -> bool {
        let Self { slots, flash, .. } = self;
        flash.as_upkeep(|flash| {
            let mut worked = flash.keep_up(0);
            for slot in slots.iter_mut().flatten() {
                if let Namespace::Kv(kv) = &mut slot.namespace {
                    worked |= kv.keep_up(flash);
                }
            }
            worked
        })
    }
}

fn as_kv(slot: &Slot) -> Option<&KvNamespace> {
    match &slot.namespace {
        Namespace::Kv(kv) => Some(kv),
        _ => None,
    }
}
