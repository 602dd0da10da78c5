//! What the measured figures of the README are made with. See `benches/README.md`.
#![forbid(unsafe_code)]

pub mod beside;
pub mod callgrind;
pub mod case;
pub mod paired;
pub mod peer;
pub mod results;
pub mod rounds;
pub mod scratch;
pub mod stage;
