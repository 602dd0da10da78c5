//! Which file is served how: what a file's calls cost by each level, what moving it costs, and who gets the room there is.
//!
//! Source: the study of transparent DAX mappings, section 4 ("Policy"). Decision 41 has the constants and what would change them.
#![forbid(unsafe_code)]

mod averages;
mod backoff;
mod budget;
#[path = "cap.rs"]
mod ceiling;
mod config;
mod cost;
mod explain;
mod file;
mod histogram;
mod level;
mod needs;
mod order;
#[path = "estimate.rs"]
mod outlook;
#[path = "history.rs"]
mod past;
mod policy;
mod reason;
mod rules;
mod sample;
mod scales;
#[path = "stats.rs"]
mod seen;
#[path = "hysteresis.rs"]
mod streaks;
mod units;
#[path = "transition.rs"]
mod wish;

pub use averages::Rates;
pub use budget::{Room, Usage};
pub use ceiling::Ceiling;
pub use config::Config;
pub use cost::{CallCosts, Cost, Costs};
pub use explain::Explanation;
pub use histogram::{BUCKETS, Histogram, bucket_of, bucket_top_ns};
pub use level::{FileId, Level};
pub use order::Order;
pub use outlook::Prospect;
pub use past::{Past, Stay};
pub use policy::{Decision, Policy};
pub use reason::{Reason, Tail};
pub use rules::{Rule, RuleError, Rules};
pub use sample::{Call, Counts, Sample, Timings, Traits};

/// One in so many operations of a file that is not at [`Level::Pass`] goes the lower way, and is timed.
pub const SHADOW_ONE_IN: u64 = 1000;
