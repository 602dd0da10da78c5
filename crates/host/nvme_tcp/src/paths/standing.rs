//! Which paths stand, how each reaches which namespace, and what of lost ones is not over yet.
//!
//! Keepers tell, queues ask. Whatever changes makes another version and raises every queue's bell, so a queue that has seen a
//! version need not look until there is another.
//!
//! Ordering: a version is made after its change, under the lock; who reads it with acquire, and then takes the lock, sees that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use byway_core::{Capabilities, Deadline, Error, ErrorKind, Identity, Nsid, Result};
use byway_fabrics::ControllerId;
use byway_spec::base::ana::AnaState;
use byway_sys::Wakeup;

use super::fence::{Fence, acquaint};
use crate::ana::States;
use crate::association::gone;
use crate::facts::Facts;
use crate::peer::Peer;

/// A path, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTold {
    /// Host and port.
    pub portal: String,
    /// Why there is no connection, where there is none.
    pub lost: Option<String>,
    /// How each namespace is reached by it, where its controller tells.
    pub states: Vec<(Nsid, AnaState)>,
}

/// The paths of one device.
#[derive(Debug)]
pub(crate) struct Paths {
    peers: Vec<Peer>,
    all: Mutex<All>,
    /// Told of each version.
    changed: Condvar,
    version: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct All {
    paths: Vec<Path>,
    /// Since when no path stands.
    away: Option<Instant>,
    bells: Vec<Weak<Wakeup>>,
    /// What the device is, as the first path told.
    told: Option<(Identity, Capabilities)>,
}

#[derive(Debug, Default)]
struct Path {
    standing: Option<Standing>,
    /// Why it does not stand.
    why: String,
    is_gone: bool,
    states: States,
    /// Controllers of earlier generations were lost.
    lost_below: u64,
    /// Of these, those that may not have ended.
    unsettled: Vec<u64>,
}

/// A controller that is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub generation: u64,
    pub controller: ControllerId,
    /// Controllers of other paths that have been seen there, by path and generation: of these it can say that they are gone.
    knows: Vec<(usize, u64)>,
}

