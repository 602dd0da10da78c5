//! Options of a queue, and their defaults.

use std::time::Duration;

use byway_link::Method;

use super::{AdaptivePolicy, Depth};
use crate::{Error, ErrorKind, Result};

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
    /// Whether short results of gets, lists and queries stand in the completion queue behind their completions, where there is room.
    /// Default: `false`.
    pub inline_reads: bool,
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
            inline_reads: false,
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

    /// Refuses inline reads, for a backend without completion queues of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    pub fn without_inline_reads(&self) -> Result<()> {
        if !self.inline_reads {
            return Ok(());
        }
        let said =
            "inline reads take a completion queue that this library reads itself: embedded, vfio-user or pci";
        Err(Error::host(ErrorKind::Unsupported, said))
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
        /// Whether short results of gets, lists and queries stand in the completion queue behind their completions, where there is room.
        /// Default: `false`. A queue of a device that did not announce inline reads refuses it.
        inline_reads: bool;
        /// Time limit of a command of a synchronous call. Default: 30 s.
        timeout: Duration;
    }
}
