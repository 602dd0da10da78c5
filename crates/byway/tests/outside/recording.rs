//! The ledger against a record of what was really touched: a bus that notes what the host does, and the device's own
//! accesses to host memory, each priced by the design's table.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::table::{Bytes, Link};
use byway::{BackendQueue, Buffer, Key, Nsid, NvmCommand, Profile, QueueOptions, StoreOptions};
use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_dma::{BusAddr, Direction, DmaMemory, HostMemory, RecordedAccess};
use byway_driver::{AttachOptions, Bus, BusError, DeviceMemory, Driver, LinkModel};
use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
use byway_link::Method;
use byway_local::{Embedded, InProcessBus, RunOptions, Window};
use byway_queue::DoorbellIndex;

const LINK: Link = Link { mps: 256, mrrs: 512 };

/// Bytes of a memory page.
const PAGE: usize = 4096;

/// Bus addresses from here on are the device's own memory.
const OWN_MEMORY: u64 = 1 << 46;

type Notes = Arc<Mutex<Bytes>>;

/// A bus that prices what the host does.
struct Recorder {
    bus: InProcessBus,
    notes: Notes,
}

impl Recorder {
    fn note(&self, bytes: Bytes) {
        let mut notes = self.notes.lock();
        *notes = *notes + bytes;
    }
}

/// Device memory that prices what the host does.
struct RecordedMemory {
    memory: Window,
    notes: Notes,
}

impl DeviceMemory for RecordedMemory {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        self.memory.bus_addr()
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        let n = bytes.len() as u64;
        let is_cxl = self.bus_addr().is_none();
        let cost = if is_cxl { LINK.cxl_store(offset, n) } else { LINK.byte_store(n) };
        let mut notes = self.notes.lock();
        *notes = *notes + cost;
        self.memory.store(offset, bytes)
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        let cost = if self.bus_addr().is_none() { LINK.cxl_load(1) } else { LINK.load() };
        let mut notes = self.notes.lock();
        *notes = *notes + cost;
        self.memory.settle(last)
    }
}

impl Bus for Recorder {
    type Memory = RecordedMemory;

    fn name(&self) -> &'static str {
        "recorder"
    }

    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        let n = u64::from(bytes);
        self.note(Bytes { payload: n, wire: 24 + 20 + n });
        self.bus.read_register(offset, bytes)
    }

    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError> {
        self.note(LINK.byte_store(bytes.into()));
        self.bus.write_register(offset, bytes, value)
    }

    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        self.note(Bytes { payload: 4, wire: 28 });
        self.bus.ring(doorbell, value);
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        self.bus.map(memory)
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.bus.unmap(at)
    }

    fn idle(&self, queue: u16) {
        self.bus.idle(queue);
    }

    fn poll(&self) {
        self.bus.poll();
    }

    fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        self.bus.wait(vector, timeout)
    }

    fn device_memory(&self) -> Option<RecordedMemory> {
        self.bus.device_memory().map(|memory| RecordedMemory { memory, notes: self.notes.clone() })
    }

    fn byte_memory(&self) -> Option<RecordedMemory> {
        self.bus.byte_memory().map(|memory| RecordedMemory { memory, notes: self.notes.clone() })
    }

    fn model(&self) -> Option<&impl LinkModel> {
        self.bus.model()
    }
}

fn embedded(profile: &str) -> Embedded {
    let profile = Profile::by_name(profile).unwrap();
    let options = FlashOptions::new(64 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]);
    let namespace = |kind| NamespaceSpec { nsid: None, kind, size_bytes: 32 << 20 };
    let namespaces = [namespace(NamespaceKind::Kv), namespace(NamespaceKind::Nvm { lba_bytes: 512 })];
    let flash = Flash::create(options, &namespaces).unwrap();
    let identity = Identity {
        nqn: "nqn.2026-01.example:byway:recorded".into(),
        serial: "RECORDED".into(),
        model: "Byway software SSD".into(),
    };
    let subsystem = Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap();
    Embedded::start(subsystem, RunOptions::default()).unwrap()
}

/// What the device touched since the last call, as far as it crossed the link.
fn touched(bus: &InProcessBus) -> Bytes {
    let crossed = bus.space().take_record().into_iter().filter(|touch| touch.at.0 < OWN_MEMORY);
    let price = |way, n| if way == Direction::Read { LINK.read(n) } else { LINK.write(n) };
    crossed.fold(Bytes::default(), |sum, touch| sum + price(touch.direction, touch.moved_bytes as u64))
}

