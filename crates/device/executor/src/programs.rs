//! The thread of a device that advances programs which do not end at once. It begins with the first of them, and ends with the device.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

use byway_controller::ProgramRunner;
use byway_sys::OwnerProcess;
use byway_sys::time::monotonic_ns;
use parking_lot::Mutex;
use tracing::warn;

use crate::executor::Executor;
use crate::threads::DeviceThread;

/// The thread, or none yet.
#[derive(Debug)]
pub(crate) struct ProgramThread {
    owner: OwnerProcess,
    executor: Weak<Executor>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    NotStarted,
    Started {
        /// Dropping it stops and joins the thread.
        _thread: DeviceThread,
    },
    Stopped,
}

impl ProgramThread {
    /// No thread yet.
    pub fn new(executor: &Arc<Executor>) -> Self {
        Self {
            owner: OwnerProcess::current(),
            executor: Arc::downgrade(executor),
            state: Mutex::new(State::NotStarted),
        }
    }

    /// Stops the thread and waits for it. No program is advanced from here on. A forked child has no thread, and a lock that its parent
    /// may have held at the fork.
    pub fn stop(&self) {
        if !self.owner.is_current() {
            return;
        }
        let state = std::mem::replace(&mut *self.state.lock(), State::Stopped);
        // Joined without the mutex, which the thread may want.
        drop(state);
    }

    /// Starts the thread if there is none. Whether there is one.
    fn start(&self, executor: &Arc<Executor>) -> bool {
        let mut state = self.state.lock();
        if let State::NotStarted = *state {
            match spawn(executor) {
                Ok(thread) => *state = State::Started { _thread: thread },
                Err(error) => warn!(%error, "no thread for programs"),
            }
        }
        matches!(*state, State::Started { .. })
    }
}

fn spawn(executor: &Arc<Executor>) -> std::io::Result<DeviceThread> {
    DeviceThread::spawn("byway-programs", executor, |executor, stop| {
        executor.run_programs(|| stop.load(SeqCst));
        executor.programs().park(|| stop.load(SeqCst));
    })
}

/// The thread as the controller's runner of programs.
#[derive(Debug)]
pub(crate) struct ThreadRunner(pub Arc<ProgramThread>);

impl ProgramRunner for ThreadRunner {
    fn wake(&self) -> bool {
        let Some(executor) = self.0.executor.upgrade() else { return false };
        let is_started = self.0.start(&executor);
        executor.programs().set_due(is_started);
        is_started
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
}
