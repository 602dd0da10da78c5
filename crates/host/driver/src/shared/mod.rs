//! State that the driver's handles and all queues of one device share: the admin queue, the buffer pool, numbers of queues.

mod explain;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::layouts::Layouts;
use byway_core::{
    AdaptivePolicy, AdminCommand, Answer, BufferPool, Capabilities, Error, ErrorKind, Failed, Identity,
    NvmLimits, Outcome, QueueOptions, RawData, RefusedAdmin, Result,
};
use byway_link::Method;
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::register::{Cc, Csts, Register};
use byway_spec::{Command as Entry, Status};
use byway_sys::OwnerProcess;
use parking_lot::{Mutex, MutexGuard};
use tracing::{debug, warn};

use crate::admin::{AdminQueue, Ticket};
use crate::announced::Announced;
use crate::bus::{Bus, BusError};
use crate::mapped::{MapForBus, from_bus};
use crate::rings::{RingMemory, Rings};

/// Ring entries of a queue without a given number, at least: an 8 KiB inline payload takes 129.
const RING_ENTRIES_MIN: u32 = 256;

/// Polls of a thread that waits for an admin command before it sleeps.
const ADMIN_POLLS: u32 = 1024;

/// The longest sleep between two polls.
const ADMIN_SLEEP: Duration = Duration::from_millis(10);

/// Time limit of an orderly shutdown.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// What all queues of a device share.
pub(crate) struct Shared<B: Bus> {
    /// The process that attached it: the device's memory, rings and interrupts are its own.
    owner: OwnerProcess,
    bus: Arc<B>,
    pool: BufferPool,
    announced: Announced,
    admin: Mutex<AdminQueue<B>>,
    admin_timeout: Duration,
    layouts: Arc<Layouts>,
    identity: Identity,
    capabilities: Capabilities,
    command_sets: bool,
    /// Numbers of queues that are open.
    qids: Mutex<BTreeSet<u16>>,
    /// First bytes of the areas of byte memory that queues have.
    byte_areas: Mutex<BTreeSet<u64>>,
    /// Rings of queues that the device did not delete: not reused before the controller is disabled.
    undeleted: Mutex<Vec<RingMemory<B>>>,
}

impl<B: Bus> Shared<B> {
    /// A started controller that was not asked anything yet: it announced nothing.
    pub(crate) fn new(
        bus: Arc<B>,
        admin: AdminQueue<B>,
        layouts: Arc<Layouts>,
        keep_bytes: usize,
        admin_timeout: Duration,
        command_sets: bool,
    ) -> Self {
        Self {
            owner: OwnerProcess::current(),
            pool: BufferPool::new(MapForBus(Arc::clone(&bus)), keep_bytes),
            bus,
            announced: Announced::default(),
            admin: Mutex::new(admin),
            admin_timeout,
            layouts,
            identity: Identity::default(),
            capabilities: Capabilities::default(),
            command_sets,
            qids: Mutex::default(),
            byte_areas: Mutex::default(),
            undeleted: Mutex::default(),
        }
    }

    /// Keeps what the device announced, and its identity.
    pub(crate) fn describe(&mut self, announced: Announced, identity: Identity) {
        self.admin.get_mut().set_abort_limit(announced.abort_limit);
        self.announced = announced;
        self.identity = identity;
    }

    /// Keeps limits of commands that move no data.
    pub(crate) fn set_nvm_limits(&mut self, limits: NvmLimits) {
        self.announced.nvm_limits = limits;
    }

    /// Keeps what can be done with the device.
    pub(crate) fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    /// The process that attached the device.
    pub(crate) fn owner(&self) -> &OwnerProcess {
        &self.owner
    }

    #[inline]
    pub(crate) fn bus(&self) -> &Arc<B> {
        &self.bus
    }

    /// Buffers in memory that is mapped for the device.
    #[inline]
    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    #[inline]
    pub(crate) fn announced(&self) -> &Announced {
        &self.announced
    }

