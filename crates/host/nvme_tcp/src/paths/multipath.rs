//! The commands of a queue over several paths: each goes by the best, and waits, fails or goes by another where that is lost.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{Command, Effect, Error, ErrorKind, Result, Retry};
use byway_spec::Completion;
use byway_spec::base::ana::AnaState;
use byway_spec::base::status::sct;
use byway_sys::Wakeup;
use rustix::event::epoll::EventFlags;

use super::path_queues::PathQueues;
use super::set::PathSet;
use super::slots::{SlotState, Slots};
use crate::connection::{Ended, Lost, Order};
use crate::event_set::EventSet;
use crate::order::{CachedLayout, order_of_io};
use crate::queue::Transport;
use crate::result::gone;

/// How often a command is sent over several paths before its failure is reported.
const PATH_TRIES_MAX: u8 = 10;

/// The commands of a queue over several paths.
pub struct Multipath {
    path_queues: PathQueues,
    slots: Slots,
    /// Commands that have ended, as the program knows them.
    ended: VecDeque<Ended>,
    /// The version of the paths at the last check.
    seen_version: u64,
    /// An event since the last [`resume_commands`](Self::resume_commands) may let waiting commands continue.
    has_news: bool,
    /// When something is due for a command that is on no path.
    due: Option<Instant>,
    /// Signalled when a path changes.
    notifier: Arc<Wakeup>,
    /// The event descriptor: the event descriptors of the paths, the notifier, and the next deadline.
    event: Option<EventSet>,
    depth: u32,
    /// Dropped last: with the last queue, the admin threads close their associations.
    set: Arc<PathSet>,
}

impl Multipath {
    /// Connects a queue by each path.
    ///
    /// # Errors
    /// When a controller has no queue left, or all are given up.
    pub(crate) fn open(set: Arc<PathSet>, depth: u32) -> Result<Self> {
        let notifier =
            Arc::new(Wakeup::new().map_err(|cause| Error::kernel("no descriptor for a queue", cause))?);
        set.paths.add_notifier(&notifier);
        Ok(Self {
            path_queues: PathQueues::open(Arc::clone(&set.paths), &set.owners, depth)?,
            slots: Slots::new(depth),
            ended: VecDeque::with_capacity(depth as usize),
            seen_version: 0,
            has_news: false,
            due: None,
            notifier,
            event: None,
            depth,
            set,
        })
    }

    /// Sends a command by the best path, or queues it.
    #[inline]
    fn go_or_wait(&mut self, index: usize) {
        match self.path_queues.choose(self.slots.get(index).nsid()) {
            Some(path) if !self.slots.is_behind(index, path) => self.send(index, path),
            _ => self.wait(index),
        }
    }

    #[inline]
    fn send(&mut self, index: usize, path: usize) {
        let generation = self.path_queues.queue(path).generation();
        self.slots.put(index, SlotState::On { path, generation });
        let slot = self.slots.get_mut(index);
        let Some(order) = slot.order else { return };
        let order = Order { tag: index as u64, is_call: false, ..order };
        let (payload, until) = (slot.take_payload(), slot.until);
        if let Err(payload) = self.path_queues.queue_mut(path).submit(order, payload, until) {
            self.slots.get_mut(index).put_memory(payload);
            self.wait(index);
        }
    }

    /// Queues a command until there is a path for it.
    #[cold]
    fn wait(&mut self, index: usize) {
        self.slots.get_mut(index).since.get_or_insert_with(Instant::now);
        self.slots.put(index, SlotState::Waits);
        self.has_news = true;
    }

    /// Takes the ended commands of a path.
    #[inline]
    fn collect(&mut self, path: usize) {
        while let Some(ended) = self.path_queues.queue_mut(path).next_ended() {
            self.take_back(path, ended);
            self.has_news = true;
        }
    }

    #[inline]
    fn take_back(&mut self, path: usize, Ended { tag, memory, result, lost, .. }: Ended) {
        let index = tag as usize;
        self.slots.get_mut(index).put_memory(memory);
        match (lost, result) {
            (None, Ok(completion)) if completion.status().code().sct() != sct::PATH => {
                self.finish(index, Ok(completion));
            }
            (None, Ok(completion)) => self.take_path_error(index, path, completion),
            (Some(lost), Err(error)) => self.lose(index, lost, error),
            (_, result) => self.finish(index, result),
        }
    }

    #[inline]
    fn finish(&mut self, index: usize, result: Result<Completion, Error>) {
        let (order, memory) = self.slots.release(index);
        let (tag, is_call, is_pair) =
            order.map_or((0, false, false), |order| (order.tag, order.is_call, order.is_pair));
        let commands = 1 + u8::from(is_pair);
        self.ended.push_back(Ended { tag, is_call, memory, result, lost: None, commands });
    }

