//! A queue with a connection by each path.

mod lost;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{
    BackendQueue, Command, Effect, Error, ErrorKind, Finished, Outcome, QueueOptions, Refused, Result,
};
use byway_spec::Completion;
use byway_spec::base::status::sct;
use byway_sys::{Alarm, Wakeup};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use super::device::PathSet;
use super::slots::{PATHS_MAX, SlotState, Slots};
use crate::connection::{Ended, Order};
use crate::order::{SeenLayout, order_of_io};
use crate::poller::{Poller, Waits, as_it_waits, not_outstanding};
use crate::queue::{TcpQueue, full, too_shallow};
use crate::result::queue_lost;

/// A queue of a subsystem that is reached by several paths: a connection by each, and commands go by the best.
pub struct TcpPathsQueue {
    path_queues: Vec<PathQueue>,
    slots: Slots,
    /// Commands that have ended, as the program knows them.
    ended: VecDeque<Ended>,
    poller: Poller,
    seen_layout: SeenLayout,
    chosen: Option<Chosen>,
    /// The version of the paths that was seen.
    seen_version: u64,
    /// Something may let a command go on that waits.
    is_stirred: bool,
    /// When something is due for a command that is on no path.
    due: Option<Instant>,
    /// Signalled when a path changes.
    notifier: Arc<Wakeup>,
    listening: Option<Listening>,
    depth: u32,
    timeout: Duration,
    /// Dropped last: with the last queue, the admin threads close their associations.
    set: Arc<PathSet>,
}

/// A connection by one path.
struct PathQueue {
    queue: TcpQueue,
    /// As of which of this queue's commands it stands.
    since: u64,
    /// Whether it does, and in which generation, as was seen last.
    seen: (bool, u64),
}

impl PathQueue {
    fn new(queue: TcpQueue) -> Self {
        Self { seen: (queue.is_open(), queue.generation()), queue, since: 0 }
    }

    /// Whether its connection is another one than it was, or none; `turn` commands came before.
    fn has_turned(&mut self, turn: u64) -> bool {
        let now = (self.queue.is_open(), self.queue.generation());
        if self.seen == now {
            return false;
        }
        (self.seen, self.since) = (now, turn);
        true
    }
}

/// The path that was chosen last.
#[derive(Clone, Copy)]
struct Chosen {
    version: u64,
    nsid: u32,
    path: usize,
}

/// The event descriptor: everything that paths wait for, the notifier, and the next deadline.
struct Listening {
    _all: OwnedFd,
    alarm: Alarm,
}

impl TcpPathsQueue {
    pub(crate) fn open(set: Arc<PathSet>, options: QueueOptions) -> Result<Self> {
        let notifier =
            Arc::new(Wakeup::new().map_err(|cause| Error::kernel("no descriptor for a queue", cause))?);
        set.paths.add_notifier(&notifier);
        let mut path_queues = Vec::with_capacity(set.owners.len());
        for owner in &set.owners {
            let queue = TcpQueue::for_path(Arc::clone(owner), options)?;
            path_queues.push(PathQueue::new(queue));
        }
        let depth = options.depth.commands();
        let (slots, idle) = (Slots::new(depth), set.paths.peer(0).options.idle);
        Ok(Self {
            path_queues,
            slots,
            ended: VecDeque::with_capacity(depth as usize),
            poller: Poller::new(depth, idle),
            seen_layout: SeenLayout::default(),
            chosen: None,
            seen_version: 0,
            is_stirred: false,
            due: None,
            notifier,
            listening: None,
            depth,
            timeout: options.timeout,
            set,
        })
    }

    /// Why nothing is done by any path any more.
    fn is_gone(&self) -> Option<Error> {
        let mut why = self.path_queues.iter().map(|path| path.queue.why_gone());
        let first = why.next()??;
        why.all(|why| why.is_some()).then(|| queue_lost(first))
    }

    /// Whether a controller can be given so many commands more, by any path.
    #[inline]
    fn has_places(&self, commands: u32) -> bool {
        self.outstanding() < self.depth && self.slots.commands() + commands <= self.depth
    }

