//! Commands that are sent and waited for by one call: without a place, a tag or a completion.

use std::ffi::c_int;

use byway::{BackendQueue, Buffer, Command, Nsid, NvmCommand, Payload, Result};

use crate::arg::handle;
use crate::buffer::byway_buffer;
use crate::error::border;
use crate::queue::byway_queue;

/// Reads `blocks` blocks from `slba` on into the buffer, whose length is that of the blocks, and waits for it: as long as it
/// takes, or as byway_queue_set_timeout() says. Refused while other commands of the queue are outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_read_wait(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    into: *mut byway_buffer,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, buffer) = unsafe { (handle(queue, "queue")?, handle(into, "buffer")?) };
        let nsid = Nsid::new(nsid)?;
        queue.call(buffer, |into| Command::Nvm(NvmCommand::Read { nsid, slba, blocks, into }))
    })
}

/// Writes `blocks` blocks from the buffer at `slba`, and waits for it, as byway_queue_read_wait().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_write_wait(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    from: *mut byway_buffer,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, buffer) = unsafe { (handle(queue, "queue")?, handle(from, "buffer")?) };
        let nsid = Nsid::new(nsid)?;
        queue.call(buffer, |from| {
            Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(from) })
        })
    })
}

impl byway_queue {
    /// Sends a command with the buffer's memory and waits for it.
    #[inline(always)]
    fn call(&mut self, buffer: &mut byway_buffer, command: impl FnOnce(Buffer) -> Command) -> Result<c_int> {
        let memory = buffer.take()?;
        let done = match self.timeout {
            None => self.queue.alone_with(|| command(memory)),
            limit => self.queue.alone_within(command(memory), limit),
        };
        match done {
            // Destructured in place, as completions are: a move costs more.
            Ok(outcome) => {
                buffer.settle(outcome.buffer);
                std::mem::forget(outcome.vector);
                Ok(0)
            }
            Err(failed) => {
                buffer.settle(failed.buffer);
                Err(self.queue.explained(failed.error))
            }
        }
    }
}
