//! Admin commands that go on by themselves.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway::spec::Command as Entry;
use byway::{AdminCommand, Answer, Buffer, Error, ErrorKind, Finished};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::admin::{Receives, data_of};
use crate::command_queue::{Done, Flight};
use crate::completion::Completion;
use crate::errors::Fault;
use crate::held::{Held, Part, without_gil};
use crate::interruptible::TURN;
use crate::memory::Keep;
use crate::queue::seconds;
use crate::turnstile::Turnstile;

/// Admin commands that go on by themselves: a context manager that ends it.
///
/// What a command sends is copied, and what it receives is bytes, or copied to memory that was given for it when its completion
/// is taken. What is on its way when the queue ends goes on in the
/// device, and its completion is dropped.
#[pyclass(frozen, module = "byway")]
pub struct AdminQueue {
    calls: Arc<AdminCalls>,
}

struct AdminCalls {
    state: Turnstile<Option<QueueState>>,
    held: Arc<Held>,
}

/// The queue itself, for one thread at a time.
struct QueueState {
    queue: Box<dyn byway::AdminQueue>,
    /// Commands on their way, by the number that the queue knows.
    sent: BTreeMap<u64, Sent>,
    number: u64,
    next_tag: u64,
    done: VecDeque<Taken>,
}

/// What is kept of a command.
struct Sent {
    tag: u64,
    receives: Receives,
    /// What it sends or receives into, as the program knows it.
    memory: Option<Py<PyAny>>,
}

/// A command that has finished.
struct Taken {
    sent: Sent,
    result: byway::Result<Answer>,
    received: Option<Buffer>,
}

impl AdminQueue {
    /// The way for admin commands of `held`.
    pub fn open(held: &Arc<Held>) -> Result<Self, Fault> {
        let queue = held.look(byway::Device::admin_queue)?;
        let state =
            QueueState { queue, sent: BTreeMap::new(), number: 0, next_tag: 0, done: VecDeque::new() };
        let calls = Arc::new(AdminCalls { state: Turnstile::new(Some(state)), held: Arc::clone(held) });
        held.adopt(&calls);
        Ok(Self { calls })
    }

    /// Takes a turn with the GIL released.
    fn turn<R: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut QueueState) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.calls.held.check_owner()?;
        let state = &self.calls.state;
        Ok(py.detach(|| what(state.enter().as_mut().ok_or(Fault::Closed("admin queue"))?))?)
    }

    fn take(&self, py: Python<'_>) -> PyResult<Vec<Completion>> {
        let taken = self.turn(py, |state| {
            state.take_all()?;
            Ok(std::mem::take(&mut state.done))
        })?;
        taken.into_iter().map(|taken| completion(py, taken)).collect()
    }
}

fn completion(py: Python<'_>, taken: Taken) -> PyResult<Completion> {
    let Taken { sent, result, received } = taken;
    let bytes = received.and_then(|received| sent.receives.take(py, &received));
    let memory = bytes.map(|bytes| bytes.into_any().unbind()).or(sent.memory);
    let done = Done { tag: sent.tag, flight: Flight { memory, ..Flight::of(Keep::Nothing) }, result };
    Completion::of(py, done).map(|(completion, _)| completion)
}

#[pymethods]
impl AdminQueue {
    /// Sends an admin command: the dwords of its entry, and bytes to send, or a number of bytes or memory to receive; memory is
    /// one piece or a list of several. Returns its tag, the given one or the next number.
    #[pyo3(signature = (
        opcode, *, nsid=0, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0, cdw15=0, data=None, into=None, tag=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the fields of an entry")]
    fn submit(
        &self,
        py: Python<'_>,
        opcode: u8,
        nsid: u32,
        cdw10: u32,
        cdw11: u32,
        cdw12: u32,
        cdw13: u32,
        cdw14: u32,
        cdw15: u32,
        data: Option<&Bound<'_, PyAny>>,
        into: Option<&Bound<'_, PyAny>>,
        tag: Option<u64>,
    ) -> PyResult<u64> {
        let entry = Entry { cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..Entry::new(opcode, 0, nsid) };
        let (load, receives) = data_of(py, &self.calls.held, data, into)?;
        let memory = match receives {
            Receives::Bytes => None,
            Receives::Nothing | Receives::Memory(_) => data.or(into).map(|memory| memory.clone().unbind()),
        };
        self.turn(py, |state| state.submit(AdminCommand::raw(entry, load), tag, receives, memory))
    }

