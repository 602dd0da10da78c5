//! The executor of a device: which thread runs the controller, when, and what waits.
//!
//! The controller is a state machine without threads. This crate guards it with the run lock and gives it to three kinds of front:
//! [`LocalHost`] (a driver in this process), [`RemoteFront`] (vfio-user) and [`Capsules`] (fabrics).
//!
//! Under `cfg(loom)` there is the guarded value alone: its tests are models.

#![deny(unsafe_code)]

#[cfg(not(loom))]
mod capsule_queue;
#[cfg(not(loom))]
mod capsules;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod delegated;
#[cfg(not(loom))]
mod device;
#[cfg(not(loom))]
mod engine_events;
#[cfg(not(loom))]
mod executor;
#[cfg(not(loom))]
mod fabric;
#[cfg(not(loom))]
mod group_commit;
#[cfg_attr(loom, expect(dead_code, reason = "models use a part of it"))]
mod guarded;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod host;
#[cfg(not(loom))]
mod interrupts;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod owner;
#[cfg(not(loom))]
mod parker;
#[cfg(not(loom))]
mod programs;
#[cfg(not(loom))]
mod queries;
#[cfg(not(loom))]
mod queue_threads;
#[cfg(not(loom))]
mod remote;
#[cfg(not(loom))]
mod remote_front;
#[cfg(not(loom))]
mod serving_threads;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod upkeep;
#[cfg(not(loom))]
mod window;
#[cfg(not(loom))]
mod windows;

#[cfg(not(loom))]
pub use byway_controller::{AtOnce, FastAnswer, FastCommand, QueryFailure, ShortQuery};
#[cfg(not(loom))]
pub use capsule_queue::{CapsuleQueue, ServingThread};
#[cfg(not(loom))]
pub use capsules::{CapsuleDevice, Capsules};
#[cfg(not(loom))]
pub use device::Embedded;
#[cfg(not(loom))]
pub use engine_events::{EngineEvents, WatchedBy};
#[cfg(not(loom))]
pub use fabric::AttachError;
#[cfg(not(loom))]
pub use handle::{ExportError, Handle};
#[cfg(not(loom))]
pub use host::LocalHost;
#[cfg(not(loom))]
pub use options::{Failed, Hosts, RunBy, RunOptions, StartError};
#[cfg(not(loom))]
pub use queries::{ObjectRead, ObjectReadError, QueryOptions, QueryRunner, QueryTask, ResultSink};
#[cfg(not(loom))]
pub use remote_front::RemoteFront;
#[cfg(not(loom))]
pub use snapshot::{ABSORB_NS, DeviceSnapshot};
#[cfg(not(loom))]
pub use upkeep::UpkeepBy;
#[cfg(not(loom))]
pub use window::{DeviceWindow, WindowError};
