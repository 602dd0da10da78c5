//! A file's level, and the reason for it.

use byway_tdm_policy::{Level, Reason};

/// Level and reason, one word of the shared file table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelState {
    /// The level.
    pub level: Level,
    /// The reason, one of [`Reason::STORED`].
    pub why: Reason,
    /// Not to be promoted while any process has the file open: it may be written without records.
    pub is_barred: bool,
}

impl LevelState {
    /// A new file.
    pub const NEW: Self = Self { level: Level::Pass, why: Reason::Unknown, is_barred: false };

    pub(super) const fn to_word(self) -> u64 {
        let level = match self.level {
            Level::Pass => 0,
            Level::Absorb => 1,
            Level::Dax => 2,
        };
        level | (self.why.number() as u64) << 8 | (self.is_barred as u64) << 16
    }

    /// The level only, which is all that most calls need.
    #[inline]
    pub(super) const fn level_of(word: u64) -> Level {
        match word & 0xff {
            1 => Level::Absorb,
            2 => Level::Dax,
            _ => Level::Pass,
        }
    }

    #[inline]
    pub(super) const fn from_word(word: u64) -> Self {
        Self {
            level: Self::level_of(word),
            why: Reason::from_number((word >> 8) as u8),
            is_barred: word >> 16 & 1 == 1,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn level_state_round_trips_through_a_word() {
        for level in [Level::Pass, Level::Absorb, Level::Dax] {
            for why in Reason::STORED {
                for is_barred in [false, true] {
                    let level_state = LevelState { level, why: *why, is_barred };
                    assert_eq!(LevelState::from_word(level_state.to_word()), level_state);
                }
            }
        }
    }

    #[test]
    fn new_level_state_is_zero() {
        assert_eq!(LevelState::NEW.to_word(), 0);
    }
}