    /// Completions that are there; never sleeps. `data` of one is what it received.
    fn poll(&self, py: Python<'_>) -> PyResult<Vec<Completion>> {
        self.take(py)
    }

    /// Waits until `min` commands have finished, or none is under way, or `timeout` seconds are over; gives what has finished.
    #[pyo3(signature = (min=1, timeout=None))]
    fn wait(&self, py: Python<'_>, min: usize, timeout: Option<f64>) -> PyResult<Vec<Completion>> {
        let until = seconds(timeout)?.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = until.map_or(TURN, |until| until.saturating_duration_since(Instant::now()));
            if self.turn(py, |state| state.wait_for_some(min, left.min(TURN)))? || left.is_zero() {
                return self.take(py);
            }
            py.check_signals()?;
        }
    }

    /// Waits until none is under way; gives what has finished.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Completion>> {
        self.wait(py, usize::MAX, None)
    }

    /// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
    fn cancel(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        self.turn(py, |state| state.cancel(tag))
    }

    /// A descriptor that can be read when completions may be there. When it is readable, poll until there are none.
    /// It stays the queue's.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.turn(py, |state| Ok(state.queue.event()?.as_raw_fd()))
    }

    /// Commands submitted whose completion was not taken yet.
    #[getter]
    fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        self.turn(py, |state| Ok(state.sent.len() + state.done.len()))
    }

    /// Whether it was closed, or its device.
    #[getter]
    fn closed(&self) -> bool {
        self.calls.held.is_here() && without_gil(|| self.calls.state.enter().is_none())
    }

    /// Ends it: what is under way goes on in the device, and its completion is dropped.
    fn close(&self, py: Python<'_>) {
        if self.calls.held.is_here() {
            py.detach(|| self.calls.close());
        }
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> &'static str {
        if self.closed() { "<byway.AdminQueue, closed>" } else { "<byway.AdminQueue>" }
    }
}

impl Part for AdminCalls {
    fn close(&self) {
        drop(self.state.enter().take());
    }
}

impl Drop for AdminCalls {
    fn drop(&mut self) {
        if !self.held.is_here() {
            return;
        }
        without_gil(|| self.close());
    }
}

impl QueueState {
    fn submit(
        &mut self,
        command: AdminCommand,
        tag: Option<u64>,
        receives: Receives,
        memory: Option<Py<PyAny>>,
    ) -> Result<u64, Fault> {
        self.number += 1;
        self.queue.submit(command, self.number).map_err(|refused| refused.error)?;
        let given = tag.unwrap_or(self.next_tag);
        self.next_tag += u64::from(tag.is_none());
        self.sent.insert(self.number, Sent { tag: given, receives, memory });
        Ok(given)
    }

    fn cancel(&mut self, tag: u64) -> Result<(), Fault> {
        let number = self.sent.iter().find(|(_, sent)| sent.tag == tag).map(|(number, _)| *number);
        let none = || Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is on its way"));
        Ok(self.queue.cancel(number.ok_or_else(none)?)?)
    }

    /// Takes every completion that there is.
    fn take_all(&mut self) -> Result<(), Fault> {
        while let Some(Finished { tag, result }) = self.queue.next_finished()? {
            let Some(sent) = self.sent.remove(&tag) else { continue };
            let (result, received) = match result {
                Ok(outcome) => (Ok(outcome.answer), outcome.buffer),
                Err(failed) => (Err(failed.error), None),
            };
            self.done.push_back(Taken { sent, result, received });
        }
        Ok(())
    }

    /// Sleeps for at most this long until there are as many completions, or none is on its way; whether that is so.
    fn wait_for_some(&mut self, min: usize, at_most: Duration) -> Result<bool, Fault> {
        let until = Instant::now() + at_most;
        loop {
            self.take_all()?;
            if self.done.len() >= min || self.sent.is_empty() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.queue.sleep(left)?;
        }
    }
}
