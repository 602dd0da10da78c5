//! Commands that failed on one path of several: which are retried, by which path and when.

use std::time::Instant;

use byway_core::{Effect, Error, ErrorKind, Retry};
use byway_spec::Completion;
use byway_spec::base::ana::AnaState;

use super::TcpPathsQueue;
use crate::connection::Lost;
use crate::paths::slots::SlotState;
use crate::result::gone;

/// How often a command is sent over several paths before its failure is reported.
const PATH_TRIES_MAX: u8 = 10;

impl TcpPathsQueue {
    /// A path does not serve a command. What a state forbids was not done, and may be by another path.
    #[cold]
    pub(super) fn meet(&mut self, index: usize, path: usize, completion: Completion) {
        let status = completion.status();
        let slot = self.slots.get_mut(index);
        let state = AnaState::of_status(status);
        let again =
            !status.dnr() && !matches!(slot.effect, Effect::Changes(_)) && slot.tries < PATH_TRIES_MAX;
        if state.is_none() && !again {
            return self.finish(index, Ok(completion));
        }
        slot.error = Some(Error::status(status));
        match state {
            Some(state) => {
                let nsid = slot.nsid();
                self.set.paths.met(path, nsid, state);
                self.path_queues[path].queue.mark_states_stale();
            }
            None => slot.tries += 1,
        }
        self.wait(index);
    }

    /// A command's path was lost.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, lost: Lost, error: Error) {
        // One that was given up, for its time or by the program, is not tried again.
        let goes_on = error.kind() == ErrorKind::DeviceLost;
        if lost == Lost::Unsent {
            return self.retry_or_fail(index, goes_on, error);
        }
        self.slots.lose(index);
        let slot = self.slots.get_mut(index);
        match (slot.effect.extent(), slot.state()) {
            (Some(_), SlotState::On { path, generation }) => {
                slot.error = Some(error);
                self.slots.put(index, SlotState::Lost { path, generation });
            }
            _ => {
                let goes_on = goes_on && slot.tries < PATH_TRIES_MAX;
                self.retry_or_fail(index, goes_on, error);
            }
        }
    }

    fn retry_or_fail(&mut self, index: usize, goes_on: bool, error: Error) {
        if !goes_on {
            return self.finish(index, Err(error));
        }
        let slot = self.slots.get_mut(index);
        (slot.since, slot.error) = (None, Some(error));
        self.wait(index);
    }

    /// Gives a command up, wherever it is.
    #[cold]
    pub(super) fn give_up(&mut self, index: usize, kind: ErrorKind) {
        let error = || match kind {
            ErrorKind::TimedOut => Error::host(kind, "its time was over before it was done"),
            _ => Error::host(kind, "it was taken back before it was done"),
        };
        match self.slots.get(index).state() {
            SlotState::On { path, .. } => {
                self.path_queues[path].queue.give_up_tagged(index as u64, false, kind);
            }
            SlotState::Lost { .. } => self.slots.get_mut(index).error = Some(error()),
            SlotState::Waits => self.finish(index, Err(error())),
            SlotState::Free => {}
        }
    }

    /// Resumes waiting commands, and fails those whose time is over.
    #[cold]
    pub(super) fn resume_commands(&mut self) {
        let version = self.set.paths.version();
        if std::mem::replace(&mut self.seen_version, version) != version {
            self.is_stirred = true;
        }
        if std::mem::take(&mut self.is_stirred) {
            self.take_up();
            self.send_on();
        }
        self.expire();
    }

    /// Goes on with commands whose fate is settled: a controller that may have done them has ended.
    fn take_up(&mut self) {
        for index in self.slots.in_turn(|slot| matches!(slot.state(), SlotState::Lost { .. })) {
            let slot = self.slots.get_mut(index);
            let SlotState::Lost { path, generation } = slot.state() else { continue };
            if !self.set.paths.has_ended(path, generation) {
                continue;
            }
            let error = slot.error.take().unwrap_or_else(|| gone("its connection ended"));
            let is_the_same = matches!(slot.effect, Effect::Sets(_)) && slot.tries < PATH_TRIES_MAX;
            self.retry_or_fail(index, is_the_same && error.kind() == ErrorKind::DeviceLost, error);
        }
    }

    fn send_on(&mut self) {
        for index in self.slots.in_turn(|slot| slot.state() == SlotState::Waits) {
            let slot = self.slots.get(index);
            let Some(path) = self.choose(slot.nsid()) else { continue };
            let slot = self.slots.get(index);
            if slot.effect == Effect::Flush && slot.was_lost && self.path_queues[path].since >= slot.turn {
                // What was written before may have been lost with what was there before.
                let error = self.slots.get_mut(index).error.take();
                self.finish(index, Err(error.unwrap_or_else(|| gone("its connection ended"))));
            } else if !self.slots.is_behind(index, path) {
                self.send(index, path);
            }
        }
    }

    /// Fails commands that have waited for as long as they may.
    fn expire(&mut self) {
        let (now, is_gone) = (Instant::now(), self.is_gone());
        let controller_loss = self.set.paths.peer(0).options.controller_loss;
        self.due = None;
        for index in self.slots.in_turn(|slot| slot.state() == SlotState::Waits) {
            let slot = self.slots.get_mut(index);
            let end = slot.since.and_then(|since| since.checked_add(controller_loss));
            let is_late = slot.until.is_some_and(|until| until <= now);
            if is_late {
                let said = "its time was over while there was no path for it";
                self.finish(index, Err(Error::host(ErrorKind::TimedOut, said)));
            } else if is_gone.is_some() || end.is_some_and(|end| end <= now) {
                let error = slot.error.take().filter(|error| error.nvme_status().is_some());
                self.finish(index, Err(error.unwrap_or_else(no_path)));
            } else {
                self.due = self.due.into_iter().chain(slot.until).chain(end).min();
            }
        }
    }
}

#[cold]
fn no_path() -> Error {
    let said = "no path to the subsystem stood for as long as one is looked for";
    Error::device(ErrorKind::DeviceLost, said).with_retry(Retry::Once)
}
