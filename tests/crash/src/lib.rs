//! Writers that are killed, and what is known of what they leave.
//!
//! A [`life::Life`] is a process that does the steps of a [`workload::Workload`] and records in a [`journal::Journal`]
//! each before it begins and once it is acknowledged. Steps follow from a seed, and what a step stores follows from
//! the step, so the journal is all that a [`model::Model`] needs to know what an image may hold after the kill.

pub mod block_writers;
pub mod content;
pub mod fault;
pub mod flip;
pub mod journal;
pub mod kill;
pub mod life;
pub mod model;
pub mod reading;
pub mod record;
pub mod runner;
pub mod sparse;
pub mod workload;
pub mod writers;
