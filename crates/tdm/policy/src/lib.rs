//! Placement policy: which file is served at which level, by the cost of its calls there, the cost of moving it, and the device memory
//! available ([decision 41](../../../../docs/decisions/0041-placement-policy-for-files.md)).
//!
//! Source: the study of transparent DAX mappings, section 4 ("Policy").
#![forbid(unsafe_code)]

mod averages;
mod backoff;
mod budget;
mod cap;
mod config;
mod cost;
mod estimate;
mod explain;
mod file;
mod histogram;
mod history;
mod hysteresis;
mod level;
mod needs;
mod order;
mod policy;
mod reason;
mod room;
mod rules;
mod sample;
mod scales;
mod stats;
mod transition;
mod units;

pub use averages::Rates;
pub use budget::Usage;
pub use cap::Cap;
pub use config::Config;
pub use cost::{CallCosts, Cost, Costs};
pub use estimate::LevelEstimate;
pub use explain::Explanation;
pub use histogram::{BUCKETS, Histogram, bucket_of, bucket_top_ns};
pub use history::{History, Stay};
pub use level::{FileId, Level};
pub use order::Order;
pub use policy::{Decision, Policy};
pub use reason::{Reason, Tail};
pub use room::Room;
pub use rules::{Rule, RuleError, Rules};
pub use sample::{Call, Counts, Sample, Timings, Traits};

/// One in 1000 operations of a file above [`Level::Pass`] is made by the kernel as well and timed.
pub const SHADOW_ONE_IN: u64 = 1000;
