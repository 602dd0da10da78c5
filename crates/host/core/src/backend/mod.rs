//! The boundary between programs and the interfaces by which commands reach a device.
//!
//! **What an implementer must do.** Take a command by value and give its buffer back with its completion, success or
//! not, exactly once. Never free memory that the kernel or a device may still write: a queue that is dropped with
//! commands outstanding waits for them, or leaves their memory allocated for ever. Allocate nothing between `submit`
//! and the completion's delivery. Refuse what it cannot honour at once, with a sentence that says what and why. Spin a little, then
//! sleep: an idle queue burns no core.
//!
//! **What it may rely on.** A queue is used by one thread at a time (`&mut self`), so it needs no locks. Tags are the
//! caller's and mean nothing to it; it does not check that they differ. No other code touches a buffer's memory while a
//! command holds it.
//!
//! **When a command begins.** At the latest with the queue's next [`start`](BackendQueue::start), or the next `next_finished`
//! or `next_within` that has nothing to give: a backend may put commands together until then, so that one system call or
//! doorbell carries many.
//!
//! A user of a backend may submit from wherever a completion is delivered by [`BackendQueue::next_finished`], at full
//! depth: the completion's place is free before it is delivered. This holds for every backend.

mod depth;
mod finished;
mod options;
mod policy;
mod queue;
mod refused;

use crate::admin::AdminCommand;
use crate::buffer::Buffer;
use crate::capability::Capabilities;
use crate::command::Outcome;
use crate::error::Result;
use crate::identity::{Identity, Namespace};
use crate::prepared::Unprepared;

pub use depth::Depth;
pub use finished::{Failed, Finished};
pub use options::QueueOptions;
pub use policy::AdaptivePolicy;
pub use queue::{BackendQueue, others_are_outstanding};
pub use refused::Refused;

/// One interface to one open device.
pub trait Backend: Send + Sync {
    /// Its queues.
    type Queue: BackendQueue;

    /// The word for it in URIs and reports: `io_uring`, `psync`, `embedded`.
    fn name(&self) -> &'static str;

    /// Identity of the device.
    fn identity(&self) -> &Identity;

    /// What can be done over this backend.
    fn capabilities(&self) -> &Capabilities;

    /// The namespaces that are attached, asked anew.
    ///
    /// # Errors
    /// When the device does not answer, or not by the specification.
    fn namespaces(&self) -> Result<Vec<Namespace>>;

    /// A buffer of `len` bytes in memory that the backend need not prepare again for each command. What it holds is left
    /// from its last use by this program, or zeroes.
    /// Any other [`Buffer`] is taken as well, at a cost.
    ///
    /// # Errors
    /// When there is no memory, or the device cannot be given access to it.
    fn buffer(&self, len: usize) -> Result<Buffer>;

    /// Prepares memory that a program brought as that of [`Backend::buffer`] is, until the buffer and all that were cut from
    /// it are gone: mapped for the device, or known to the kernel. Commands over a backend that has no use for it are as
    /// quick without.
    ///
    /// # Errors
    /// For memory that does not begin and end at a page, or that the device cannot be given.
    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        Ok(brought)
    }

    /// Opens a queue.
    ///
    /// # Errors
    /// When an option cannot be honoured, or the device has no queue left.
    fn queue(&self, options: QueueOptions) -> Result<Self::Queue>;

    /// Sends an admin command and waits for it.
    ///
    /// # Errors
    /// When the device refuses it or does not answer.
    fn admin(&self, command: AdminCommand) -> Result<Outcome>;
}
