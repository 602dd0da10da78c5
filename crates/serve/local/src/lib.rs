//! A device in this process as a bus of the host driver: registers, doorbells and memory without a message or a thread hop.
//!
//! The device and its threads are [`byway_executor`]'s. Knows no command set: it carries registers, doorbells and memory.

#![forbid(unsafe_code)]

mod bus;
mod window;

pub use bus::InProcessBus;
pub use window::Window;

pub use byway_executor::{
    AtOnce, DeviceSnapshot, Embedded, EngineEvents, ExportError, Failed, Handle, Hosts, ObjectRead,
    ObjectReadError, QueryFailure, QueryOptions, QueryRunner, QueryTask, RunBy, RunOptions, ShortQuery,
    StartError, UpkeepBy, WatchedBy,
};
