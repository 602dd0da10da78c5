//! Puts, one at a time, on a device in memory: what they cost on the link, in flash and in modelled time.
//!
//! What `byway bench` and `byway-lab` measure by.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod distribution;
pub mod experiment;
pub mod puts;
pub mod random;
pub mod rows;
pub mod setting;
pub mod subject;
pub mod thresholds;
pub mod way;
pub mod workload;
pub mod zipfian;

pub use setting::{Common, Switch};
pub use way::Way;
