//! Doorbells in registers and in host memory.

use byway_dma::DmaFault;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::Command;

use super::Controller;
use crate::admin::{ShadowDoorbells, configured};
use crate::error::CommandError;
use crate::limits::MAX_IO_QUEUES;
use crate::outcome::Outcome;
use crate::port::Port;

impl Controller {
    /// Reads the doorbells that were rung and marks their queues. `rung` is one whose mark the caller kept.
    #[inline]
    pub(super) fn take_doorbells(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        rung: Option<DoorbellIndex>,
    ) {
        if let Some(index) = rung {
            self.take_doorbell(doorbells, index);
        }
        doorbells.take_dirty(|index| self.take_doorbell(doorbells, index));
        if self.admin.has_shadow_doorbells() {
            self.take_shadow_doorbells(port);
        }
    }

    /// Takes the value in the register of doorbell `index`.
    #[inline]
    fn take_doorbell(&mut self, doorbells: &Doorbells, index: DoorbellIndex) {
        // A write to the register of a shadowed doorbell only asks to read the buffer. Its value may be an old one.
        if index.queue() != 0 && self.admin.has_shadow_doorbells() {
            return;
        }
        if let Some(value) = self.queues.take_doorbell(doorbells, index) {
            self.admin.note_invalid_doorbell(index, value, self.queues.has_doorbell(index));
        }
    }

    /// Executes Doorbell Buffer Config.
    pub(super) fn configure_doorbell_buffer(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let mut buffers = Box::new(configured(command)?);
        self.move_doorbells(&mut buffers, port, doorbells)?;
        self.admin.set_shadow_doorbells(buffers);
        Ok(Outcome::OK)
    }

    /// Takes the doorbells of the existing I/O queues for the last time, and leaves their values in the buffer.
    fn move_doorbells(
        &mut self,
        buffers: &mut ShadowDoorbells,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
    ) -> Result<(), DmaFault> {
        for qid in 1..=MAX_IO_QUEUES {
            for index in [DoorbellIndex::submission(qid), DoorbellIndex::completion(qid)] {
                if self.queues.has_doorbell(index) {
                    // Buffers that are replaced hold newer values than the register.
                    let seen = self.admin.shadow_doorbells().map(|old| old.seen(index));
                    self.take_doorbell(doorbells, index);
                    buffers.start(port, index, seen.unwrap_or_else(|| doorbells.load(index)))?;
                }
            }
        }
        Ok(())
    }

    /// Starts a new queue's doorbell from zero, whatever a queue of the same identifier left in the register or the
    /// buffer: the slots up to that value hold the old queue's commands.
    pub(super) fn start_doorbell(
        &mut self,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        index: DoorbellIndex,
    ) {
        doorbells.reset(index);
        let started = self.admin.shadow_doorbells_mut().map(|shadow| shadow.start(port, index, 0));
        if let Some(Err(_)) = started {
            self.fail();
        }
    }

    /// Reads the shadow doorbells of every I/O queue.
    fn take_shadow_doorbells(&mut self, port: &mut Port<'_>) {
        let Some(mut shadow) = self.admin.take_shadow_doorbells() else { return };
        let Self { queues, admin, .. } = self;
        let read =
            shadow.read_all(port, queues, |index, value| admin.note_invalid_doorbell(index, value, true));
        // The host may have unmapped the buffers: then its doorbells are lost.
        match read {
            Ok(()) => self.admin.set_shadow_doorbells(shadow),
            Err(_) => self.fail(),
        }
    }

    /// Whether the host has doorbells in its memory.
    pub fn has_doorbell_buffers(&self) -> bool {
        self.admin.has_shadow_doorbells()
    }

    /// Says whether a thread runs the controller soon again without a doorbell, so that no event indexes are left.
    pub fn watch_doorbell_buffers(&mut self, is_watched: bool) {
        self.polls_doorbell_buffers = is_watched;
    }

    /// New values that were read in the host's doorbell buffer so far.
    pub fn doorbells_seen(&self) -> u64 {
        self.admin.shadow_doorbells().map_or(0, ShadowDoorbells::changes)
    }

    /// Before the controller becomes idle: leaves event indexes so that the host rings for its next command, and takes
    /// what came meanwhile.
    #[inline]
    pub(super) fn arm_shadow_doorbells(&mut self, port: &mut Port<'_>) {
        if self.admin.has_shadow_doorbells() && !self.polls_doorbell_buffers {
            self.leave_event_indexes(port);
        }
    }

    fn leave_event_indexes(&mut self, port: &mut Port<'_>) {
        let Some(shadow) = self.admin.shadow_doorbells_mut() else { return };
        match shadow.leave_event_indexes(port, &self.queues) {
            Ok(true) => self.take_shadow_doorbells(port),
            Ok(false) => {}
            Err(_) => self.fail_without_doorbells(),
        }
    }

    /// The host has unmapped the doorbell buffers.
    fn fail_without_doorbells(&mut self) {
        self.admin.take_shadow_doorbells();
        self.fail();
    }
}
