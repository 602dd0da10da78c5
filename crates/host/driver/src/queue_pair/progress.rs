//! What comes back on a queue: completions, and what becomes of the operations they end.

use std::time::{Duration, Instant};

use byway_core::{Answer, Bounced, Buffer, Buffers, Error, ErrorKind, Failed, Finished, Outcome, Result};
use byway_link::HostStep;
use byway_spec::Completion;
use byway_spec::base::register::{Csts, Register};
use byway_spec::vendor::INLINE_RESULT;
use byway_sys::Spin;

use crate::bus::{Bus, POLLS_BEFORE_SLEEP};
use crate::mapped::from_bus;
use crate::queue_pair::Queue;
use crate::queue_pair::deadlines::too_late;
use crate::table::{OpIndex, Waiter};

/// The longest sleep before the device's health is looked at again.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Completions found by polling, one after the other, after which the interrupt is given back: the host polls.
const POLLED: u16 = 1024;

/// A caller's wait: polls are cheap, the clock is read only after them.
#[derive(Debug)]
struct Wait {
    spin: Spin,
    since: Option<Instant>,
}

impl Wait {
    const fn begin() -> Self {
        Self { spin: Spin::polls(POLLS_BEFORE_SLEEP), since: None }
    }
}

impl<B: Bus> Queue<B> {
    /// Takes one completion off the ring, if one is there; returns the operation it belongs to.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] when it belongs to none, or reports an impossible head.
    #[inline(always)]
    pub(crate) fn reap(&mut self) -> Result<Option<OpIndex>> {
        let Some(mut completion) = self.rings.peek() else { return Ok(None) };
        let behind = match completion.dw1 & INLINE_RESULT {
            0 => 0,
            _ => match self.receive_result(&mut completion)? {
                Some(entries) => entries,
                None => return Ok(None),
            },
        };
        self.rings.pass(&completion, behind)?;
        if !self.awake {
            self.awake = true;
            if self.habits().host_sleeps {
                self.charge(HostStep::Wake, 1);
            }
        }
        if self.armed_for > 0 {
            self.disarm_if_polled();
        }
        self.charge(HostStep::Completion, 1);
        let Completion { dw0, dw1, cid, .. } = completion;
        match self.table.complete(cid, completion.status(), dw0, dw1) {
            Some(op) => Ok(Some(op)),
            None => Err(stray(cid)),
        }
    }

    /// Takes one completion and does what follows from it, save for operations that a call waits for; says whether
    /// there was one.
    ///
    /// # Errors
    /// As [`Queue::reap`].
    #[inline(always)]
    pub(crate) fn step(&mut self) -> Result<bool> {
        let Some(op) = self.reap()? else { return Ok(false) };
        if self.table.op(op).is_done() {
            self.settle(op)?;
        }
        Ok(true)
    }

    /// Does what follows from the end of an operation.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`], as [`Queue::note_window`].
    #[inline(always)]
    pub(crate) fn settle(&mut self, op: OpIndex) -> Result<()> {
        let noted = self.note_window(op);
        match self.table.op(op).waiter {
            Waiter::Call => {}
            Waiter::Queue => self.hand_over(op),
            Waiter::None => self.give_up(op),
        }
        noted
    }

    /// Waits until one completion, of whatever operation, was taken.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] after the queue's timeout, [`ErrorKind::DeviceLost`] if the device is in a fatal state.
    pub(crate) fn wait_for_any(&mut self) -> Result<()> {
        self.ring_tail_now();
        self.ring_head_if_near_full();
        let mut wait = Wait::begin();
        while !self.step()? {
            self.pause(&mut wait)?;
        }
        Ok(())
    }

    /// Waits for an operation that a call has sent, and ends it.
    ///
    /// # Errors
    /// The operation's own failure; or as [`Queue::wait_for_any`], and then the operation goes on without its call.
    #[inline(always)]
    pub(crate) fn finish_call(&mut self, op: OpIndex) -> Result<Answer> {
        self.await_call(op)?;
        match self.table.take_plain(op) {
            Some(answer) => Ok(answer),
            None => Ok(self.conclude_call(op)?.answer),
        }
    }

    /// Waits for an operation that a call has sent. Its memory is still held.
    ///
    /// # Errors
    /// As [`Queue::wait_for_any`]; the operation then goes on without its call.
    #[inline(always)]
    pub(crate) fn await_call(&mut self, op: OpIndex) -> Result<()> {
        // A device that the doorbell ran has answered already.
        if let Err(error) = self.step() {
            return Err(self.leave(op, error));
        }
        if !self.table.op(op).is_done() {
            self.keep_awaiting(op)?;
        }
        self.ring_head();
        Ok(())
    }

    #[inline(never)]
    fn keep_awaiting(&mut self, op: OpIndex) -> Result<()> {
        let mut wait = Wait::begin();
        while !self.table.op(op).is_done() {
            let stepped = match self.step() {
                Ok(true) => {
                    wait = Wait::begin();
                    Ok(())
                }
                Ok(false) => self.pause(&mut wait),
                Err(error) => Err(error),
            };
            if let Err(error) = stepped {
                return Err(self.leave(op, error));
            }
        }
        Ok(())
    }

    /// Drops an operation that could not be sent, or whose call has ended. Its commands in flight continue.
    #[cold]
    pub(crate) fn leave(&mut self, op: OpIndex, error: Error) -> Error {
        let state = self.table.op(op);
        state.sending = false;
        state.waiter = Waiter::None;
        if state.left == 0 {
            // The window's own trouble is found again by the next store through it.
            let _ = self.settle(op);
        }
        error
    }

