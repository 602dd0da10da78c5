//! The policy from outside: a daemon that samples, decides and moves, over programs that are made up.
#![allow(clippy::unwrap_used)]

mod workloads;
mod world;
