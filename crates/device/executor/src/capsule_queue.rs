//! Execution of a fabrics queue's commands without the run lock (decision 73).

use std::sync::Arc;

use byway_controller::{FastAnswer, FastCommand, FastPath, Tally};
use byway_queue::Grant;
use byway_spec::Command;

use crate::capsules::{Capsules, contain};
use crate::core::Core;
use crate::executor::Executor;
use crate::options::Failed;
use crate::serving_threads::ServingThreads;

/// Commands executed without the run lock before they are counted under it: what a kill loses of the counters at most.
const UNCOUNTED_MAX: u32 = 1 << 16;

/// Batches under the run lock before rights are asked for again: of what was refused the reason may be gone.
const RETRY_AFTER_BATCHES: u32 = 256;

/// A thread of a target, which executes commands of its queues without the run lock.
#[derive(Debug)]
pub struct ServingThread {
    capsules: Capsules,
    at: usize,
}

/// Takes the run lock, so that its holders look at the thread's mark no more: no holder drops a thread.
impl Drop for ServingThread {
    fn drop(&mut self) {
        let executor = self.capsules.executor();
        // A failed device has no holders.
        let _ =
            contain(|| executor.with_core_only(|_| executor.remove_reader(ServingThreads::reader(self.at))));
        executor.serving_threads().remove(self.at);
    }
}

impl Capsules {
    /// A thread that executes commands without the run lock, until it is dropped. `None` if there are too many, and on a failed device.
    #[must_use]
    pub fn serving_thread(&self) -> Option<Arc<ServingThread>> {
        let executor = self.executor();
        let at = executor.serving_threads().add()?;
        let thread = Arc::new(ServingThread { capsules: self.clone(), at });
        executor.add_serving_thread(at).ok()?;
        Some(thread)
    }
}

impl Executor {
    fn add_serving_thread(&self, at: usize) -> Result<(), Failed> {
        self.with_core_only(|_| self.add_reader(ServingThreads::reader(at)))
    }
}

/// One fabrics queue of a serving thread: its rights to execute commands without the run lock.
#[derive(Debug)]
pub struct CapsuleQueue {
    thread: Arc<ServingThread>,
    path: FastPath,
    /// When its rights were granted, or refused.
    decided: Option<Grant>,
    is_granted: bool,
    /// Batches under the run lock until they are asked for again.
    batches_until_retry: u32,
    uncounted: u32,
}

impl CapsuleQueue {
    /// A queue without rights.
    #[must_use]
    pub fn new(thread: Arc<ServingThread>) -> Self {
        Self {
            thread,
            path: FastPath::default(),
            decided: None,
            is_granted: false,
            batches_until_retry: 0,
            uncounted: 0,
        }
    }

    fn executor(&self) -> &Executor {
        self.thread.capsules.executor()
    }

    fn tally(&self) -> &Tally {
        self.executor().serving_threads().tally(self.thread.at)
    }

    fn is_decided(&self) -> bool {
        self.decided.is_some_and(|decided| self.executor().serving_threads().grants().is_valid(decided))
    }

    /// Whether commands may be executed without the run lock now. Else the next one takes it, and the rights are
    /// [granted](crate::CapsuleDevice::grant) anew there.
    #[inline]
    #[must_use]
    pub fn is_granted(&self) -> bool {
        self.is_granted
            && self.uncounted < UNCOUNTED_MAX
            && self.is_decided()
            && !self.executor().has_failed()
    }

    /// What a command is here; `None` for one that takes the run lock.
    #[inline]
    #[must_use]
    pub fn kind_of(&self, command: &Command) -> Option<FastCommand> {
        self.path.kind_of(command)
    }

