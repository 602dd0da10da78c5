//! All files that are served, whoever writes them: kept for a program that syncs all that there is. The kernel keeps what it has of them by that, and no log is to
//! undo that later: what is in one has to be kept too, and what is in none to be behind it.

use crate::log::SyncStep;
use crate::resident::{Home, Resident};
use crate::table::{Entry, Level};

use crate::client::file::Errno;
use crate::client::past::hold;
use crate::client::session::Session;
use crate::client::turn::Turn;

impl Session {
    /// Keeps what was written to every file that is served. `sync_all` syncs all that there is.
    pub fn keep_everything(&self, sync_all: impl Fn() -> Result<(), Errno>) {
        let is_served = |entry: &Entry<'_>| entry.standing().level != Level::Pass;
        for entry in self.board().entries().filter(is_served) {
            match hold(entry) {
                Some((turn, held)) => {
                    let is_kept = self.keep_here(entry);
                    drop((held, turn));
                    if !is_kept && !self.drain(entry) {
                        self.take_down(entry, &sync_all);
                    }
                }
                // What its log has would undo what the kernel keeps. What fails is on the board.
                None if entry.level() == Level::Absorb => drop(self.sync_past(entry, &sync_all)),
                // The daemon waits for nobody who stands still in there.
                None => drop(Turn::take().is_some_and(|_turn| self.drain(entry))),
            }
        }
    }

    /// Keeps what device memory has of a file; whether that is all. With its lock held.
    fn keep_here(&self, entry: Entry<'_>) -> bool {
        match entry.standing().level {
            Level::Pass => true,
            // Of one that failed every sync says so.
            Level::Absorb => {
                let step = self.absorber(entry).map(|absorber| absorber.sync());
                matches!(step, Some(SyncStep::Done | SyncStep::Failed(_)))
            }
            // Without terms the file below has every byte; looked at behind where it is, as whoever brings it below takes them away first.
            Level::Dax => {
                let home = Home::new(self.memory(), entry.ring());
                let is_below = entry.housed().terms().is_none();
                is_below || home.is_ok_and(|home| Resident::new(home, entry.home_words()).sync().is_ok())
            }
        }
    }
}
