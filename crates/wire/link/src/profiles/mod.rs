//! The profiles that come with Byway, one file each.

mod cosmos;
mod cosmos_fitted;
pub(crate) mod gen4x4;
mod gen5x4;
mod gen5x8_cxl;

use crate::profile::Profile;

/// Every profile, in the order they are listed.
pub const ALL: [fn() -> Profile; 5] =
    [cosmos::profile, cosmos_fitted::profile, gen4x4::profile, gen5x4::profile, gen5x8_cxl::profile];

/// Nanoseconds in picoseconds.
pub(crate) const fn ns(nanoseconds: u64) -> u64 {
    nanoseconds * 1000
}