/// One path, as its keeper has it.
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

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes up with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Changes something, and tells everybody.
    fn change<R>(&self, change: impl FnOnce(&mut All) -> R) -> R {
        let mut all = self.all();
        let changed = change(&mut all);
        self.version.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
        all.bells.retain(|bell| bell.upgrade().inspect(|bell| bell.raise()).is_some());
        changed
    }

    /// Has `bell` raised with every change.
    pub fn add_bell(&self, bell: &Arc<Wakeup>) {
        self.all().bells.push(Arc::downgrade(bell));
    }

    /// Nobody uses the device any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Who is at the other end of a path.
    pub fn peer(&self, path: usize) -> &Peer {
        &self.peers[path]
    }

    /// What there is to know of each path.
    pub fn told(&self) -> Vec<PathTold> {
        let all = self.all();
        let told = |(path, peer): (&Path, &Peer)| PathTold {
            portal: peer.shown(),
            lost: path.standing.is_none().then(|| path.why.clone()),
            states: path
                .states
                .iter()
                .filter_map(|(nsid, state)| Some((Nsid::new(nsid).ok()?, state)))
                .collect(),
        };
        all.paths.iter().zip(&self.peers).map(told).collect()
    }

    /// What the device is, and what can be done by each of its paths that stood at first.
    pub fn set_told(&self, identity: Identity, capabilities: Capabilities) {
        self.all().told = Some((identity, capabilities));
    }

    /// How good each path is for commands to a namespace: none of a path that does not stand, or does not serve it.
    pub fn ranks(&self, nsid: u32, into: &mut [Option<u8>]) {
        for (path, rank) in self.all().paths.iter().zip(into) {
            *rank = path.standing.as_ref().and_then(|_| rank_of(path.states.state(nsid)));
        }
    }

    /// A path that stands for an admin command, the best for its namespace that is not among those `tried`. One that does not
    /// serve the namespace is asked last: much of what is asked it answers all the same.
    ///
    /// # Errors
    /// When none stands in time, or all are given up.
    pub fn wait_for_any(&self, nsid: u32, tried: u64, deadline: Deadline) -> Result<usize> {
        let mut all = self.all();
        loop {
            let paths = all.paths.iter().enumerate();
            let standing = paths.filter(|(at, path)| path.standing.is_some() && tried & 1 << at == 0);
            let rank = |path: &Path| rank_of(path.states.state(nsid)).unwrap_or(u8::MAX);
            if let Some((index, _)) = standing.min_by_key(|(_, path)| rank(path)) {
                return Ok(index);
            }
            if let Some(path) = all.paths.iter().find(|_| all.paths.iter().all(|path| path.is_gone)) {
                return Err(gone(&path.why));
            }
            let left = deadline.left_or_max().min(Duration::from_secs(60));
            if left.is_zero() || tried != 0 {
                return Err(Error::device(ErrorKind::TimedOut, "no path to the subsystem stands"));
            }
            let waited = self.changed.wait_timeout(all, left);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A command met a state of a namespace by a path.
    pub fn met(&self, path: usize, nsid: u32, state: AnaState) {
        self.change(|all| all.paths[path].states.met(nsid, state));
    }

    /// Whether the controller of a generation of a path has ended, and nothing that it was sent is done any more.
    pub fn has_ended(&self, path: usize, generation: u64) -> bool {
        let path = &self.all().paths[path];
        generation < path.lost_below && !path.unsettled.contains(&generation)
    }

    /// The controller of a generation of a path has ended.
    pub fn settle(&self, path: usize, generation: u64) {
        self.change(|all| all.paths[path].unsettled.retain(|unsettled| *unsettled != generation));
    }

    /// Whether a path stands as it did in this generation.
    pub fn stands(&self, path: usize, generation: u64) -> bool {
        let all = self.all();
        all.paths[path].standing.as_ref().is_some_and(|standing| standing.generation == generation)
    }

    /// The paths that stand.
    pub fn that_stand(&self) -> Vec<(usize, Standing)> {
        let all = self.all();
        let standing = |(index, path): (usize, &Path)| Some((index, path.standing.clone()?));
        all.paths.iter().enumerate().filter_map(standing).collect()
    }

    /// Whoever is at the other end of `witness`, as it stands in this generation, has the controller of another path.
    pub fn note_known(&self, witness: (usize, u64), of: (usize, u64)) {
        let mut all = self.all();
        let standing = all.paths[witness.0].standing.as_mut();
        if let Some(standing) = standing.filter(|standing| standing.generation == witness.1) {
            standing.note(of);
        }
    }
}

impl Standing {
    /// Whether it has had the controller of another path, and so can tell that it is gone.
    pub fn knows(&self, of: (usize, u64)) -> bool {
        self.knows.contains(&of)
    }

    /// It has it.
    pub fn note(&mut self, of: (usize, u64)) {
        if !self.knows(of) {
            self.knows.push(of);
        }
    }
}

/// Optimized before all that is served otherwise.
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

    /// Refuses a controller of another device, or one that can do less than programs were told.
    ///
    /// # Errors
    /// One sentence says which.
    pub fn check(&self, facts: &Facts) -> Result<()> {
        let all = self.paths.all();
        let Some((identity, capabilities)) = &all.told else { return Ok(()) };
        let at = self.paths.peer(self.index).shown();
        if facts.identity.serial != identity.serial || facts.identity.model != identity.model {
            let said = format!("{at} is a way to another device: {}", facts.identity.serial);
            return Err(Error::device(ErrorKind::Unsupported, said));
        }
        let (theirs, limits) = (&facts.capabilities.limits, &capabilities.limits);
        let nvm_limits = capabilities.nvm_limits;
        let has_lower_nvm_limit = nvm_limits.and(facts.capabilities.nvm_limits) != nvm_limits;
        let has_lower_limit =
            theirs.transfer_bytes < limits.transfer_bytes || theirs.queue_depth < limits.queue_depth;
        if has_lower_limit || has_lower_nvm_limit {
            let said = format!("the controller at {at} takes less than that of another path");
            return Err(Error::device(ErrorKind::Unsupported, said));
        }
        Ok(())
    }

    /// The path stands. Whoever can say later that its controller has ended gets to know it first.
    pub fn found(&self, generation: u64, controller: ControllerId, states: States) {
        let standing =
            acquaint(&self.paths, self.index, Standing { generation, controller, knows: Vec::new() });
        self.paths.change(|all| {
            all.away = None;
            let path = &mut all.paths[self.index];
            (path.states, path.standing) = (states, Some(standing));
        });
    }

    /// The path is lost. Its controller goes on for some time.
    pub fn lost(&self, why: &str, ends_within: Option<Duration>) {
        let lost = self.paths.change(|all| {
            let path = &mut all.paths[self.index];
            let lost = path.standing.take()?;
            why.clone_into(&mut path.why);
            path.lost_below = lost.generation + 1;
            path.unsettled.push(lost.generation);
            if all.paths.iter().all(|path| path.standing.is_none()) {
                all.away = Some(Instant::now());
            }
            Some(lost)
        });
        if let Some(lost) = lost {
            Fence::new(self, &lost, ends_within).begin();
        }
    }

    /// It was looked for in vain.
    pub fn still_away(&self, why: &str) {
        why.clone_into(&mut self.paths.all().paths[self.index].why);
    }

    /// It is not looked for any more.
    pub fn is_gone(&self, why: &str) {
        self.change(|path| {
            path.is_gone = true;
            why.clone_into(&mut path.why);
        });
    }

    /// How namespaces are reached by it.
    pub fn told(&self, states: States) {
        self.change(|path| path.states = states);
    }

    /// For how long no path has stood.
    pub fn all_away_for(&self) -> Option<Duration> {
        self.paths.all().away.map(|since| since.elapsed())
    }
}
