//! A device that records what it is sent and answers what it is told to: a bus for tests of the driver alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use byway_core::{Key, Nsid, QueueOptions};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, HostMemory, SegmentList, prp};
use byway_driver::{AttachOptions, Bus, BusError, DeviceMemory, Driver, Event, Queue};
use byway_link::{HostMeter, HostStep, Method, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode, QueueCdw10};
use byway_spec::base::feature::FeatureCdw10;
use byway_spec::base::identify::{Cns, Controller, IdentifyCdw10, Sgls, ascii_field};
use byway_spec::base::register::{Aqa, Cap, Cc, Csts, Register};
use byway_spec::base::sgl::SglKind;
use byway_spec::nvm::{LbaFormat, NvmNamespace};
use byway_spec::vendor::{self, VendorArea, VendorOpcode};
use byway_spec::{Command, Completion, Status};
use byway_sys::Wakeup;
use zerocopy::{FromZeros, IntoBytes};

/// The namespace of blocks; the first one is of keys.
pub fn blocks() -> Nsid {
    Nsid::new(2).unwrap()
}

pub const WINDOW_BYTES: u64 = 64 << 10;
pub const SEGMENT_BYTES: u64 = 16 << 10;
pub const HEADER_BYTES: u64 = 24;

/// What the device is, and how it behaves.
#[derive(Clone)]
pub struct Script {
    pub methods: vendor::Methods,
    pub inline_max_bytes: u32,
    pub piggyback_max_bytes: u32,
    pub mdts: u8,
    pub sgl: bool,
    pub profile: Option<Profile>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            methods: vendor::Methods::from_bits(0xff),
            inline_max_bytes: 8192,
            piggyback_max_bytes: 8192,
            mdts: 12,
            sgl: true,
            profile: None,
        }
    }
}

/// A completion to come.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: Status,
    pub dw0: u32,
    pub dw1: u32,
    /// What is written to the command's data pointer before.
    pub data: Vec<u8>,
}

/// A command of an I/O queue, with the chunks that came behind it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub qid: u16,
    pub entry: Command,
    pub chunks: Vec<u8>,
    /// Bytes of a store that its command pointed at as it arrived.
    pub data: Vec<u8>,
}

#[derive(Default)]
struct Ring {
    submission: u64,
    completion: u64,
    entries: u32,
    head: u32,
    completed: u32,
    phase: bool,
}

#[derive(Default)]
pub struct State {
    rings: BTreeMap<u16, Ring>,
    registers: BTreeMap<u32, u64>,
    pub features: Vec<(u8, u32, u32)>,
    pub seen: Vec<Seen>,
    /// Doorbells of I/O queues in the order they were rung.
    pub rung: Vec<(DoorbellIndex, u32)>,
    pub charges: Vec<(HostStep, u32)>,
    /// Answers to the next I/O commands; success once there are no more.
    pub replies: VecDeque<Reply>,
    /// Commands are kept until they are released.
    pub held: Option<Vec<Seen>>,
    pub fatal: bool,
    /// Queue and identifier of commands that were to be aborted.
    pub aborts: Vec<(u16, u16)>,
    /// Namespaces that were identified, 0 for none.
    pub identified: Vec<u32>,
    /// Blocks of [`blocks`] have so many bytes, as a power of two.
    pub lbads: u8,
    /// Deletions of queues are answered by an error.
    pub keeps_queues: bool,
    /// Admin commands are kept until they are released.
    pub held_admin: Option<Vec<Seen>>,
}

pub struct ScriptedBus {
    script: Script,
    space: DmaSpace,
    next_address: AtomicU64,
    meter: HostMeter,
    state: Mutex<State>,
    pub memory: Arc<DmaMemory>,
}

/// The device's memory, for windows and byte stores.
pub struct ScriptedMemory(Arc<DmaMemory>, BusAddr);

impl DeviceMemory for ScriptedMemory {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        Some(self.1)
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        self.0.write_at(offset as usize, bytes).map_err(|fault| BusError::Mapping(fault.to_string()))
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        let mut byte = [0];
        self.0.read_at(last as usize, &mut byte).map_err(|fault| BusError::Mapping(fault.to_string()))
    }
}

