//! Reasons of the policy, as the board has them.

use byway_tdm_engine::table::Why;
use byway_tdm_policy::Reason;

/// The reason as a number of the board.
pub(super) const fn why_of(reason: Reason) -> Why {
    match reason {
        Reason::CostsMore { .. } | Reason::SlowTail { .. } => Why::Slower,
        Reason::LongBetweenSyncs { .. } => Why::LongWrites,
        Reason::Displaced { .. } | Reason::Stopped { .. } => Why::Displaced,
        Reason::Ordered(_) => Why::ByHand,
        Reason::Ruled(_) => Why::Excluded,
        Reason::NoRoom { .. }
        | Reason::TooLarge { .. }
        | Reason::WaitsForRoom { .. }
        | Reason::Outgrown { .. } => Why::NoRoom,
        _ => Why::TooFewSyncs,
    }
}
