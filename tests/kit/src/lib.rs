//! What tests of all crates share: numbers and bytes from a seed, and relays. Depends on no other crate.
#![forbid(unsafe_code)]

mod pattern;
mod random;
mod relay;

pub use pattern::{pattern, tagged};
pub use random::{Random, mix, spread};
pub use relay::{PIECE_BYTES_MAX, accept_while, copy};
