//! The connections of one queue, by path, and which of them is the best.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{Error, Result};
use byway_sys::Wakeup;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use super::live::Paths;
use super::slots::PATHS_MAX;
use crate::event_set::EventSet;
use crate::io_queue::IoQueue;
use crate::owner::Owner;
use crate::queue::Transport;
use crate::result::queue_lost;

/// The connections of one queue, by path.
pub(super) struct PathQueues {
    all: Vec<PathQueue>,
    paths: Arc<Paths>,
    chosen: Option<Chosen>,
}

/// A connection by one path.
struct PathQueue {
    queue: IoQueue,
    /// Number of commands submitted to the queue before this connection opened or ended.
    submitted_before: u64,
    /// Whether the connection was open at the last poll, and its generation.
    polled: (bool, u64),
}

/// The path that was chosen last.
#[derive(Clone, Copy)]
struct Chosen {
    version: u64,
    nsid: u32,
    path: usize,
}

impl PathQueue {
    fn new(queue: IoQueue) -> Self {
        Self { polled: (queue.is_open(), queue.generation()), queue, submitted_before: 0 }
    }

    /// Whether the connection opened or ended since the last call; `submitted` commands were submitted to the queue so far.
    fn has_changed(&mut self, submitted: u64) -> bool {
        let now = (self.queue.is_open(), self.queue.generation());
        if self.polled == now {
            return false;
        }
        (self.polled, self.submitted_before) = (now, submitted);
        true
    }
}

impl PathQueues {
    /// Of a queue of this depth, at the controllers of these owners.
    ///
    /// # Errors
    /// When a controller has no queue left, or all are given up.
    pub fn open(paths: Arc<Paths>, owners: &[Arc<Owner>], depth: u32) -> Result<Self> {
        let open = |owner: &Arc<Owner>| IoQueue::for_path(Arc::clone(owner), depth).map(PathQueue::new);
        let all = owners.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { all, paths, chosen: None })
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Why no path executes commands any more.
    #[inline]
    pub fn lost(&self) -> Option<Error> {
        let mut why = self.all.iter().map(|path| path.queue.why_gone());
        let first = why.next()??;
        why.all(|why| why.is_some()).then(|| queue_lost(first))
    }

    /// The best path for commands to a namespace.
    #[inline]
    pub fn choose(&mut self, nsid: u32) -> Option<usize> {
        let version = self.paths.version();
        match self.chosen {
            Some(chosen)
                if chosen.version == version
                    && chosen.nsid == nsid
                    && self.all[chosen.path].queue.is_open() =>
            {
                Some(chosen.path)
            }
            _ => self.choose_anew(version, nsid),
        }
    }

    #[cold]
    fn choose_anew(&mut self, version: u64, nsid: u32) -> Option<usize> {
        let mut ranks = [None; PATHS_MAX];
        self.paths.ranks(nsid, &mut ranks);
        let open = self.all.iter().zip(ranks).enumerate().filter(|(_, (path, _))| path.queue.is_open());
        let ranked = open.filter_map(|(index, (_, rank))| Some((rank?, index)));
        let path = ranked.min().map(|(_, index)| index)?;
        self.chosen = Some(Chosen { version, nsid, path });
        Some(path)
    }

    #[inline]
    pub fn queue(&self, path: usize) -> &IoQueue {
        &self.all[path].queue
    }

    #[inline]
    pub fn queue_mut(&mut self, path: usize) -> &mut IoQueue {
        &mut self.all[path].queue
    }

    /// Number of commands submitted to the queue before the path's connection opened or ended.
    pub fn submitted_before(&self, path: usize) -> u64 {
        self.all[path].submitted_before
    }

    /// Whether the path's connection opened or ended since the last call; `submitted` commands were submitted to the queue so
    /// far.
    #[inline]
    pub fn has_changed(&mut self, path: usize, submitted: u64) -> bool {
        let has_changed = self.all[path].has_changed(submitted);
        if has_changed {
            self.chosen = None;
        }
        has_changed
    }

    pub fn flush(&mut self) {
        self.all.iter_mut().for_each(|path| path.queue.flush());
    }

    /// How long until something is due on a path.
    pub fn time_left(&self) -> Option<Duration> {
        self.all.iter().filter_map(|path| path.queue.time_left()).min()
    }

    /// Sleeps until a path or `notifier` has an event, at most `timeout`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn park(&self, notifier: &Wakeup, timeout: Duration) -> Result<()> {
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let notifier = PollFd::new(notifier, PollFlags::IN);
        let mut fds: [PollFd<'_>; 1 + 2 * PATHS_MAX] = std::array::from_fn(|_| notifier.clone());
        let waited = self.all.iter().flat_map(|path| path.queue.waited_for());
        let mut count = 1;
        for (place, (fd, flags)) in fds.iter_mut().skip(1).zip(waited) {
            *place = PollFd::from_borrowed_fd(fd, flags);
            count += 1;
        }
        match poll(&mut fds[..count], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(cause) => Err(Error::kernel("waiting for the connections failed", cause.into())),
        }
    }

    pub fn clear_notifiers(&self) {
        self.all.iter().for_each(|path| path.queue.clear_notifier());
    }

    /// Creates the event descriptor of each path, and adds it to `set`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn open_events(&mut self, set: &EventSet) -> io::Result<()> {
        for path in &mut self.all {
            path.queue.open_event()?;
            path.queue.event().into_iter().try_for_each(|event| set.add(event, epoll::EventFlags::IN))?;
        }
        Ok(())
    }

    /// Makes the event descriptors readable at the next event.
    pub fn arm(&mut self) {
        self.all.iter_mut().for_each(|path| path.queue.arm(false));
    }
}
