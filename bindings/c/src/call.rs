//! Commands that are sent and waited for by one call: without a place, a tag or a completion.

use std::ffi::c_int;
use std::time::Duration;

use byway::{
    BackendQueue, Buffer, Command, Error, ErrorKind, Finished, Nsid, NvmCommand, Payload, Queue, Result,
};

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
        if self.queue.outstanding() > 0 {
            return Err(others_are_outstanding());
        }
        let memory = buffer.take()?;
        let sent = match self.timeout {
            None => self.queue.submit_with(0, || command(memory)),
            Some(timeout) => self.queue.submit_within(command(memory), 0, timeout),
        };
        if let Err(refused) = sent {
            buffer.settle(refused.command.into_buffer());
            return Err(refused.error);
        }
        match self.await_only() {
            // Taken apart where it stands, as completions are.
            Ok(Finished { result: Ok(outcome), .. }) => {
                buffer.settle(outcome.buffer);
                std::mem::forget(outcome.vector);
                Ok(0)
            }
            Ok(Finished { result: Err(failed), .. }) => {
                buffer.settle(failed.buffer);
                Err(self.queue.explained(failed.error))
            }
            Err(error) => {
                buffer.settle(None);
                Err(error)
            }
        }
    }

    /// The one command that is outstanding, once it has finished.
    #[inline(always)]
    fn await_only(&mut self) -> Result<Finished> {
        loop {
            // An interface that can begin and wait by one system call would be entered twice, if it were looked at before.
            if !matches!(self.queue, Queue::Nil(_)) {
                self.queue.sleep(Duration::MAX)?;
            }
            if let Some(finished) = self.queue.next_finished()? {
                return Ok(finished);
            }
        }
    }
}

#[cold]
pub(crate) fn others_are_outstanding() -> Error {
    let said = "commands of this queue are outstanding; a synchronous call needs a queue of its own";
    Error::host(ErrorKind::Busy, said)
}
