//! A queue: many commands at once, each with a tag or a callback.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::command::{Command, Ready, Spaces};
use crate::command_queue::{CommandQueue, Done};
use crate::completion::Completion;
use crate::errors::{Fault, invalid};
use crate::held::{Held, Part};

/// A queue of a device: a context manager that waits for what is under way, and ends it.
///
/// Any thread may use it. Completions go to the first thread that polls or waits, except those of commands with a callback: that
/// thread calls it with the completion, and it may submit again.
#[pyclass(frozen, module = "byway")]
pub struct Queue {
    queue: Arc<CommandQueue>,
    spaces: Spaces,
}

impl Queue {
    /// A queue of `held`.
    pub fn open(
        held: &Arc<Held>,
        depth: Option<u32>,
        transfer: Option<byway::Method>,
    ) -> Result<Self, Fault> {
        let spaces = Spaces::of(held)?;
        let queue = CommandQueue::open(held, |plain| {
            plain
                .depth(depth.map_or(plain.depth, byway::Depth::from))
                .transfer(transfer.unwrap_or(plain.transfer))
        })?;
        Ok(Self { queue, spaces })
    }

    fn ready(
        &self,
        py: Python<'_>,
        command: &Command,
        tag: Option<u64>,
        callback: Option<&Py<PyAny>>,
    ) -> PyResult<Ready> {
        let (command, mut flight) = command.ready(py, &self.queue, &self.spaces)?;
        flight.tag = tag;
        flight.callback = callback.map(|callback| callback.clone_ref(py));
        Ok((command, flight))
    }

    /// Calls the callbacks, then gives the other completions. If a callback raises, nothing else is lost.
    fn deliver(&self, py: Python<'_>, done: VecDeque<Done>) -> PyResult<Vec<Completion>> {
        let (mut called, plain): (VecDeque<Done>, VecDeque<Done>) =
            done.into_iter().partition(|done| done.flight.callback.is_some());
        while let Some(done) = called.pop_front() {
            let (completion, callback) = Completion::of(py, done)?;
            let answered = callback.map_or(Ok(py.None()), |callback| callback.call1(py, (completion,)));
            if let Err(error) = answered {
                called.extend(plain);
                self.queue.put_back(py, called)?;
                return Err(error);
            }
        }
        plain.into_iter().map(|done| Completion::of(py, done).map(|(completion, _)| completion)).collect()
    }
}

#[pymethods]
impl Queue {
    /// Sends a command; returns its tag, the given one or the next number. It begins at the latest when completions are asked
    /// for. With a `timeout`, in seconds, it is given up after that: it finishes with TimedOutError.
    #[pyo3(signature = (command, *, tag=None, callback=None, timeout=None))]
    fn submit(
        &self,
        py: Python<'_>,
        command: &Command,
        tag: Option<u64>,
        callback: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let timeout = seconds(timeout)?;
        let (command, flight) = self.ready(py, command, tag, callback.as_ref())?;
        self.queue.submit(py, command, flight, timeout)
    }

    /// Sends commands together, under one doorbell where there are doorbells: all of them, or, where the queue has no room for
    /// all, none. Returns their tags.
    #[pyo3(signature = (commands, *, callback=None, timeout=None))]
    fn submit_all(
        &self,
        py: Python<'_>,
        commands: &Bound<'_, PyAny>,
        callback: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<u64>> {
        let timeout = seconds(timeout)?;
        let mut ready = Vec::new();
        for command in commands.try_iter()? {
            let command = command.and_then(|command| Ok(command.cast_into::<Command>()?));
            match command.and_then(|command| self.ready(py, command.get(), None, callback.as_ref())) {
                Ok(command) => ready.push(command),
                Err(error) => {
                    ready.into_iter().for_each(go_back);
                    return Err(error);
                }
            }
        }
        self.queue.submit_all(py, ready, timeout)
    }

    /// Begins every command that was submitted, for a program that will not look at the queue soon.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.queue.start(py)
    }

    /// Completions that are there, at most `max`; never sleeps.
    #[pyo3(signature = (max=None))]
    fn poll(&self, py: Python<'_>, max: Option<usize>) -> PyResult<Vec<Completion>> {
        let done = self.queue.poll(py, max.unwrap_or(usize::MAX))?;
        self.deliver(py, done)
    }

    /// Waits until `min` commands have finished, or none is under way, or `timeout` seconds are over; gives what has finished.
    #[pyo3(signature = (min=1, timeout=None))]
    fn wait(&self, py: Python<'_>, min: usize, timeout: Option<f64>) -> PyResult<Vec<Completion>> {
        let done = self.queue.wait(py, min, seconds(timeout)?)?;
        self.deliver(py, done)
    }

    /// Waits until none is under way, also of those that callbacks submit; gives what has finished.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Completion>> {
        let mut all = Vec::new();
        while self.queue.outstanding(py)? > 0 {
            all.extend(self.wait(py, usize::MAX, None)?);
        }
        Ok(all)
    }

    /// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
    fn cancel(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        self.queue.cancel(py, tag)
    }

    /// A descriptor that can be read when completions may be there. When it is readable, poll until there are none.
    /// It stays the queue's.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.queue.event(py)
    }

    /// Commands submitted whose completion was not taken yet.
    #[getter]
    fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        self.queue.outstanding(py)
    }

    /// Most commands under way at once.
    #[getter]
    fn depth(&self) -> u32 {
        self.queue.depth()
    }

    /// Whether it was closed, or its device.
    #[getter]
    fn closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Ends it once what is under way has finished; completions that the program did not take are dropped.
    fn close(&self, py: Python<'_>) {
        if self.queue.held.is_here() {
            py.detach(|| self.queue.close());
        }
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<byway.Queue of depth {}{closed}>", self.depth())
    }
}

/// Puts the memory of a command back that is not sent.
fn go_back((command, flight): Ready) {
    let (buffer, parts) = command.into_payload().into_buffers();
    flight.keep.take_back(buffer, parts);
}

/// A time that a program gives in seconds.
pub fn seconds(given: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = |seconds| invalid(format!("{seconds} is no time in seconds"));
    // What is longer than can be said is for ever.
    let given = given.filter(|seconds| *seconds != f64::INFINITY);
    given.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| wrong(seconds))).transpose()
}
