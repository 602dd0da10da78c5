//! Clients that lie, stop in mid-message, flood, or come two at a time: each gets its error or is sent away, and the next
//! one is served.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;

use byway_flash::{FileEvents, RunOptions};
use byway_spec::nvm::NvmOpcode;
use byway_sys::map::{Mapping, Sharing};
use byway_vfio_user_wire::{
    Access, Command, Errno, IrqAction, IrqData, IrqIndex, Kind, MessageId, RegionIndex, Reply, Request,
    SetIrqs, Version,
};
use common::host::{DATA, MEMORY_AT, blocks, mapping};
use common::{Host, Served, begin};

/// A conversation of every kind of message, each as its bytes.
fn conversation() -> Vec<Vec<u8>> {
    let bar = |offset, bytes| Access { region: RegionIndex::BAR0, offset, bytes };
    let requests = [
        begin(),
        Request::DeviceGetInfo,
        Request::RegionGetInfo { index: RegionIndex::BAR0, argsz: 32 },
        Request::IrqGetInfo { index: IrqIndex::MSIX },
        Request::DmaMap(mapping()),
        Request::RegionRead(bar(0, 8)),
        Request::RegionWrite { to: bar(0x24, 4), data: &[15, 0, 15, 0] },
        Request::RegionWrite { to: bar(0x14, 4), data: &[1, 0, 0x46, 0] },
        Request::RegionWrite { to: bar(0x1000, 4), data: &[1, 0, 0, 0] },
        Request::DeviceReset,
    ];
    let encode = |request: &Request<'_>| {
        let mut bytes = Vec::new();
        request.encode(MessageId(1), false, &mut bytes);
        bytes
    };
    requests.iter().map(encode).collect()
}

/// The server is sound: a host can be served.
fn assert_sound(served: &Served) {
    Host::new(served).write_blocks(0, &[1; 512]);
}

#[test]
fn a_client_may_go_before_within_and_after_every_message() {
    let served = Served::new();
    let messages = conversation();
    for whole in 0..messages.len() {
        for part in [0, 1, 15, 16, messages[whole].len() - 1] {
            let mut client = served.connect();
            let bytes = [&messages[..whole].concat(), &messages[whole][..part]].concat();
            client.stream.write_all(&bytes).unwrap();
            if part == 0 {
                let _ = client.stream.shutdown(Shutdown::Write);
            }
        }
    }
    assert_sound(&served);
}

#[test]
fn another_client_is_refused_and_the_first_is_served_on() {
    let served = Served::new();
    let mut host = Host::new(&served);
    for _ in 0..20 {
        assert_eq!(served.connect().ask(&begin()), Err(Errno::EBUSY));
    }
    // These say nothing.
    let _silent: Vec<_> = (0..20).map(|_| served.connect()).collect();
    host.write_blocks(0, &[1; 512]);
}

#[test]
fn an_unknown_command_is_not_supported_and_the_stream_stays_in_step() {
    let served = Served::new();
    let mut client = served.client();
    for command in [0u16, 14, 16, 19, u16::MAX] {
        let mut bytes =
            [&7u16.to_ne_bytes()[..], &command.to_ne_bytes(), &(16 + 5000u32).to_ne_bytes()].concat();
        bytes.resize(16 + 5000, 0);
        client.send(&bytes, &[]);
        let (header, payload) = client.receive().unwrap();
        assert_eq!((header.command, header.error), (Command(command), Some(Errno::ENOTSUP)));
        assert!(payload.is_empty() && header.kind == Kind::Reply);
    }
    client.ask(&Request::DeviceGetInfo).unwrap();
    let ask = Request::DmaRead { address: 0, bytes: 1 };
    assert_eq!(client.ask(&ask), Err(Errno::ENOTSUP), "a client does not ask a server for memory");
}

#[test]
fn no_descriptor_stands_for_a_write_to_any_region() {
    let served = Served::new();
    let mut client = served.client();
    let ask = |index| Request::RegionGetIoFds { index: RegionIndex(index), argsz: 4096 };
    for index in 0..9 {
        let parts = client.ask(&ask(index)).unwrap();
        assert_eq!((parts.len(), &parts[12..]), (16, &[0; 4][..]));
    }
    assert_eq!(client.ask(&ask(9)), Err(Errno::EINVAL));
}

