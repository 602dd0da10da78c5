//! A device that records what it is sent and answers what a test sets: a bus for tests of the driver alone.

mod bus;
mod device;
mod stores;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use byway_core::{Key, Nsid, QueueOptions};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, HostMemory, SegmentList, prp};
use byway_driver::{AttachOptions, Driver, Queue};
use byway_link::{HostStep, Method, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::base::identify::Oncs;
use byway_spec::base::sgl::SglKind;
use byway_spec::vendor;
use byway_spec::{Command, Status};
use parking_lot::{Mutex, MutexGuard};

pub use stores::stores;

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
    pub inline_read_max_bytes: u32,
    pub piggyback_max_bytes: u32,
    pub mdts: u8,
    /// SGLS bits 1:0.
    pub sgl: u8,
    pub oncs: Oncs,
    /// ACL: Aborts at once, zero based.
    pub acl_z: u8,
    /// CAP.MQES.
    pub mqes_z: u16,
    pub profile: Option<Profile>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            methods: vendor::Methods::from_bits(0xff),
            inline_max_bytes: 8192,
            inline_read_max_bytes: 225,
            piggyback_max_bytes: 8192,
            mdts: 12,
            sgl: 1,
            oncs: Oncs::new().with_write_zeroes(true).with_copy(true),
            acl_z: 0,
            mqes_z: 1023,
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
    /// What stands in the completion queue behind it.
    pub behind: Behind,
}

/// What stands in a completion queue behind a completion.
#[derive(Clone, Debug, Default)]
pub enum Behind {
    #[default]
    Nothing,
    /// A result.
    Result(Vec<u8>),
    /// A result whose entries are not there before [`ScriptedBus::write_behind`].
    Later(Vec<u8>),
    /// So many entries that no result has.
    Noise(usize),
}

/// A command of an I/O queue, with the chunks that came behind it.
#[derive(Clone, Debug)]
pub struct Fetched {
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
    pub fetched: Vec<Fetched>,
    /// Doorbells of I/O queues in the order they were rung.
    pub rung: Vec<(DoorbellIndex, u32)>,
    pub charges: Vec<(HostStep, u32)>,
    /// Answers to the next I/O commands; success once there are no more.
    pub replies: VecDeque<Reply>,
    /// Commands are kept until they are released.
    pub withheld: Option<Vec<Fetched>>,
    pub fatal: bool,
    /// Interrupts that a thread sleeps on.
    pub armed: BTreeSet<u16>,
    /// How often each was raised while it was armed.
    pub raised: BTreeMap<u16, u32>,
    /// How often it had been when it was last waited for.
    pub waited_for: BTreeMap<u16, u32>,
    /// Queue and identifier of commands that were to be aborted.
    pub aborts: Vec<(u16, u16)>,
    /// Aborts to be answered by Abort Command Limit Exceeded.
    pub refused_aborts: u32,
    /// Namespaces that were identified, 0 for none.
    pub identified: Vec<u32>,
    /// Block size of [`blocks`], as a power of two.
    pub lbads: u8,
    /// Deletions of queues are answered by an error.
    pub keeps_queues: bool,
    /// Admin commands are kept until they are released.
    pub withheld_admin: Option<Vec<Fetched>>,
    /// Entries that are still to be written, with their places.
    late: Vec<(BusAddr, [u8; 16])>,
}

pub struct ScriptedBus {
    script: Script,
    space: DmaSpace,
    next_address: AtomicU64,
    state: Mutex<State>,
    pub memory: Arc<DmaMemory>,
}

impl ScriptedBus {
    pub fn new(script: Script) -> Self {
        let memory = Arc::new(DmaMemory::new(1 << 20).unwrap());
        let space = DmaSpace::new();
        space.map(Arc::clone(&memory), BusAddr(1 << 40), Access::ReadWrite).unwrap();
        Self {
            script,
            space,
            next_address: AtomicU64::new(0x10_0000),
            state: Mutex::new(State { lbads: 9, ..State::default() }),
            memory,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Addresses of a queue's rings.
    pub fn rings_of(&self, qid: u16) -> [BusAddr; 2] {
        let state = self.state();
        let ring = &state.rings[&qid];
        [BusAddr(ring.submission), BusAddr(ring.completion)]
    }

    /// Whether the device could touch memory there.
    pub fn reaches(&self, at: BusAddr) -> bool {
        self.space.read(at, &mut [0]).is_ok()
    }

    /// Writes entries that stand behind completions which are there already.
    pub fn write_behind(&self) {
        let late = std::mem::take(&mut self.state().late);
        late.iter().for_each(|(at, entry)| self.space.store_completion(*at, entry).unwrap());
    }

    /// Keeps commands until they are released.
    pub fn hold(&self) {
        self.state().withheld = Some(Vec::new());
    }

    /// Answers withheld commands in the order given by `order`, indexes into those withheld.
    pub fn release(&self, order: &[usize]) {
        let mut state = self.state();
        let withheld = state.withheld.take().unwrap();
        for index in order {
            self.answer(&mut state, &withheld[*index]);
        }
    }

    /// Answers the admin commands that were withheld, the last first.
    pub fn release_admin(&self) {
        let mut state = self.state();
        for withheld in state.withheld_admin.take().unwrap().iter().rev() {
            self.administer(&mut state, withheld);
        }
    }

    /// Answers a command that is not there.
    pub fn answer_stray(&self, qid: u16, cid: u16) {
        let mut state = self.state();
        let entry = Command::new(0, cid, 0);
        self.answer(&mut state, &Fetched { qid, entry, chunks: Vec::new(), data: Vec::new() });
    }

    /// What a command sends: the bytes behind it, or at its data pointer.
    pub fn payload(&self, fetched: &Fetched, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if !fetched.entry.cdw0.psdt().is_sgl() {
            let mut segments = SegmentList::new();
            let fetch = |at, into: &mut [u8]| self.space.read(at, into);
            prp::walk(fetched.entry.prp1(), fetched.entry.prp2(), len as u32, fetch, &mut segments).unwrap();
            let mut done = 0;
            for segment in segments.as_slice() {
                let end = done + segment.len_bytes as usize;
                self.space.read(segment.addr, &mut bytes[done..end]).unwrap();
                done = end;
            }
            return bytes;
        }
        let sgl = fetched.entry.sgl1();
        assert_eq!(sgl.length_bytes as usize, len);
        match sgl.kind {
            SglKind::DATA_BLOCK_OFFSET => fetched.chunks[..len].to_vec(),
            SglKind::DATA_BLOCK => {
                self.space.read(BusAddr(sgl.address), &mut bytes).unwrap();
                bytes
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An attached scripted device.
pub fn device(script: Script) -> (Arc<ScriptedBus>, Driver<ScriptedBus>) {
    let bus = Arc::new(ScriptedBus::new(script));
    let driver = Driver::attach(Arc::clone(&bus), AttachOptions::default()).unwrap();
    (bus, driver)
}

/// A queue of a scripted device that announces everything.
pub fn queue(transfer: Method) -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    queue_of(Script::default(), QueueOptions::default().transfer(transfer))
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
