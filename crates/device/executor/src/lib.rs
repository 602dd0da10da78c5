//! The executor of a device: which thread runs the controller, when, and what waits.
//!
//! The controller is a state machine without threads. This crate guards it with the run lock and gives it to three kinds of front:
//! [`LocalHost`] (a driver in this process), [`RemoteFront`] (vfio-user) and [`Capsules`] (fabrics).

#![deny(unsafe_code)]

mod capsule_queue;
mod capsules;
mod clock;
mod core;
mod delegated;
mod device;
mod engine_events;
mod executor;
mod fabric;
mod group_commit;
mod guarded;
mod handle;
mod host;
mod interrupts;
mod options;
mod owner;
mod parker;
mod programs;
mod queries;
mod queue_threads;
mod remote;
mod remote_front;
mod serving_threads;
mod snapshot;
mod threads;
mod upkeep;
mod window;
mod windows;

pub use byway_controller::{AtOnce, FastAnswer, FastCommand, QueryFailure, ShortQuery};
pub use capsule_queue::{CapsuleQueue, ServingThread};
pub use capsules::{CapsuleDevice, Capsules};
pub use device::Embedded;
pub use engine_events::{EngineEvents, WatchedBy};
pub use fabric::AttachError;
pub use handle::{ExportError, Handle};
pub use host::LocalHost;
pub use options::{Failed, Hosts, RunBy, RunOptions, StartError};
pub use queries::{ObjectRead, ObjectReadError, QueryOptions, QueryRunner, QueryTask, ResultSink};
pub use remote_front::RemoteFront;
pub use snapshot::{ABSORB_NS, DeviceSnapshot};
pub use upkeep::UpkeepBy;
pub use window::{DeviceWindow, WindowError};
