//! The driver from outside, against a device that records what it is sent and answers what a test sets.
#![allow(clippy::unwrap_used, missing_docs)]

mod announced;
mod deadlines;
mod inline_reads;
mod lengths;
mod queue;
mod scripted;
mod sleeping;
mod transfer;