    /// Executes a command with its data; what it reads is written to `reply`. `None` where that takes the run lock: then nothing was done,
    /// and `reply` holds anything.
    #[inline]
    pub fn execute(
        &mut self,
        kind: FastCommand,
        command: &Command,
        data: Option<&[u8]>,
        reply: &mut [u8],
    ) -> Option<FastAnswer> {
        // Leases outlive a panic of another thread under the run lock: what failed acknowledges nothing more.
        let granted = self.decided.filter(|_| self.is_granted && !self.executor().has_failed())?;
        let answer = contain(|| {
            let executor = self.thread.capsules.executor();
            Ok(executor.poison_on_panic(|| match kind {
                FastCommand::Read => self.read(granted, command, reply),
                FastCommand::Get => self.get(granted, command, reply),
                FastCommand::Put => self.path.put(command, data?, self.tally()),
            }))
        });
        let answer = match answer.ok()? {
            None if kind == FastCommand::Put => self.put_and_renew(granted, command, data?),
            answer => answer,
        };
        self.uncounted += u32::from(answer.is_some());
        if answer.is_none() && kind == FastCommand::Read && self.path.is_outdated(command) {
            // The next command under the run lock renews it.
            self.decided = None;
        }
        answer
    }

    #[inline]
    fn read(&self, granted: Grant, command: &Command, reply: &mut [u8]) -> Option<FastAnswer> {
        let grants = self.executor().serving_threads().grants();
        let reads = grants.under(granted, || self.path.read(command, reply))?;
        self.tally().add_read(reply.len() as u64, reads);
        Some(FastAnswer::DONE)
    }

    #[inline]
    fn get(&self, granted: Grant, command: &Command, reply: &mut [u8]) -> Option<FastAnswer> {
        let (executor, reader) = (self.executor(), ServingThreads::reader(self.thread.at));
        let grants = executor.serving_threads().grants();
        let get = |subsystem: &_| match grants.is_valid(granted) {
            true => self.path.get(subsystem, command, reply, self.tally()),
            false => None,
        };
        executor.read(reader, get).flatten()
    }

    /// Stores under the run lock, and renews the lease. Only a store by a lease leaves those of other queues active.
    #[cold]
    fn put_and_renew(&mut self, granted: Grant, command: &Command, value: &[u8]) -> Option<FastAnswer> {
        let Self { thread, path, .. } = self;
        let executor = thread.capsules.executor();
        let threads = executor.serving_threads();
        let has_lease = path.has_lease(command);
        let put = |core: &mut Core| match threads.grants().is_valid(granted) {
            true => path.put_and_renew(&mut core.subsystem, command, value, threads.tally(thread.at)),
            false => None,
        };
        contain(|| if has_lease { executor.with_core_as_it_is(put) } else { executor.with_core_only(put) })
            .ok()?
    }

    /// Has `decide` grant the rights anew where they have ended, and some batches later in any case. Under the run lock.
    pub(crate) fn renew(&mut self, core: &mut Core, decide: impl FnOnce(&mut Core, &mut FastPath) -> bool) {
        if self.uncounted >= UNCOUNTED_MAX {
            let Self { thread, uncounted, .. } = self;
            core.count_tallies(thread.capsules.executor());
            *uncounted = 0;
        }
        let is_decided = self.is_decided();
        if is_decided && self.batches_until_retry > 0 {
            self.batches_until_retry -= 1;
            return;
        }
        if !is_decided {
            self.path.close(&mut core.subsystem);
        }
        self.is_granted = decide(core, &mut self.path);
        self.decided = Some(self.executor().serving_threads().grants().give());
        self.batches_until_retry = RETRY_AFTER_BATCHES;
    }
}

