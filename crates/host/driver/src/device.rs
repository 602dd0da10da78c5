//! A device that is attached: what all of its queues share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use byway_core::layouts::Layouts;
use byway_core::{
    AdaptivePolicy, AdminCommand, Answer, Buffer, BufferPool, Capabilities, Error, ErrorKind, Failed,
    Identity, Namespace, Outcome, QueueOptions, RawData, RefusedAdmin, Result, Unprepared, check_admin,
    check_owner,
};
use byway_link::Method;
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::register::{Cc, Csts, Register};
use byway_spec::{Command as Entry, Status};
use byway_sys::{OwnerProcess, ProcessLocal};

use crate::admin::{AdminQueue, Ticket};
use crate::admin_commands::AdminCommands;
use crate::announced::Announced;
use crate::attach::{AttachOptions, attach};
use crate::bus::{Bus, BusError};
use crate::identify;
use crate::mapped::{from_bus, is_gone};
use crate::queue_pair::Queue;
use crate::rings::{RingMemory, Rings};

/// Ring entries of a queue without a given number, at least: an 8 KiB inline payload takes 129.
const RING_ENTRIES_MIN: u32 = 256;

/// How often a host that waits for an admin command looks and lets the device run before it sleeps.
const ADMIN_LOOKS: u32 = 1024;

/// The longest sleep before it looks again.
const ADMIN_SLEEP: Duration = Duration::from_millis(10);

/// How long an orderly shutdown may take.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// A device on a [`Bus`]: the driver's handle, cheap to clone. The device is shut down when the last handle and the last
/// queue are gone.
pub struct Driver<B: Bus> {
    shared: ProcessLocal<Arc<Shared<B>>>,
}

impl<B: Bus> Clone for Driver<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// What all queues of a device share.
pub(crate) struct Shared<B: Bus> {
    /// The process that attached it: the device's memory, rings and interrupts are its own.
    pub(crate) owner: OwnerProcess,
    pub(crate) bus: Arc<B>,
    pub(crate) pool: BufferPool,
    pub(crate) announced: Announced,
    pub(crate) admin: Mutex<AdminQueue<B>>,
    pub(crate) admin_timeout: Duration,
    pub(crate) layouts: Arc<Layouts>,
    pub(crate) identity: Identity,
    pub(crate) capabilities: Capabilities,
    pub(crate) command_sets: bool,
    /// Numbers of queues that are open.
    pub(crate) qids: Mutex<BTreeSet<u16>>,
    /// First bytes of the areas of byte memory that queues have.
    pub(crate) byte_areas: Mutex<BTreeSet<u64>>,
    /// Rings of queues that the device did not delete: not reused before the controller is disabled.
    pub(crate) undeleted: Mutex<Vec<RingMemory<B>>>,
}

impl<B: Bus> Driver<B> {
    /// Resets the device behind `bus`, starts it, and asks what it can do.
    ///
    /// # Errors
    /// When the device does not start, does not answer, or has no memory pages of 4 KiB.
    pub fn attach(bus: Arc<B>, options: AttachOptions) -> Result<Self> {
        Ok(Self { shared: Arc::new(attach(bus, options)?).into() })
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &Arc<B> {
        &self.shared.bus
    }

    /// Who the device says it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// What can be done with it.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    /// The namespaces that are attached, asked anew.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn namespaces(&self) -> Result<Vec<Namespace>> {
        check_owner(&self.shared.owner)?;
        identify::namespaces(&self.shared)
    }

    /// A buffer in memory that is mapped already. What it holds is left from its last use, or zeroes.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be mapped.
    pub fn buffer(&self, len: usize) -> Result<Buffer> {
        self.shared.pool.take(len)
    }

