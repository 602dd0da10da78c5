//! Options of a queue.

use std::time::Duration;

use byway_link::Method;

use super::{AdaptivePolicy, Depth};

/// How a queue shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueOptions {
    /// Most commands outstanding at once; the queue says what it has ([`BackendQueue::depth`]).
    pub depth: Depth,
    /// Entries of the submission ring; `None` lets the backend choose one that holds `depth` commands.
    pub ring_entries: Option<u32>,
    /// How payloads cross the link.
    pub transfer: Method,
    /// By what `adaptive` chooses.
    pub policy: AdaptivePolicy,
    /// After how long a synchronous call gives a command up.
    pub timeout: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            depth: Depth::DEFAULT,
            ring_entries: None,
            transfer: Method::Prp,
            policy: AdaptivePolicy::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

impl QueueOptions {
    /// The options for a device whose queues hold `most` commands.
    #[must_use]
    pub fn capped(self, most: u32) -> Self {
        Self { depth: self.depth.capped(most), ..self }
    }

    byway_sys::setters! {
        /// Most commands outstanding at once. A number is honoured or refused ([`Depth::Exactly`]).
        depth: impl Into<Depth>;
        /// Entries of the submission ring; `None` lets the backend choose.
        ring_entries: impl Into<Option<u32>>;
        /// How payloads cross the link.
        transfer: Method;
        /// By what `adaptive` chooses.
        policy: AdaptivePolicy;
        /// After how long a synchronous call gives a command up.
        timeout: Duration;
    }
}
