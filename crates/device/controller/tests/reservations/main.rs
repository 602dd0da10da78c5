//! Reservations: several hosts with several controllers of one subsystem, from outside.
#![allow(clippy::unwrap_used)]

#[path = "../controller/common/mod.rs"]
mod common;

mod cluster;
mod model;
mod notices;
mod persistence;
mod rules;
