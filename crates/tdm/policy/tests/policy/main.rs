//! The policy from outside: a simulated daemon samples, decides and moves files of simulated programs.
#![allow(clippy::unwrap_used)]

mod orders;
mod proof;
mod properties;
mod room;
mod rules;
mod words;
mod workloads;
mod world;
mod worse;