impl Bus for ScriptedBus {
    type Memory = ScriptedMemory;

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn read_register(&self, offset: u32, _: u32) -> Result<u64, BusError> {
        let state = self.state();
        Ok(match Register(offset) {
            Register::CAP => {
                Cap::new().with_mqes_z(1023).with_css(Cap::CSS_NVM | Cap::CSS_IO_SETS).with_to(1).into_bits()
            }
            Register::CSTS => {
                let cc = Cc::from_bits(state.registers.get(&Register::CC.0).copied().unwrap_or(0) as u32);
                let shst = if cc.shn() == Cc::SHN_NONE { Csts::SHST_NORMAL } else { Csts::SHST_COMPLETE };
                u64::from(Csts::new().with_rdy(cc.en()).with_shst(shst).with_cfs(state.fatal).into_bits())
            }
            _ => state.registers.get(&offset).copied().unwrap_or(0),
        })
    }

    fn write_register(&self, offset: u32, _: u32, value: u64) -> Result<(), BusError> {
        let mut state = self.state();
        state.registers.insert(offset, value);
        if offset == Register::CC.0 && Cc::from_bits(value as u32).en() {
            let register = |name: Register| state.registers.get(&name.0).copied().unwrap();
            let entries = u32::from(Aqa::from_bits(register(Register::AQA) as u32).asqs_z()) + 1;
            let (submission, completion) = (register(Register::ASQ), register(Register::ACQ));
            state.rings.insert(0, Ring { submission, completion, entries, phase: true, ..Ring::default() });
        }
        Ok(())
    }

    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let mut state = self.state();
        if doorbell.queue() != 0 {
            state.rung.push((doorbell, value));
        }
        if !doorbell.is_completion() {
            self.run(&mut state, doorbell.queue(), value);
        }
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        let at = self.next_address.fetch_add(memory.len() as u64 + 4096, Ordering::Relaxed);
        let mapped = self.space.map(Arc::clone(memory), BusAddr(at), Access::ReadWrite);
        mapped.map(|()| BusAddr(at)).map_err(|refusal| BusError::Mapping(refusal.to_string()))
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.space.unmap(at).map(drop).map_err(|refusal| BusError::Mapping(refusal.to_string()))
    }

    fn has_events(&self) -> bool {
        true
    }

    /// One that nothing raises: what wakes is the driver's own.
    fn listen(&self, _: u16) -> Result<Arc<dyn Event>, BusError> {
        Ok(Arc::new(Wakeup::new().unwrap()))
    }

    fn poll(&self) {}

    fn idle(&self, _queue: u16) {}

    fn wait(&self, _: u16, _: Duration) -> Result<bool, BusError> {
        Ok(false)
    }

    fn device_memory(&self) -> Option<ScriptedMemory> {
        Some(ScriptedMemory(Arc::clone(&self.memory), BusAddr(1 << 40)))
    }

    fn byte_memory(&self) -> Option<ScriptedMemory> {
        self.device_memory()
    }

    fn charge(&self, step: HostStep, times: u32) {
        self.state().charges.push((step, times));
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn meter(&self) -> &HostMeter {
        &self.meter
    }

    fn profile(&self) -> Option<&Profile> {
        self.script.profile.as_ref()
    }
}

