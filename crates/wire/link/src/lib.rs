//! Cost model of the link between host and device, in bytes and in picoseconds.
//!
//! Each transaction is counted twice: **payload** bytes, which the papers counted, and **wire** bytes, with packet
//! overhead. [`PcieLink`] and [`CxlLink`] give the cost of one transaction, and a [`Ledger`] sums costs by [`Class`].
//! A [`Meter`] records transactions as they happen, and can compute their end times on the modelled [`Timeline`] of a
//! [`Profile`].
//!
//! The rules are those of docs/reference/link-model.md. Nothing here knows a command, a queue, a host
//! or a device: only transactions.
#![forbid(unsafe_code)]

pub mod class;
pub mod clock;
pub mod cost;
pub mod cxl;
pub mod host_meter;
pub mod hybrid;
pub mod ledger;
pub mod meter;
pub mod method;
pub mod pcie;
pub mod profile;
mod profiles;
pub mod timeline;

pub use class::Class;
pub use clock::ClockMode;
pub use cost::Cost;
pub use cxl::{CxlLink, Flit, Lines};
pub use host_meter::HostMeter;
pub use hybrid::{CacheProfile, HybridProfile};
pub use ledger::{Ledger, Row};
pub use meter::Meter;
pub use method::Method;
pub use pcie::{Generation, LinkError, PcieLink};
pub use profile::{
    Firmware, FlashProfile, Habits, HostCosts, HostStep, LinkTimes, Profile, ReadRequestRule, TransferLimits,
    Work,
};
pub use timeline::Timeline;
