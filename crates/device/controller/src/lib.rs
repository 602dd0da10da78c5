//! The NVMe controller of a software SSD: subsystem, registers, queues, admin, namespaces, command sets.
//!
//! Sans-I/O: the owner of the device calls [`Controller::run`] with a [`Port`] onto host memory, which returns when it
//! wants to run again. The crate knows no socket, no PCI configuration space, no host API, no thread and no clock.
//!
//! # Not implemented
//!
//! Metadata and protection information, cryptographic erase, zoned namespaces, computational programs,
//! directives, firmware update and self-test: each is refused with the status the specification gives, and Identify and
//! the Commands Supported log say so.

#![forbid(unsafe_code)]

mod admin;
mod capsules;
mod completion;
mod controller;
mod counting;
mod data_pointer;
mod data_use;
mod deferred;
mod delegated;
mod error;
mod exec;
mod external;
mod fast_path;
mod fused;
mod group_commit;
mod id;
mod inline_result;
mod limits;
mod lookup_hints;
mod namespace;
mod opcode;
mod outcome;
mod payload;
mod port;
mod program_runs;
mod query;
mod queue;
mod register;
mod reservation;
mod subsystem;
mod ticket;
mod transfer;

pub use byway_flash::{FinishedSync, PendingSync};
pub use byway_programs::{AllowList, Allowed, NamesNoProgram};
pub use capsules::{ConnectError, Overrun, Posted};
pub use controller::{Controller, Next};
pub use counting::{
    CommandSnapshot, CommandStalls, CommandType, Histogram, QueueKind, QueueOf, StallSnapshot, Tally,
    TallyCounts, UpkeepTimes,
};
pub use data_use::admin_moves_data;
pub use delegated::{DELEGATED_COMMANDS, DelegatedQueue, DelegatedTo, Gathered};
pub use error::CommandError;
pub use fast_path::{FastAnswer, FastCommand, FastPath};
pub use fused::FusedCommand;
pub use id::{ControllerId, QueryId, RunId};
pub use limits::{
    CAPSULE_DATA_BYTES, CAPSULE_QUEUE_ENTRIES, EXEC_MAX_BYTES, MAX_IO_QUEUES, MAX_NAMESPACES,
    MAX_TRANSFER_BYTES,
};
pub use lookup_hints::NamespaceHints;
pub use namespace::engine;
pub use namespace::{BlockEngine, Namespace};
pub use opcode::admin_only_reports;
pub use outcome::{Done, ExternalCommand, ExternalWork, Reply};
pub use port::{CapsuleData, DeviceMemory, Interrupts, NoInterrupts, Port};
pub use program_runs::{ProgramRunner, ProgramsProgress};
pub use query::{
    AtOnce, BlockObjectReader, QueryEngine, QueryFailure, QueryLimits, QueryObject, QueryProgress,
    QueryRequest, QueryState, RangeWatch, ShortQuery, ValueVersion,
};
pub use register::{CmbRegisters, MAX_QUEUE_ENTRIES};
pub use reservation::{Access, Host, PERSISTENT_REGISTRANTS};
pub use subsystem::{
    Health, Identity, MAX_CONTROLLERS, NamespaceSpace, PortId, Subsystem, SubsystemError, SubsystemOptions,
};
