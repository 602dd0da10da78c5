//! A host for tests: rings in test memory, commands written as 64 bytes, doorbells rung, completions read by phase.
//!
//! It drives the device from outside and knows nothing of its inside. Each test binary uses a part of it.
#![allow(dead_code, clippy::unwrap_used, clippy::missing_panics_doc)]

mod admin;
mod queues;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use byway_controller::{
    CmbRegisters, Controller, ControllerId, DelegatedQueue, DelegatedTo, DeviceMemory, FinishedSync,
    Gathered, Identity, Interrupts, MAX_IO_QUEUES, Next, Port, Subsystem, SubsystemOptions,
};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, DmaView};
use byway_flash::{Durability, Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec, RunOptions};
use byway_link::{Meter, Profile};
use byway_queue::Doorbells;
use byway_spec::Command;
use byway_spec::base::register::{Aqa, Cc, Csts, Register};
use byway_sys::Mapping;

#[allow(unused_imports, reason = "not every test reads logs")]
pub use admin::get_log;
use queues::{HostCq, HostSq};

/// Bus address of the test memory: neither 0 nor below 4 GiB.
pub const MEMORY_AT: u64 = 0x20_0000_0000;

/// Bytes of test memory.
pub const MEMORY_BYTES: usize = 64 << 20;

/// Entries of the admin queues.
pub const ADMIN_ENTRIES: u32 = 32;

const PAGE: usize = 4096;

/// A key-value namespace of `size_bytes`.
pub fn kv(size_bytes: u64) -> NamespaceSpec {
    NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes }
}

/// A block namespace of `size_bytes` in blocks of `lba_bytes`.
pub fn nvm(size_bytes: u64, lba_bytes: u32) -> NamespaceSpec {
    NamespaceSpec { nsid: None, kind: NamespaceKind::Nvm { lba_bytes }, size_bytes }
}

/// Interrupts as they were raised.
#[derive(Debug, Default)]
pub struct Raised(RefCell<Vec<u16>>);

impl Interrupts for Raised {
    fn raise(&self, vector: u16) {
        self.0.borrow_mut().push(vector);
    }
}

/// One device and one host.
pub struct TestHost {
    pub subsystem: Subsystem,
    pub controller: Controller,
    pub doorbells: Doorbells,
    pub meter: Meter,
    pub space: Arc<DmaSpace>,
    pub memory: Arc<DmaMemory>,
    /// Modelled time of the next run.
    pub now_ps: u64,
    /// What the last run asked for.
    pub next: Next,
    /// Whether commands that wait for a sync are left waiting.
    pub holds_syncs: bool,
    /// Memory that the host stores into in place of windows, as one in another process does; none shared with `Some(None)`.
    pub elsewhere: Option<Option<Mapping>>,
    view: DmaView,
    interrupts: Raised,
    submission: BTreeMap<u16, HostSq>,
    completion: BTreeMap<u16, HostCq>,
    free_at: usize,
    next_cid: u16,
}

impl TestHost {
    /// An enabled controller over flash in memory with these namespaces, ledger on, time off.
    pub fn new(size_bytes: u64, namespaces: &[NamespaceSpec]) -> Self {
        let mut host = Self::disabled("gen4x4", size_bytes, MediaKind::Ram, namespaces);
        host.enable();
        host
    }

    /// An enabled controller that syncs before it completes what changes data; the test ends each sync.
    pub fn synced(size_bytes: u64, namespaces: &[NamespaceSpec]) -> Self {
        let mut host =
            Self::disabled_with("gen4x4", size_bytes, MediaKind::Ram, namespaces, Durability::Media);
        host.enable();
        host.holds_syncs = true;
        host
    }

    /// A controller as after power-on.
    pub fn disabled(profile: &str, size_bytes: u64, media: MediaKind, namespaces: &[NamespaceSpec]) -> Self {
        Self::disabled_with(profile, size_bytes, media, namespaces, Durability::Process)
    }