#[test]
fn ledger_counts_every_access_recorded_on_the_bus() {
    for profile in ["cosmos", "gen4x4", "gen5x8-cxl"] {
        let embedded = embedded(profile);
        let (bus, notes) = (InProcessBus::new(&embedded), Notes::default());
        let mut by_device = touched(&bus);
        let recorder = Arc::new(Recorder { bus: bus.clone(), notes: notes.clone() });
        let driver = Driver::attach(recorder, AttachOptions::default()).unwrap();
        for method in Method::ALL {
            do_everything(&driver, method);
            let ledger = embedded.ledger();
            // An interrupt is 4 bytes of payload, 24 on the wire, and touches no memory.
            let interrupts = ledger.interrupt_bytes() * 6;
            let counted = Bytes { payload: ledger.payload_bytes(), wire: ledger.wire_bytes() - interrupts };
            by_device = by_device + touched(&bus);
            assert_eq!(counted, by_device + *notes.lock(), "{profile} {method}");
        }
        assert!(by_device.payload > 1 << 20);
    }
}

#[test]
fn a_device_that_moves_whole_pages_touches_only_the_part_it_was_given_where_the_program_has_it() {
    for profile in ["cosmos", "gen4x4"] {
        let embedded = embedded(profile);
        let driver =
            Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default()).unwrap();
        let prp = QueueOptions::default().transfer(Method::Prp);
        let mut queue = driver.queue(prp).unwrap();
        let mut neighbour = driver.prepare(Buffer::zeroed(3 * PAGE).unwrap()).unwrap();
        let mut part = neighbour.split_off(PAGE + 512);
        let after = part.split_off(2 * 512);
        InProcessBus::new(&embedded).space().take_record();
        let nsid = Nsid::new(2).unwrap();
        let write = NvmCommand::Write { nsid, slba: 3, blocks: 2, data: part.into() };
        queue.execute(write.into()).unwrap();
        let reads = InProcessBus::new(&embedded)
            .space()
            .take_record()
            .into_iter()
            .filter(|touch| touch.direction == Direction::Read);
        let read: Vec<RecordedAccess> = reads.filter(|touch| touch.len_bytes != 64).collect();
        let [data] = read[..] else { panic!("{profile}: {read:?}") };
        let moved_bytes = if profile == "cosmos" { PAGE } else { 1024 };
        assert_eq!((data.len_bytes, data.moved_bytes), (1024, moved_bytes), "{profile}");
        neighbour.as_mut_slice()[PAGE + 511] = 0x5a;
        let mut beside = [0];
        InProcessBus::new(&embedded).space().read(BusAddr(data.at.0 - 1), &mut beside).unwrap();
        assert_eq!((beside, after.len()), ([0x5a], 2 * PAGE - 1536), "{profile}: a copy");
    }
}

/// Every call that has a payload, by one method.
fn do_everything(driver: &Driver<Recorder>, transfer: Method) {
    let options = QueueOptions::default().transfer(transfer).ring_entries(256);
    let mut queue = driver.queue(options).unwrap();
    let (kv, blocks) = (Nsid::FIRST, Nsid::new(2).unwrap());
    let mut into = vec![0; 20_000];
    for size in [0, 1, 32, 35, 36, 64, 100, 1000, 4095, 4096, 4097, 8192, 12_288, 12_300] {
        let key = Key::new(&(size as u32).to_le_bytes()).unwrap();
        queue.execute_store(kv, &key, &vec![1; size], StoreOptions::NONE).unwrap();
        queue.execute_retrieve(kv, &key, &mut into).unwrap();
        queue.execute_byte_store(kv, &key, &vec![2; size], StoreOptions::NONE).unwrap();
        queue.execute_bulk_store(kv, &[(key, &vec![3; size][..])]).unwrap();
        queue.execute_delete(kv, &key).unwrap();
    }
    for len in [512, 4096, 8192, 12_288] {
        queue.execute_write(blocks, 7, 512, &vec![4; len]).unwrap();
        queue.execute_read(blocks, 7, 512, &mut into[..len]).unwrap();
    }
}