/// Once it is set, the device's code panics at its next sync.
#[derive(Debug, Default)]
struct Trap {
    is_set: AtomicBool,
    is_sprung: AtomicBool,
}

impl FileEvents for Trap {
    fn before_sync(&self) -> std::io::Result<()> {
        if self.is_set.load(Relaxed) {
            self.is_sprung.store(true, Relaxed);
            panic!("a trap");
        }
        Ok(())
    }
}

#[test]
fn a_device_that_failed_ends_the_service_with_its_client_there_or_not() {
    for stays in [true, false] {
        let trap = Arc::new(Trap::default());
        let served = Served::watched(RunOptions::default().events(Some(trap.clone())));
        let mut host = Host::new(&served);
        host.write_blocks(0, &[1; 512]);
        trap.is_set.store(true, Relaxed);
        host.submit(1, &byway_spec::Command::new(NvmOpcode::FLUSH.0, 0, 1));
        host.ring(1);
        // A client that goes before takes its commands with it.
        while !trap.is_sprung.load(Relaxed) {
            std::thread::yield_now();
        }
        let client = stays.then_some(host);
        assert!(served.ends_by_itself());
        drop(client);
    }
}

#[test]
fn requests_before_version_negotiation_are_refused() {
    let served = Served::new();
    let mut client = served.connect();
    assert_eq!(client.ask(&Request::DeviceGetInfo), Err(Errno::EINVAL));
    assert_eq!(client.ask(&Request::DeviceReset), Err(Errno::EINVAL));
    let other = Request::Version(Version { major: 1, ..Version::default() });
    assert_eq!(client.ask(&other), Err(Errno::EINVAL));
    client.ask(&begin()).unwrap();
    assert_eq!(client.ask(&begin()), Err(Errno::EINVAL));
}

#[test]
fn accesses_outside_of_regions_are_refused() {
    let served = Served::new();
    let mut client = served.client();
    let places = [
        (RegionIndex::BAR0, 0x4000, 4),
        (RegionIndex::BAR0, 0x3ffe, 4),
        (RegionIndex::BAR0, 0, u32::MAX),
        (RegionIndex::BAR0, u64::MAX - 4, 4),
        (RegionIndex::CONFIG, 4096, 1),
        (RegionIndex::CONFIG, 0, 4097),
        (RegionIndex::BAR1, 0, 4),
        (RegionIndex::VGA, 0, 1),
        (RegionIndex(9), 0, 1),
        (RegionIndex(u32::MAX), 0, 1),
    ];
    for (region, offset, bytes) in places {
        assert_eq!(client.read(region, offset, bytes), Err(Errno::EINVAL), "{region} {offset:#x} {bytes}");
        let data = vec![0; bytes.min(5000) as usize];
        let refused = client.write(region, offset, &data);
        assert!(refused.is_err() || bytes == u32::MAX, "{region} {offset:#x} {bytes}");
    }
    assert_eq!(client.write(RegionIndex::BAR0, 0x14, &[1]), Err(Errno::EINVAL), "parts of registers");
    assert_eq!(client.write(RegionIndex::BAR0, 0x12, &[0; 4]), Err(Errno::EINVAL));
    assert_eq!(client.read(RegionIndex::BAR0, 9, 2).unwrap(), [1, 2], "the version's middle bytes");
}

