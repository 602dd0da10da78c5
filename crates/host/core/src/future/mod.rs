//! Commands as futures, over any queue and under any runtime.
//!
//! An [`AsyncQueue`] is a queue whose commands are awaited; so many of them are in flight as there are futures, on one
//! thread or several. A future submits its command when it is polled first, and a task takes the completions:
//! [`block_on`] and [`block_on_all`] do so themselves and need no runtime; under a runtime a task does by
//! [`AsyncQueue::turn`], whenever the queue's descriptor is readable and whenever commands were submitted.
//!
//! A future that is dropped gives its command up: cancelled where the backend can, forgotten where not. Its memory is freed
//! when the command has finished, never before.

mod block_on;
mod execute;
mod queue;

pub use block_on::{block_on, block_on_all};
pub use execute::Execute;
pub use queue::{AsyncQueue, Submitted};