    /// The same with what its completions promise.
    pub fn disabled_with(
        profile: &str,
        size_bytes: u64,
        media: MediaKind,
        namespaces: &[NamespaceSpec],
        durability: Durability,
    ) -> Self {
        let options = SubsystemOptions::default();
        Self::disabled_as(profile, size_bytes, media, namespaces, durability, options)
    }

    /// An enabled controller that announces no SGLs.
    pub fn without_sgls(profile: &str, size_bytes: u64, namespaces: &[NamespaceSpec]) -> Self {
        let options = SubsystemOptions::default().sgls(false);
        let (media, durability) = (MediaKind::Ram, Durability::Process);
        let mut host = Self::disabled_as(profile, size_bytes, media, namespaces, durability, options);
        host.enable();
        host
    }

    /// An enabled controller with options of the subsystem.
    pub fn with_options(size_bytes: u64, namespaces: &[NamespaceSpec], options: SubsystemOptions) -> Self {
        let (media, durability) = (MediaKind::Ram, Durability::Process);
        let mut host = Self::disabled_as("gen4x4", size_bytes, media, namespaces, durability, options);
        host.enable();
        host
    }

    /// Clears CC.EN and enables the controller for a choice of command sets (CC.CSS).
    pub fn enable_for(&mut self, css: u8) {
        self.reset();
        let (sq, cq) = (self.alloc(ADMIN_ENTRIES as usize * 64), self.alloc(ADMIN_ENTRIES as usize * 16));
        self.set_admin_queues(sq, cq, ADMIN_ENTRIES, ADMIN_ENTRIES);
        let cc = Cc::new().with_css(css).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
        self.write_register(Register::CC, cc.with_en(true).into_bits());
        assert!(self.csts().rdy());
    }

    fn disabled_as(
        profile: &str,
        size_bytes: u64,
        media: MediaKind,
        namespaces: &[NamespaceSpec],
        durability: Durability,
        options: SubsystemOptions,
    ) -> Self {
        let profile = Profile::by_name(profile).unwrap();
        let run = RunOptions::default().durability(durability);
        let flash_options = FlashOptions::new(size_bytes, profile.flash, media).uuid([7; 16]).run(run);
        let flash = Flash::create(flash_options, namespaces).unwrap();
        let identity = Identity {
            nqn: "nqn.2026-01.example:byway:test".to_owned(),
            serial: "TEST0001".to_owned(),
            model: "Byway software SSD".to_owned(),
        };
        let mut subsystem = Subsystem::new(identity, profile.clone(), flash, options).unwrap();
        let controller = Controller::new(ControllerId(0), &mut subsystem, CmbRegisters::default());
        let memory = Arc::new(DmaMemory::new(MEMORY_BYTES).unwrap());
        let space = Arc::new(DmaSpace::new());
        space.map(Arc::clone(&memory), BusAddr(MEMORY_AT), Access::ReadWrite).unwrap();
        let mut meter = Meter::new(&profile);
        meter.set_ledger(true);
        Self {
            subsystem,
            controller,
            doorbells: Doorbells::new(MAX_IO_QUEUES + 1),
            meter,
            view: space.view(),
            space,
            memory,
            now_ps: 0,
            next: Next::Idle,
            holds_syncs: false,
            elsewhere: None,
            interrupts: Raised::default(),
            submission: BTreeMap::new(),
            completion: BTreeMap::new(),
            free_at: 0,
            next_cid: 1,
        }
    }

    /// Sets the admin queues up and enables the controller, as Linux does.
    pub fn enable(&mut self) {
        let (sq, cq) = (self.alloc(ADMIN_ENTRIES as usize * 64), self.alloc(ADMIN_ENTRIES as usize * 16));
        self.enable_with(sq, cq, ADMIN_ENTRIES, ADMIN_ENTRIES);
        assert!(self.csts().rdy());
    }

