//! A subsystem at several TCP addresses, as a backend.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;

use byway_core::layouts::Layouts;
use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Deadline, Error, ErrorKind, Identity, Namespace, Outcome,
    QueueOptions, Result,
};

use super::live::{PathPlace, PathStatus, Paths};
use super::multipath::Multipath;
use super::set::PathSet;
use super::slots::PATHS_MAX;
use crate::association::Association;
use crate::attach::{Attached, attach};
use crate::device::check_queue;
use crate::facts::Facts;
use crate::owner::Owner;
use crate::peer::{Peer, TcpOptions, TcpPlace};
use crate::queue::Queue;
use crate::result::NotAttached;

/// A queue of a subsystem at several TCP addresses.
pub type TcpPathsQueue = Queue<Multipath>;

/// A subsystem at several TCP addresses: commands go by the best that there is now.
#[derive(Clone)]
pub struct NvmeTcpPaths {
    set: Arc<PathSet>,
}

impl NvmeTcpPaths {
    /// The interface's name.
    pub const NAME: &str = "tcp";

    /// Connects to a subsystem by each of its portals. One of them is enough to begin with; the others are looked for.
    ///
    /// # Errors
    /// One sentence says why not: there is no portal that answers, one refuses this host for good, two lead to different
    /// devices, an option cannot be honoured.
    pub fn open(places: &[TcpPlace], options: &TcpOptions) -> Result<Self> {
        check_places(places, options)?;
        let peers = places.iter().map(|place| Peer::new(place.clone(), options.clone()));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let found = attach_all(&peers)?;
        let known: Vec<&Facts> = found.iter().flatten().map(|attached| &attached.facts).collect();
        let first = known.first().ok_or_else(|| Error::host(ErrorKind::NotFound, "no portal answers"))?;
        let (identity, command_sets) = (first.identity.clone(), first.command_sets);
        if let Some(other) = known.iter().find(|other| other.identity.serial != identity.serial) {
            let (this, other) = (&identity.serial, &other.identity.serial);
            let said = format!("the portals are ways to different devices: {this} and {other}");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let capabilities = least(&known);
        let paths = Arc::new(Paths::new(peers.clone()));
        paths.set_identity(identity.clone(), capabilities.clone());
        let layouts = Arc::new(Layouts::default());
        let mut owners = Vec::with_capacity(peers.len());
        for ((index, peer), found) in peers.into_iter().enumerate().zip(found) {
            let place = PathPlace { paths: Arc::clone(&paths), index };
            let association = Association::new(peer, Some(place), Arc::clone(&layouts))?;
            owners.push(Owner::start(association, found.map_err(|error| error.to_string()))?);
        }
        let set = PathSet { paths, owners, layouts, identity, capabilities, command_sets };
        Ok(Self { set: Arc::new(set) })
    }

    /// Each path, and how it is.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.set.paths.status()
    }
}

/// Refuses what are no several ways to one subsystem.
fn check_places(places: &[TcpPlace], options: &TcpOptions) -> Result<()> {
    let wrong = |said: String| Err(Error::host(ErrorKind::InvalidArgument, said));
    if places.is_empty() || places.len() > PATHS_MAX {
        return wrong(format!("a device has 1 to {PATHS_MAX} portals, not {}", places.len()));
    }
    if places.iter().any(|place| place.subsystem != places[0].subsystem) {
        return wrong("all portals of a device are those of one subsystem".into());
    }
    let twice = places.iter().enumerate().find(|(index, place)| places[..*index].contains(place));
    if let Some((_, place)) = twice {
        return wrong(format!("{}:{} is given twice", place.host, place.port));
    }
    if options.keep_alive.is_zero() && places.len() > 1 {
        // Without keep alive nothing bounds how long a lost controller may execute old writes.
        return wrong(
            "several portals need keep alive: a controller without it never ends its commands".into(),
        );
    }
    Ok(())
}

/// Connects to all at once.
fn attach_all(peers: &[Peer]) -> Result<Vec<Result<Attached>>> {
    let attached = answers(peers)?;
    let is_any = attached.iter().any(|one| one.is_ok());
    let mut found = Vec::with_capacity(attached.len());
    for one in attached {
        match one {
            Ok(attached) => found.push(Ok(attached)),
            Err(NotAttached { error, is_final: false }) if is_any => found.push(Err(error)),
            Err(NotAttached { error, .. }) => return Err(error),
        }
    }
    Ok(found)
}

