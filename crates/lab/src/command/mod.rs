//! One file for each command of the tree.

mod bars;
pub mod calibrate;
pub mod data;
pub mod endurance;
pub mod fit;
pub mod generate;
pub mod kv;
pub mod report;
pub mod workload;
