//! One NVMe controller: its parts, and how they work together. Transport-free and sans-I/O.
//!
//! [`Controller::run`] serves the doorbells, up to a budget, and returns when it wants to run next. It owns no thread,
//! clock, socket or randomness, so one seed replays driver, controller, flash and faults exactly. The files of this
//! folder pass commands between the parts; each part owns its state.

mod abort;
mod admin;
mod capsules;
mod deferred;
mod delegation;
mod doorbells;
mod exec;
mod external;
mod finish;
mod fused;
mod inline_result;
mod io;
mod programs;
mod query;
mod run;
mod sync;
mod vendor;

use byway_link::Habits;
use byway_link::cost::inline_read_max_bytes;
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::base::register::{Cc, Csts};
use tracing::{debug, info, warn};

use crate::admin::AdminState;
use crate::capsules::CapsuleQueues;
use crate::completion::Completions;
use crate::deferred::Deferred;
use crate::external::ExternalCommands;
use crate::group_commit::GroupCommit;
use crate::id::ControllerId;
use crate::limits::MAX_IO_QUEUES;
use crate::namespace::Room;
use crate::query::Plans;
use crate::queue::Queues;
use crate::register::{CmbRegisters, Event, Registers};
use crate::subsystem::Subsystem;
use crate::transfer::payloads::PayloadTable;

/// One controller of a subsystem.
#[derive(Debug)]
pub struct Controller {
    id: ControllerId,
    registers: Registers,
    queues: Queues,
    completions: Completions,
    /// Commands that await durability.
    group_commit: GroupCommit,
    /// Commands that external engines execute.
    external: ExternalCommands,
    deferred: Deferred,
    admin: AdminState,
    /// Values that come in pieces by pass-through commands.
    payloads: PayloadTable,
    /// Queries whose text comes in parts.
    plans: Plans,
    /// Working memory of the current command.
    room: Room,
    /// Inline payload of the current command; its length is the longest allowed.
    inline: Vec<u8>,
    /// Longest result behind its completion in bytes.
    result_max_bytes: usize,
    habits: Habits,
    /// Doorbells in host memory are read by polling, so no event indexes are left.
    polls_doorbell_buffers: bool,
    /// The queues of a controller over a fabric, whose commands come in capsules.
    capsules: Option<Box<CapsuleQueues>>,
    /// Subsystem resets that this controller went through, or was made after.
    resets_seen: u64,
}

/// When a controller wants to run next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When a doorbell or a register is written.
    Idle,
    /// As soon as possible: the budget ran out.
    Now,
    /// At this modelled time, in picoseconds, or when a doorbell is written.
    At(u64),
}

impl Controller {
    /// A controller as after power-on.
    pub fn new(id: ControllerId, subsystem: &mut Subsystem, cmb: CmbRegisters) -> Self {
        let inline = vec![0; subsystem.profile().limits.inline_max_bytes as usize];
        let result_max_bytes = inline_read_max_bytes(subsystem.profile()) as usize;
        let queues = usize::from(MAX_IO_QUEUES) + 1;
        Self { inline, result_max_bytes, ..Self::with_queues(id, subsystem, cmb, queues) }
    }

    /// A controller with room for `queues` queue pairs and no inline payloads.
    fn with_queues(id: ControllerId, subsystem: &mut Subsystem, cmb: CmbRegisters, queues: usize) -> Self {
        subsystem.add_controller(id);
        let habits = subsystem.profile().habits;
        Self {
            id,
            registers: Registers::new(cmb),
            queues: Queues::new(queues),
            completions: Completions::new(habits.coalesce_interrupts),
            group_commit: GroupCommit::default(),
            external: ExternalCommands::default(),
            deferred: Deferred::default(),
            admin: AdminState::default(),
            payloads: PayloadTable::default(),
            plans: Plans::default(),
            room: Room::default(),
            inline: Vec::new(),
            result_max_bytes: 0,
            habits,
            polls_doorbell_buffers: false,
            capsules: None,
            resets_seen: subsystem.resets(),
        }
    }

    /// This controller's identifier.
    pub fn id(&self) -> ControllerId {
        self.id
    }

    /// Whether the host enabled the controller and it serves commands.
    pub fn is_ready(&self) -> bool {
        self.registers.csts().rdy() && !self.registers.csts().cfs()
    }

    /// Reads 4 bytes of the register space.
    pub fn read_register(&self, offset: u32) -> u32 {
        self.registers.read32(offset)
    }

    /// Writes 4 bytes of the register space and does what the write asks for.
    pub fn write_register(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &Doorbells,
        offset: u32,
        value: u32,
    ) {
        self.follow_subsystem_reset(subsystem, doorbells);
        match self.registers.write32(offset, value) {
            Event::None => {}
            Event::Enable => self.enable(),
            Event::Reset => {
                debug!(controller = self.id.0, "CC.EN cleared: controller reset");
                self.reset(subsystem, doorbells);
            }
            Event::Shutdown => self.begin_shutdown(subsystem),
            Event::SubsystemReset => {
                info!(controller = self.id.0, "NVM subsystem reset");
                subsystem.count_reset();
                self.follow_subsystem_reset(subsystem, doorbells);
            }
        }
    }

