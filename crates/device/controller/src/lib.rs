//! The NVMe controller of a software SSD: subsystem, registers, queues, admin, namespaces, command sets.
//!
//! Sans-I/O: [`Controller::run`] is called by whoever owns the device, with a [`Port`] onto host memory, and says
//! when it wants to run again. It knows no socket, no PCI configuration space, no host API, no thread and no clock.
//!
//! # What it does not implement
//!
//! Metadata and protection information, cryptographic erase, zoned namespaces, computational programs,
//! directives, firmware update and self-test: each is refused with the status the specification gives, and Identify and
//! the Commands Supported log say so.

#![forbid(unsafe_code)]

mod admin;
mod awaited;
mod capsule;
mod completion;
mod controller;
mod counting;
mod data_pointer;
mod elsewhere;
mod error;
mod execute;
mod fused;
mod held;
mod lane;
mod namespace;
mod outlook;
mod payload;
mod port;
mod put_off;
mod queue;
mod register;
mod reservation;
mod run;
mod sanitize;
mod subsystem;
mod transfer;

pub use admin::Health;
pub use byway_flash::{FinishedSync, PendingSync};
pub use capsule::{CAPSULE_DATA_BYTES, CAPSULE_QUEUE_ENTRIES, ConnectError, Overrun, Posted};
pub use controller::{Controller, ControllerId, MAX_TRANSFER_BYTES, Next};
pub use counting::{CommandSnapshot, CommandType, Histogram, QueueKind};
pub use error::CommandError;
pub use fused::FusedCommand;
pub use lane::{Carried, Gathered, LANE_COMMANDS, Lane};
pub use namespace::engine;
pub use namespace::{BlockEngine, Done, Elsewhere, Namespace, Reply};
pub use outlook::Outlooks;
pub use port::{CapsuleData, DeviceMemory, Interrupts, NoInterrupts, Port};
pub use queue::MAX_IO_QUEUES;
pub use register::{CmbRegisters, MAX_QUEUE_ENTRIES};
pub use reservation::{Access, Host, PERSISTENT_REGISTRANTS};
pub use subsystem::{
    Identity, MAX_CONTROLLERS, MAX_NAMESPACES, PortId, Subsystem, SubsystemError, SubsystemOptions,
};
