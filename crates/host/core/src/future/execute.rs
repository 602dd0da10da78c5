//! The future of one command.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::backend::{BackendQueue, Failed};
use crate::command::{Command, Outcome};
use crate::future::AsyncQueue;
use crate::future::queue::Begun;

/// A future of what comes of a command. A failure has the command's buffers, a refusal included.
#[derive(Debug)]
pub struct Execute<Q: BackendQueue> {
    queue: AsyncQueue<Q>,
    within: Option<Duration>,
    step: Step,
}

/// How far a command has come.
#[derive(Debug)]
enum Step {
    New(Command),
    /// Waits for room under this number.
    Crowded(Command, u64),
    /// Under way at this place.
    Under(usize),
    Over,
}

impl<Q: BackendQueue> Execute<Q> {
    pub(super) fn new(queue: AsyncQueue<Q>, command: Command, within: Option<Duration>) -> Self {
        Self { queue, within, step: Step::New(command) }
    }

    fn begin(&mut self, command: Command, waker: &Waker) -> Poll<Result<Outcome, Failed>> {
        // No waker is called while the queue is locked: the woken task may use it.
        let begun = self.queue.lock().begin(command, self.within, waker);
        match begun {
            Begun::At(place, attendant) => {
                self.step = Step::Under(place);
                attendant.into_iter().for_each(Waker::wake);
                Poll::Pending
            }
            Begun::Crowded(command, number) => {
                self.step = Step::Crowded(command, number);
                Poll::Pending
            }
            Begun::Refused(refused) => {
                Poll::Ready(Err(Failed::with_memory(refused.error, refused.command.into_payload())))
            }
        }
    }
}

impl<Q: BackendQueue> Future for Execute<Q> {
    type Output = Result<Outcome, Failed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let waker = context.waker();
        match std::mem::replace(&mut this.step, Step::Over) {
            Step::New(command) => this.begin(command, waker),
            Step::Crowded(command, number) => {
                if this.queue.lock().may_try(number, waker) {
                    return this.begin(command, waker);
                }
                this.step = Step::Crowded(command, number);
                Poll::Pending
            }
            Step::Under(place) => match this.queue.lock().take(place, waker) {
                Some(result) => Poll::Ready(result),
                None => {
                    this.step = Step::Under(place);
                    Poll::Pending
                }
            },
            // Polled after it was ready, which no executor does.
            Step::Over => Poll::Pending,
        }
    }
}

impl<Q: BackendQueue> Drop for Execute<Q> {
    fn drop(&mut self) {
        let next = match &self.step {
            Step::Under(place) => {
                self.queue.lock().leave(*place);
                None
            }
            Step::Crowded(_, number) => self.queue.lock().leave_crowd(*number),
            Step::New(_) | Step::Over => None,
        };
        next.into_iter().for_each(Waker::wake);
    }
}
