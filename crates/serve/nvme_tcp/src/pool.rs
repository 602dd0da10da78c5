//! The thread pool of a target: shared state, and an inbox for each thread.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use byway_sys::Wakeup;
use parking_lot::{Mutex, MutexGuard};

use crate::acceptor::Acceptor;
use crate::counters::ThreadCounters;
use crate::directory::Listing;
use crate::endpoints::Endpoints;
use crate::subsystem::Subsystem;
use crate::target_state::TargetState;

/// Open connections of a target, at most.
const CONNECTIONS_MAX: usize = 16384;

/// State shared by the threads of a target.
#[derive(Debug)]
pub struct ThreadPool {
    target: Arc<TargetState>,
    /// Listening sockets; thread 0 accepts from them.
    acceptor: Acceptor,
    /// Set when the threads must exit.
    stop: AtomicBool,
    /// By thread: connections that thread 0 accepted for it.
    inboxes: Vec<Inbox>,
    /// Connections accepted so far; assigns threads round-robin.
    accepted: AtomicUsize,
    /// Open connections.
    open: AtomicUsize,
    /// By thread: its counters.
    counters: Vec<ThreadCounters>,
    /// Held for the whole of a configuration change.
    changing: Mutex<()>,
}

/// Connections handed to a thread by the accepting thread.
#[derive(Debug)]
pub struct Inbox {
    /// Signalled when the inbox has connections, or a device has completions.
    notifier: Arc<Wakeup>,
    connections: Mutex<Vec<(TcpStream, Endpoints)>>,
}

impl Inbox {
    fn new() -> io::Result<Self> {
        Ok(Self { notifier: Arc::new(Wakeup::new()?), connections: Mutex::default() })
    }

    /// The eventfd that wakes the thread.
    pub fn notifier(&self) -> &Wakeup {
        &self.notifier
    }

    /// Hands a connection to the thread.
    pub fn put(&self, stream: TcpStream, endpoints: Endpoints) {
        self.connections.lock().push((stream, endpoints));
        self.notifier.raise();
    }

    /// Takes all handed connections.
    pub fn take(&self) -> Vec<(TcpStream, Endpoints)> {
        std::mem::take(&mut *self.connections.lock())
    }
}

impl ThreadPool {
    /// The shared state of `threads` threads.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(target: Arc<TargetState>, acceptor: Acceptor, threads: usize) -> io::Result<Self> {
        let pool = Self {
            target,
            acceptor,
            stop: AtomicBool::new(false),
            inboxes: (0..threads).map(|_| Inbox::new()).collect::<io::Result<_>>()?,
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            counters: (0..threads).map(|_| ThreadCounters::default()).collect(),
            changing: Mutex::default(),
        };
        let listing = pool.target.directory.listing();
        listing.subsystems.iter().for_each(|subsystem| pool.add_notifiers(subsystem));
        Ok(pool)
    }

    /// State shared by connections.
    pub fn target(&self) -> &Arc<TargetState> {
        &self.target
    }

    /// The listening sockets.
    pub fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.inboxes.len()
    }

    /// The inbox of a thread.
    pub fn inbox(&self, thread: usize) -> &Inbox {
        &self.inboxes[thread]
    }

    /// The counters of a thread.
    pub(crate) fn counters(&self, thread: usize) -> &ThreadCounters {
        &self.counters[thread]
    }

    /// The counters of all threads.
    pub(crate) fn all_counters(&self) -> impl Iterator<Item = &ThreadCounters> + Clone {
        self.counters.iter()
    }

    /// Has a subsystem's device notify every thread of completions and events.
    pub fn add_notifiers(&self, subsystem: &Subsystem) {
        self.inboxes.iter().for_each(|inbox| subsystem.device().add_notifier(&inbox.notifier));
    }

    /// Locks out other configuration changes until the guard is dropped.
    pub fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Changes the directory, then notifies every thread so that discovery clients get their event.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change<E>(&self, change: impl FnOnce(&mut Listing) -> Result<(), E>) -> Result<(), E> {
        self.target.directory.change(change)?;
        self.notify_all();
        Ok(())
    }

    /// Notifies every thread.
    pub fn notify_all(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.notifier.raise());
    }

    /// Whether the threads must exit.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Makes the threads exit.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.notify_all();
    }

    /// The thread for the next connection; `None` when [`CONNECTIONS_MAX`] are open.
    pub fn admit(&self) -> Option<usize> {
        if self.open.load(Relaxed) >= CONNECTIONS_MAX {
            self.target.counters.turn_away();
            return None;
        }
        self.open.fetch_add(1, Relaxed);
        self.target.counters.accept();
        Some(self.accepted.fetch_add(1, Relaxed) % self.inboxes.len())
    }

    /// Counts a closed connection.
    pub fn release(&self) {
        self.open.fetch_sub(1, Relaxed);
    }
}
