//! One file for each command of the tree.

pub mod bench;
pub mod bench_endurance;
pub mod bench_kv;
pub mod check;
pub mod create;
pub mod enumerate;
pub mod forget;
pub mod info;
mod info_blocks;
pub mod inside;
pub mod kv;
pub mod nvm;
pub mod report;
pub mod resize;
pub mod snapshot;