    /// The same with queues of the caller's.
    pub fn enable_with(&mut self, sq: BusAddr, cq: BusAddr, sq_entries: u32, cq_entries: u32) {
        self.set_admin_queues(sq, cq, sq_entries, cq_entries);
        let cc = Cc::new().with_css(Cc::CSS_IO_SETS).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
        self.write_register(Register::CC, cc.with_en(true).into_bits());
    }

    fn set_admin_queues(&mut self, sq: BusAddr, cq: BusAddr, sq_entries: u32, cq_entries: u32) {
        self.adopt_sq(0, sq, sq_entries, 0);
        self.adopt_cq(0, cq, cq_entries);
        let aqa = Aqa::new().with_asqs_z(sq_entries as u16 - 1).with_acqs_z(cq_entries as u16 - 1);
        self.write_register(Register::AQA, aqa.into_bits());
        self.write_register64(Register::ASQ, sq.0);
        self.write_register64(Register::ACQ, cq.0);
    }

    /// Clears CC.EN. Queues and everything on their way are gone; so is memory handed out by [`Self::alloc`].
    pub fn reset(&mut self) {
        self.write_register(Register::CC, 0);
        self.submission.clear();
        self.completion.clear();
        self.free_at = 0;
    }

    /// Writes a 32-bit register.
    pub fn write_register(&mut self, register: Register, value: u32) {
        self.controller.write_register(&mut self.subsystem, &self.doorbells, register.0, value);
    }

    /// Writes a 64-bit register, low half first.
    pub fn write_register64(&mut self, register: Register, value: u64) {
        self.write_register(register, value as u32);
        self.write_register(Register(register.0 + 4), (value >> 32) as u32);
    }

    /// Controller Status.
    pub fn csts(&self) -> Csts {
        Csts::from_bits(self.controller.read_register(Register::CSTS.0))
    }

    /// Zeroed pages of test memory.
    pub fn alloc(&mut self, len_bytes: usize) -> BusAddr {
        let at = self.free_at;
        self.free_at += len_bytes.next_multiple_of(PAGE).max(PAGE);
        assert!(self.free_at <= MEMORY_BYTES, "the test uses more memory than there is");
        self.memory.write_at(at, &vec![0; self.free_at - at]).unwrap();
        BusAddr(MEMORY_AT + at as u64)
    }

    /// Writes host memory.
    pub fn write(&self, at: BusAddr, bytes: &[u8]) {
        self.memory.write_at((at.0 - MEMORY_AT) as usize, bytes).unwrap();
    }

    /// Reads host memory.
    pub fn read(&self, at: BusAddr, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.memory.read_at((at.0 - MEMORY_AT) as usize, &mut bytes).unwrap();
        bytes
    }

    /// Points the command's PRPs at `len_bytes` from the page `at`, with a list where it needs one.
    pub fn point_prps(&mut self, command: &mut Command, at: BusAddr, len_bytes: usize) {
        let pages = len_bytes.div_ceil(PAGE);
        let second = at.0 + PAGE as u64;
        match pages {
            0 | 1 => command.set_prps(at.0, 0),
            2 => command.set_prps(at.0, second),
            _ => {
                assert!(pages - 1 <= PAGE / 8, "the test's PRP list is one page");
                let list = self.alloc(PAGE);
                let entries: Vec<u8> = (0..pages as u64 - 1)
                    .flat_map(|page| (second + page * PAGE as u64).to_le_bytes())
                    .collect();
                self.write(list, &entries);
                command.set_prps(at.0, list.0);
            }
        }
    }

    /// The device with its doorbells, and the port by which it reaches this host.
    fn device(&mut self) -> (&mut Controller, &mut Subsystem, Port<'_>, &Doorbells) {
        let device_memory = match &self.elsewhere {
            None => DeviceMemory::Windows,
            Some(None) => DeviceMemory::Nowhere,
            Some(Some(memory)) => DeviceMemory::Copy(memory),
        };
        let Self { view: memory, meter, interrupts, .. } = self;
        let port =
            Port { memory, meter, interrupts, own_memory: 0..0, device_memory, capsule: None, grants: None };
        (&mut self.controller, &mut self.subsystem, port, &self.doorbells)
    }

