//! Caps of files: the highest level that the region, the daemon's options and a file's programs allow, and why.

use byway_tdm_engine::table::Entry;
use byway_tdm_policy::{Cap, Level, Reason};

/// Cap while only pinned files are promoted to DAX.
const PINNED_ONLY: Cap = Cap { level: Level::Absorb, why: Reason::DaxByPinAlone };

/// Cap of a file at PASS: its cost at ABSORB is measured first.
const ABSORBED_FIRST: Cap = Cap { level: Level::Absorb, why: Reason::AbsorbedFirst };

/// What the region and the daemon's options allow to all files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// The region survives power loss.
    is_persistent: bool,
    /// Files are promoted to DAX by measured benefit too, not by pins alone.
    promotes_by_benefit: bool,
}

impl Caps {
    /// Caps for a region that survives power loss, or not, and a daemon that promotes files by measured benefit, or not.
    pub(super) const fn new(is_persistent: bool, promotes_by_benefit: bool) -> Self {
        Self { is_persistent, promotes_by_benefit }
    }

    /// Whether files are promoted to DAX by measured benefit too.
    pub(super) const fn promotes_by_benefit(self) -> bool {
        self.promotes_by_benefit
    }

    /// The cap of a file that the policy has at `level`.
    pub(super) fn of(self, entry: &Entry<'_>, level: Option<Level>) -> Option<Cap> {
        if let Some(why) = self.hindrance(entry, level) {
            return Some(Cap { level: Level::Pass, why });
        }
        if !self.promotes_by_benefit {
            return Some(PINNED_ONLY);
        }
        if let Some(why) = entry.resident_state().excluded() {
            return Some(Cap { level: Level::Absorb, why });
        }
        (level <= Some(Level::Pass)).then_some(ABSORBED_FIRST)
    }

    /// What keeps a file at PASS, whatever it would save.
    pub(super) fn hindrance(self, entry: &Entry<'_>, level: Option<Level>) -> Option<Reason> {
        let level_state = entry.level_state();
        if level_state.is_barred {
            return Some(level_state.why);
        }
        // Promoted by a pin.
        if level_state.level == Level::Dax && level != Some(Level::Dax) {
            return Some(Reason::InDeviceMemory);
        }
        (!self.is_persistent).then_some(Reason::VolatileMemory)
    }
}
