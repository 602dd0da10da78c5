//! Live paths, the ANA state of each namespace by each, and commands of lost paths that may still be executing.
//!
//! Admin threads write, queues read. Each change increments the version and signals every queue's notifier, so a queue that
//! has seen a version need not read again until there is another.
//!
//! Ordering: a version is made after its change, under the lock; who reads it with acquire, and then takes the lock, sees that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use byway_core::{Capabilities, Deadline, Error, ErrorKind, Identity, Nsid, Result};
use byway_fabrics::ControllerId;
use byway_spec::base::ana::AnaState;
use byway_sys::Wakeup;
use parking_lot::{Condvar, Mutex};
use tracing::debug;

use super::fence::{Fence, acquaint};
use crate::ana::States;
use crate::facts::Facts;
use crate::peer::Peer;
use crate::result::gone;

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// Host and port.
    pub portal: String,
    /// Why there is no connection, where there is none.
    pub lost: Option<String>,
    /// The ANA state of each namespace by it, where its controller reports them.
    pub states: Vec<(Nsid, AnaState)>,
}

/// The paths of one device.
#[derive(Debug)]
pub(crate) struct Paths {
    peers: Vec<Peer>,
    all: Mutex<All>,
    /// Notified of each version.
    changed: Condvar,
    version: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct All {
    paths: Vec<Path>,
    /// Since when no path is live.
    away: Option<Instant>,
    notifiers: Vec<Weak<Wakeup>>,
    /// Identity and capabilities, from the first path.
    identity: Option<(Identity, Capabilities)>,
}

#[derive(Debug, Default)]
struct Path {
    live: Option<LiveController>,
    /// Why it is not live.
    why: String,
    is_gone: bool,
    states: States,
    /// Controllers of generations below this one were lost.
    lost_below: u64,
    /// Of these, those that may not have ended.
    unsettled: Vec<u64>,
}

/// A controller that is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveController {
    pub generation: u64,
    pub controller: ControllerId,
    /// Controllers of other paths that its target has reported, by path and generation: it can confirm that these have ended.
    knows: Vec<(usize, u64)>,
}

/// One path, as its admin thread uses it.
#[derive(Debug, Clone)]
pub(crate) struct PathPlace {
    pub paths: Arc<Paths>,
    pub index: usize,
}

impl Paths {
    pub fn new(peers: Vec<Peer>) -> Self {
        let paths = peers.iter().map(|_| Path::default()).collect();
        let all = Mutex::new(All { paths, away: Some(Instant::now()), ..All::default() });
        let (version, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
        Self { peers, all, changed: Condvar::new(), version, is_over }
    }

    /// Goes up with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Changes something, and notifies all queues and waiters.
    fn change<R>(&self, change: impl FnOnce(&mut All) -> R) -> R {
        let mut all = self.all.lock();
        let changed = change(&mut all);
        self.version.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
        all.notifiers.retain(|notifier| notifier.upgrade().inspect(|notifier| notifier.raise()).is_some());
        changed
    }

    /// Signals `notifier` with every change.
    pub fn add_notifier(&self, notifier: &Arc<Wakeup>) {
        self.all.lock().notifiers.push(Arc::downgrade(notifier));
    }

    /// The device was closed.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The peer of a path.
    pub fn peer(&self, path: usize) -> &Peer {
        &self.peers[path]
    }

    /// The state of each path.
    pub fn status(&self) -> Vec<PathStatus> {
        let all = self.all.lock();
        let status = |(path, peer): (&Path, &Peer)| PathStatus {
            portal: peer.shown(),
            lost: path.live.is_none().then(|| path.why.clone()),
            states: path
                .states
                .iter()
                .filter_map(|(nsid, state)| Some((Nsid::new(nsid).ok()?, state)))
                .collect(),
        };
        all.paths.iter().zip(&self.peers).map(status).collect()
    }

    /// Sets the identity, and the capabilities that all paths of the opening have.
    pub fn set_identity(&self, identity: Identity, capabilities: Capabilities) {
        self.all.lock().identity = Some((identity, capabilities));
    }

    /// Rank of each path for commands to a namespace; `None` for a path that is not live or does not serve it.
    pub fn ranks(&self, nsid: u32, into: &mut [Option<u8>]) {
        for (path, rank) in self.all.lock().paths.iter().zip(into) {
            *rank = path.live.as_ref().and_then(|_| rank_of(path.states.state(nsid)));
        }
    }

    /// Waits for a live path for an admin command: the best for its namespace that is not among those `tried`. One that does not
    /// serve the namespace comes last: it still answers most admin commands.
    ///
    /// # Errors
    /// If no path is live in time, or all are given up.
    pub fn wait_for_any(&self, nsid: u32, tried: u64, deadline: Deadline) -> Result<usize> {
        let mut all = self.all.lock();
        loop {
            let paths = all.paths.iter().enumerate();
            let live = paths.filter(|(at, path)| path.live.is_some() && tried & 1 << at == 0);
            let rank = |path: &Path| rank_of(path.states.state(nsid)).unwrap_or(u8::MAX);
            if let Some((index, _)) = live.min_by_key(|(_, path)| rank(path)) {
                return Ok(index);
            }
            if let Some(path) = all.paths.iter().find(|_| all.paths.iter().all(|path| path.is_gone)) {
                return Err(gone(&path.why));
            }
            let left = deadline.left_or_max().min(Duration::from_secs(60));
            if left.is_zero() || tried != 0 {
                return Err(Error::device(ErrorKind::TimedOut, "no path to the subsystem stands"));
            }
            self.changed.wait_for(&mut all, left);
        }
    }

    /// A command met a state of a namespace by a path.
    pub fn met(&self, path: usize, nsid: u32, state: AnaState) {
        debug!(portal = %self.peer(path).shown(), nsid, ?state, "ANA state met by a command");
        self.change(|all| all.paths[path].states.met(nsid, state));
    }

    /// Whether the controller of a generation of a path has ended, and nothing that it was sent is done any more.
    pub fn has_ended(&self, path: usize, generation: u64) -> bool {
        let path = &self.all.lock().paths[path];
        generation < path.lost_below && !path.unsettled.contains(&generation)
    }

    /// The controller of a generation of a path has ended.
    pub fn settle(&self, path: usize, generation: u64) {
        self.change(|all| all.paths[path].unsettled.retain(|unsettled| *unsettled != generation));
    }

    /// Whether a path is live in this generation.
    pub fn stands(&self, path: usize, generation: u64) -> bool {
        let all = self.all.lock();
        all.paths[path].live.as_ref().is_some_and(|live| live.generation == generation)
    }

    /// The live paths.
    pub fn that_stand(&self) -> Vec<(usize, LiveController)> {
        let all = self.all.lock();
        let live = |(index, path): (usize, &Path)| Some((index, path.live.clone()?));
        all.paths.iter().enumerate().filter_map(live).collect()
    }

    /// The target of path `witness`, in this generation, has the controller of path `of`.
    pub fn note_known(&self, witness: (usize, u64), of: (usize, u64)) {
        let mut all = self.all.lock();
        let live = all.paths[witness.0].live.as_mut();
        if let Some(live) = live.filter(|live| live.generation == witness.1) {
            live.note(of);
        }
    }
}

impl LiveController {
    /// Whether it has had the controller of another path, and so can confirm that it is gone.
    pub fn knows(&self, of: (usize, u64)) -> bool {
        self.knows.contains(&of)
    }

