//! A controller and the memory around it, small enough to be made for each input.

use std::collections::BTreeMap;
use std::sync::Arc;

use byway_controller::{
    AllowList, CmbRegisters, Controller, ControllerId, DeviceMemory, Identity, MAX_IO_QUEUES, Next,
    NoInterrupts, Port, Subsystem, SubsystemOptions,
};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, DmaView};
use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
use byway_kv::{KvFormat, KvOptions};
use byway_link::{Meter, Profile};
use byway_queue::{DoorbellIndex, Doorbells};
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::feature::FeatureId;
use byway_spec::base::register::{Aqa, Cc, Csts, Register};
use byway_spec::vendor::Methods;
use byway_spec::{Command, Completion};

/// Bytes of host memory that the device may read and write.
pub const MEMORY_BYTES: usize = 1 << 20;
/// Bus address of that memory.
pub const MEMORY_AT: u64 = 0x1_0000_0000;
/// Address of data, lists and segments; the rings are below it.
pub const DATA: u64 = MEMORY_AT + (256 << 10);
/// Bus address of a page that the device may read only.
pub const READ_ONLY_AT: u64 = MEMORY_AT + (64 << 20);
/// Bytes behind the mapped memory that no device may touch.
const GUARD_BYTES: usize = 4096;
const GUARD: u8 = 0xa5;
const PAGE: u64 = 4096;
/// Entries of the admin queues, and of I/O queues made in good order.
pub const ENTRIES: u16 = 64;
/// I/O queues made in good order.
pub const PAIRS: u16 = 3;

/// Namespace of pairs.
pub const KV: u32 = 1;
/// Namespace of 512-byte blocks.
pub const NVM: u32 = 2;

/// Runs after which a device that still has work is taken to hang.
const RUNS_MAX: u32 = 100_000;

/// The host's side of a queue pair.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rings {
    /// Next submission slot to fill.
    pub tail: u16,
    /// Next completion to look at.
    pub head: u16,
    /// Phase that a new completion has.
    pub phase: bool,
}

/// One device and one host.
pub struct Machine {
    /// The subsystem.
    pub subsystem: Subsystem,
    /// The controller.
    pub controller: Controller,
    /// The doorbells.
    pub doorbells: Doorbells,
    /// The meter.
    pub meter: Meter,
    /// Modelled time of the next run.
    pub now_ps: u64,
    /// The host's side of queue pairs 0 to [`PAIRS`].
    pub rings: [Rings; PAIRS as usize + 1],
    space: Arc<DmaSpace>,
    view: DmaView,
    memory: Arc<DmaMemory>,
    read_only: Arc<DmaMemory>,
    next_cid: u16,
}

/// A device in memory with a namespace of pairs and one of blocks.
pub fn device(profile: &str) -> Subsystem {
    device_with(profile, small())
}

/// The same with options of the subsystem.
fn device_with(profile: &str, announced: SubsystemOptions) -> Subsystem {
    let profile = Profile::by_name(profile).expect("a profile that is there");
    let options = FlashOptions::new(12 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]);
    let kv = NamespaceSpec { nsid: Some(KV), kind: NamespaceKind::Kv, size_bytes: 4 << 20 };
    let blocks = NamespaceKind::Nvm { lba_bytes: 512 };
    let nvm = NamespaceSpec { nsid: Some(NVM), kind: blocks, size_bytes: 4 << 20 };
    let flash = Flash::create(options, &[kv, nvm]).expect("flash in memory");
    let identity = Identity {
        nqn: "nqn.2026-01.example:byway:fuzz".to_owned(),
        serial: "FUZZ0001".to_owned(),
        model: "Byway software SSD".to_owned(),
    };
    Subsystem::new(identity, profile, flash, announced).expect("a subsystem on new flash")
}

impl Machine {
    /// A device as after power-on.
    pub fn new(profile: &str) -> Self {
        Self::of(device(profile))
    }

    /// The same, with programs that may run over values.
    pub fn with_exec(profile: &str, allowed: AllowList) -> Self {
        Self::of(device_with(profile, small().exec_allowed(BTreeMap::from([(KV, allowed)]))))
    }

    fn of(mut subsystem: Subsystem) -> Self {
        let profile = subsystem.profile().clone();
        let controller = Controller::new(ControllerId(0), &mut subsystem, CmbRegisters::default());
        let memory = Arc::new(DmaMemory::new(MEMORY_BYTES + GUARD_BYTES).expect("memory"));
        memory.write_at(MEMORY_BYTES, &[GUARD; GUARD_BYTES]).expect("the guard lies inside");
        let read_only = Arc::new(DmaMemory::new(PAGE as usize).expect("memory"));
        let space = Arc::new(DmaSpace::new());
        space.map_part(memory.clone(), 0, MEMORY_BYTES, BusAddr(MEMORY_AT), Access::ReadWrite).expect("room");
        space.map(read_only.clone(), BusAddr(READ_ONLY_AT), Access::Read).expect("room");
        let mut meter = Meter::new(&profile);
        meter.set_ledger(true);
        Self {
            subsystem,
            controller,
            doorbells: Doorbells::new(MAX_IO_QUEUES + 1),
            meter,
            now_ps: 0,
            rings: [Rings::default(); PAIRS as usize + 1],
            view: space.view(),
            space,
            memory,
            read_only,
            next_cid: 0,
        }
    }

