//! Entries of the board whose files nobody has open any more are given back: all of them once the board is crowded, so that it is never full of what
//! once was, and those of barred files a minute later at the latest, which begin anew. Files that were opened without an entry are forgotten.
//!
//! A program that had one of them open all the same, unknown to the system, finds that its index leads nowhere and lists its file anew. So
//! what has to be known for certain is only that nobody has a file open who was barred from being served for what is not seen of him, or that has no
//! entry.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use byway_sys::time::{monotonic_ns, thread_ns};
use byway_tdm_engine::table::{Counted, ENTRIES, Entry, Level, Why};

use crate::estate::Estate;
use crate::open_files::OpenFiles;

/// Up to so many entries nobody looks who has their files open. From half of all on some file finds no place near where it is looked for.
const CROWDED: usize = ENTRIES / 4;

/// The next look is not before so many times what the last one took of the processor, nor before [`LEAST`].
const RARELY: u32 = 100;
const LEAST: Duration = Duration::from_secs(1);

/// So long a barred file may be the kernel's when everybody has closed it: on the clock that files are judged by.
const SELDOM: Duration = Duration::from_secs(60);

/// When it is looked again.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// On the monotonic clock.
    again_ns: u64,
    /// For barred files alone.
    barred_again_ns: u64,
}

/// Whose entries a look gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    None,
    Barred,
    All,
}

impl Which {
    fn has(self, entry: Entry<'_>) -> bool {
        match self {
            Self::None => false,
            Self::Barred => entry.standing().is_barred,
            Self::All => true,
        }
    }
}

impl Looks {
    pub(crate) fn are_due(&self) -> bool {
        monotonic_ns() >= self.again_ns
    }

    /// Looks, and sees what that costs. What the thread waits for a processor is not its cost: where that is long the board may be filling.
    pub(crate) fn look(&mut self, look: impl FnOnce()) {
        let began_ns = thread_ns();
        look();
        let cost = Duration::from_nanos(thread_ns() - began_ns);
        self.again_ns = monotonic_ns() + (cost * RARELY).max(LEAST).as_nanos() as u64;
    }
}

impl Estate {
    /// Looks who has which files open if the board is crowded, files were left out, or some are barred: gives entries back, and forgets who was left
    /// out. Whoever opens a file meanwhile keeps its entry, or gets a new one.
    pub(crate) fn sweep(&self) {
        let mut looks = self.looks();
        if !looks.are_due() {
            return;
        }
        let which = self.due(&mut looks);
        if which != Which::None || self.board.unlisted() > 0 {
            looks.look(|| self.look_who_has_what(which));
        }
    }

    fn due(&self, looks: &mut Looks) -> Which {
        // Those that were made are counted; going through all of them is for a board that may be crowded.
        if self.board.made() >= CROWDED && self.board.entries().count() >= CROWDED {
            return Which::All;
        }
        let now_ns = self.now_ns();
        if now_ns < looks.barred_again_ns {
            return Which::None;
        }
        looks.barred_again_ns = now_ns + SELDOM.as_nanos() as u64;
        let has_barred = self.idle(Which::Barred).next().is_some();
        if has_barred { Which::Barred } else { Which::None }
    }

    fn look_who_has_what(&self, which: Which) {
        let hiding = self.board.hiding();
        // How often each was opened, from before it is looked who has it open.
        let idle: Vec<_> = self.idle(which).map(|entry| (entry, entry.opened())).collect();
        let (Ok(open), Ok(board)) = (OpenFiles::of_user(self.uid), self.board_file().metadata()) else {
            return;
        };
        let is_used = open.is_partial() || open.is_mapped_elsewhere(board.ino());
        for (entry, opened) in idle {
            let standing = entry.standing();
            let is_open = entry.key().is_none_or(|key| open.has(key.inode));
            let is_hidden =
                standing.is_barred && (open.is_partial() || is_used && standing.why.is_out_of_sight());
            if !is_open && !is_hidden && self.board.give_back(entry, opened) {
                self.judge().forget(entry.index());
            }
        }
        if !is_used {
            self.board.forget_hiding(hiding);
        }
        // Asked behind the look: what is out of sight now was not, or was said to be, when its process was looked at.
        if !open.is_partial() && self.board.hiding() == 0 {
            self.board.forget_closed(open.inodes());
        }
    }

    fn idle(&self, which: Which) -> impl Iterator<Item = Entry<'_>> {
        self.board.entries().filter(move |entry| which.has(*entry) && self.is_idle(*entry))
    }

    /// Whether nothing would be lost with an entry but what was counted.
    fn is_idle(&self, entry: Entry<'_>) -> bool {
        let standing = entry.standing();
        let is_ordered = standing.why == Why::ByHand
            || entry.housed().is_wished()
            || entry.counters().get(Counted::Pinned) != 0;
        // Whoever stands still in a call from when it was served stores into it when he goes on.
        standing.level == Level::Pass && !is_ordered && entry.lock_within(Duration::ZERO).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_waits_for_long_and_does_little_puts_the_next_one_off_no_longer_than_a_short_one() {
        let mut looks = Looks::default();
        looks.look(|| std::thread::sleep(LEAST / 10));
        assert!(looks.again_ns <= monotonic_ns() + LEAST.as_nanos() as u64);
    }

    #[test]
    fn a_look_that_works_for_long_puts_the_next_one_off_by_a_hundred_times_that() {
        let (mut looks, began_ns) = (Looks::default(), monotonic_ns());
        looks.look(|| {
            let end_ns = thread_ns() + 2 * LEAST.as_nanos() as u64 / u64::from(RARELY);
            while thread_ns() < end_ns {}
        });
        assert!(looks.again_ns >= began_ns + 2 * LEAST.as_nanos() as u64);
    }
}