/// Ends its leases under the run lock: no holder of the lock drops a queue that has any.
impl Drop for CapsuleQueue {
    fn drop(&mut self) {
        if self.path.has_leases() {
            let Self { thread, path, .. } = self;
            // A failed device has no leases.
            let _ =
                contain(|| thread.capsules.executor().with_core_only(|core| path.close(&mut core.subsystem)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZeroU16;

    use byway_controller::{ControllerId, Identity, NoInterrupts, PortId, Subsystem, SubsystemOptions};
    use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
    use byway_link::{ClockMode, Profile};
    use byway_spec::base::register::Register;
    use byway_spec::kv::{KvCdw11, KvOpcode};

    use super::*;
    use crate::{Embedded, Hosts, UpkeepBy};

    const QID: u16 = 1;

    /// CC of a controller with all command sets, and entries of the usual sizes.
    const ENABLED: u32 = 0x0046_0061;

    fn device() -> Embedded {
        let profile = Profile::by_name("gen4x4").unwrap();
        let options = FlashOptions::new(128 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]);
        let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: 64 << 20 };
        let flash = Flash::create(options, &[spec]).unwrap();
        let identity = Identity { nqn: "nqn.2026-01.t:x".into(), serial: "1".into(), model: "m".into() };
        let subsystem = Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap();
        let hosts = Hosts {
            interrupts: Arc::new(NoInterrupts),
            doorbells: None,
            threads: NonZeroU16::MIN,
            engines: None,
            upkeep_by: UpkeepBy::Off,
        };
        Embedded::serve(subsystem, ClockMode::Off, true, hosts).unwrap()
    }

    /// Connects a host with one I/O queue, which is granted what it needs no run lock for.
    fn connect(capsules: &Capsules) -> (ControllerId, CapsuleQueue) {
        let mut queue = CapsuleQueue::new(capsules.serving_thread().unwrap());
        let connect = |device: &mut crate::CapsuleDevice<'_>| {
            let id = device.attach(None, PortId(1)).unwrap();
            device.connect(id, 0, 32).unwrap();
            device.write_register(id, Register::CC.0, ENABLED);
            device.connect(id, QID, 32).unwrap();
            device.grant((id, QID), &mut queue);
            id
        };
        let id = capsules.run_alone(connect).unwrap();
        (id, queue)
    }

    fn store(key: u32, value: &[u8]) -> Command {
        let mut command = Command::new(KvOpcode::STORE.0, 0, 1);
        command.set_key(&key.to_be_bytes());
        command.cdw10 = value.len() as u32;
        command.cdw11 = KvCdw11::new().with_key_len(4).into_bits();
        command
    }

    #[test]
    fn queues_that_come_and_go_leave_no_lease_and_no_reader() {
        let embedded = device();
        let capsules = embedded.capsules().unwrap();
        for round in 0..10_000 {
            let (id, mut queue) = connect(&capsules);
            let command = store(round % 100, b"value");
            assert!(queue.execute(FastCommand::Put, &command, Some(b"value"), &mut []).is_some());
            assert!(queue.path.has_lease(&command), "round {round}");
            assert_eq!(capsules.executor().readers(), 1);
            drop(queue);
            capsules.run(|device| device.detach(id)).unwrap();
            assert!(!capsules.run(|device| device.has_controller(id)).unwrap());
        }
        assert_eq!(capsules.executor().readers(), 0);
    }

    #[test]
    fn poll_for_events_leaves_leases_active() {
        let embedded = device();
        let capsules = embedded.capsules().unwrap();
        let (id, mut queue) = connect(&capsules);
        let mut put =
            |key: u32| queue.execute(FastCommand::Put, &store(key, b"value"), Some(b"value"), &mut []);
        assert!(put(0).is_some(), "it takes the run lock, and has a lease from then on");
        let by_lease = |queue: &CapsuleQueue, key| {
            queue.path.put(&store(key, b"value"), b"value", queue.tally()).is_some()
        };
        capsules.run_as_it_is(|device| device.attend(id)).unwrap();
        assert!(by_lease(&queue, 1));
        capsules.run(|device| device.attend(id)).unwrap();
        assert!(!by_lease(&queue, 2), "it was recalled");
    }

    #[test]
    fn rights_end_with_register_writes_of_a_host_in_this_process_not_with_its_reads() {
        let embedded = device();
        let (_, queue) = connect(&embedded.capsules().unwrap());
        let host = embedded.host();
        host.read_register(Register::CSTS.0, 4).unwrap();
        assert!(queue.is_granted());
        host.write_register(Register::CC.0, 4, 0).unwrap();
        assert!(!queue.is_granted());
    }
}