    /// Records that its target has that controller.
    pub fn note(&mut self, of: (usize, u64)) {
        if !self.knows(of) {
            self.knows.push(of);
        }
    }
}

/// Optimized ranks before non-optimized; in any other state the path does not serve the namespace.
fn rank_of(state: AnaState) -> Option<u8> {
    match state {
        AnaState::OPTIMIZED => Some(0),
        AnaState::NON_OPTIMIZED => Some(1),
        _ => None,
    }
}

impl PathPlace {
    fn change<R>(&self, change: impl FnOnce(&mut Path) -> R) -> R {
        self.paths.change(|all| change(&mut all.paths[self.index]))
    }

    /// Refuses a controller of another device, or one that can do less than programs rely on.
    ///
    /// # Errors
    /// One sentence says which.
    pub fn check(&self, facts: &Facts) -> Result<()> {
        let all = self.paths.all.lock();
        let Some((identity, capabilities)) = &all.identity else { return Ok(()) };
        let at = self.paths.peer(self.index).shown();
        if facts.identity.serial != identity.serial || facts.identity.model != identity.model {
            let said = format!("{at} is a way to another device: {}", facts.identity.serial);
            return Err(Error::device(ErrorKind::Unsupported, said));
        }
        let (theirs, limits) = (&facts.capabilities.limits, &capabilities.limits);
        let nvm_limits = capabilities.nvm_limits;
        let has_lower_nvm_limit = nvm_limits.and(facts.capabilities.nvm_limits) != nvm_limits;
        // Commands beyond a lower depth wait for their turn.
        let has_lower_limit = theirs.transfer_bytes < limits.transfer_bytes
            || theirs.bulk_bytes < limits.bulk_bytes
            || theirs.result_bytes < limits.result_bytes
            || theirs.store_many_bytes < limits.store_many_bytes
            || capabilities.kv.and(facts.capabilities.kv) != capabilities.kv;
        if has_lower_limit || has_lower_nvm_limit {
            let said = format!("the controller at {at} takes less than that of another path");
            return Err(Error::device(ErrorKind::Unsupported, said));
        }
        Ok(())
    }

    /// The path is live. Witnesses that can confirm the end of its controller are introduced first.
    pub fn set_live(&self, generation: u64, controller: ControllerId, states: States) {
        let live =
            acquaint(&self.paths, self.index, LiveController { generation, controller, knows: Vec::new() });
        self.paths.change(|all| {
            all.away = None;
            let path = &mut all.paths[self.index];
            (path.states, path.live) = (states, Some(live));
        });
    }

    /// The path is lost. Its controller goes on for some time.
    pub fn set_lost(&self, why: &str, ends_within: Option<Duration>) {
        let lost = self.paths.change(|all| {
            let path = &mut all.paths[self.index];
            let lost = path.live.take()?;
            why.clone_into(&mut path.why);
            path.lost_below = lost.generation + 1;
            path.unsettled.push(lost.generation);
            if all.paths.iter().all(|path| path.live.is_none()) {
                all.away = Some(Instant::now());
            }
            Some(lost)
        });
        if let Some(lost) = lost {
            Fence::new(self, &lost, ends_within).begin();
        }
    }

    /// A reconnect attempt failed.
    pub fn still_away(&self, why: &str) {
        why.clone_into(&mut self.paths.all.lock().paths[self.index].why);
    }

    /// The path is given up: nothing reconnects it any more.
    pub fn give_up(&self, why: &str) {
        self.change(|path| {
            path.is_gone = true;
            why.clone_into(&mut path.why);
        });
    }

    /// Sets the ANA states by this path.
    pub fn set_states(&self, states: States) {
        let before = self.change(|path| std::mem::replace(&mut path.states, states.clone()));
        if before != states {
            debug!(portal = %self.paths.peer(self.index).shown(), ?states, "ANA states changed");
        }
    }

    /// For how long no path has been live.
    pub fn all_away_for(&self) -> Option<Duration> {
        self.paths.all.lock().away.map(|since| since.elapsed())
    }
}
