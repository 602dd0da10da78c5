//! The policy from outside: a simulated daemon samples, decides and moves files of simulated programs.
#![allow(clippy::unwrap_used)]

mod backoff;
mod evidence;
mod orders;
mod properties;
mod room;
mod rules;
mod words;
mod workloads;
mod world;