#[test]
fn interrupts_that_are_not_there_and_descriptors_that_are_none_are_refused() {
    let served = Served::new();
    let mut client = served.client();
    let (_pipe, end) = std::io::pipe().unwrap();
    let end = end.into();
    let set =
        |index, start, count, action, data| Request::SetIrqs(SetIrqs { index, start, count, action, data });
    let (trigger, events) = (IrqAction::Trigger, IrqData::EventFds);
    assert_eq!(client.ask(&set(IrqIndex::MSIX, 129, 1, trigger, events)), Err(Errno::EINVAL));
    assert_eq!(client.ask(&set(IrqIndex::MSI, 0, 1, trigger, events)), Err(Errno::EINVAL));
    assert_eq!(client.ask(&set(IrqIndex(7), 0, 0, trigger, IrqData::Now)), Err(Errno::EINVAL));
    assert_eq!(client.ask(&set(IrqIndex::MSIX, 0, 1, IrqAction::Mask, events)), Err(Errno::EINVAL));
    assert_eq!(client.ask_with(&set(IrqIndex::MSIX, 0, 1, trigger, events), &[&end]), Err(Errno::EINVAL));
    assert_eq!(client.ask_with(&set(IrqIndex::MSIX, 0, 2, trigger, events), &[&end]), Err(Errno::EINVAL));
    let many: Vec<_> = std::iter::repeat_n(&end, 20).collect();
    assert_eq!(client.ask_with(&set(IrqIndex::MSIX, 0, 20, trigger, events), &many), Err(Errno::EINVAL));
    client.ask(&set(IrqIndex::MSIX, 0, 0, trigger, IrqData::Now)).unwrap();
    client.ask(&set(IrqIndex::INTX, 0, 0, trigger, IrqData::Now)).unwrap();
    client.ask(&set(IrqIndex::MSIX, 0, 3, trigger, IrqData::Where(&[0, 1, 0]))).unwrap();
    assert_eq!(client.register(0x3000), 2);
}

#[test]
fn a_message_shorter_than_its_header_ends_the_connection() {
    let served = Served::new();
    let mut client = served.client();
    let mut bytes = Vec::new();
    Request::DeviceGetInfo.encode(MessageId(1), false, &mut bytes);
    bytes[4..8].copy_from_slice(&15u32.to_ne_bytes());
    client.send(&bytes, &[]);
    assert!(client.receive().is_none());
    assert_sound(&served);
}

#[test]
fn a_message_of_any_size_that_it_claims_is_answered_once_and_the_stream_stays_in_step() {
    let served = Served::new();
    let mut client = served.client();
    for message in conversation() {
        for bytes in 16..message.len() + 20 {
            let mut lie = message.clone();
            lie.resize(bytes, 0);
            lie[4..8].copy_from_slice(&(bytes as u32).to_ne_bytes());
            client.send(&lie, &[]);
            assert!(client.receive().unwrap().0.kind == Kind::Reply);
            client.ask(&Request::DeviceGetInfo).unwrap();
        }
    }
    drop(client);
    assert_sound(&served);
}

#[test]
fn message_claiming_4_gib_is_skipped_and_its_client_may_leave() {
    let served = Served::new();
    for command in [Command::REGION_WRITE, Command::DMA_MAP, Command(u16::MAX)] {
        let mut client = served.client();
        let header = [7, command.0].map(u16::to_ne_bytes).concat();
        client.send(&[header, u32::MAX.to_ne_bytes().to_vec(), vec![0; 8]].concat(), &[]);
        // More than is taken of any message: it is skipped as it comes.
        (0..256).for_each(|_| client.send(&[0; 64 << 10], &[]));
    }
    assert_sound(&served);
}

