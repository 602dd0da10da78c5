//! Regions from outside: one suite over all kinds, refusals, partitions and exports.
#![allow(clippy::unwrap_used)]

mod given;
mod modelled;
mod refused;
mod suite;
mod support;