    /// The command as an order, if the subsystem can be given it.
    #[inline]
    fn order(&mut self, command: &Command, tag: u64, is_call: bool) -> Result<Order> {
        let (set, seen) = (&self.set, &mut self.seen_layout);
        let layout = |nsid| seen.of(nsid, &set.layouts, |was| set.layout(nsid, was));
        order_of_io(command, tag, is_call, &set.capabilities, layout)
    }

    #[inline]
    fn take(
        &mut self,
        command: Command,
        (tag, is_call): (u64, bool),
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        if !self.has_places(1) {
            return Err(Refused { command, error: full(self.depth) });
        }
        if let Some(error) = self.is_gone() {
            return Err(Refused { command, error });
        }
        let order = match self.order(&command, tag, is_call) {
            Ok(order) => order,
            Err(error) => return Err(Refused { command, error }),
        };
        if order.is_pair && self.depth < 2 {
            return Err(Refused { command, error: too_shallow() });
        }
        if order.is_pair && !self.has_places(2) {
            return Err(Refused { command, error: full(self.depth) });
        }
        let effect = Effect::of(&command);
        if let Some(index) = self.slots.take(order, effect, command.into_payload(), until) {
            self.go_or_wait(index);
        }
        Ok(())
    }

    /// Sends a command by the best path, or queues it.
    #[inline]
    fn go_or_wait(&mut self, index: usize) {
        match self.choose(self.slots.get(index).nsid()) {
            Some(path) if !self.slots.is_behind(index, path) => self.send(index, path),
            _ => self.wait(index),
        }
    }

    /// The best path for commands to a namespace.
    #[inline]
    fn choose(&mut self, nsid: u32) -> Option<usize> {
        let version = self.set.paths.version();
        match self.chosen {
            Some(chosen)
                if chosen.version == version
                    && chosen.nsid == nsid
                    && self.path_queues[chosen.path].queue.is_open() =>
            {
                Some(chosen.path)
            }
            _ => self.choose_anew(version, nsid),
        }
    }

    #[cold]
    fn choose_anew(&mut self, version: u64, nsid: u32) -> Option<usize> {
        let mut ranks = [None; PATHS_MAX];
        self.set.paths.ranks(nsid, &mut ranks);
        let path_queues =
            self.path_queues.iter().zip(ranks).enumerate().filter(|(_, (path, _))| path.queue.is_open());
        let ranked = path_queues.filter_map(|(index, (_, rank))| Some((rank?, index)));
        let path = ranked.min().map(|(_, index)| index)?;
        self.chosen = Some(Chosen { version, nsid, path });
        Some(path)
    }

    #[inline]
    fn send(&mut self, index: usize, path: usize) {
        let generation = self.path_queues[path].queue.generation();
        self.slots.put(index, SlotState::On { path, generation });
        let slot = self.slots.get_mut(index);
        let Some(order) = slot.order else { return };
        let order = Order { tag: index as u64, is_call: false, ..order };
        let (payload, until) = (slot.take_payload(), slot.until);
        if let Err(payload) = self.path_queues[path].queue.begin(order, payload, until) {
            self.slots.get_mut(index).put_memory(payload);
            self.wait(index);
        }
    }

    /// Queues a command until there is a path for it.
    #[cold]
    fn wait(&mut self, index: usize) {
        self.slots.get_mut(index).since.get_or_insert_with(Instant::now);
        self.slots.put(index, SlotState::Waits);
        self.is_stirred = true;
    }

