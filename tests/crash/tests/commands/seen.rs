//! What a device met while commands were tried on it: a test of recovery and collection proves nothing without them.

use byway::Cause;
use byway::embedded::EmbeddedDevice;

/// Counts, of one case or of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Pages programmed, by cause.
    pub programs: [u64; Cause::ALL.len()],
    /// Power cuts that happened.
    pub cuts: u64,
    /// Losses of real power.
    pub losses: u64,
    /// Processes killed.
    pub kills: u64,
    /// Commands refused for want of room.
    pub refusals: u64,
}

impl Seen {
    pub fn note_programs(&mut self, device: &EmbeddedDevice) {
        let counters = device.flash().counters;
        for (into, (_, counted)) in self.programs.iter_mut().zip(counters.rows()) {
            *into = counted.programs;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.programs.iter_mut().zip(other.programs).for_each(|(into, more)| *into += more);
        self.cuts += other.cuts;
        self.losses += other.losses;
        self.kills += other.kills;
        self.refusals += other.refusals;
    }

    /// Whether there was compaction, collection and levelling, and all events between commands.
    pub fn is_all_of_it(&self) -> bool {
        let wanted = [Cause::Host, Cause::Index, Cause::LogCompaction, Cause::Gc, Cause::WearLevelling];
        let met = |cause: &Cause| self.programs[*cause as usize] > 0;
        wanted.iter().all(met) && self.cuts > 0 && self.kills > 0 && self.losses > 0
    }
}