    /// Maps memory that a program brought, until the buffer and all that were cut from it are gone.
    ///
    /// # Errors
    /// For memory that is not whole pages, or that cannot be mapped.
    pub fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        if let Err(error) = check_owner(&self.shared.owner) {
            return Err(Unprepared { buffer: brought, error });
        }
        self.shared.pool.prepare(brought)
    }

    /// Sends an admin command and waits for it. Several threads may have theirs on their way at once.
    ///
    /// # Errors
    /// The device's status, or its silence; a command that names memory by addresses, or moves more than its data has.
    pub fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        check_owner(&self.shared.owner)?;
        check_admin(&command)?;
        self.shared.announced.admin.require(&command)?;
        self.shared.admin(command)
    }

    /// Admin commands that go on by themselves, several at once.
    #[must_use]
    pub fn admin_commands(&self) -> AdminCommands<B> {
        AdminCommands::new(Arc::clone(&self.shared))
    }

    /// Opens a queue.
    ///
    /// # Errors
    /// When the device did not announce the transfer method, the depth does not fit the ring, or no queue is left.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue<B>> {
        check_owner(&self.shared.owner)?;
        let (options, entries) = self.shared.ring_for(options)?;
        self.shared.check_methods(&options)?;
        let qid = self.shared.take_qid()?;
        // From here on the number goes back when the queue is dropped.
        let queue = Queue::new(Arc::clone(&self.shared), qid, entries, &options);
        let queue = queue.inspect_err(|_| self.shared.give_back_qid(qid))?;
        self.shared.create_queue(qid, &queue)?;
        Ok(queue)
    }
}

