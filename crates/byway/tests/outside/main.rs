//! Devices from outside, by the library. One program: what all share is built once.
#![allow(clippy::unwrap_used)]

mod blocks;
mod check;
mod clock;
mod delegation;
mod erasure;
mod examples;
mod exports;
mod failed;
mod flush;
mod follow;
mod golden;
mod host_counters;
mod ledger;
mod ledger_gets;
mod live;
mod namespace_queues;
mod queries;
mod queues;
mod ranges;
mod recording;
mod refusals;
mod resize;
mod retention;
mod round_trips;
mod snapshot;
mod squatter;
mod table;
mod upkeep;
mod windows;