    /// Goes through a reset of the whole subsystem, if there was one. The controller that NSSR was written to does so at
    /// once; any other when it next runs or one of its registers is written. An owner of several controllers runs each of
    /// them after a register write.
    #[inline]
    pub fn follow_subsystem_reset(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        if self.resets_seen != subsystem.resets() {
            self.resets_seen = subsystem.resets();
            self.reset(subsystem, doorbells);
            self.registers.subsystem_reset();
        }
    }

    /// Whether a command waits for room in its completion queue. A host that leaves room without marking its
    /// doorbell must run the controller then.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.queues.is_blocked()
    }

    /// Whether I/O queue `qid` exists, delegated or not.
    #[must_use]
    pub fn has_queue(&self, qid: u16) -> bool {
        self.queues.has_queue(qid)
    }

    /// I/O queues that exist, delegated or not.
    #[must_use]
    pub fn io_queues(&self) -> usize {
        self.queues.io_queues()
    }

    /// Whether admin commands wait for delegated queue pairs: they may be about any of them.
    #[inline]
    pub fn waits_for_delegated(&self) -> bool {
        self.queues.admin_waits()
    }

    /// Takes the lowest of the queues whose tails have moved since the last call.
    #[inline]
    pub fn take_rung(&mut self) -> Option<u16> {
        self.queues.take_rung()
    }

    /// Where the host placed the controller memory buffer on the bus, if it enabled it.
    pub fn cmb_base(&self) -> Option<u64> {
        self.registers.cmb_base()
    }

    /// Stops until a reset: a broken queue boundary or an unusable configuration (CSTS.CFS).
    fn fail(&mut self) {
        warn!(controller = self.id.0, "controller failed: CSTS.CFS is set");
        self.registers.set_fatal();
        self.queues.stop();
    }

    fn enable(&mut self) {
        debug!(controller = self.id.0, cc = self.registers.cc().into_bits(), "CC.EN set");
        if !self.configuration_is_valid() {
            return self.fail();
        }
        if self.capsules.is_some() {
            return self.registers.set_ready(true);
        }
        let (bases, entries) = (self.registers.admin_bases(), self.registers.admin_entries());
        match self.queues.create_admin(bases, entries) {
            Ok(()) => self.registers.set_ready(true),
            Err(_) => self.fail(),
        }
    }

    fn configuration_is_valid(&self) -> bool {
        let cc = self.registers.cc();
        let css = matches!(cc.css(), Cc::CSS_NVM | Cc::CSS_IO_SETS | Cc::CSS_ADMIN_ONLY);
        css && cc.mps() == 0 && cc.ams() == 0
    }

    /// Controller reset: queues and everything in flight are gone; namespaces and their data stay.
    fn reset(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        for qid in 0..self.queues.count() {
            self.release_window(subsystem, qid as u16);
        }
        subsystem.forget_host(self.id);
        self.drop_all_external(subsystem);
        self.queues.clear();
        self.completions.clear();
        self.group_commit.clear();
        self.deferred.clear();
        self.admin.reset();
        self.payloads.clear();
        self.plans.clear();
        subsystem.cancel_queries_of(self.id);
        subsystem.cancel_programs_of(self.id);
        for place in 0..2 * u32::from(MAX_IO_QUEUES + 1) {
            DoorbellIndex::at(place).into_iter().for_each(|index| doorbells.reset(index));
        }
        self.registers.reset();
        self.keep_admin_queue(subsystem);
    }

    /// Puts the controller back to its state after power-on, as a function level reset does, and for the next host when
    /// one has gone: queues, registers and everything in flight are gone; namespaces and their data stay.
    pub fn reset_function(&mut self, subsystem: &mut Subsystem, doorbells: &Doorbells) {
        info!(controller = self.id.0, "function level reset");
        self.resets_seen = subsystem.resets();
        self.reset(subsystem, doorbells);
        self.registers.power_on();
    }

    /// Gives back the window of device memory that queue `qid` had bound.
    fn release_window(&mut self, subsystem: &mut Subsystem, qid: u16) {
        let queue = self.queues.submission_mut(qid);
        if let Some(window) = queue.and_then(|queue| queue.window.take()) {
            subsystem.unbind_window(window);
        }
    }

    fn shut_down(&mut self, subsystem: &mut Subsystem) {
        // Nothing of this host's is completed behind its shutdown.
        subsystem.cancel_queries_of(self.id);
        subsystem.cancel_programs_of(self.id);
        let synced = subsystem.shut_down();
        debug!(controller = self.id.0, is_synced = synced.is_ok(), "controller shut down");
        // The shutdown is over either way. CSTS.CFS reports one that could not make everything durable.
        if synced.is_err() {
            self.registers.set_fatal();
        }
        self.registers.set_shutdown_status(Csts::SHST_COMPLETE);
    }
}