impl<B: Bus> Shared<B> {
    pub(crate) fn lock_admin(&self) -> MutexGuard<'_, AdminQueue<B>> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an admin command and waits for it.
    ///
    /// # Errors
    /// The device's status, or its silence.
    pub(crate) fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.admin_unexplained(command).map_err(|error| self.explained(error, 0))
    }

    /// The same, of whose failure the device is not asked more.
    pub(crate) fn admin_unexplained(&self, command: AdminCommand) -> Result<Outcome> {
        let mut waiting = AdminWait::default();
        let ticket = self.begin_admin_in_turn(command, &mut waiting)?;
        loop {
            let found = self.look_for_admin(&ticket);
            if let Some(result) = found.transpose() {
                return Ok(result??);
            }
            if let Err(error) = waiting.pause(self) {
                self.lock_admin().leave(&ticket);
                return Err(error);
            }
        }
    }

    /// Sends an admin command, once there is room for it.
    fn begin_admin_in_turn(&self, mut command: AdminCommand, waiting: &mut AdminWait) -> Result<Ticket> {
        loop {
            let mut admin = self.lock_admin();
            admin.look()?;
            match admin.begin(command, &self.pool) {
                Ok(ticket) => return Ok(ticket),
                Err(refused) if refused.error.kind() != ErrorKind::QueueFull => return Err(refused.error),
                Err(refused) => command = refused.command,
            }
            drop(admin);
            waiting.pause(self)?;
        }
    }

    /// Sends an admin command, if there is room for it.
    ///
    /// # Errors
    /// As [`AdminQueue::begin`].
    pub(crate) fn begin_admin(&self, command: AdminCommand) -> Result<Ticket, RefusedAdmin> {
        let mut admin = self.lock_admin();
        if let Err(error) = admin.look() {
            return Err(RefusedAdmin { command, error });
        }
        admin.begin(command, &self.pool)
    }

    /// Takes the admin completions that have come; what came of this command, if one was its own.
    pub(crate) fn look_for_admin(&self, ticket: &Ticket) -> Result<Option<Result<Outcome, Failed>>> {
        let mut admin = self.lock_admin();
        admin.look()?;
        Ok(admin.take(ticket))
    }

    /// Sends an admin command that has no data.
    ///
    /// # Errors
    /// The device's status, or its silence.
    pub(crate) fn admin_plain(&self, entry: Entry) -> Result<Answer> {
        Ok(self.admin(AdminCommand::raw(entry, RawData::None))?.answer)
    }

    /// Sets a feature to a value.
    ///
    /// # Errors
    /// The device's status, or its silence.
    pub(crate) fn set_feature(&self, feature: FeatureId, nsid: u32, value: u32) -> Result<Answer> {
        let mut entry = Entry::new(AdminOpcode::SET_FEATURES.0, 0, nsid);
        entry.cdw10 = FeatureCdw10::new().with_fid(feature).into_bits();
        entry.cdw11 = value;
        self.admin_plain(entry)
    }

    /// The options as the device can honour them, and entries of the rings of such a queue.
    fn ring_for(&self, options: QueueOptions) -> Result<(QueueOptions, u32)> {
        let max = self.announced.ring_entries_max;
        let wanted = options.depth.commands().saturating_add(1).max(RING_ENTRIES_MIN);
        let wanted = wanted.checked_next_power_of_two();
        let entries = options.ring_entries.unwrap_or(wanted.unwrap_or(max).min(max));
        let refuse = |said: String| Err(Error::host(ErrorKind::InvalidArgument, said));
        if !(2..=max).contains(&entries) {
            return refuse(format!("the device takes rings of 2 to {max} entries, not {entries}"));
        }
        let most = entries - 1;
        let options = options.capped(most);
        let depth = options.depth.commands();
        if !(1..=most).contains(&depth) {
            return refuse(format!("a ring of {entries} entries takes a depth of 1 to {most}, not {depth}"));
        }
        Ok((options, entries))
    }

    fn check_methods(&self, options: &QueueOptions) -> Result<()> {
        self.announced.methods.require(options.transfer)?;
        match options.policy {
            AdaptivePolicy::Threshold { below, .. } if options.transfer == Method::Adaptive => {
                self.announced.methods.require(below)?;
                if below == Method::Adaptive {
                    return Err(Error::host(ErrorKind::InvalidArgument, "adaptive cannot choose adaptive"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_qid(&self) -> Result<u16> {
        let mut open = self.qids.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.capabilities.limits.queues;
        let free = (1..=most).find(|qid| !open.contains(qid));
        let said = || format!("all {most} queues of the device are open");
        let qid = free.ok_or_else(|| Error::host(ErrorKind::Busy, said()))?;
        open.insert(qid);
        Ok(qid)
    }

    fn give_back_qid(&self, qid: u16) {
        self.qids.lock().unwrap_or_else(PoisonError::into_inner).remove(&qid);
    }

    /// Keeps the rings of a queue that the device may still use.
    fn keep_rings(&self, rings: &mut Rings<B>) {
        self.undeleted.lock().unwrap_or_else(PoisonError::into_inner).extend(rings.take_memory());
    }

    fn create_queue(&self, qid: u16, queue: &Queue<B>) -> Result<()> {
        let (submission, completion) = queue.rings.bus_addrs();
        let cdw10 =
            QueueCdw10::new().with_qid(qid).with_qsize_z((queue.ring_entries() - 1) as u16).into_bits();
        let mut entry = Entry::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        entry.cdw10 = cdw10;
        entry.cdw11 = CreateCqCdw11::new().with_pc(true).with_ien(true).with_iv(qid).into_bits();
        entry.set_prps(completion.0, 0);
        self.admin_plain(entry).map_err(|error| error.doing("create completion queue"))?;
        let mut entry = Entry::new(AdminOpcode::CREATE_SQ.0, 0, 0);
        entry.cdw10 = cdw10;
        entry.cdw11 = CreateSqCdw11::new().with_pc(true).with_cqid(qid).into_bits();
        entry.set_prps(submission.0, 0);
        self.admin_plain(entry).map_err(|error| error.doing("create submission queue"))?;
        Ok(())
    }

    /// Deletes a queue's rings, after which the device touches none of its memory.
    ///
    /// # Errors
    /// When the device does not say that it has done so.
    pub(crate) fn delete_queue(&self, qid: u16) -> Result<()> {
        for opcode in [AdminOpcode::DELETE_SQ, AdminOpcode::DELETE_CQ] {
            let mut entry = Entry::new(opcode.0, 0, 0);
            entry.cdw10 = QueueCdw10::new().with_qid(qid).into_bits();
            match self.admin_plain(entry) {
                // A queue that was never created.
                Err(error)
                    if error.nvme_status().is_some_and(|status| status.is(Status::INVALID_QUEUE_ID)) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Shuts the controller down normally (CC.SHN), and waits for it.
    ///
    /// # Errors
    /// When it does not say that it touches nothing of the host's memory any more, and is not gone either.
    fn shut_down(&self) -> Result<(), BusError> {
        let left = self.try_shut_down();
        if matches!(left, Err(BusError::Gone(_))) { Ok(()) } else { left }
    }

    fn try_shut_down(&self) -> Result<(), BusError> {
        let bits = self.bus.read_register(Register::CC.0, 4)?;
        let cc = Cc::from_bits(bits as u32).with_shn(Cc::SHN_NORMAL);
        self.bus.write_register(Register::CC.0, 4, cc.into_bits().into())?;
        // One that does not shut down in order is disabled all the same.
        let _ = self.await_status(|status| status.shst() == Csts::SHST_COMPLETE || status.cfs());
        self.bus.write_register(Register::CC.0, 4, cc.with_en(false).into_bits().into())?;
        self.await_status(|status| !status.rdy())
    }

    fn await_status(&self, wanted: impl Fn(Csts) -> bool) -> Result<(), BusError> {
        let since = Instant::now();
        loop {
            self.bus.poll();
            let bits = self.bus.read_register(Register::CSTS.0, 4)?;
            if bits as u32 == u32::MAX || wanted(Csts::from_bits(bits as u32)) {
                return Ok(());
            }
            if since.elapsed() > SHUTDOWN {
                return Err(BusError::Silent(format!("its status stays {bits:#x}")));
            }
            std::thread::yield_now();
        }
    }
}

/// How long a caller has waited for the admin queue: polls are cheap, the clock is read only after them.
#[derive(Debug, Default)]
struct AdminWait {
    looks: u32,
    since: Option<Instant>,
}

impl AdminWait {
    /// Between two looks: lets the device run, then sleeps for its interrupt.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] once an admin command may take no longer; when the device is gone.
    fn pause<B: Bus>(&mut self, device: &Shared<B>) -> Result<()> {
        self.looks += 1;
        device.bus.idle(0);
        device.bus.poll();
        if self.looks < ADMIN_LOOKS {
            return Ok(());
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > device.admin_timeout {
            let said = format!("no answer to an admin command within {:?}", device.admin_timeout);
            return Err(Error::device(ErrorKind::TimedOut, said));
        }
        device.bus.wait(0, ADMIN_SLEEP).map_err(from_bus)?;
        Ok(())
    }
}

impl<B: Bus> Drop for Shared<B> {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        if self.shut_down().is_err() {
            let undeleted = self.undeleted.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(undeleted));
        }
    }
}

impl<B: Bus> Drop for Queue<B> {
    /// In a forked child the queue stays as it is, which its parent goes on with: no command is sent, no memory given back.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            self.table.leak();
            self.bounce.leak();
            std::mem::forget(self.event.take());
            return;
        }
        self.leave_aborts();
        while let Some(finished) = self.take_ready() {
            drop(finished);
        }
        if self.device.delete_queue(self.qid()).is_err() {
            if is_gone(&**self.bus) {
                return;
            }
            self.table.leak();
            self.bounce.leak();
            self.device.keep_rings(&mut self.rings);
            // The number is not used again either: the device still has the queue.
            return;
        }
        self.bus.disarm(self.qid());
        self.device.give_back_qid(self.qid());
    }
}