#[test]
fn client_that_never_reads_replies_is_not_read_and_the_next_is_served() {
    let served = Served::new();
    let mut client = served.client();
    client.stream.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    let from = Access { region: RegionIndex::BAR0, offset: 0, bytes: 0x4000 };
    for id in 0..100 {
        Request::RegionRead(from).encode(MessageId(id), false, &mut bytes);
    }
    // The server stops to read, so the socket fills.
    let mut sent = 0;
    let (mut idle, mut at) = (0, 0);
    while idle < 20 && sent < 64 << 20 {
        match client.stream.write(&bytes[at..]) {
            Ok(count) => {
                (sent, idle) = (sent + count, 0);
                at = (at + count) % bytes.len();
            }
            Err(_) => {
                idle += 1;
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    assert!(sent < 64 << 20, "the server took everything");
    drop(client);
    assert_sound(&served);
}

#[test]
fn no_reply_comes_where_none_is_wanted() {
    let served = Served::new();
    let mut client = served.client();
    let mut bytes = Vec::new();
    let to = Access { region: RegionIndex::BAR0, offset: 0x14, bytes: 4 };
    Request::RegionWrite { to, data: &[0; 4] }.encode(MessageId(1), true, &mut bytes);
    Request::RegionRead(Access { offset: u64::MAX - 8, ..to }).encode(MessageId(2), true, &mut bytes);
    client.send(&bytes, &[]);
    client.ask(&Request::DeviceGetInfo).unwrap();
}

#[test]
fn replies_of_a_client_that_was_not_asked_are_ignored() {
    let served = Served::new();
    let mut client = served.client();
    let mut asked = Vec::new();
    Request::DeviceReset.encode(MessageId(9), false, &mut asked);
    let header = byway_vfio_user_wire::Header::parse(asked.first_chunk().unwrap());
    let mut bytes = Vec::new();
    Reply::Done.encode(&header, &mut bytes);
    client.send(&bytes, &[]);
    client.ask(&Request::DeviceGetInfo).unwrap();
}

/// A host that gives the device more to do for as long as it runs, without a message: doorbells in its memory, and reads
/// that it never runs out of.
struct Restless {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

/// Where the doorbells and their event indexes are in the memory.
const SHADOWS: u64 = 0x10_000;

impl Restless {
    fn new(host: &mut Host) -> Self {
        host.restart_with_doorbells_at(SHADOWS);
        for slot in 0..16_u64 {
            let read = blocks(NvmOpcode::READ, slot, 512, MEMORY_AT + DATA);
            host.memory.write_all_at(&read.to_bytes(), 0x2000 + slot * 64).unwrap();
        }
        let memory = Mapping::file(&host.memory, 0, 1 << 20, Sharing::Shared).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU32::new(0));
        let (stopped, counted) = (stop.clone(), done.clone());
        let thread = std::thread::spawn(move || ring_for_ever(&memory, &stopped, &counted));
        Self { stop, done, thread }
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

/// Keeps a full ring of commands ahead of the completions that it takes, and counts those.
fn ring_for_ever(memory: &Mapping, stop: &AtomicBool, done: &AtomicU32) {
    let (tail_at, head_at) = (SHADOWS as usize + 8, SHADOWS as usize + 12);
    let mut taken = 0_u32;
    while !stop.load(Relaxed) {
        memory.store_u32(tail_at, (taken + 15) % 16).unwrap();
        let entry = 0x3000 + (taken % 16) as usize * 16 + 12;
        let phase = memory.load_u32(entry).unwrap() >> 16 & 1;
        if (phase == 1) == (taken / 16).is_multiple_of(2) {
            taken += 1;
            memory.store_u32(head_at, taken % 16).unwrap();
            done.store(taken, Relaxed);
        }
    }
}

#[test]
fn client_ringing_without_end_is_served_and_can_be_stopped() {
    let mut served = Served::new();
    let mut host = Host::new(&served);
    let restless = Restless::new(&mut host);
    while restless.done.load(Relaxed) < 50_000 {
        // What a device needs that has come to rest.
        host.client.set_register(0x1008, 0);
        assert!(host.status().rdy(), "messages are answered meanwhile");
    }
    assert!(served.stop());
    restless.stop();
}

#[test]
fn client_truncating_its_memory_is_dropped_and_the_next_served() {
    let served = Served::new();
    let mut host = Host::new(&served);
    host.write_blocks(0, &[5; 512]);
    // It cannot be sealed, as memory of ordinary files.
    host.memory.set_len(0).unwrap();
    let (offset, tail) = host.doorbell(1);
    let to = Access { region: RegionIndex::BAR0, offset, bytes: 4 };
    let mut bytes = Vec::new();
    Request::RegionWrite { to, data: &(tail + 1).to_le_bytes() }.encode(MessageId(1), true, &mut bytes);
    host.client.send(&bytes, &[]);
    assert!(host.client.receive().is_none());
    assert_eq!(Host::new(&served).read_blocks(0, 512), [5; 512]);
}
