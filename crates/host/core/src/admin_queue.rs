//! Admin commands that go on while the program does something else: the boundary, as for I/O queues.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::admin::{AdminCommand, RefusedAdmin};
use crate::backend::Finished;
use crate::error::Result;

/// Admin commands on their way. An implementer gives each command's buffer back with its completion where the backend
/// does, finishes each exactly once, and frees no memory that a device may still write.
pub trait AdminQueue: Send {
    /// Takes a command. Its completion carries `tag`.
    ///
    /// # Errors
    /// The command is given back when as many are on their way as can be, or the backend does not send it.
    fn submit(&mut self, command: AdminCommand, tag: u64) -> Result<(), RefusedAdmin>;

    /// The next finished command, if there is one; never sleeps.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn next_finished(&mut self) -> Result<Option<Finished>>;

    /// Waits until a finished command can be taken, at most `timeout`; says whether one can be.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn sleep(&mut self, timeout: Duration) -> Result<bool>;

    /// A descriptor that can be read when finished commands may be there to be taken. The event loop takes until there
    /// are none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] where there is none, or the system's answer.
    fn event(&mut self) -> Result<BorrowedFd<'_>>;

    /// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
    ///
    /// # Errors
    /// When no such command is on its way, or it can no longer be cancelled.
    fn cancel(&mut self, tag: u64) -> Result<()>;

    /// Commands submitted whose completion was not taken yet.
    fn outstanding(&self) -> u32;

    /// Hands finished commands to `on` until none is outstanding; returns how many.
    ///
    /// # Errors
    /// When the queue itself fails.
    fn drain(&mut self, on: &mut impl FnMut(Finished)) -> Result<usize>
    where
        Self: Sized,
    {
        let mut taken = 0;
        while self.outstanding() > 0 {
            while let Some(finished) = self.next_finished()? {
                on(finished);
                taken += 1;
            }
            if self.outstanding() > 0 {
                self.sleep(Duration::from_secs(1))?;
            }
        }
        Ok(taken)
    }
}

/// For programs that choose a queue's type as they run.
impl<Q: AdminQueue + ?Sized> AdminQueue for Box<Q> {
    fn submit(&mut self, command: AdminCommand, tag: u64) -> Result<(), RefusedAdmin> {
        (**self).submit(command, tag)
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        (**self).next_finished()
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        (**self).sleep(timeout)
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        (**self).event()
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        (**self).cancel(tag)
    }

    fn outstanding(&self) -> u32 {
        (**self).outstanding()
    }
}
