//! Caps of files: levels that memory, programs or other files' state close to them.

use byway_tdm_engine::table::Entry;
use byway_tdm_policy::{Cap, Level, Reason};

/// Cap without promotion by measured benefit.
const NO_RESIDENT: Cap = Cap { level: Level::Absorb, why: Reason::DaxByOrderAlone };

/// Cap of a file at PASS: its cost at ABSORB is measured first.
const ABSORBED_FIRST: Cap = Cap { level: Level::Absorb, why: Reason::AbsorbedFirst };

/// What the region allows to all files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    is_persistent: bool,
    has_resident_files: bool,
}

impl Caps {
    /// `is_persistent`: the region survives power loss. `has_resident_files`: files are promoted by measured benefit.
    pub(super) const fn new(is_persistent: bool, has_resident_files: bool) -> Self {
        Self { is_persistent, has_resident_files }
    }

    /// Whether files are promoted by measured benefit.
    pub(super) const fn has_resident_files(self) -> bool {
        self.has_resident_files
    }

    /// The cap of a file that the policy has at `level`.
    pub(super) fn of(self, entry: &Entry<'_>, level: Option<Level>) -> Option<Cap> {
        if let Some(why) = self.hindrance(entry, level) {
            return Some(Cap { level: Level::Pass, why });
        }
        if !self.has_resident_files {
            return Some(NO_RESIDENT);
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
        // Promoted by order.
        if level_state.level == Level::Dax && level != Some(Level::Dax) {
            return Some(Reason::InDeviceMemory);
        }
        (!self.is_persistent).then_some(Reason::VolatileMemory)
    }
}
