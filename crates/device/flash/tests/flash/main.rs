//! The flash translation layer from outside. One program: what all share is built once.
#![allow(clippy::unwrap_used)]

mod access;
mod bad_blocks;
mod causes;
mod common;
mod damage;
mod endurance;
mod image;
mod kill;
mod leases;
mod lend;
mod namespaces;
mod readers;
mod retention;
mod spares;
mod tallies;
mod waiting;