    /// Lets the device run until it has nothing left to do now.
    pub fn run(&mut self) -> Next {
        let (now_ps, holds_syncs) = (self.now_ps, self.holds_syncs);
        let (controller, subsystem, mut port, doorbells) = self.device();
        subsystem.begin_hold();
        for _ in 0..100_000 {
            let next = controller.run(subsystem, &mut port, doorbells, None, now_ps, 64);
            if next != Next::Now && controller.wants_sync() && !holds_syncs {
                controller.sync_now(subsystem, &mut port, now_ps);
            } else if next != Next::Now {
                self.next = next;
                return next;
            }
        }
        panic!("the device does not come to rest");
    }

    /// Completes what other engines have done, and lets the device run.
    pub fn advance(&mut self) -> Next {
        let (controller, subsystem, mut port, doorbells) = self.device();
        while let Some(done) = subsystem.next_done() {
            controller.complete_external(subsystem, &mut port, doorbells, done);
        }
        self.run()
    }

    /// Stops exporting a namespace, and has the controller fail its commands.
    pub fn withdraw(&mut self, nsid: u32) {
        let (controller, subsystem, mut port, _) = self.device();
        subsystem.withdraw(nsid).expect("it is exported");
        controller.fail_external(&mut port, nsid);
    }

    /// Takes queue pair `qid` out of the controller.
    pub fn delegate(&mut self, qid: u16) -> Option<Box<DelegatedQueue>> {
        self.controller.delegate(&self.subsystem, qid, DelegatedTo::Poller)
    }

    /// Has a delegated queue gather the commands that were rung.
    pub fn gather(&mut self, queue: &mut DelegatedQueue) -> Gathered {
        let (_, _, mut port, doorbells) = self.device();
        queue.gather(&mut port, doorbells)
    }

    /// Executes and completes what a delegated queue gathered.
    pub fn finish_delegated(&mut self, queue: &mut DelegatedQueue) {
        let (_, subsystem, mut port, _) = self.device();
        if !queue.execute_unlocked() && !queue.execute_shared(subsystem) {
            subsystem.take_in_stores();
            queue.execute(subsystem);
        }
        queue.complete(&mut port);
    }

    /// Returns a delegated queue, with all that it did counted.
    pub fn reclaim(&mut self, mut queue: Box<DelegatedQueue>) {
        self.finish_delegated(&mut queue);
        queue.execute(&mut self.subsystem);
        queue.close_leases(&mut self.subsystem);
        self.controller.reclaim(queue);
    }

    /// Serves queue pair `qid` delegated, as far as that carries its commands, and reclaims it.
    pub fn run_delegated(&mut self, qid: u16) {
        let mut queue = self.delegate(qid).expect("the queue can be delegated");
        loop {
            let gathered = self.gather(&mut queue);
            self.finish_delegated(&mut queue);
            if gathered != Gathered::Full {
                break;
            }
        }
        self.reclaim(queue);
    }

    /// Ends a sync that was begun.
    pub fn end_sync(&mut self, sync: FinishedSync) {
        let now_ps = self.now_ps;
        let (controller, subsystem, mut port, _) = self.device();
        controller.end_sync(subsystem, &mut port, sync, now_ps);
    }

    /// Does the next of what was deferred.
    pub fn run_deferred(&mut self) {
        let now_ps = self.now_ps;
        let (controller, subsystem, mut port, doorbells) = self.device();
        controller.run_deferred(subsystem, &mut port, doorbells, now_ps);
    }

    /// Vectors raised since the last call.
    pub fn take_interrupts(&self) -> Vec<u16> {
        self.interrupts.0.take()
    }
}

/// A little-endian number in a structure.
pub fn number(bytes: &[u8], at: usize, len_bytes: usize) -> u64 {
    bytes[at..at + len_bytes].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