    /// Takes the ended commands of a path.
    #[inline]
    fn collect(&mut self, path: usize) {
        while let Some(ended) = self.path_queues[path].queue.next_ended() {
            self.take_back(path, ended);
            self.is_stirred = true;
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
            (None, Ok(completion)) => self.meet(index, path, completion),
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

    /// Clears all notifiers: only later events signal them again.
    fn clear_notifier(&self) {
        self.notifier.lower();
        self.path_queues.iter().for_each(|path| path.queue.clear_notifier());
    }
}

impl Waits for TcpPathsQueue {
    #[inline]
    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    #[inline]
    fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn flush_all(&mut self) {
        self.path_queues.iter_mut().for_each(|path| path.queue.flush());
    }

    /// Polls every path, so that none sleeps on completions that it holds.
    #[inline]
    fn look(&mut self) -> bool {
        let mut came = false;
        for index in 0..self.path_queues.len() {
            self.collect(index);
            came |= self.path_queues[index].queue.look();
            self.collect(index);
            if self.path_queues[index].has_turned(self.slots.turn()) {
                (self.chosen, self.is_stirred) = (None, true);
            }
        }
        if !self.slots.is_quiet() {
            self.resume_commands();
        }
        came || !self.ended.is_empty()
    }

    fn park(&mut self, timeout: Duration) -> Result<()> {
        let lefts = self.path_queues.iter().filter_map(|path| path.queue.time_left()).chain(self.time_left());
        let timeout = lefts.fold(timeout, Duration::min);
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let notifier = PollFd::new(&*self.notifier, PollFlags::IN);
        let mut fds: [PollFd<'_>; 1 + 2 * PATHS_MAX] = std::array::from_fn(|_| notifier.clone());
        let waited = self.path_queues.iter().flat_map(|path| path.queue.waited_for());
        let mut count = 1;
        for (place, (fd, flags)) in fds.iter_mut().skip(1).zip(waited) {
            *place = PollFd::from_borrowed_fd(fd, flags);
            count += 1;
        }
        match poll(&mut fds[..count], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(Error::kernel("waiting for the connections failed", cause.into())),
        }
        self.clear_notifier();
        Ok(())
    }

    #[inline]
    fn listened(&self) -> Option<BorrowedFd<'_>> {
        self.listening.as_ref().map(|listening| listening.alarm.as_fd())
    }

    fn listen(&mut self) -> std::io::Result<()> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&all, &*self.notifier, data, epoll::EventFlags::IN)?;
        for path in &mut self.path_queues {
            path.queue.listen()?;
            let mut listened = path.queue.listened().into_iter();
            listened.try_for_each(|fd| epoll::add(&all, fd, data, epoll::EventFlags::IN))?;
        }
        let alarm = Alarm::beside(all.as_fd())?;
        self.listening = Some(Listening { _all: all, alarm });
        Ok(())
    }

    #[cold]
    fn prepare_to_wait(&mut self) {
        self.clear_notifier();
        // Events from before the clear are seen here.
        self.look();
        let is_ready = self.is_ready();
        self.path_queues.iter_mut().for_each(|path| path.queue.arm(false));
        if let Some(listening) = &self.listening {
            listening.alarm.set(self.time_left());
        }
        if is_ready {
            self.notifier.raise();
        }
    }

    #[cold]
    fn give_up_call(&mut self, call: u64) {
        if let Some(index) = self.slots.find(call, true) {
            self.give_up(index, ErrorKind::TimedOut);
        }
    }
}

impl BackendQueue for TcpPathsQueue {
    /// As on one connection; a command that waits for a path fails when its time is over.
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        // A deadline beyond the clock's range never passes.
        self.take(command, (tag, false), limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    as_it_waits!();

    fn cancel(&mut self, tag: u64) -> Result<()> {
        let has_ended = self.ended.iter().any(|ended| ended.tag == tag && !ended.is_call);
        if has_ended || self.poller.ready.iter().any(|finished| finished.tag == tag) {
            return Ok(());
        }
        let index = self.slots.find(tag, false).ok_or_else(|| not_outstanding(tag))?;
        self.give_up(index, ErrorKind::Cancelled);
        Ok(())
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.slots.busy() + (self.ended.len() + self.poller.ready.len()) as u32 - self.poller.left_calls
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        let call = self.poller.next_call();
        self.take(command, (call, true), None)?;
        self.wait_for_call(call, self.timeout)
    }
}