    fn time_left(&self) -> Option<Duration> {
        let due = self.due.filter(|_| !self.slots.is_quiet());
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Handles a Path Related Status. A command refused for its ANA state was not executed: it waits for another path. Others
    /// are tried again, unless they set DNR or change something that a second execution would change again.
    #[cold]
    fn take_path_error(&mut self, index: usize, path: usize, completion: Completion) {
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
                self.path_queues.queue(path).mark_states_stale();
            }
            None => slot.tries += 1,
        }
        self.wait(index);
    }

    /// A command's path was lost.
    #[cold]
    fn lose(&mut self, index: usize, lost: Lost, error: Error) {
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
    fn give_up_command(&mut self, index: usize, kind: ErrorKind) {
        let error = || match kind {
            ErrorKind::TimedOut => Error::host(kind, "its time was over before it was done"),
            _ => Error::host(kind, "it was taken back before it was done"),
        };
        match self.slots.get(index).state() {
            SlotState::On { path, .. } => {
                self.path_queues.queue_mut(path).give_up(index as u64, false, kind);
            }
            SlotState::Lost { .. } => self.slots.get_mut(index).error = Some(error()),
            SlotState::Waits => self.finish(index, Err(error())),
            SlotState::Free => {}
        }
    }

    /// Resumes waiting commands, and fails those whose time is over.
    #[cold]
    fn resume_commands(&mut self) {
        let version = self.set.paths.version();
        if std::mem::replace(&mut self.seen_version, version) != version {
            self.has_news = true;
        }
        if std::mem::take(&mut self.has_news) {
            self.settle_lost();
            self.send_waiting();
        }
        self.expire();
    }

    /// Retries or fails the commands of lost paths whose controllers have ended, and so can no longer execute them.
    fn settle_lost(&mut self) {
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

    /// Sends the waiting commands for which there is a path.
    fn send_waiting(&mut self) {
        for index in self.slots.in_turn(|slot| slot.state() == SlotState::Waits) {
            let slot = self.slots.get(index);
            let Some(path) = self.path_queues.choose(slot.nsid()) else { continue };
            let slot = self.slots.get(index);
            if slot.effect == Effect::Flush
                && slot.was_lost
                && self.path_queues.submitted_before(path) >= slot.number
            {
                // The lost controller may have dropped cached writes, which this controller's Flush does not cover.
                let error = self.slots.get_mut(index).error.take();
                self.finish(index, Err(error.unwrap_or_else(|| gone("its connection ended"))));
            } else if !self.slots.is_behind(index, path) {
                self.send(index, path);
            }
        }
    }

    /// Fails commands that have waited for as long as they may.
    fn expire(&mut self) {
        let (now, is_gone) = (Instant::now(), self.path_queues.lost());
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

impl Transport for Multipath {
    #[inline]
    fn order(&self, command: &Command, tag: u64, is_call: bool, cached: &mut CachedLayout) -> Result<Order> {
        let layout = |nsid| cached.of(nsid, &self.set.layouts, |was| self.set.layout(nsid, was));
        order_of_io(command, tag, is_call, &self.set.capabilities, layout)
    }

    #[inline]
    fn has_room(&self, order: &Order) -> bool {
        self.slots.commands() + 1 + u32::from(order.is_pair) <= self.depth
    }

    #[inline]
    fn begin(&mut self, order: Order, command: Command, until: Option<Instant>) {
        let effect = Effect::of(&command);
        if let Some(index) = self.slots.take(order, effect, command.into_payload(), until) {
            self.go_or_wait(index);
        }
    }

    #[inline]
    fn lost(&self) -> Option<Error> {
        self.path_queues.lost()
    }

    #[inline]
    fn held(&self) -> u32 {
        self.outstanding()
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.slots.busy() + self.ended.len() as u32
    }

    fn flush(&mut self) {
        self.path_queues.flush();
    }

    /// Polls every path, so that none sleeps on completions that it holds.
    #[inline]
    fn poll(&mut self) -> bool {
        let mut came = false;
        for path in 0..self.path_queues.len() {
            self.collect(path);
            came |= self.path_queues.queue_mut(path).poll();
            self.collect(path);
            self.has_news |= self.path_queues.has_changed(path, self.slots.submitted());
        }
        if !self.slots.is_quiet() {
            self.resume_commands();
        }
        came || !self.ended.is_empty()
    }

    #[inline]
    fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn has_ended_with(&self, tag: u64) -> bool {
        self.ended.iter().any(|ended| ended.tag == tag && !ended.is_call)
    }

    fn give_up(&mut self, tag: u64, is_call: bool, kind: ErrorKind) -> bool {
        let found = self.slots.find(tag, is_call);
        found.into_iter().for_each(|index| self.give_up_command(index, kind));
        found.is_some()
    }

    fn park(&mut self, timeout: Duration) -> Result<()> {
        let lefts = self.path_queues.time_left().into_iter().chain(self.time_left());
        let timeout = lefts.fold(timeout, Duration::min);
        self.path_queues.park(&self.notifier, timeout)?;
        self.clear_notifier();
        Ok(())
    }

    #[inline]
    fn event(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(EventSet::event)
    }

    fn open_event(&mut self) -> io::Result<()> {
        let event = EventSet::new()?;
        event.add(&*self.notifier, EventFlags::IN)?;
        self.path_queues.open_events(&event)?;
        self.event = Some(event);
        Ok(())
    }

    fn clear_notifier(&self) {
        self.notifier.lower();
        self.path_queues.clear_notifiers();
    }

    fn arm(&mut self, is_ready: bool) {
        self.path_queues.arm();
        if let Some(event) = &self.event {
            event.set_deadline(self.time_left());
        }
        if is_ready {
            self.notifier.raise();
        }
    }
}

#[cold]
fn no_path() -> Error {
    let said = "no path to the subsystem stood for as long as one is looked for";
    Error::device(ErrorKind::DeviceLost, said).with_retry(Retry::Once)
}
