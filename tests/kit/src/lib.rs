//! What tests of all crates share: numbers and bytes from a seed. Depends on no other crate.
#![forbid(unsafe_code)]

mod pattern;
mod random;

pub use pattern::{pattern, tagged};
pub use random::{Random, mix, spread};
