//! Reasons of the policy, as numbers of the shared file table.

use byway_tdm_engine::table::Why;
use byway_tdm_policy::Reason;

/// The number of a reason.
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
