//! The descriptor that a program waits by: a queue's interrupt, and the next time by which a command is to be done.

use std::sync::Arc;

use byway_core::{Error, Result};
use byway_sys::Alarm;

use crate::bus::{Bus, Event};
use crate::queue_pair::Queue;

/// The descriptor that a program waits by.
pub(crate) struct Listening {
    pub alarm: Alarm,
    /// Kept for as long as it is listened to.
    _event: Arc<dyn Event>,
}

impl Listening {
    /// That of an interrupt's event.
    pub(crate) fn to(event: Arc<dyn Event>) -> Result<Self> {
        let alarm = Alarm::beside(event.as_fd());
        let alarm = alarm.map_err(|cause| Error::kernel("no descriptor for completions", cause))?;
        Ok(Self { alarm, _event: event })
    }
}

impl<B: Bus> Queue<B> {
    /// The descriptor becomes readable at a command's deadline.
    pub(crate) fn set_alarm(&self) {
        if let Some(event) = &self.event {
            event.alarm.set(self.left());
        }
    }
}
