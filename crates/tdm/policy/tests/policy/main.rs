//! The policy from outside: a daemon that samples, decides and moves, over programs that are made up.
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