    /// Bus address of the submission ring of pair `qid`.
    pub fn ring_at(qid: u16) -> u64 {
        MEMORY_AT + u64::from(qid) * 2 * PAGE
    }

    /// Writes a register.
    pub fn write_register(&mut self, offset: u32, value: u32) {
        self.controller.write_register(&mut self.subsystem, &self.doorbells, offset, value);
    }

    /// Controller Status.
    pub fn csts(&self) -> Csts {
        Csts::from_bits(self.controller.read_register(Register::CSTS.0))
    }

    /// Writes host memory, up to its end.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let at = at.wrapping_sub(MEMORY_AT).min(MEMORY_BYTES as u64) as usize;
        let bytes = &bytes[..bytes.len().min(MEMORY_BYTES - at)];
        self.memory.write_at(at, bytes).expect("cut to what there is");
    }

    /// Reads host memory.
    pub fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_at((at - MEMORY_AT) as usize, &mut bytes).expect("an address of ours");
        bytes
    }

    /// Resets and enables the controller in good order, with [`ENTRIES`] entries of each admin queue.
    pub fn enable(&mut self) {
        self.write_register(Register::CC.0, 0);
        assert!(!self.csts().rdy() && !self.csts().cfs(), "a reset leaves no trace");
        self.rings = [Rings { tail: 0, head: 0, phase: true }; PAIRS as usize + 1];
        self.write(Self::ring_at(0), &[0; 2 * PAGE as usize]);
        let aqa = Aqa::new().with_asqs_z(ENTRIES - 1).with_acqs_z(ENTRIES - 1);
        self.write_register(Register::AQA.0, aqa.into_bits());
        for (register, value) in [(Register::ASQ, Self::ring_at(0)), (Register::ACQ, Self::ring_at(0) + PAGE)]
        {
            self.write_register(register.0, value as u32);
            self.write_register(register.0 + 4, (value >> 32) as u32);
        }
        let cc = Cc::new().with_css(Cc::CSS_IO_SETS).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
        self.write_register(Register::CC.0, cc.with_en(true).into_bits());
        assert!(self.csts().rdy() && !self.csts().cfs());
    }

    /// Creates pair `qid` in good order, if the controller lets it.
    pub fn create_pair(&mut self, qid: u16, entries: u16) {
        self.write(Self::ring_at(qid), &[0; 2 * PAGE as usize]);
        self.rings[usize::from(qid)] = Rings { tail: 0, head: 0, phase: true };
        let cdw10 = QueueCdw10::new().with_qid(qid).with_qsize_z(entries - 1).into_bits();
        let mut cq = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        (cq.cdw10, cq.cdw11) = (cdw10, CreateCqCdw11::new().with_pc(true).into_bits());
        cq.set_prps(Self::ring_at(qid) + PAGE, 0);
        let mut sq = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
        (sq.cdw10, sq.cdw11) = (cdw10, CreateSqCdw11::new().with_pc(true).with_cqid(qid).into_bits());
        sq.set_prps(Self::ring_at(qid), 0);
        for command in [cq, sq] {
            self.submit(0, command);
        }
        self.ring(0);
        self.run();
    }

    /// Enables every transfer method.
    pub fn enable_methods(&mut self) {
        let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
        command.cdw10 = u32::from(FeatureId::METHODS.0);
        let methods = Methods::from_bits(0xff).with_scan(true).with_retrieve_many(true);
        command.cdw11 = methods.into_bits();
        self.submit(0, command);
        self.ring(0);
        self.run();
    }

    /// Puts 64 bytes into the next slot of pair `qid`.
    pub fn push(&mut self, qid: u16, slot: &[u8; 64]) {
        let rings = &mut self.rings[usize::from(qid)];
        let at = Self::ring_at(qid) + u64::from(rings.tail) * 64;
        rings.tail = (rings.tail + 1) % ENTRIES;
        self.write(at, slot);
    }

    /// Puts a command into the next slot of pair `qid` under a fresh identifier, which is returned.
    pub fn submit(&mut self, qid: u16, mut command: Command) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        command.cdw0.set_cid(self.next_cid);
        self.push(qid, &command.to_bytes());
        self.next_cid
    }

    /// Rings the tail doorbell of pair `qid`.
    pub fn ring(&self, qid: u16) {
        self.doorbells.ring(DoorbellIndex::submission(qid), u32::from(self.rings[usize::from(qid)].tail));
    }

    /// Takes the next new completion of pair `qid`.
    pub fn reap(&mut self, qid: u16) -> Option<Completion> {
        let rings = &mut self.rings[usize::from(qid)];
        let at = Self::ring_at(qid) + PAGE + u64::from(rings.head) * 16;
        let (head, phase) = (rings.head, rings.phase);
        let entry = Completion::from_bytes(&self.read(at));
        if entry.phase() != phase {
            return None;
        }
        let rings = &mut self.rings[usize::from(qid)];
        rings.head = (head + 1) % ENTRIES;
        rings.phase = phase ^ (rings.head == 0);
        self.doorbells.ring(DoorbellIndex::completion(qid), u32::from(rings.head));
        Some(entry)
    }

    /// Lets the device run once, for at most `budget` commands.
    pub fn run_once(&mut self, budget: u32) -> Next {
        let mut port = port(&self.view, &mut self.meter);
        self.controller.sync_now(&mut self.subsystem, &mut port, self.now_ps);
        self.controller.run(&mut self.subsystem, &mut port, &self.doorbells, None, self.now_ps, budget)
    }

    /// Completes the commands that waited for a query and have its answer.
    pub fn answer(&mut self) {
        while let Some(done) = self.subsystem.next_done() {
            let mut port = port(&self.view, &mut self.meter);
            self.controller.complete_external(&mut self.subsystem, &mut port, &self.doorbells, done);
        }
    }

    /// Runs the device until it has nothing to do. It must become idle.
    pub fn run(&mut self) -> Next {
        for _ in 0..RUNS_MAX {
            let next = self.run_once(64);
            if next != Next::Now && !self.controller.wants_sync() {
                return next;
            }
        }
        panic!("the device does not come to rest");
    }

    /// Lets the device run, and time pass up to its next deadlines, a few of them.
    pub fn run_on(&mut self) {
        for _ in 0..16 {
            let Next::At(due_ps) = self.run() else { return };
            self.now_ps = self.now_ps.max(due_ps);
        }
    }

    /// Takes the host's memory away from the device, or gives it back.
    pub fn map_memory(&self, mapped: bool) {
        let there = self.space.unmap(BusAddr(MEMORY_AT)).is_ok();
        if mapped || !there {
            let memory = self.memory.clone();
            let again = self.space.map_part(memory, 0, MEMORY_BYTES, BusAddr(MEMORY_AT), Access::ReadWrite);
            again.expect("the place is free");
        }
    }

    /// The device wrote nowhere but where it may.
    pub fn check_bounds(&self) {
        let mut guard = [0; GUARD_BYTES];
        self.memory.read_at(MEMORY_BYTES, &mut guard).expect("the guard lies inside");
        assert!(guard.iter().all(|byte| *byte == GUARD), "the device wrote behind the memory it was given");
        let mut page = [0; PAGE as usize];
        self.read_only.read_at(0, &mut page).expect("a page");
        assert!(page.iter().all(|byte| *byte == 0), "the device wrote to memory that it may only read");
    }

    /// Whatever happened, a reset gives a controller that answers.
    pub fn check_usable(&mut self) {
        self.map_memory(true);
        self.meter.set_timing(false);
        self.enable();
        self.create_pair(1, ENTRIES);
        let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
        identify.cdw10 = 1;
        identify.set_prps(DATA, 0);
        let cid = self.submit(0, identify);
        self.ring(0);
        self.run();
        let mut answered = None;
        while let Some(entry) = self.reap(0) {
            assert!(entry.status().is_success(), "{}", entry.status());
            answered = Some(entry.cid);
        }
        assert_eq!(answered, Some(cid), "Identify is answered last");
        self.check_store();
    }

    /// A stored value is readable, unless the namespace is gone or full.
    fn check_store(&mut self) {
        let value = [0x5a; 300];
        self.write(DATA, &value);
        let mut store = Command::new(0x01, 0, KV);
        store.set_key(b"still");
        (store.cdw10, store.cdw11) = (300, 5);
        store.set_prps(DATA, 0);
        let Some(stored) = self.execute(store) else { return };
        if !stored.status().is_success() {
            return;
        }
        self.write(DATA, &[0; 300]);
        let mut retrieve = store;
        retrieve.cdw0.set_opcode(0x02);
        let found = self.execute(retrieve).expect("a queue that answered a store answers a retrieve");
        assert!(found.status().is_success(), "{}", found.status());
        assert_eq!(self.read::<300>(DATA), value);
    }

    fn execute(&mut self, command: Command) -> Option<Completion> {
        let cid = self.submit(1, command);
        self.ring(1);
        self.run();
        let entry = self.reap(1)?;
        assert_eq!(entry.cid, cid);
        Some(entry)
    }
}

fn port<'a>(memory: &'a DmaView, meter: &'a mut Meter) -> Port<'a> {
    Port {
        memory,
        meter,
        interrupts: &NoInterrupts,
        own_memory: 0..0,
        device_memory: DeviceMemory::Windows,
        capsule: None,
        grants: None,
    }
}

/// Small tables, so that flushes and merges happen early.
fn small() -> SubsystemOptions {
    SubsystemOptions::default()
        .kv(KvOptions::default().memtable_bytes(44 * 64).cache_bytes(64 << 10))
        .kv_format(KvFormat { ring_pages: 4, windows: 2, window_bytes: 64 << 10 })
}