    /// Ends an operation that is done: gives back what it held, and says what came of it.
    #[inline]
    pub(crate) fn conclude(&mut self, op: OpIndex) -> Result<Outcome, Failed> {
        let state = self.table.op(op);
        if state.has_baggage {
            return self.conclude_with_baggage(op);
        }
        let (answer, failed) = (state.answer, state.failed);
        if let Some(page) = state.take_bounce() {
            self.bounce.give_back(page);
        }
        self.table.end(op);
        match failed {
            None => Ok(Outcome { answer, ..Outcome::default() }),
            Some(status) => Err(Failed::from(Error::status(status))),
        }
    }

    /// Ends an operation that a call has waited for, and says what came of it.
    ///
    /// # Errors
    /// The operation's own failure, explained.
    #[inline]
    pub(crate) fn conclude_call(&mut self, op: OpIndex) -> Result<Outcome> {
        self.conclude(op).map_err(|failed| self.device.explained(failed.error, self.qid()))
    }

    fn conclude_with_baggage(&mut self, op: OpIndex) -> Result<Outcome, Failed> {
        let state = self.table.op(op);
        state.has_baggage = false;
        let held = state.held.take();
        let buffer = if std::mem::take(&mut state.give_back) { held } else { None };
        let rest = state.take_rest().unwrap_or_default();
        if let Some(at) = rest.mapped {
            // A bus that cannot unmap has lost its device; no device is left to touch the memory.
            let _ = self.bus.unmap(at);
        }
        match (self.conclude(op), rest.fault) {
            (Ok(outcome), None) => Ok(rejoined(Outcome { buffer, ..outcome }, rest.bounced)),
            (Ok(_), Some(error)) | (Err(Failed { error, .. }), _) => Err(failed(error, buffer, rest.bounced)),
        }
    }

    /// Ends an operation whose call is over.
    #[cold]
    fn give_up(&mut self, op: OpIndex) {
        drop(self.conclude(op));
    }

    /// Puts an operation that is done where the queue's user takes it.
    #[inline]
    pub(crate) fn hand_over(&mut self, op: OpIndex) {
        let is_late = self.deadlines.any() && self.deadlines.end(op);
        let state = self.table.op(op);
        state.is_late = is_late;
        // What others wait for does not wait for the queue's user.
        if let Some(page) = state.take_bounce() {
            self.bounce.give_back(page);
        }
        self.ready.push_back(op);
    }

    /// Ends the operation that was done first, of those that the queue's user has not taken.
    #[inline]
    pub(crate) fn take_ready(&mut self) -> Option<Finished> {
        let op = self.ready.pop_front()?;
        let state = self.table.op(op);
        let (tag, is_late) = (state.tag, state.is_late);
        let result = self.conclude(op);
        Some(Finished { tag, result: if is_late { too_late(result) } else { result } })
    }

    /// Between two polls: lets the device run, then sleeps for its interrupt.
    fn pause(&mut self, wait: &mut Wait) -> Result<()> {
        self.ring_head_if_near_full();
        self.bus.idle(self.qid());
        if wait.spin.again() {
            self.bus.poll();
            return Ok(());
        }
        let since = *wait.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.timeout() {
            self.check_health()?;
            return Err(silent(self.timeout()));
        }
        if !self.sleep_for_interrupt(SLEEP_MAX)? {
            self.check_health()?;
        }
        self.bus.poll();
        self.tend()
    }

    /// Sleeps for the queue's interrupt; says whether it came.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceLost`].
    pub(crate) fn sleep_for_interrupt(&mut self, at_most: Duration) -> Result<bool> {
        self.armed_for = POLLED;
        self.bus.wait(self.qid(), at_most).map_err(from_bus)
    }

    /// A completion was found on a queue that has slept: the last of many has the device not call any more. The next who
    /// sleeps arms the interrupt anew, and looks before.
    #[cold]
    fn disarm_if_polled(&mut self) {
        self.armed_for -= 1;
        if self.armed_for == 0 {
            self.bus.disarm(self.qid());
        }
    }

    /// Looks whether the device is in a fatal state.
    fn check_health(&self) -> Result<()> {
        let bits = self.bus.read_register(Register::CSTS.0, 4).map_err(from_bus)?;
        let status = Csts::from_bits(bits as u32);
        // A device that is gone reads as all ones.
        if bits as u32 == u32::MAX || status.cfs() || !status.rdy() {
            return Err(Error::device(ErrorKind::DeviceLost, lost(bits as u32, status)));
        }
        Ok(())
    }
}

/// An outcome with the program's own memory in place of the copy that travelled.
fn rejoined(mut outcome: Outcome, bounced: Option<Box<Bounced>>) -> Outcome {
    if let Some(bounced) = bounced {
        bounced.rejoin(&mut outcome);
    }
    outcome
}

/// A failure with the program's own memory.
fn failed(error: Error, buffer: Option<Buffer>, bounced: Option<Box<Bounced>>) -> Failed {
    match bounced {
        Some(bounced) => Failed::with_memory(error, bounced.into_memory()),
        None => Failed { error, buffer, vector: Buffers::NONE },
    }
}

fn lost(bits: u32, status: Csts) -> String {
    match () {
        () if bits == u32::MAX => "the device is gone".to_owned(),
        () if status.cfs() => {
            "the controller is in a fatal state (CSTS.CFS) and must be attached anew".to_owned()
        }
        () => "the controller was reset by another host (CSTS.RDY is 0)".to_owned(),
    }
}

#[cold]
fn stray(cid: u16) -> Error {
    Error::device(ErrorKind::Protocol, format!("a completion of command {cid}, which is not in flight"))
}

#[cold]
fn silent(after: Duration) -> Error {
    Error::device(ErrorKind::TimedOut, format!("no completion within {after:?}"))
}