impl ScriptedBus {
    pub fn new(script: Script) -> Self {
        let memory = Arc::new(DmaMemory::new(1 << 20).unwrap());
        let space = DmaSpace::new();
        space.map(Arc::clone(&memory), BusAddr(1 << 40), Access::ReadWrite).unwrap();
        Self {
            meter: HostMeter::new(&Profile::by_name("gen4x4").unwrap()),
            script,
            space,
            next_address: AtomicU64::new(0x10_0000),
            state: Mutex::new(State { lbads: 9, ..State::default() }),
            memory,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Where the rings of a queue stand.
    pub fn rings_of(&self, qid: u16) -> [BusAddr; 2] {
        let state = self.state();
        let ring = &state.rings[&qid];
        [BusAddr(ring.submission), BusAddr(ring.completion)]
    }

    /// Whether the device could touch memory there.
    pub fn reaches(&self, at: BusAddr) -> bool {
        self.space.read(at, &mut [0]).is_ok()
    }

    /// Keeps commands until they are released.
    pub fn hold(&self) {
        self.state().held = Some(Vec::new());
    }

    /// Answers held commands in the order given by `order`, indexes into those held.
    pub fn release(&self, order: &[usize]) {
        let mut state = self.state();
        let held = state.held.take().unwrap();
        for index in order {
            self.answer(&mut state, &held[*index]);
        }
    }

    /// Answers the admin commands that were held, the last first.
    pub fn release_admin(&self) {
        let mut state = self.state();
        for held in state.held_admin.take().unwrap().iter().rev() {
            self.administer(&mut state, held);
        }
    }

    /// Answers a command that is not there.
    pub fn answer_stray(&self, qid: u16, cid: u16) {
        let mut state = self.state();
        let entry = Command::new(0, cid, 0);
        self.answer(&mut state, &Seen { qid, entry, chunks: Vec::new(), data: Vec::new() });
    }

    /// What a command sends: the bytes behind it, or at its data pointer.
    pub fn payload(&self, seen: &Seen, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if !seen.entry.cdw0.psdt().is_sgl() {
            let mut segments = SegmentList::new();
            let fetch = |at, into: &mut [u8]| self.space.read(at, into);
            prp::walk(seen.entry.prp1(), seen.entry.prp2(), len as u32, fetch, &mut segments).unwrap();
            let mut done = 0;
            for segment in segments.as_slice() {
                let end = done + segment.len_bytes as usize;
                self.space.read(segment.addr, &mut bytes[done..end]).unwrap();
                done = end;
            }
            return bytes;
        }
        let sgl = seen.entry.sgl1();
        assert_eq!(sgl.length_bytes as usize, len);
        match sgl.kind {
            SglKind::DATA_BLOCK_OFFSET => seen.chunks[..len].to_vec(),
            SglKind::DATA_BLOCK => {
                self.space.read(BusAddr(sgl.address), &mut bytes).unwrap();
                bytes
            }
            other => panic!("{other:?}"),
        }
    }

    fn run(&self, state: &mut State, qid: u16, tail: u32) {
        while let Some(seen) = self.fetch(state, qid, tail) {
            if qid == 0 {
                match &mut state.held_admin {
                    Some(held) => held.push(seen),
                    None => self.administer(state, &seen),
                }
                continue;
            }
            state.seen.push(seen.clone());
            match &mut state.held {
                Some(held) => held.push(seen),
                None => self.answer(state, &seen),
            }
        }
    }

    fn fetch(&self, state: &mut State, qid: u16, tail: u32) -> Option<Seen> {
        let ring = state.rings.get_mut(&qid)?;
        if ring.head == tail {
            return None;
        }
        let mut take = || {
            let (at, mut slot) = (BusAddr(ring.submission + u64::from(ring.head) * 64), [0; 64]);
            self.space.read_slot64(at, &mut slot).unwrap();
            ring.head = (ring.head + 1) % ring.entries;
            slot
        };
        let entry = Command::from_bytes(&take());
        let has_chunks = entry.cdw0.psdt().is_sgl() && entry.sgl1().kind == SglKind::DATA_BLOCK_OFFSET;
        let count = if has_chunks { vendor::inline_chunks(entry.sgl1().length_bytes as usize) } else { 0 };
        let chunks = (0..count).flat_map(|_| take()).collect();
        let mut seen = Seen { qid, entry, chunks, data: Vec::new() };
        let len = match entry.opcode() {
            _ if qid == 0 || entry.dptr == [0, 0] => 0,
            _ if entry.cdw0.psdt().is_sgl() => entry.sgl1().length_bytes as usize,
            0x01 => entry.cdw10 as usize,
            0xa1 => entry.cdw10 as usize / 4096 * 4096,
            _ => 0,
        };
        if len > 0 {
            seen.data = self.payload(&seen, len);
        }
        Some(seen)
    }

    fn answer(&self, state: &mut State, seen: &Seen) {
        let reply = state.replies.pop_front().unwrap_or_default();
        if !reply.data.is_empty() {
            let at =
                if seen.entry.cdw0.psdt().is_sgl() { seen.entry.sgl1().address } else { seen.entry.prp1() };
            self.space.write(BusAddr(at), &reply.data).unwrap();
        }
        self.complete(state, seen, &reply);
    }

    fn complete(&self, state: &mut State, seen: &Seen, reply: &Reply) {
        let ring = state.rings.get_mut(&seen.qid).unwrap();
        let result = u64::from(reply.dw0) | u64::from(reply.dw1) << 32;
        let completion = Completion::new(seen.qid, ring.head as u16, seen.entry.cid(), reply.status);
        let bytes = completion.with_result(result).with_phase(ring.phase).to_bytes();
        let at = BusAddr(ring.completion + u64::from(ring.completed) * 16);
        self.space.store_completion(at, &bytes).unwrap();
        ring.completed = (ring.completed + 1) % ring.entries;
        ring.phase ^= ring.completed == 0;
    }

    fn administer(&self, state: &mut State, seen: &Seen) {
        let entry = seen.entry;
        let cdw10 = QueueCdw10::from_bits(entry.cdw10);
        let mut reply = Reply::default();
        match AdminOpcode(entry.opcode()) {
            AdminOpcode::IDENTIFY => {
                let page = self.identify(state, IdentifyCdw10::from_bits(entry.cdw10).cns(), entry.nsid);
                state.identified.push(entry.nsid);
                self.space.write(BusAddr(entry.prp1()), &page).unwrap();
            }
            AdminOpcode::SET_FEATURES => {
                let feature = FeatureCdw10::from_bits(entry.cdw10).fid().0;
                state.features.push((feature, entry.nsid, entry.cdw11));
                reply.dw0 = if feature == 0xc1 { 1 } else { entry.cdw11 };
            }
            AdminOpcode::CREATE_CQ => {
                let ring = Ring {
                    completion: entry.prp1(),
                    entries: u32::from(cdw10.qsize_z()) + 1,
                    phase: true,
                    ..Ring::default()
                };
                state.rings.insert(cdw10.qid(), ring);
            }
            AdminOpcode::CREATE_SQ => {
                let ring = state.rings.get_mut(&cdw10.qid()).unwrap();
                ring.submission = entry.prp1();
            }
            AdminOpcode::DELETE_SQ | AdminOpcode::DELETE_CQ if state.keeps_queues => {
                reply.status = Status::INTERNAL_ERROR;
            }
            AdminOpcode::DELETE_SQ => {}
            AdminOpcode::DELETE_CQ => drop(state.rings.remove(&cdw10.qid())),
            AdminOpcode::ABORT => {
                let abort = AbortCdw10::from_bits(entry.cdw10);
                state.aborts.push((abort.sqid(), abort.cid()));
            }
            AdminOpcode::FORMAT_NVM => state.lbads = 12,
            other => panic!("{other:?}"),
        }
        self.complete(state, seen, &reply);
    }

    fn identify(&self, state: &State, cns: Cns, nsid: u32) -> Vec<u8> {
        let mut page = vec![0; 4096];
        match cns {
            Cns::COMMAND_SETS => page[..24].copy_from_slice([1u64, 2, 3].as_bytes()),
            Cns::NAMESPACE_DESCRIPTORS => page[..5].copy_from_slice(&[4, 1, 0, 0, u8::from(nsid == 1)]),
            Cns::NAMESPACE => {
                let mut namespace = NvmNamespace::new_zeroed();
                namespace.nsze = if nsid == blocks().get() { 1 << 20 } else { 0 };
                namespace.lbaf[0] = LbaFormat::new().with_lbads(state.lbads);
                page.copy_from_slice(namespace.as_bytes());
            }
            Cns::CONTROLLER => page = self.controller(),
            other => panic!("identify {other}"),
        }
        page
    }

    fn controller(&self) -> Vec<u8> {
        let mut controller = Controller::new_zeroed();
        controller.mn = ascii_field("Scripted");
        controller.mdts = self.script.mdts;
        controller.sgls = Sgls::new().with_supported(u8::from(self.script.sgl));
        controller.vendor = VendorArea {
            magic: vendor::MAGIC,
            version: vendor::VERSION,
            methods: self.script.methods,
            inline_max_bytes: self.script.inline_max_bytes,
            piggyback_max_bytes: self.script.piggyback_max_bytes,
            pt_payloads_max: 4,
            bulk_max_bytes: 1 << 16,
            device_memory_bytes: 1 << 20,
            cxl_window_bytes: WINDOW_BYTES,
            cxl_windows: 4,
            cxl_segment_bytes: SEGMENT_BYTES as u32,
            cxl_header_bytes: HEADER_BYTES as u32,
            cxl_align_bytes: 8,
            cxl_page_bytes: 4096,
            byte_region_bytes: 1 << 20,
            ..VendorArea::new_zeroed()
        };
        controller.as_bytes().to_vec()
    }
}

/// What stores were sent, put together again as the device would.
pub fn stores(bus: &ScriptedBus) -> Vec<(Vec<u8>, Vec<u8>)> {
    let seen = bus.state().seen.clone();
    let mut stores: Vec<(Vec<u8>, usize, Vec<u8>)> = Vec::new();
    let mut position = 0;
    for command in &seen {
        let entry = &command.entry;
        let key = entry.key()[..usize::from(entry.cdw11.to_le_bytes()[0]).min(16)].to_vec();
        let (len, key_len) = (entry.cdw10 as usize, key.len() as u64);
        let in_window = |position: &mut u64| {
            let record = (HEADER_BYTES + key_len + len as u64).next_multiple_of(8);
            if *position % SEGMENT_BYTES + record > SEGMENT_BYTES {
                *position = position.next_multiple_of(SEGMENT_BYTES);
            }
            let at = WINDOW_BYTES + (*position + HEADER_BYTES + key_len) % WINDOW_BYTES;
            *position += record;
            let mut bytes = vec![0; len];
            bus.memory.read_at(at as usize, &mut bytes).unwrap();
            bytes
        };
        match VendorOpcode(entry.opcode()) {
            VendorOpcode(0x01) => stores.push((key, len, command.data.clone())),
            VendorOpcode::KV_WRITE_PIGGYBACK => stores.push((key, len, vendor::unpack_write(entry).to_vec())),
            VendorOpcode::KV_WRITE_PT => stores.push((key, len, vendor::unpack_write_pt(entry).to_vec())),
            VendorOpcode::KV_STORE_PRP_TAIL => stores.push((key, len, command.data.clone())),
            VendorOpcode::KV_STORE_CXL => stores.push((key, len, in_window(&mut position))),
            VendorOpcode::KV_STORE_CXL_PIGGYBACK => {
                let mut bytes = in_window(&mut position);
                let first = vendor::unpack_write(entry);
                let here = len.min(35);
                bytes[..here].copy_from_slice(&first[..here]);
                stores.push((key, len, bytes));
            }
            VendorOpcode::KV_TRANSFER => {
                let (_, len, bytes) = stores.last_mut().unwrap();
                bytes.truncate(*len);
                bytes.extend_from_slice(&vendor::unpack_transfer(entry));
            }
            VendorOpcode::KV_TRANSFER_PT => {
                let (_, _, bytes) = stores.last_mut().unwrap();
                let (place, fragment) = vendor::unpack_transfer_pt(entry);
                assert_eq!(bytes.len(), 11 + 28 * usize::from(place.fragment()));
                bytes.extend_from_slice(&fragment);
            }
            other => panic!("{other:?}"),
        }
    }
    stores
        .into_iter()
        .map(|(key, len, mut bytes)| {
            bytes.truncate(len);
            (key, bytes)
        })
        .collect()
}

/// An attached scripted device.
pub fn device(script: Script) -> (Arc<ScriptedBus>, Driver<ScriptedBus>) {
    let bus = Arc::new(ScriptedBus::new(script));
    let driver = Driver::attach(Arc::clone(&bus), AttachOptions::default()).unwrap();
    (bus, driver)
}

/// A queue of a scripted device that announces everything.
pub fn queue(transfer: Method) -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    queue_of(Script::default(), QueueOptions { transfer, ..QueueOptions::default() })
}

/// A queue of a scripted device.
pub fn queue_of(script: Script, options: QueueOptions) -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    let (bus, driver) = device(script);
    let queue = driver.queue(options).unwrap();
    bus.state().charges.clear();
    (bus, queue)
}

/// A key of text.
pub fn key(text: &str) -> Key {
    Key::try_from(text).unwrap()
}

/// Bytes of which none equals the one 251 before.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}
