//! Admin commands for the admin thread, and the receivers of their results.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use byway_core::{Failed, Outcome, Payload, Result};

use super::registration::Registration;
use crate::abort::Abort;
use crate::connection::Order;

/// The receiver of an admin command's result.
pub(crate) enum Reply {
    /// A caller.
    Call(mpsc::SyncSender<Result<Outcome, Failed>>),
    /// A queue that had a command aborted: it looks whether that was answered.
    Abort(Arc<Abort>, Arc<Registration>),
    /// The admin thread: a Keep Alive.
    KeepAlive,
    /// The admin thread: an asynchronous event.
    Event,
    /// The admin thread: the ANA log page.
    States,
}

impl Reply {
    /// Hands the result to its receiver.
    pub fn give(self, result: Result<Outcome, Failed>) {
        match self {
            // The caller may have stopped waiting.
            Self::Call(caller) => drop(caller.try_send(result)),
            Self::Abort(abort, registration) => {
                abort.end();
                registration.wakeup().raise();
            }
            Self::KeepAlive | Self::Event | Self::States => {}
        }
    }
}

/// An admin command for the admin thread.
pub(crate) struct Request {
    pub order: Order,
    pub payload: Payload,
    /// When it must have been answered; an event may take for ever.
    pub until: Option<Instant>,
    pub reply: Reply,
}