    /// Layouts of namespaces, as the device reported them last.
    #[inline]
    pub(crate) fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether Identify reports I/O command sets.
    pub(crate) fn reports_command_sets(&self) -> bool {
        self.command_sets
    }

    pub(crate) fn lock_admin(&self) -> MutexGuard<'_, AdminQueue<B>> {
        self.admin.lock()
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
    pub(crate) fn ring_for(&self, options: QueueOptions) -> Result<(QueueOptions, u32)> {
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

    /// Refuses a transfer method that the device did not announce.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]; [`ErrorKind::InvalidArgument`] where `adaptive` would choose itself.
    pub(crate) fn check_methods(&self, options: &QueueOptions) -> Result<()> {
        self.announced.methods.require(options.transfer)?;
        if options.inline_reads && self.announced.inline_read_max_bytes == 0 {
            let said = "the device did not announce inline reads";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
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

    /// Most bytes of a result that the commands of a queue let stand behind their completions.
    pub(crate) fn inline_read_max_bytes(&self, options: &QueueOptions) -> u16 {
        let announced = u16::try_from(self.announced.inline_read_max_bytes).unwrap_or(u16::MAX);
        if options.inline_reads { announced } else { 0 }
    }

    /// The lowest free queue number.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when all are taken.
    pub(crate) fn take_qid(&self) -> Result<u16> {
        let mut open = self.qids.lock();
        let most = self.capabilities.limits.queues;
        let free = (1..=most).find(|qid| !open.contains(qid));
        let said = || format!("all {most} queues of the device are open");
        let qid = free.ok_or_else(|| Error::host(ErrorKind::Busy, said()))?;
        open.insert(qid);
        Ok(qid)
    }

    pub(crate) fn give_back_qid(&self, qid: u16) {
        self.qids.lock().remove(&qid);
    }

    /// Takes the first free area of the controller memory buffer, of `areas` areas of `area_bytes` each; returns its offset.
    pub(crate) fn take_byte_area(&self, areas: u64, area_bytes: u64) -> Option<u64> {
        let mut taken = self.byte_areas.lock();
        let offset = (0..areas).map(|index| index * area_bytes).find(|offset| !taken.contains(offset))?;
        taken.insert(offset);
        Some(offset)
    }

    pub(crate) fn give_back_byte_area(&self, offset: u64) {
        self.byte_areas.lock().remove(&offset);
    }

    /// Keeps the rings of a queue that the device may still use.
    pub(crate) fn keep_rings(&self, rings: &mut Rings<B>) {
        self.undeleted.lock().extend(rings.take_memory());
    }

    /// Creates a queue pair on the device, in these rings.
    ///
    /// # Errors
    /// The device's status, or its silence.
    pub(crate) fn create_queue(&self, qid: u16, rings: &Rings<B>) -> Result<()> {
        let (submission, completion) = rings.bus_addrs();
        let cdw10 = QueueCdw10::new().with_qid(qid).with_qsize_z((rings.entries() - 1) as u16).into_bits();
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
    polls: u32,
    since: Option<Instant>,
}

impl AdminWait {
    /// Between two polls: lets the device run, then sleeps for its interrupt.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] once an admin command may take no longer; when the device is gone.
    fn pause<B: Bus>(&mut self, device: &Shared<B>) -> Result<()> {
        self.polls += 1;
        device.bus.idle(0);
        device.bus.poll();
        if self.polls < ADMIN_POLLS {
            return Ok(());
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > device.admin_timeout {
            warn!(bus = device.bus.name(), after = ?device.admin_timeout, "admin command timed out");
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
        let left = self.shut_down();
        debug!(bus = self.bus.name(), error = ?left.as_ref().err(), "device shut down");
        if left.is_err() {
            let undeleted = self.undeleted.get_mut();
            std::mem::forget(std::mem::take(undeleted));
        }
    }
}
