//! Real power is lost while an image is resized or a damaged one repaired: over files that forget what was not synced
//! ([`byway_forgetful`]). The image opens, holds what it held but for what the damage itself took, and it is done again.
#![allow(clippy::unwrap_used)]

mod repair;
mod resize;
mod stage;
