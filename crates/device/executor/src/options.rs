//! Options of an executor, and why it cannot be started or used.

use std::any::Any;
use std::num::NonZeroU16;
use std::sync::Arc;

use byway_controller::Interrupts;
use byway_link::ClockMode;
use byway_sys::{Mapping, OwnerProcess};

use crate::engine_events::EngineEvents;
use crate::upkeep::UpkeepBy;

/// Which thread runs the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunBy {
    /// The thread that rings a doorbell or polls.
    #[default]
    Caller,
    /// A thread of the device, which polls while there is work and parks when idle.
    Thread,
}

/// How a device is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOptions {
    /// Which thread runs it.
    pub run_by: RunBy,
    /// How it keeps time.
    pub clock: ClockMode,
    /// Whether transactions are counted.
    pub ledger: bool,
    /// Which threads do upkeep ahead of commands.
    pub upkeep_by: UpkeepBy,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { run_by: RunBy::Caller, clock: ClockMode::Off, ledger: true, upkeep_by: UpkeepBy::default() }
    }
}

impl RunOptions {
    byway_sys::setters! {
        /// Which thread runs it.
        run_by: RunBy;
        /// How it keeps time.
        clock: ClockMode;
        /// Whether transactions are counted.
        ledger: bool;
        /// Which threads do upkeep ahead of commands.
        upkeep_by: UpkeepBy;
    }
}

/// The connection of a device to hosts in other processes.
pub struct Hosts {
    /// Receives the controller's interrupts.
    pub interrupts: Arc<dyn Interrupts + Send + Sync>,
    /// Memory in which hosts write doorbells without a message, polled by [`RemoteFront::poll`](crate::RemoteFront::poll).
    pub doorbells: Option<Arc<Mapping>>,
    /// Threads that share the queues: the message thread, and threads of the device.
    pub threads: NonZeroU16,
    /// Eventfds of the subsystem's external engines.
    pub engines: Option<Arc<EngineEvents>>,
    /// Which threads do upkeep ahead of commands.
    pub upkeep_by: UpkeepBy,
}

/// A value that lives as long as any handle of the device.
pub(crate) type Companion = Arc<dyn Any + Send + Sync>;

/// Why a device could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Virtual time needs the caller to run the device.
    #[error(
        "clock=virtual is deterministic and so needs run=caller and no server: a thread's timing is the scheduler's"
    )]
    VirtualThread,
    /// Several threads for a device that one thread has to serve.
    #[error("under clock=paced and flush=media one thread serves every queue: no more can be asked for")]
    OneThread,
    /// A fabric under a clock that models time.
    #[error("what a network takes is not modelled: clock=off is for devices that are served over one")]
    ModelledFabric,
    /// No memory, or no thread.
    #[error("the device cannot be started: {0}")]
    System(#[from] std::io::Error),
}

/// Why a device cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The device's code panicked. Unfinished work is left as by a death of the process; the next opening recovers the image.
    #[error("the device failed: its code panicked; the image has to be opened anew")]
    Panicked,
    /// A forked child used its parent's device.
    #[error("{}", OwnerProcess::refusal("the device", *process))]
    Child {
        /// The process that opened it.
        process: u32,
    },
}
