//! What the threads of a target share, and where each finds what others leave it.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_sys::Wakeup;

use crate::control::ControlError;
use crate::counters::ThreadCounters;
use crate::directory::Listing;
use crate::entrance::Entrance;
use crate::premises::{Place, Premises};
use crate::site::Site;

/// Connections of a target at once.
const CONNECTIONS_MAX: usize = 16384;

/// What all threads of a target share.
#[derive(Debug)]
pub struct Crew {
    /// What connections share.
    pub premises: Arc<Premises>,
    /// Where hosts come in, by the first thread.
    pub entrance: Entrance,
    /// The threads are to end.
    pub stop: AtomicBool,
    /// Where each finds connections that another accepted.
    pub inboxes: Vec<Inbox>,
    /// Connections so far, to give each thread its share.
    came: AtomicUsize,
    /// Connections now.
    here: AtomicUsize,
    /// What each thread counts.
    pub counters: Vec<ThreadCounters>,
    /// Held by who changes what there is, from beginning to end.
    changing: Mutex<()>,
}

/// Where a thread finds what others leave it.
#[derive(Debug)]
pub struct Inbox {
    /// Raised where there is something to look at.
    pub bell: Arc<Wakeup>,
    connections: Mutex<Vec<(TcpStream, Place)>>,
}

impl Inbox {
    fn new() -> io::Result<Self> {
        Ok(Self { bell: Arc::new(Wakeup::new()?), connections: Mutex::default() })
    }

    /// Leaves a connection.
    pub fn put(&self, stream: TcpStream, place: Place) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push((stream, place));
        self.bell.raise();
    }

    /// What was left.
    pub fn take(&self) -> Vec<(TcpStream, Place)> {
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Crew {
    /// So many threads.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(premises: Arc<Premises>, entrance: Entrance, threads: usize) -> io::Result<Self> {
        let inboxes = (0..threads).map(|_| Inbox::new()).collect::<io::Result<Vec<_>>>()?;
        let (came, here) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let counters = (0..threads).map(|_| ThreadCounters::default()).collect();
        let (stop, changing) = (AtomicBool::new(false), Mutex::default());
        let crew = Self { premises, entrance, stop, inboxes, came, here, counters, changing };
        crew.premises.directory.listing().sites.iter().for_each(|site| crew.hear_of(site));
        Ok(crew)
    }

    /// Has the threads told when something comes of a subsystem by itself.
    pub fn hear_of(&self, site: &Site) {
        self.inboxes.iter().for_each(|inbox| site.device.add_bell(&inbox.bell));
    }

    /// Lets nobody else change what there is meanwhile.
    pub fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what there is, and has those told who stay to hear of it.
    ///
    /// # Errors
    /// As `change` has them.
    pub fn change(
        &self,
        change: impl FnOnce(&mut Listing) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        self.premises.directory.change(change)?;
        self.ring();
        Ok(())
    }

    /// Has each thread look at what changed.
    pub fn ring(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.bell.raise());
    }

    /// Ends the threads.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.ring();
    }

    /// The thread that the next connection goes to; none where there are too many.
    pub fn admit(&self) -> Option<usize> {
        if self.here.load(Relaxed) >= CONNECTIONS_MAX {
            self.premises.rare.turn_away();
            return None;
        }
        self.here.fetch_add(1, Relaxed);
        self.premises.rare.accept();
        Some(self.came.fetch_add(1, Relaxed) % self.inboxes.len())
    }

    /// A connection is gone.
    pub fn dismiss(&self) {
        self.here.fetch_sub(1, Relaxed);
    }
}
