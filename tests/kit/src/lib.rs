//! What tests of all crates share: numbers and bytes from a seed, relays, and the number of cases. Depends on no other crate.
#![forbid(unsafe_code)]

mod cases;
mod pattern;
mod random;
mod relay;

pub use cases::cases;
pub use pattern::{pattern, tagged};
pub use random::{Random, mix, spread};
pub use relay::{PIECE_BYTES_MAX, accept_while, copy};
