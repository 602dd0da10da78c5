//! One file for each command of the tree.

mod answer;
pub mod bench;
pub mod bench_endurance;
pub mod bench_kv;
mod bench_traffic;
pub mod check;
pub mod create;
pub mod dd;
pub mod enumerate;
pub mod feature;
pub mod forget;
pub mod identify;
pub mod info;
mod info_blocks;
pub mod inside;
pub mod kv;
mod kv_records;
pub mod list;
pub mod log;
pub mod nvm;
mod nvm_device;
pub mod pass;
pub mod perf;
pub mod report;
pub mod resize;
pub mod serve;
pub mod snapshot;
