//! Regions from outside: one suite over all kinds, refusals, partitions and exports.
#![allow(clippy::unwrap_used)]

mod modelled;
mod partitions;
mod refused;
mod suite;
mod support;
