//! Admin commands of any backend, done by a thread of their own, one after the other.
//!
//! For backends that wait for an admin command ([`Backend::admin`]); a device of the driver's has rings for several at once.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use byway_core::{
    AdminCommand, AdminQueue, Backend, Error, ErrorKind, Failed, Finished, RefusedAdmin, Result, check_owner,
};
use byway_sys::{OwnerProcess, Wakeup};
use parking_lot::{Condvar, Mutex};

/// Most commands outstanding at once.
const DEPTH: u32 = 64;

/// Admin commands of a backend on their way. Dropping it waits for the command that is being done.
pub struct AdminCalls {
    owner: OwnerProcess,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State that the admin thread and submitters share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do.
    queued: Condvar,
    /// Something has finished.
    wakeup: Wakeup,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(AdminCommand, u64)>,
    /// The command that is being done.
    under_way: Option<u64>,
    finished: VecDeque<Finished>,
    is_over: bool,
}

impl AdminCalls {
    /// Admin commands of `backend`, done by a thread of their own.
    ///
    /// # Errors
    /// When the system gives no thread or no descriptor.
    pub fn new<B: Backend + 'static>(backend: B) -> Result<Self> {
        let no_thread = |cause| Error::kernel("no thread for admin commands", cause);
        let wakeup = Wakeup::new().map_err(no_thread)?;
        let shared = Arc::new(Shared { state: Mutex::default(), queued: Condvar::new(), wakeup });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("byway-admin".into());
        let thread = thread.spawn(move || theirs.serve(&backend)).map_err(no_thread)?;
        Ok(Self { owner: OwnerProcess::current(), shared, thread: Some(thread) })
    }
}

impl Shared {
    fn serve<B: Backend>(&self, backend: &B) {
        while let Some((command, tag)) = self.next() {
            let result = backend.admin(command).map_err(Failed::from);
            let mut state = self.state.lock();
            state.under_way = None;
            state.finished.push_back(Finished { tag, result });
            self.wakeup.raise();
        }
    }

    /// The next command, once there is one; `None` when all is over.
    fn next(&self) -> Option<(AdminCommand, u64)> {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some((command, tag)) = state.waiting.pop_front() {
                state.under_way = Some(tag);
                return Some((command, tag));
            }
            self.queued.wait(&mut state);
        }
    }
}

impl State {
    fn outstanding(&self) -> u32 {
        (self.waiting.len() + self.finished.len()) as u32 + u32::from(self.under_way.is_some())
    }
}

impl AdminQueue for AdminCalls {
    fn submit(&mut self, command: AdminCommand, tag: u64) -> Result<(), RefusedAdmin> {
        if let Err(error) = check_owner(&self.owner) {
            return Err(RefusedAdmin { command, error });
        }
        let mut state = self.shared.state.lock();
        if state.outstanding() >= DEPTH {
            let said = format!("{DEPTH} admin commands are outstanding, as many as can be");
            return Err(RefusedAdmin { command, error: Error::host(ErrorKind::QueueFull, said) });
        }
        state.waiting.push_back((command, tag));
        self.shared.queued.notify_one();
        Ok(())
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        check_owner(&self.owner)?;
        let mut state = self.shared.state.lock();
        let first = state.finished.pop_front();
        if first.is_none() {
            self.shared.wakeup.lower();
        }
        Ok(first)
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        check_owner(&self.owner)?;
        let state = self.shared.state.lock();
        if !state.finished.is_empty() || state.outstanding() == 0 {
            return Ok(!state.finished.is_empty());
        }
        drop(state);
        let slept = self.shared.wakeup.wait(timeout);
        slept.map_err(|cause| Error::kernel("no waiting for admin commands", cause))?;
        Ok(!self.shared.state.lock().finished.is_empty())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        check_owner(&self.owner)?;
        Ok(self.shared.wakeup.as_fd())
    }

    /// A command that was begun is done to its end.
    fn cancel(&mut self, tag: u64) -> Result<()> {
        check_owner(&self.owner)?;
        let mut state = self.shared.state.lock();
        if state.under_way == Some(tag) {
            let said = format!("the admin command with tag {tag} is being done and cannot be given up");
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        let Some(index) = state.waiting.iter().position(|(_, waiting)| *waiting == tag) else {
            let said = format!("no admin command with tag {tag} is under way");
            return Err(Error::host(ErrorKind::NotFound, said));
        };
        if let Some((command, tag)) = state.waiting.remove(index) {
            let error = Error::host(ErrorKind::Cancelled, "given up before it was begun");
            let failed = Failed { buffer: command.into_buffer(), ..Failed::from(error) };
            state.finished.push_back(Finished { tag, result: Err(failed) });
            self.shared.wakeup.raise();
        }
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        // A lock that another thread held at a fork stays locked in the child.
        if !self.owner.is_current() {
            return 0;
        }
        self.shared.state.lock().outstanding()
    }
}

impl Drop for AdminCalls {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return std::mem::forget(self.thread.take());
        }
        self.shared.state.lock().is_over = true;
        self.shared.queued.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the backend's has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for AdminCalls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AdminCalls").field("shared", &self.shared).finish_non_exhaustive()
    }
}
