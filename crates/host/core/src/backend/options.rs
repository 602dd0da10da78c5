//! Options of a queue, and their defaults.

use std::time::Duration;

use byway_link::Method;

use super::{AdaptivePolicy, Depth};

/// Options of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueOptions {
    /// Most commands outstanding at once, from 1; the queue says what it has ([`BackendQueue::depth`](super::BackendQueue::depth)).
    /// Default: [`Depth::DEFAULT`].
    pub depth: Depth,
    /// Entries of the submission ring. Default: `None`, by which the backend chooses a ring that holds `depth` commands.
    pub ring_entries: Option<u32>,
    /// How payloads cross the link. Default: [`Method::Prp`].
    pub transfer: Method,
    /// By what [`Method::Adaptive`] chooses. Default: [`AdaptivePolicy::Bytes`].
    pub policy: AdaptivePolicy,
    /// Time limit of a command of a synchronous call. Default: 30 s.
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
        /// Most commands outstanding at once, from 1; a number is honoured or refused ([`Depth::Exactly`]). Default: up to 128.
        depth: impl Into<Depth>;
        /// Entries of the submission ring. Default: `None`, by which the backend chooses a ring that holds `depth` commands.
        ring_entries: impl Into<Option<u32>>;
        /// How payloads cross the link. Default: [`Method::Prp`].
        transfer: Method;
        /// By what [`Method::Adaptive`] chooses. Default: [`AdaptivePolicy::Bytes`].
        policy: AdaptivePolicy;
        /// Time limit of a command of a synchronous call. Default: 30 s.
        timeout: Duration;
    }
}
