//! A queue whose commands are awaited.

use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slab::Slab;

use crate::backend::{BackendQueue, Failed, Finished, Refused};
use crate::command::{Command, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::future::Execute;

/// A queue whose commands are awaited: a handle, cheap to clone. The queue goes with its last handle and its last future.
#[derive(Debug)]
pub struct AsyncQueue<Q> {
    state: Arc<Mutex<State<Q>>>,
}

impl<Q> Clone for AsyncQueue<Q> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

/// The queue, and the tasks that wait for its commands.
#[derive(Debug)]
pub(super) struct State<Q> {
    queue: Q,
    /// By tag: what has become of each command.
    places: Slab<Place>,
    /// Futures that wait for room, with the numbers that they wait under.
    crowd: VecDeque<(u64, Waker)>,
    next_number: u64,
    /// Commands were submitted since the last turn.
    submitted: bool,
    /// The waker to call for that.
    attendant: Option<Waker>,
}

/// What has become of a command.
#[derive(Debug)]
enum Place {
    /// Under way; this future is woken when it has finished.
    Waiting(Waker),
    Done(Result<Outcome, Failed>),
    /// Under way, without a waiting future.
    Left,
}

impl<Q: BackendQueue> AsyncQueue<Q> {
    /// The commands of `queue` as futures.
    pub fn new(queue: Q) -> Self {
        let state = State {
            queue,
            places: Slab::new(),
            crowd: VecDeque::new(),
            next_number: 0,
            submitted: false,
            attendant: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A future of what comes of a command. It waits for room where the queue is full.
    #[must_use = "a future does nothing until it is polled"]
    pub fn execute(&self, command: Command) -> Execute<Q> {
        Execute::new(self.clone(), command, None)
    }

    /// The same, given up when it has not finished `timeout` after it was submitted ([`BackendQueue::submit_within`]).
    #[must_use = "a future does nothing until it is polled"]
    pub fn execute_within(&self, command: Command, timeout: Duration) -> Execute<Q> {
        Execute::new(self.clone(), command, Some(timeout))
    }

    /// Begins what was submitted and wakes futures whose command has finished; returns how many commands have. Never sleeps.
    ///
    /// # Errors
    /// When the queue itself fails; then every waiting future gets that error.
    pub fn turn(&self) -> Result<usize> {
        let mut wakers = Vec::new();
        let taken = self.lock().take_finished(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        taken
    }

    /// As [`turn`](Self::turn), but waits up to `timeout` for the first command; `None` where nothing is under way.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Result<usize>> {
        let mut wakers = Vec::new();
        let taken = self.lock().wait(timeout, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        taken
    }

    /// A future of commands having been submitted since the last [`turn`](Self::turn): for the task that takes turns.
    #[must_use = "a future does nothing until it is polled"]
    pub fn submitted(&self) -> Submitted<Q> {
        Submitted(self.clone())
    }

    /// A descriptor that can be read when a turn is due, for the runtime to wait on. Times that were given to commands do
    /// not make it readable everywhere: a program that uses them polls the queue at their deadlines.
    ///
    /// # Errors
    /// As [`BackendQueue::event`].
    pub fn event(&self) -> Result<OwnedFd> {
        let mut state = self.lock();
        let event = state.queue.event()?.try_clone_to_owned();
        event.map_err(|cause| Error::kernel("no descriptor for completions", cause))
    }

    /// Commands under way, with those whose future was dropped.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.lock().queue.outstanding()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<Q>> {
        self.state.lock()
    }
}

/// What has become of a command that was to be submitted.
pub(super) enum Begun {
    /// It is under way at this place, with the waker to call for that.
    At(usize, Option<Waker>),
    /// It waits for room under this number.
    Crowded(Command, u64),
    Refused(Refused),
}

impl<Q: BackendQueue> State<Q> {
    /// Submits a command, or has its future wait for room.
    pub(super) fn begin(&mut self, command: Command, within: Option<Duration>, waker: &Waker) -> Begun {
        let tag = self.places.vacant_key() as u64;
        match self.queue.submit_within(command, tag, within) {
            Ok(()) => {
                let place = self.places.insert(Place::Waiting(waker.clone()));
                let attendant = if self.submitted { None } else { self.attendant.take() };
                self.submitted = true;
                Begun::At(place, attendant)
            }
            Err(refused) => self.begin_later(refused, waker),
        }
    }

    /// A full queue has room again when one of its commands has finished.
    fn begin_later(&mut self, refused: Refused, waker: &Waker) -> Begun {
        if refused.error.kind() != ErrorKind::QueueFull || self.queue.outstanding() == 0 {
            return Begun::Refused(refused);
        }
        self.next_number += 1;
        self.crowd.push_back((self.next_number, waker.clone()));
        Begun::Crowded(refused.command, self.next_number)
    }

    /// What has come of the command at a place, which is free then; otherwise `waker` is called when something has.
    pub(super) fn take(&mut self, place: usize, waker: &Waker) -> Option<Result<Outcome, Failed>> {
        if let Place::Waiting(old) = self.places.get_mut(place)? {
            old.clone_from(waker);
            return None;
        }
        match self.places.try_remove(place)? {
            Place::Done(result) => Some(result),
            Place::Waiting(_) | Place::Left => None,
        }
    }

    /// The future of the command at a place was dropped.
    pub(super) fn leave(&mut self, place: usize) {
        match self.places.get_mut(place) {
            Some(state @ Place::Waiting(_)) => {
                *state = Place::Left;
                // A command that cannot be cancelled finishes by itself; either way its memory is its own until then.
                let _ = self.queue.cancel(place as u64);
            }
            _ => drop(self.places.try_remove(place)),
        }
    }

    /// A future that waited for room under this number waits no more: if its turn had come, it is the next one's.
    pub(super) fn leave_crowd(&mut self, number: u64) -> Option<Waker> {
        match self.crowd.iter().position(|(waiting, _)| *waiting == number) {
            Some(index) => {
                self.crowd.remove(index);
                None
            }
            None => self.crowd.pop_front().map(|(_, waker)| waker),
        }
    }

    /// Whether a future that waited for room may try again.
    pub(super) fn may_try(&mut self, number: u64, waker: &Waker) -> bool {
        let waiting = self.crowd.iter_mut().find(|(waiting, _)| *waiting == number);
        waiting.map(|(_, old)| old.clone_from(waker)).is_none()
    }

    fn take_finished(&mut self, wakers: &mut Vec<Waker>) -> Result<usize> {
        let next = self.queue.next_finished();
        self.take_from(next, wakers)
    }

    fn wait(&mut self, timeout: Duration, wakers: &mut Vec<Waker>) -> Option<Result<usize>> {
        if self.queue.outstanding() == 0 {
            return None;
        }
        let first = self.queue.next_within(timeout);
        Some(self.take_from(first, wakers))
    }

    /// Takes this finished command and all that have come behind it.
    fn take_from(&mut self, first: Result<Option<Finished>>, wakers: &mut Vec<Waker>) -> Result<usize> {
        self.submitted = false;
        let (mut next, mut taken) = (first, 0);
        loop {
            match next {
                Ok(Some(finished)) => {
                    taken += 1;
                    wakers.extend(self.finish(finished));
                    wakers.extend(self.crowd.pop_front().map(|(_, waker)| waker));
                    next = self.queue.next_finished();
                }
                Ok(None) => return Ok(taken),
                Err(error) => {
                    self.fail_all(&error, wakers);
                    return Err(error);
                }
            }
        }
    }

    /// Stores a command's result; returns the waker of its task.
    fn finish(&mut self, Finished { tag, result }: Finished) -> Option<Waker> {
        let place = tag as usize;
        let state = self.places.get_mut(place)?;
        match std::mem::replace(state, Place::Done(result)) {
            Place::Waiting(waker) => Some(waker),
            Place::Done(_) | Place::Left => {
                self.places.remove(place);
                None
            }
        }
    }

    /// The queue has failed: nothing more can be said of what is under way. It keeps its memory.
    #[cold]
    fn fail_all(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        for (_, place) in &mut self.places {
            if matches!(place, Place::Waiting(_)) {
                let failed = Failed::from(Error::device(error.kind(), format!("the queue failed: {error}")));
                if let Place::Waiting(waker) = std::mem::replace(place, Place::Done(Err(failed))) {
                    wakers.push(waker);
                }
            }
        }
        wakers.extend(self.crowd.drain(..).map(|(_, waker)| waker));
    }
}

/// A future of commands having been submitted since the last turn.
#[derive(Debug)]
pub struct Submitted<Q>(AsyncQueue<Q>);

impl<Q: BackendQueue> Future for Submitted<Q> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.submitted {
            return Poll::Ready(());
        }
        state.attendant = Some(context.waker().clone());
        Poll::Pending
    }
}