/// The answer of each. A path that is silent for as long as the first controller's keep alive is connected later: the first
/// does not wait for it.
fn answers(peers: &[Peer]) -> Result<Vec<Result<Attached, NotAttached>>> {
    let (answer, answers) = channel();
    for (index, peer) in peers.iter().cloned().enumerate() {
        let answer = answer.clone();
        let attach = move || drop(answer.send((index, attach(&peer))));
        let begun = Builder::new().name("byway-attach".into()).spawn(attach);
        begun.map_err(|cause| Error::kernel("no thread to connect by", cause))?;
    }
    drop(answer);
    let mut said: Vec<_> = peers.iter().map(|peer| Err(is_silent(peer).into())).collect();
    let mut until = None;
    while let Some((index, attached)) = next_answer(&answers, until) {
        if attached.is_ok() {
            until.get_or_insert_with(|| Deadline::after(peers[index].options.keep_alive / 2));
        }
        said[index] = attached;
    }
    Ok(said)
}

/// The next, where there is one in time.
fn next_answer<T>(answers: &Receiver<T>, until: Option<Deadline>) -> Option<T> {
    match until {
        Some(until) => answers.recv_timeout(until.left_or_max()).ok(),
        None => answers.recv().ok(),
    }
}

fn is_silent(peer: &Peer) -> Error {
    Error::device(ErrorKind::TimedOut, format!("{} has not answered yet", peer.shown()))
}

/// What can be done whichever path a command goes by.
fn least(known: &[&Facts]) -> Capabilities {
    let mut all = known.iter().map(|facts| facts.capabilities.clone());
    let mut least = all.next().unwrap_or_default();
    for other in all {
        (least.nvm, least.admin) = (least.nvm.and(other.nvm), least.admin.and(other.admin));
        (least.kv, least.bulk_store) = (least.kv.and(other.kv), least.bulk_store && other.bulk_store);
        least.nvm_limits = least.nvm_limits.and(other.nvm_limits);
        let (limits, theirs) = (&mut least.limits, other.limits);
        limits.transfer_bytes = limits.transfer_bytes.min(theirs.transfer_bytes);
        limits.queues = limits.queues.min(theirs.queues);
        limits.ring_entries = limits.ring_entries.min(theirs.ring_entries);
        limits.queue_depth = limits.queue_depth.min(theirs.queue_depth);
        limits.bulk_bytes = limits.bulk_bytes.min(theirs.bulk_bytes);
        limits.result_bytes = limits.result_bytes.min(theirs.result_bytes);
        limits.store_many_bytes = limits.store_many_bytes.min(theirs.store_many_bytes);
        limits.inline_bytes = limits.inline_bytes.min(theirs.inline_bytes);
    }
    least
}

impl Backend for NvmeTcpPaths {
    type Queue = TcpPathsQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        &self.set.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.set.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.set.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<TcpPathsQueue> {
        let options = check_queue(self.capabilities(), options)?;
        let idle = self.set.paths.peer(0).options.idle;
        let transport = Multipath::open(Arc::clone(&self.set), options.depth.commands())?;
        Ok(Queue::new(transport, idle, &options))
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.set.admin(command, true)
    }
}

impl fmt::Debug for NvmeTcpPaths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NvmeTcpPaths").field("paths", &self.paths()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use byway_core::NvmLimits;

    use super::*;

    fn facts(verify_bytes: u64, write_zeroes_bytes: u64) -> Facts {
        let mut facts = Facts::default();
        facts.capabilities.nvm_limits =
            NvmLimits { verify_bytes, write_zeroes_bytes, ..NvmLimits::default() };
        facts
    }

    fn one_path() -> PathPlace {
        let subsystem = "nqn.2026-01.example:byway:test".parse().unwrap();
        let place = TcpPlace { host: "127.0.0.1".into(), port: 4420, subsystem };
        let peer = Peer::new(place, TcpOptions::default()).unwrap();
        PathPlace { paths: Arc::new(Paths::new(vec![peer])), index: 0 }
    }

    #[test]
    fn limits_of_nvm_commands_are_the_lowest_of_all_paths() {
        let least = least(&[&facts(0, 4096), &facts(8192, 0)]).nvm_limits;
        assert_eq!((least.verify_bytes, least.write_zeroes_bytes), (8192, 4096));
    }

    #[test]
    fn later_path_with_a_lower_limit_of_nvm_commands_is_refused() {
        let place = one_path();
        let first = facts(8192, 0);
        place.paths.set_identity(first.identity.clone(), first.capabilities.clone());
        for (verify_bytes, write_zeroes_bytes, is_taken) in
            [(8192, 0, true), (0, 0, true), (16384, 0, true), (4096, 0, false), (8192, 4096, false)]
        {
            let later = facts(verify_bytes, write_zeroes_bytes);
            assert_eq!(place.check(&later).is_ok(), is_taken, "{verify_bytes} {write_zeroes_bytes}");
        }
    }
}
